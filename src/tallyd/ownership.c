#include "tallyd/ownership_state.h"

#include "base/memory.h"
#include "engine/frame_backlog.h"
#include "log/flusher.h"
#include "postgres/session.h"

#include <stdlib.h>
#include <string.h>

/* How often each is looked at: while one is on its way out, and otherwise. */
#define HURRIED_LOOK_MS 5u
#define LOOK_MS 50u

/* So many wait at a time for a PostgreSQL that is silent, with so many bytes of frames each: all together leave log
 * threads and room for frames to others, whose PostgreSQL answers. */
#define STALLED_MAX 48u
#define STALLED_MEMORY_MAX ((uint64_t)1 << 20)
#define STALLED_REPORT_MS 10000u /* from one line about them to the next */

static_assert(STALLED_MAX < FLUSHER_THREADS_MAX, "each may keep a log thread");
static_assert(STALLED_MAX * STALLED_MEMORY_MAX < FRAME_BACKLOG_MAX, "their frames are among those of all");

/* To take one out of the front takes longer the more there are behind it. */
#define STEPS_AT_ONCE 64u

/* How long a node that could not keep a log waits before it wants it again: at first, and at most. */
#define PAUSE_MS 100u
#define PAUSE_MAX_MS 60000u
#define FULL_PAUSE_MAX_MS 1000u     /* where PostgreSQL has no room: nobody else serves, either */
#define UNREACHED_PAUSE_MAX_MS 200u /* the same where it did not answer; how often it is tried says postgres/gate.h */

#define COLD_PATIENCE_LEASES 3u /* one that is followed because nobody had it is left, if somebody has it then */
#define REPORT_PAUSE_MS 1000u   /* where PostgreSQL does not answer, one line is enough for all */

/* One that is back so soon after it was given up stays: at first, and at most. */
#define BACK_MS 5000u
#define KEEP_MS 10000u
#define KEEP_MAX_MS 600000u

/* A node that ends waits so long for others to take what it had, and then for all to know it. Until then it answers who
 * still asks it that it is not the owner. If it closed the connection of a request instead, nobody would know whether
 * that took effect. */
#define TAKEN_MS 2000u
#define LEARNED_MS 500u

/* --- those that are looked after ---------------------------------------------------------------------------------- */

/* Thousands may be at rest, and cost next to nothing: nobody looks at them but belonging_note(). */
static bool needs_care(const struct holding *holding)
{
    return holding->state != HOLDING_ABSENT || holding->must_be_followed || !holding->is_wanted ||
           holding->has_told_ready;
}

static void keep_awake(struct ownership *ownership, struct holding *holding)
{
    if (holding->is_awake || !needs_care(holding))
        return;
    ARRAY_GROW(ownership->awake_owned, ownership->awake_count, ownership->awake_capacity);
    ownership->awake_owned[ownership->awake_count++] = holding;
    holding->is_awake = true;
}

static void let_sleep(struct ownership *ownership)
{
    size_t kept = 0;
    for (size_t i = 0; i < ownership->awake_count; i++) {
        struct holding *holding = ownership->awake_owned[i];
        holding->is_awake = needs_care(holding);
        if (holding->is_awake)
            ownership->awake_owned[kept++] = holding;
    }
    ownership->awake_count = kept;
}

/* Of a pause that grows: `first`, and then twice as much each time. */
static unsigned longer(unsigned pause_ms, unsigned first_ms, unsigned most_ms)
{
    if (pause_ms == 0)
        return first_ms;
    return pause_ms < most_ms / 2 ? 2 * pause_ms : most_ms;
}

/* One that came back at once was given up in vain: the other node can't keep it. It stays for a while, and longer each
 * time. */
static void note_return(struct holding *holding)
{
    const uint64_t now_ms = pg_now_ms();
    const bool is_back_at_once = holding->gave_up_ms != 0 && now_ms < holding->gave_up_ms + BACK_MS;
    holding->keep_ms = is_back_at_once ? longer(holding->keep_ms, KEEP_MS, KEEP_MAX_MS) : 0;
    holding->keeps_until_ms = now_ms + holding->keep_ms;
}

/* --- loss, and pauses --------------------------------------------------------------------------------------------- */

static void look_now(struct ownership *ownership);

