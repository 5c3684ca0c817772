#include "tallyd/belonging.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 200u /* so often all are noted without a newer view */

/* What nobody has had for so long is taken though it belongs elsewhere: by its stand-by and by the node that had it
 * last; and by any. A node that is ready for it needs some milliseconds. */
#define NEAR_MS 1000u
#define FAR_LEASES 4u

#define ASKED_MS 10000u  /* for so long, or twice that of FAR_LEASES, a request calls for one that is at rest */
#define RESTED_MS 1000u  /* so long after this node has left one at rest the watch may not have seen it */
#define SILENT_LEASES 2u /* PostgreSQL that has not answered for so long is not reachable */

/* --- what is known ------------------------------------------------------------------------------------------------ */

bool belonging_is_in_cluster(const struct belonging *belonging)
{
    return cluster_is_there(belonging->cluster);
}

static const struct view *acquire_view(const struct belonging *belonging)
{
    struct registry *registry = belonging->cluster->registry;
    return registry == NULL ? NULL : registry_acquire(registry);
}

/* Of the server on which its log is: has it been looked at? Any thread. */
static bool has_heard(const struct holding *holding)
{
    return holding->server != NULL && log_server_has_answered(holding->server);
}

/* Any thread. */
static bool find_sight(const struct holding *holding, struct pg_sight *sight)
{
    return holding->server != NULL && log_server_find(holding->server, holding->name_owned, sight);
}

struct pg_node belonging_owner(const struct holding *holding)
{
    struct pg_sight sight = {0};
    const struct pg_node owner = holding_owner(holding);
    if (owner.name[0] == '\0')
        (void)find_sight(holding, &sight);
    return owner.name[0] == '\0' ? sight.owner : owner;
}

struct pg_node belonging_home(const struct belonging *belonging, const struct holding *holding)
{
    struct pg_node found = {0};
    if (belonging->view == NULL || belonging->rest_ms == 0)
        return found;
    const struct view_node *home = view_find_home(belonging->view, bytes_from_string(holding->name_owned));
    if (home == NULL)
        return found;
    (void)snprintf(found.name, sizeof(found.name), "%s", home->name);
    (void)snprintf(found.address, sizeof(found.address), "%s", home->address);
    return found;
}

bool belonging_is_free(const struct holding *holding)
{
    struct pg_sight sight = {0};
    return has_heard(holding) && (!find_sight(holding, &sight) || sight.free_ms > 0);
}

bool belonging_is_alone(const struct holding *holding)
{
    struct pg_sight sight = {.is_alone = true};
    if (!has_heard(holding))
        return false;
    (void)find_sight(holding, &sight);
    return sight.is_alone;
}

bool belonging_has_others(const struct belonging *belonging)
{
    const struct view *view = belonging->view;
    for (uint32_t i = 0; view != NULL && i < view->node_count; i++)
        if (i != view->own && view->nodes_owned[i].is_alive)
            return true;
    return false;
}

static bool is_reachable(const struct log_server *server)
{
    if (server == NULL || server->watch == NULL)
        return true; /* nobody needs to know */
    const uint64_t silent_ms = (uint64_t)SILENT_LEASES * server->options.lease_ms;
    return pg_now_ms() < pg_watch_heard_ms(server->watch) + silent_ms;
}

bool belonging_sees(const struct holding *holding)
{
    return is_reachable(holding->server);
}

bool belonging_is_reachable(const struct belonging *belonging)
{
    return is_reachable(belonging->home);
}

/* --- at rest ------------------------------------------------------------------------------------------------------ */

/* What this node has just left at rest, the watch may still show as its own. */
static bool is_at_rest(const struct belonging *belonging, const struct holding *holding)
{
    struct pg_sight sight = {0};
    if (belonging->rest_ms == 0 || holding_has_log(holding) || !has_heard(holding))
        return false;
    if (!find_sight(holding, &sight))
        return true;
    return holding->rested_ms != 0 && pg_now_ms() < holding->rested_ms + RESTED_MS &&
           strcmp(sight.owner.name, belonging->options.node) == 0;
}

static uint64_t far_ms(const struct belonging *belonging)
{
    return (uint64_t)FAR_LEASES * belonging->options.lease_ms;
}

/* Any thread. */
static bool is_asked(const struct belonging *belonging, const struct holding *holding)
{
    const uint64_t asked_ms = atomic_load(&holding->asked_ms), lasts_ms = 2 * far_ms(belonging);
    return asked_ms != 0 && pg_now_ms() < asked_ms + (lasts_ms < ASKED_MS ? ASKED_MS : lasts_ms);
}

/* Somebody asks, and this is the node where it belongs, or that one does not open it. Any thread. */
static bool is_called_for(const struct belonging *belonging, const struct view *view, const struct holding *holding)
{
    if (view == NULL || view->own == VIEW_NONE || !is_asked(belonging, holding))
        return false;
    const uint64_t since_ms = atomic_load(&holding->asked_since_ms), now_ms = pg_now_ms();
    return view_is_home(view, bytes_from_string(holding->name_owned)) ||
           (view->is_settled && now_ms >= since_ms + far_ms(belonging));
}