/* Each line names the namespace that it is about. */
static void say(const struct ownership *ownership, const struct holding *holding, const struct failure *failure)
{
    const char *text = failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text;
    struct failure named;
    failure_init(&named);
    if (strstr(text, holding->name_owned) == NULL) {
        (void)failure_set(&named, failure->error, "namespace %s: %s", holding->name_owned, text);
        text = named.text;
    }
    ownership->options.report(ownership->options.context, text);
}

/* Is it time for one more line of many that say the same? */
static bool may_tell(uint64_t *told_ms, uint64_t pause_ms)
{
    const uint64_t now_ms = pg_now_ms();
    if (*told_ms != 0 && now_ms < *told_ms + pause_ms)
        return false;
    *told_ms = now_ms;
    return true;
}

/* Of many that can't be followed, or stall, because PostgreSQL does not answer, one is told. What was lost is told of
 * each. */
static void report(struct ownership *ownership, const struct holding *holding, const struct failure *failure)
{
    const bool is_nobodys = failure->error == ERROR_SERVICE_UNAVAILABLE && strstr(failure->text, PG_LOST) == NULL;
    if (is_nobodys && !may_tell(&ownership->reported_ms, ownership->count > 1 ? REPORT_PAUSE_MS : 0))
        return;
    say(ownership, holding, failure);
}

/* One that could serve begins with the shortest again; but not where it served only until something had to be stored,
 * and PostgreSQL has no room: then the log would go to and fro. */
static void pause_it(struct holding *holding, bool has_served, enum error error)
{
    const unsigned most = error == ERROR_SERVICE_UNAVAILABLE ? UNREACHED_PAUSE_MAX_MS
                          : error == ERROR_DISK_FULL         ? FULL_PAUSE_MAX_MS
                                                             : PAUSE_MAX_MS;
    if (has_served && error != ERROR_DISK_FULL)
        holding->pause_ms = PAUSE_MS;
    else
        holding->pause_ms = longer(holding->pause_ms, 2 * PAUSE_MS, most);
    holding->pauses_until_ms = pg_now_ms() + holding->pause_ms;
}

/* Its log is closed, whatever was not written is not, and it is followed anew. */
static void abandon(struct holding *holding, enum error error)
{
    namespace_abandon(holding->opened_owned->ns);
    holding_give_up(holding);
    pause_it(holding, true, error);
}

/* Its PostgreSQL is silent: does it wait for that, to be served again as it is? Without the leader no other would. */
static bool may_stall(const struct ownership *ownership, const struct holding *holding)
{
    const struct namespace *ns = holding->opened_owned->ns;
    struct failure ignored;
    failure_init(&ignored);
    return holding->state == HOLDING_SERVES && !ownership->is_halted && namespace_failure(ns, &ignored) == OK &&
           (holding == ownership->leader || ownership_count_in(ownership, HOLDING_STALLS) < STALLED_MAX) &&
           namespace_waiting_memory(ns) <= STALLED_MEMORY_MAX;
}

void ownership_lose(struct ownership *ownership, struct served *served, enum permission why,
                    const struct failure *failure)
{
    struct opened_namespace *opened = CONTAINER_OF(served, struct opened_namespace, served);
    struct holding *holding = ownership_find_holding(ownership, bytes_from_string(opened->name_owned));
    ASSERT(holding != NULL && holding->opened_owned == opened);
    const bool stalls = why == PERMISSION_SILENT && may_stall(ownership, holding);
    if (holding->state == HOLDING_SERVES)
        relays_leave_namespace(ownership->options.relays, opened);
    opened->is_leaving = true;
    opened->rests = false;
    if (holding == ownership->leader)
        atomic_store(&ownership->leads, false);
    holding->loss = *failure;
    if (stalls) {
        holding->state = HOLDING_STALLS;
        ownership->stalled_ms = pg_now_ms();
        report(ownership, holding, failure);
    } else {
        say(ownership, holding, failure);
        abandon(holding, failure->error);
    }
    look_now(ownership);
}

/* --- one that follows --------------------------------------------------------------------------------------------- */