bool belonging_note_asked(struct belonging *belonging, struct holding *holding)
{
    if (!holding->is_at_rest)
        return false;
    const uint64_t now_ms = pg_now_ms();
    if (!is_asked(belonging, holding))
        atomic_store(&holding->asked_since_ms, now_ms);
    atomic_store(&holding->asked_ms, now_ms);
    if (holding->must_be_followed)
        return false;
    belonging_note(belonging, holding);
    return holding->must_be_followed;
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

/* How long nobody has had it. One that nobody has ever had is free since it was wanted here. Any thread. */
static uint64_t free_ms(const struct holding *holding)
{
    struct pg_sight sight = {0};
    if (!has_heard(holding))
        return 0;
    if (find_sight(holding, &sight))
        return sight.free_ms;
    return pg_now_ms() - holding->since_ms;
}

/* So long that this node may take it, though it belongs elsewhere: that node can't have it, or has gone. Any thread. */
static bool is_abandoned(const struct belonging *belonging, const struct view *view, const struct holding *holding)
{
    if (view->own == VIEW_NONE || !view->is_settled || !has_heard(holding))
        return false;
    const struct view_log *log = view_find_log(view, bytes_from_string(holding->name_owned));
    struct pg_sight ignored;
    if (log != NULL && log->epoch > 0 && !find_sight(holding, &ignored))
        return false; /* it was left at rest, by a node where namespaces rest */
    const bool is_near = log != NULL && (log->stand_by == view->own || log->owner == view->own);
    if (is_near && log->owner != VIEW_NONE && !view->nodes_owned[log->owner].is_alive)
        return true; /* a process that was stopped keeps its lock */
    return free_ms(holding) >= (is_near ? NEAR_MS : far_ms(belonging));
}

bool belonging_may_take(void *context, const char *name, bool is_at_rest)
{
    const struct holding *holding = context;
    const struct belonging *belonging = holding->belonging;
    const struct view *view = acquire_view(belonging);
    if (view == NULL)
        return false;
    const struct view_log *log = view_find_log(view, bytes_from_string(name));
    bool may = false;
    if (log != NULL && log->is_moving)
        may = false;
    else if (is_at_rest && belonging->rest_ms != 0)
        may = is_called_for(belonging, view, holding) || (view->own != VIEW_NONE && atomic_load(&holding->is_called) &&
                                                          view_is_home(view, bytes_from_string(holding->name_owned)));
    else
        may = view_may_take(view, bytes_from_string(name)) || is_abandoned(belonging, view, holding);
    registry_release(view);
    return may;
}

void belonging_tell_ready(const struct belonging *belonging, struct holding *holding)
{
    const bool is_ready = holding->must_get_ready && holding->state == HOLDING_FOLLOWS && !holding->is_recalled &&
                          disk_postgres_is_caught_up(holding->opened_owned->disk);
    if (is_ready == holding->has_told_ready)
        return;
    holding->has_told_ready = is_ready;
    registry_set_ready(belonging->cluster->registry, bytes_from_string(holding->name_owned), is_ready);
}

/* --- where the log is --------------------------------------------------------------------------------------------- */

/* One more that a row names, for good: few are ever named. */
static struct log_server *find_or_add_server(struct belonging *belonging, const char *place)
{
    for (size_t i = 0; i < belonging->other_count; i++)
        if (strcmp(belonging->others_owned[i]->place_owned, place) == 0)
            return belonging->others_owned[i];
    ARRAY_GROW(belonging->others_owned, belonging->other_count, belonging->other_capacity);
    struct log_server *made = log_server_create(&belonging->options, place);
    belonging->others_owned[belonging->other_count++] = made;
    return made;
}

/* What a newer view says of it. What is opened stays with the server on which it was opened, until it is closed. */
static void note_server(struct belonging *belonging, struct holding *holding)
{
    const struct view *view = belonging->view;
    if (holding->view_number == belonging->view_number && !holding->has_moved)
        return;
    const struct view_log *log = view == NULL ? NULL : view_find_log(view, bytes_from_string(holding->name_owned));
    holding->view_number = belonging->view_number;
    holding->is_moving = log != NULL && log->is_moving;
    const bool is_far = log != NULL && log->place < view->place_count;
    struct log_server *server =
        is_far ? find_or_add_server(belonging, view->places_owned[log->place]) : belonging->home;
    if (holding->state == HOLDING_ABSENT)
        holding->server = server;
    holding->has_moved = holding->server != server;
}

struct pg_options belonging_options(const struct belonging *belonging, struct holding *holding)
{
    const struct log_server *server = holding->server;
    if (server == NULL)
        return belonging->options;
    struct pg_options options = server->options;
    options.may_take = belonging_may_take;
    options.context = holding;
    options.pulse = server->pulse;
    return options;
}

void belonging_tell_owner(const struct belonging *belonging, const struct holding *holding, bool is_at_rest)
{
    const bool is_far = holding->server != NULL && holding->server != belonging->home;
    if (is_far && belonging->cluster->registry != NULL)
        registry_tell_owner(belonging->cluster->registry, bytes_from_string(holding->name_owned), holding->epoch,
                            is_at_rest);
}

bool belonging_names_me(const struct belonging *belonging, const struct holding *holding)
{
    struct pg_sight sight = {0};
    return find_sight(holding, &sight) && strcmp(sight.owner.name, belonging->options.node) == 0;
}

void belonging_hurry(const struct belonging *belonging, bool is_hurried)
{
    if (belonging->home != NULL && belonging->home->watch != NULL)
        pg_watch_hurry(belonging->home->watch, is_hurried);
    for (size_t i = 0; i < belonging->other_count; i++)
        if (belonging->others_owned[i]->watch != NULL)
            pg_watch_hurry(belonging->others_owned[i]->watch, is_hurried);
}

/* --- noting ------------------------------------------------------------------------------------------------------- */

/* Without a view it is at least read: outside of a cluster, or until it is known where it belongs. But where namespaces
 * rest, most of them will turn out to. */
static bool must_be_followed(const struct belonging *belonging, const struct holding *holding)
{
    const struct view *view = belonging->view;
    if (holding->is_moving)
        return false;
    if (belonging->rest_ms != 0 && (view == NULL || !has_heard(holding)))
        return false;
    if (holding->is_at_rest)
        return (holding->state == HOLDING_FOLLOWS && atomic_load(&holding->is_called)) ||
               is_called_for(belonging, view, holding);
    return view == NULL || view_should_follow(view, bytes_from_string(holding->name_owned)) ||
           is_abandoned(belonging, view, holding);
}

/* Most namespaces may be at rest, and each is noted several times a second. */
void belonging_note(struct belonging *belonging, struct holding *holding)
{
    note_server(belonging, holding);
    holding->is_at_rest = is_at_rest(belonging, holding);
    if (!holding->is_at_rest) { /* perhaps another node was faster */
        atomic_store(&holding->is_called, false);
        atomic_store(&holding->asked_ms, 0);
    }
    holding->must_get_ready = holding->must_go = holding->must_be_followed = false;
    if (holding->is_at_rest && holding->state == HOLDING_ABSENT && !is_asked(belonging, holding))
        return;
    const struct view *view = belonging->view;
    const struct bytes name = bytes_from_string(holding->name_owned);
    const struct view_log *log = view == NULL ? NULL : view_find_log(view, name);
    holding->is_own = log == NULL || log->wanted == VIEW_NONE || log->wanted == view->own;
    holding->must_get_ready = view != NULL && !holding->is_at_rest && view_should_get_ready(view, name);
    holding->must_go = view != NULL && view_should_give_up(view, name);
    holding->must_be_followed = must_be_followed(belonging, holding);
}

/* Nobody tells when something is abandoned. */
bool belonging_look(struct belonging *belonging)
{
    const struct view *before = belonging->view;
    belonging->view = acquire_view(belonging);
    const bool is_new = belonging->view != before;
    belonging->view_number += is_new;
    registry_release(before);
    const uint64_t now_ms = pg_now_ms();
    if (!is_new && now_ms < belonging->noted_ms + LOOK_MS)
        return false;
    belonging->noted_ms = now_ms;
    return true;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void belonging_init(struct belonging *belonging, const struct cluster *cluster, const struct config *config)
{
    *belonging =
        (struct belonging){.cluster = cluster, .options = namespaces_postgres(config, "all"), .view_number = 1};
    pg_gate_init(&belonging->gate);
    belonging->options.gate = &belonging->gate;
    if (!belonging_is_in_cluster(belonging))
        return;
    belonging->home = log_server_create(&belonging->options, NULL);
    if (belonging->home->watch != NULL) /* else nobody would know what is at rest */
        belonging->rest_ms = config_number(config, CONFIG_REST_AFTER);
}

void belonging_end_waits(struct belonging *belonging)
{
    pg_gate_leave_open(&belonging->gate);
    if (belonging->home != NULL)
        pg_gate_leave_open(&belonging->home->gate);
    for (size_t i = 0; i < belonging->other_count; i++)
        pg_gate_leave_open(&belonging->others_owned[i]->gate);
}

void belonging_deinit(struct belonging *belonging)
{
    for (size_t i = 0; i < belonging->other_count; i++)
        log_server_destroy(belonging->others_owned[i]);
    free(belonging->others_owned);
    if (belonging->home != NULL)
        log_server_destroy(belonging->home);
    registry_release(belonging->view);
    pg_gate_deinit(&belonging->gate);
    *belonging = (struct belonging){.cluster = belonging->cluster};
}