/* The server has it from now on. */
static void note_served(struct ownership *ownership, struct holding *holding)
{
    holding->state = HOLDING_SERVES;
    holding->is_at_rest = false;
    holding->active_ms = pg_now_ms();
    atomic_store(&holding->asked_ms, 0);
    failure_init(&holding->loss);
    holding->epoch = disk_postgres_epoch(holding->opened_owned->disk);
    belonging_tell_owner(&ownership->belonging, holding, false);
    ownership->has_served = true;
    ownership->options.served(ownership->options.context, holding->opened_owned);
}

static void serve(struct ownership *ownership, struct holding *holding)
{
    const struct namespaces *namespaces = ownership->options.namespaces;
    const bool is_alone = front_count(namespaces->front) == 0 && ownership_count_in(ownership, HOLDING_LEAVES) == 0;
    note_return(holding);
    namespaces_serve(namespaces, holding->opened_owned, is_alone);
    note_served(ownership, holding);
}

/* At a start this is a matter for people. Of a log that another node has it is not an error; that is said of the
 * folder. Of a cluster's namespaces one that can't be read does not keep a node from the others. */
static bool ends_the_start(const struct ownership *ownership, enum error error)
{
    if (ownership->has_served)
        return false;
    if (error == ERROR_LOG_DAMAGED)
        return !ownership_is_in_cluster(ownership) || ownership->count == 1;
    return error == ERROR_INVALID_PARAMETER_VALUE || error == ERROR_LOG_LOCKED;
}

static void note_failure(struct ownership *ownership, struct holding *holding)
{
    if (holding->is_recalled || ownership->is_halted)
        return;
    pause_it(holding, false, holding->error);
    if (ends_the_start(ownership, holding->error)) {
        ownership_halt(ownership);
        ownership->options.failed(ownership->options.context, &holding->failure);
    } else {
        report(ownership, holding, &holding->failure);
    }
}

static void end_following(struct ownership *ownership, struct holding *holding)
{
    if (!holding_has_ended(holding))
        return;
    const bool is_led_astray = ownership->leader != NULL && holding != ownership->leader && holding->error == OK &&
                               !atomic_load(&ownership->leads);
    if (holding->error == OK && holding->is_wanted && !ownership->is_halted && !is_led_astray) {
        serve(ownership, holding);
        return;
    }
    if (holding->error == OK && holding == ownership->leader)
        atomic_store(&ownership->leads, false);
    if (holding->error != OK)
        note_failure(ownership, holding);
    holding_give_up(holding);
}

/* Must it be followed no more, or in another way? */
static bool must_be_recalled(const struct ownership *ownership, const struct holding *holding)
{
    const bool is_lone = ownership->leader == NULL || holding == ownership->leader || holding->is_led;
    if (!holding->is_wanted || !holding->must_be_followed || holding->has_moved || ownership->is_halted ||
        (!is_lone && !atomic_load(&ownership->leads)))
        return true;
    const uint64_t patience_ms = (uint64_t)COLD_PATIENCE_LEASES * ownership->belonging.options.lease_ms;
    return holding->is_cold && pg_now_ms() > holding->follows_since_ms + patience_ms && !belonging_is_alone(holding);
}

/* --- one that is absent ------------------------------------------------------------------------------------------- */

bool ownership_takes_descriptors(const struct ownership *ownership)
{
    return ownership->takes_descriptors;
}

static void share_descriptors(const struct ownership *ownership)
{
    server_set_connections_max(ownership->options.namespaces->server,
                               descriptors_for_connections(ownership->options.descriptors));
}

/* For one more that is opened. False: the process may open too few. */
static bool reserve(struct ownership *ownership, struct failure *failure)
{
    if (!ownership_takes_descriptors(ownership) || ownership->opened < ownership->reserved)
        return true;
    const size_t connections = server_connection_count(ownership->options.namespaces->server);
    if (descriptors_add_namespaces(ownership->options.descriptors, 1, connections, failure) != OK)
        return false;
    ownership->reserved++;
    share_descriptors(ownership);
    return true;
}

static void note_closed(struct ownership *ownership)
{
    ownership->opened--;
    if (!ownership_takes_descriptors(ownership) || ownership->reserved <= RESERVED_MIN)
        return;
    descriptors_remove_namespaces(ownership->options.descriptors, 1);
    ownership->reserved--;
    share_descriptors(ownership);
}

static void follow(struct ownership *ownership, struct holding *holding, bool is_cold)
{
    struct failure failure;
    failure_init(&failure);
    const bool is_led = ownership->leader != NULL && holding != ownership->leader && !atomic_load(&ownership->leads);
    struct pg_options options = belonging_options(&ownership->belonging, holding);
    options.is_patient = holding->tries > 0 || ownership->has_served;
    options.leads = is_led ? &ownership->leads : NULL;
    holding->is_cold = is_cold;
    atomic_store(&holding->is_called, holding->is_at_rest);
    holding->leads = holding == ownership->leader ? &ownership->leads : NULL;
    if (reserve(ownership, &failure) && holding_follow(holding, &options, &failure)) {
        ownership->opened++;
        return;
    }
    pause_it(holding, false, failure.error);
    report(ownership, holding, &failure);
}

/* How many are followed: of those that this node stands by for and of its own; and cold ones beside them. */
struct followed {
    size_t warm[2], cold;
};

static struct followed count_followed(const struct ownership *ownership)
{
    struct followed count = {0};
    for (size_t i = 0; i < ownership->awake_count; i++) {
        const struct holding *holding = ownership->awake_owned[i];
        if (holding->state != HOLDING_FOLLOWS)
            continue;
        count.warm[holding->is_own] += !holding->is_cold;
        count.cold += holding->is_cold;
    }
    return count;
}

static void begin_one(struct ownership *ownership, struct holding *holding, struct followed *count)
{
    const bool is_warm = holding == ownership->leader || count->warm[holding->is_own] < FOLLOWED_MAX;
    if (!is_warm && (count->cold >= COLD_MAX || !belonging_is_alone(holding)))
        return;
    follow(ownership, holding, !is_warm);
    count->warm[holding->is_own] += is_warm;
    count->cold += !is_warm;
}

/* Those that nobody has go first: clients wait for them. */
static void begin_following(struct ownership *ownership)
{
    struct followed count = count_followed(ownership);
    const uint64_t now_ms = pg_now_ms();
    for (int are_free = 1; are_free >= 0 && !ownership->is_halted; are_free--)
        for (size_t i = 0; i < ownership->awake_count; i++) {
            struct holding *holding = ownership->awake_owned[i];
            if (holding->state == HOLDING_ABSENT && holding->is_wanted && holding->must_be_followed &&
                now_ms >= holding->pauses_until_ms && (!are_free || belonging_is_free(holding)))
                begin_one(ownership, holding, &count);
        }
}

/* --- one that goes ------------------------------------------------------------------------------------------------ */

static void begin_leaving(struct ownership *ownership, struct holding *holding)
{
    ASSERT(holding->state == HOLDING_SERVES);
    holding->state = HOLDING_LEAVES;
    holding->opened_owned->is_leaving = true;
    holding->pauses_until_ms = 0;
    holding->gave_up_ms = pg_now_ms();
    if (holding == ownership->leader)
        atomic_store(&ownership->leads, false);
    relays_leave_namespace(ownership->options.relays, holding->opened_owned);
}

/* Must one that is served go? */
static bool must_leave(const struct ownership *ownership, const struct holding *holding)
{
    const bool lacks_leader = ownership->leader != NULL && holding != ownership->leader &&
                              ownership->leader->state != HOLDING_STALLS && !atomic_load(&ownership->leads);
    const bool is_anothers = holding->must_go && pg_now_ms() >= holding->keeps_until_ms;
    return !holding->is_wanted || holding->is_moving || holding->has_moved || ownership->stopped != NULL ||
           lacks_leader || is_anothers;
}

static void tell_resumed(struct ownership *ownership, const struct holding *holding)
{
    struct failure text;
    failure_init(&text);
    if (!may_tell(&ownership->resumed_ms, REPORT_PAUSE_MS))
        return;
    (void)failure_set(&text, ERROR_SERVICE_UNAVAILABLE,
                      "namespace %s: PostgreSQL answers again, and the log is still this node's: it is served again.",
                      holding->name_owned);
    say(ownership, holding, &text);
}

static void tell_stalled(struct ownership *ownership, const struct holding *holding)
{
    char why[512] = "";
    struct failure text;
    failure_init(&text);
    if (!may_tell(&ownership->stalled_ms, STALLED_REPORT_MS))
        return;
    disk_postgres_explain(holding->opened_owned->disk, why, sizeof(why));
    (void)failure_set(&text, ERROR_SERVICE_UNAVAILABLE,
                      "namespace %s: it waits for its log in PostgreSQL, one of %zu. %s", holding->name_owned,
                      ownership_count_in(ownership, HOLDING_STALLS), why);
    say(ownership, holding, &text);
}

/* PostgreSQL answers again, and the log is this node's still. */
static void resume(struct ownership *ownership, struct holding *holding)
{
    struct opened_namespace *opened = holding->opened_owned;
    relays_forget_namespace(opened);
    opened->is_leaving = false;
    if (holding == ownership->leader)
        atomic_store(&ownership->leads, true);
    namespaces_resume(ownership->options.namespaces, opened);
    note_served(ownership, holding);
    tell_resumed(ownership, holding);
}

static void look_after_stalled(struct ownership *ownership, struct holding *holding)
{
    struct opened_namespace *opened = holding->opened_owned;
    const bool answers =
        opened_namespace_silence_ms(opened) < opened->postgres.lease_ms && disk_postgres_is_whole(opened->disk);
    struct failure failure;
    failure_init(&failure);
    if (namespace_failure(opened->ns, &failure) != OK) {
        holding->loss = failure;
        say(ownership, holding, &failure);
        abandon(holding, failure.error);
    } else if (ownership->is_halted || must_leave(ownership, holding)) {
        abandon(holding, OK);
    } else if (answers && relays_have_left_namespace(opened)) {
        resume(ownership, holding);
    } else {
        tell_stalled(ownership, holding);
    }
}

/* Nobody has asked it for long, and nothing in it lives. To find that out may take some time, so if it is not so, it is
 * tried again as much later. */
static bool may_rest(const struct ownership *ownership, struct holding *holding)
{
    const struct served *served = &holding->opened_owned->served;
    const uint64_t rest_ms = ownership->belonging.rest_ms, now_ms = pg_now_ms();
    if (rest_ms == 0)
        return false;
    if (served->request_count != holding->request_count) {
        holding->request_count = served->request_count;
        holding->active_ms = now_ms;
    }
    if (now_ms < holding->active_ms + rest_ms || !served_is_idle(served))
        return false;
    holding->active_ms = now_ms;
    return namespace_is_vacant(served->ns);
}

static void begin_resting(struct ownership *ownership, struct holding *holding)
{
    begin_leaving(ownership, holding);
    holding->opened_owned->rests = true;
    holding->gave_up_ms = 0;
}

/* True: its relays have ended, and the front has it no more. One that was about to rest may have been asked since. */
static bool withdraw(struct opened_namespace *opened)
{
    if (api_is_withdrawn(&opened->served.api) || !relays_have_left_namespace(opened))
        return false;
    opened->rests = opened->rests && namespace_is_vacant(opened->ns);
    relays_forget_namespace(opened);
    served_withdraw(&opened->served);
    return true;
}

static void let_go(struct ownership *ownership, struct holding *holding)
{
    struct opened_namespace *opened = holding->opened_owned;
    if (!served_is_over(&opened->served))
        return;
    server_retire(ownership->options.namespaces->server, &opened->served);
    holding_give_up(holding);
}

/* Its log is closed. Relays of one that was lost may go on for a while, and know it by its name. */
static void end_closing(struct ownership *ownership, struct holding *holding)
{
    if (holding->has_thread && !holding_has_ended(holding))
        return;
    if (holding->is_waiting || !relays_have_left_namespace(holding->opened_owned))
        return;
    relays_forget_namespace(holding->opened_owned);
    if (holding->opened_owned->rests) {
        holding->rested_ms = pg_now_ms();
        holding->pause_ms = 0;
        belonging_tell_owner(&ownership->belonging, holding, true);
    }
    opened_namespace_destroy(holding->opened_owned);
    holding->opened_owned = NULL;
    holding->state = HOLDING_ABSENT;
    note_closed(ownership);
    belonging_note(&ownership->belonging, holding);
}

static void begin_closing(struct ownership *ownership)
{
    size_t count = 0;
    for (size_t i = 0; i < ownership->awake_count; i++)
        count += ownership->awake_owned[i]->state == HOLDING_CLOSES && ownership->awake_owned[i]->has_thread;
    for (size_t i = 0; i < ownership->awake_count && count < CLOSED_MAX; i++) {
        struct holding *holding = ownership->awake_owned[i];
        if (holding->state != HOLDING_CLOSES || !holding->is_waiting)
            continue;
        holding_close(holding);
        count++;
    }
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

/* One at rest is asked nothing by the server. What its log has to say is heard in the next turn. */
static void look_after(const struct holding *holding)
{
    struct opened_namespace *opened = holding->opened_owned;
    struct failure ignored;
    failure_init(&ignored);
    if (namespace_failure(opened->ns, &ignored) != OK ||
        opened_namespace_silence_ms(opened) >= opened->postgres.lease_ms)
        served_note(&opened->served);
}

static void step(struct ownership *ownership, struct holding *holding, size_t *withdrawn)
{
    if (holding->state == HOLDING_FOLLOWS && !holding->is_recalled && must_be_recalled(ownership, holding))
        holding_recall(holding);
    if (holding->state == HOLDING_FOLLOWS)
        end_following(ownership, holding);
    if (holding->state == HOLDING_SERVES && must_leave(ownership, holding))
        begin_leaving(ownership, holding);
    if (holding->state == HOLDING_SERVES && may_rest(ownership, holding))
        begin_resting(ownership, holding);
    if (holding->state == HOLDING_SERVES)
        look_after(holding);
    if (holding->state == HOLDING_STALLS)
        look_after_stalled(ownership, holding);
    if (holding->state == HOLDING_LEAVES && api_is_withdrawn(&holding->opened_owned->served.api))
        let_go(ownership, holding);
    else if (holding->state == HOLDING_LEAVES && *withdrawn < STEPS_AT_ONCE)
        *withdrawn += withdraw(holding->opened_owned);
    if (holding->state == HOLDING_CLOSES)
        end_closing(ownership, holding);
    belonging_tell_ready(&ownership->belonging, holding);
}

static bool has_gone(const struct holding *holding)
{
    return !holding->is_wanted && holding->state == HOLDING_ABSENT;
}

/* Those that nobody wants any more, and that have gone. */
static void forget_unwanted(struct ownership *ownership)
{
    size_t kept = 0, awake = 0;
    for (size_t i = 0; i < ownership->awake_count; i++)
        if (!has_gone(ownership->awake_owned[i]))
            ownership->awake_owned[awake++] = ownership->awake_owned[i];
    if (awake == ownership->awake_count)
        return;
    ownership->awake_count = awake;
    for (size_t i = 0; i < ownership->count; i++) {
        struct holding *holding = ownership->holdings_owned[i];
        if (has_gone(holding))
            holding_destroy(holding);
        else
            ownership->holdings_owned[kept++] = holding;
    }
    const size_t count = ownership->count - kept;
    ownership->count = kept;
    ownership->options.left(ownership->options.context, count);
}

/* Requests go to the node that PostgreSQL names. */
static bool is_named(const struct ownership *ownership)
{
    for (size_t i = 0; i < ownership->count; i++)
        if (belonging_names_me(&ownership->belonging, ownership->holdings_owned[i]))
            return true;
    return false;
}

/* All are absent: may others still send requests here? */
static bool may_be_asked(struct ownership *ownership)
{
    const uint64_t now_ms = pg_now_ms();
    if (!ownership_is_in_cluster(ownership) || !belonging_has_others(&ownership->belonging))
        return false;
    if (ownership->gone_since_ms == 0)
        ownership->gone_since_ms = now_ms;
    if (ownership->taken_ms == 0 && (now_ms >= ownership->gone_since_ms + TAKEN_MS || !is_named(ownership)))
        ownership->taken_ms = now_ms;
    return ownership->taken_ms == 0 || now_ms < ownership->taken_ms + LEARNED_MS;
}

static void finish_stop(struct ownership *ownership)
{
    void (*stopped)(void *context) = ownership->stopped;
    if (stopped == NULL || ownership->opened > 0 || may_be_asked(ownership))
        return;
    ownership->stopped = NULL;
    stopped(ownership->options.context);
}

static bool is_on_the_move(const struct ownership *ownership)
{
    return ownership_count_in(ownership, HOLDING_LEAVES) + ownership_count_in(ownership, HOLDING_CLOSES) > 0;
}

static bool serves_enough(const struct ownership *ownership)
{
    return ownership_count_in(ownership, HOLDING_SERVES) == ownership->count ||
           (ownership_is_in_cluster(ownership) && ownership_others_have_owners(ownership));
}

/* It serves what it is for: in a cluster at least one namespace, while each of the others has another node or is at
 * rest; else all of them. It stands by when it serves nothing. */
static void note_readiness(struct ownership *ownership)
{
    const bool was_ready = ownership->is_ready;
    ownership->is_ready = !ownership_serves_nothing(ownership) && (was_ready || serves_enough(ownership));
    if (ownership->is_ready != was_ready)
        ownership->options.changed(ownership->options.context, ownership->is_ready);
}

static void note_all(struct ownership *ownership)
{
    const bool must_note = belonging_look(&ownership->belonging) || ownership->has_new;
    for (size_t i = 0; must_note && i < ownership->count; i++) {
        belonging_note(&ownership->belonging, ownership->holdings_owned[i]);
        keep_awake(ownership, ownership->holdings_owned[i]);
    }
    ownership->has_new = false;
}

static void on_look(uv_timer_t *handle)
{
    struct ownership *ownership = handle->data;
    size_t withdrawn = 0;
    note_all(ownership);
    for (size_t i = 0; i < ownership->awake_count; i++)
        step(ownership, ownership->awake_owned[i], &withdrawn);
    begin_closing(ownership);
    forget_unwanted(ownership);
    begin_following(ownership);
    let_sleep(ownership);
    const bool is_hurried = is_on_the_move(ownership);
    belonging_hurry(&ownership->belonging, is_hurried || ownership->is_halted);
    uv_timer_start(&ownership->look, on_look, is_hurried ? HURRIED_LOOK_MS : LOOK_MS, 0);
    note_readiness(ownership);
    finish_stop(ownership);
}

static void look_now(struct ownership *ownership)
{
    uv_timer_start(&ownership->look, on_look, 0, 0);
}

static void on_woken(uv_async_t *handle)
{
    look_now(handle->data);
}

/* On the thread of a holding. */
static void wake(void *context)
{
    struct ownership *ownership = context;
    uv_async_send(&ownership->woken);
}

/* --- what is wanted ----------------------------------------------------------------------------------------------- */

static void add(struct ownership *ownership, struct bytes name)
{
    const size_t place = ownership_place_of(ownership, name);
    ARRAY_GROW(ownership->holdings_owned, ownership->count, ownership->capacity);
    memmove(&ownership->holdings_owned[place + 1], &ownership->holdings_owned[place],
            (ownership->count - place) * sizeof(struct holding *));
    ownership->holdings_owned[place] =
        holding_create(ownership->options.namespaces, &ownership->belonging, name, wake, ownership);
    ownership->count++;
}

void ownership_want(struct ownership *ownership, const struct bytes *names, size_t count)
{
    for (size_t i = 0; i < ownership->count; i++)
        ownership->holdings_owned[i]->is_wanted = ownership->holdings_owned[i] == ownership->leader;
    for (size_t i = 0; i < count; i++) {
        if (ownership_find_holding(ownership, names[i]) == NULL)
            add(ownership, names[i]);
        ownership_find_holding(ownership, names[i])->is_wanted = true;
    }
    if (!ownership->has_begun) {
        ASSERT(ownership->count > 0);
        ownership->has_begun = true;
        ownership->leader = ownership_is_in_cluster(ownership) ? NULL : ownership->holdings_owned[0];
    }
    ownership->has_new = true;
    look_now(ownership);
}

size_t ownership_count_new(const struct ownership *ownership, const struct bytes *names, size_t count)
{
    size_t count_new = 0;
    for (size_t i = 0; i < count; i++)
        count_new += ownership_find_holding(ownership, names[i]) == NULL;
    return count_new;
}

void ownership_halt(struct ownership *ownership)
{
    ownership->is_halted = true;
    look_now(ownership);
}

void ownership_stop(struct ownership *ownership, void (*done)(void *context))
{
    ownership->stopped = done;
    if (ownership->options.cluster->registry != NULL)
        registry_leave(ownership->options.cluster->registry);
    ownership_halt(ownership);
}

/* --- what others ask ---------------------------------------------------------------------------------------------- */

/* It is opened if it is at rest. */
static void note_asked(struct ownership *ownership, struct holding *holding)
{
    if (holding->state == HOLDING_SERVES || !belonging_note_asked(&ownership->belonging, holding))
        return;
    keep_awake(ownership, holding);
    look_now(ownership);
}

bool ownership_ask(struct ownership *ownership, struct bytes name)
{
    struct holding *holding = ownership_find_asked(ownership, name);
    if (holding != NULL)
        note_asked(ownership, holding);
    return holding != NULL;
}

/* Of a request that came while another node had it, this one may be the owner by now: then it asks itself. Where it is
 * named as the owner and does not serve, it was that before. */
enum forward_owner ownership_find(struct ownership *ownership, struct bytes name, struct forward_target *target)
{
    struct holding *holding = ownership_find_asked(ownership, name);
    if (holding == NULL)
        return FORWARD_LATER;
    note_asked(ownership, holding);
    if (holding->state != HOLDING_SERVES)
        return ownership_find_node(ownership, holding, target);
    (void)snprintf(target->address, sizeof(target->address), "%s", ownership->options.cluster->address);
    (void)snprintf(target->said, sizeof(target->said), "%s", ownership->node);
    return FORWARD_TO_ADDRESS;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct ownership *ownership_create(const struct ownership_options *options)
{
    struct ownership *ownership = memory_allocate_zeroed(sizeof(*ownership));
    ownership->options = *options;
    ownership->node = namespaces_node_name(options->namespaces->config);
    const int result = uv_async_init(options->loop, &ownership->woken, on_woken);
    ASSERT(result == 0); /* fails only where the loop itself could not be made */
    uv_timer_init(options->loop, &ownership->look);
    ownership->look.data = ownership->woken.data = ownership;
    uv_unref((uv_handle_t *)&ownership->woken);
    uv_unref((uv_handle_t *)&ownership->look);
    ownership->reserved = RESERVED_MIN;
    ownership->takes_descriptors = cluster_lets_rest(options->cluster, options->namespaces->config);
    belonging_init(&ownership->belonging, options->cluster, options->namespaces->config);
    return ownership;
}

/* The server has nothing of it any more. */
static void end(struct holding *holding)
{
    if (holding->state == HOLDING_FOLLOWS) {
        holding_await(holding);
    } else if (holding_has_log(holding)) {
        holding->opened_owned->rests = false;
        relays_forget_namespace(holding->opened_owned);
        if (holding->state != HOLDING_STALLS)
            served_deinit(&holding->opened_owned->served);
        namespace_leave_backlog(holding->opened_owned->ns);
    } else {
        return;
    }
    holding_give_up(holding);
}

void ownership_close(struct ownership *ownership)
{
    ownership->is_halted = true;
    belonging_end_waits(&ownership->belonging);
    for (size_t i = 0; i < ownership->count; i++)
        if (ownership->holdings_owned[i]->state == HOLDING_FOLLOWS)
            holding_recall(ownership->holdings_owned[i]); /* all of them, before the first is waited for */
    for (size_t i = 0; i < ownership->count; i++)
        end(ownership->holdings_owned[i]);
    while (ownership_count_in(ownership, HOLDING_CLOSES) > 0) {
        begin_closing(ownership);
        for (size_t i = 0; i < ownership->count; i++) {
            struct holding *holding = ownership->holdings_owned[i];
            if (holding->state != HOLDING_CLOSES || holding->is_waiting)
                continue;
            holding_await(holding);
            end_closing(ownership, holding);
        }
    }
    for (size_t i = 0; i < ownership->count; i++)
        holding_destroy(ownership->holdings_owned[i]);
    ownership->count = ownership->awake_count = 0;
    belonging_deinit(&ownership->belonging);
    uv_close((uv_handle_t *)&ownership->look, NULL);
    uv_close((uv_handle_t *)&ownership->woken, NULL);
}

void ownership_destroy(struct ownership *ownership)
{
    free(ownership->holdings_owned);
    free(ownership->awake_owned);
    free(ownership);
}
