#include "tallyd/relays.h"

#include "base/memory.h"
#include "client/json.h"
#include "conninfo/conninfo.h"
#include "relay/descriptors.h"
#include "relay/relay.h"
#include "tallyd/relay_door.h"
#include "tallyd/relay_facts.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>

static_assert(RELAY_NAME_SIZE_MAX == RELAY_RECORD_NAME_SIZE_MAX, "one limit");

#define WAITING_CHECK_MS 1000u /* how often relays that wait for descriptors are tried */
#define REPORT_PAUSE_MS 10000u /* a relay whose state flickers is not reported each time */

/* A relay that a record names. */
struct running {
    uint64_t number; /* of the record */
    char *name_owned;
    struct relay *relay; /* NULL: the record's relay can't run; `fault` says why */
    struct fault fault;
    size_t descriptors; /* how many it may open; 0: it was not started */
    bool is_waiting;    /* for descriptors */
    uint64_t since_ms;  /* when it was last checked, by the wall clock */
    bool is_paused;
    bool is_in_trouble; /* as it was last reported */
    uint64_t alarms;    /* that were reported */
    uint64_t reported_at_ms;
};

/* Those of one namespace. */
struct namespace_relays {
    struct opened_namespace *opened;
    struct running *items_owned; /* rising by number */
    size_t count;
    size_t capacity;
    uint64_t change_count; /* of the records, when they were last checked */
    size_t leaving_count;  /* that were asked to end, and have not */
    bool is_leaving;       /* the namespace: no more are started */
};

struct relays {
    struct relay_control control;
    struct descriptors *descriptors;
    size_t waiting_count; /* relays that wait for descriptors */
    uint64_t waiting_due_ms;
    void (*report)(void *context, const char *text);
    void *report_context;
    const struct namespaces *namespaces; /* one for each namespace with relays; NULL: not begun */
    bool has_news;                       /* a record has changed */
    struct relay_door door;
    struct server *server;
    uv_loop_t *loop;
    uv_check_t check; /* after each turn of the loop: have records changed? */
    uv_async_t woken; /* a relay's state has changed */
    size_t leaving_count;
    void (*done)(void *context); /* NULL: not stopping */
    void *done_context;
};

/* A relay that was asked to end. */
struct leaving {
    uv_work_t work;
    struct relays *relays;
    struct namespace_relays *group;
    struct relay *relay;
    size_t descriptors;
};

/* Threads that are made between the two calls take no signals: signals are for the loop. */
static void keep_signals(sigset_t *before)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, before);
}

static void give_signals_back(const sigset_t *before)
{
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* The position of the relay with that number, or the position for it. */
static size_t namespace_relays_index(const struct namespace_relays *group, uint64_t number)
{
    size_t low = 0, high = group->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (group->items_owned[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct running *namespace_relays_find(const struct namespace_relays *group, uint64_t number)
{
    size_t index = namespace_relays_index(group, number);
    bool is_there = index < group->count && group->items_owned[index].number == number;
    return is_there ? &group->items_owned[index] : NULL;
}

/* NULL: it was not started yet. */
static struct running *find(const struct relays *relays, struct bytes namespace_name, const struct relay_record *record)
{
    if (relays->namespaces == NULL)
        return NULL;
    const struct opened_namespace *opened = namespaces_find(relays->namespaces, namespace_name);
    return opened == NULL || opened->namespace_relays_owned == NULL
               ? NULL
               : namespace_relays_find(opened->namespace_relays_owned, record->number);
}

/* The group after that of `index`, without those that leave. `index` moves on; NULL: that was the last one. */
static struct namespace_relays *namespace_relays_next(const struct relays *relays, size_t *index)
{
    while (relays->namespaces != NULL && *index < front_count(relays->namespaces->front)) {
        struct namespace_relays *group = namespaces_at(relays->namespaces, (*index)++)->namespace_relays_owned;
        if (group != NULL && !group->is_leaving)
            return group;
    }
    return NULL;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

/* The relays' share of descriptors has changed, so the connections' share changes, too. */
static void note_descriptors(struct relays *relays)
{
    if (relays->server != NULL)
        server_set_connections_max(relays->server, descriptors_for_connections(relays->descriptors));
}

static bool suffice(struct relays *relays, size_t count, char *reason, size_t reason_size)
{
    const size_t connections_open = relays->server == NULL ? 0 : server_connection_count(relays->server);
    return descriptors_suffice(relays->descriptors, count, connections_open, reason, reason_size);
}

/* False: there are too few, and the relay waits for them. */
static bool take_descriptors(struct relays *relays, const struct relay_spec *spec, struct running *running)
{
    const size_t count = relay_descriptors_max(spec);
    char reason[FAULT_TEXT_SIZE];
    if (!suffice(relays, count, reason, sizeof(reason))) {
        fault_set(&running->fault, STEP_UNREACHABLE, "waiting for descriptors: %.470s", reason);
        running->is_waiting = true;
        relays->waiting_count++;
        return false;
    }
    running->descriptors = count;
    relays->descriptors->relays += count;
    note_descriptors(relays);
    return true;
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

static void finish_stop(struct relays *relays)
{
    void (*done)(void *context) = relays->done;
    if (done == NULL || relays->leaving_count > 0)
        return;
    relays->done = NULL;
    done(relays->done_context);
}

static void join(uv_work_t *work)
{
    relay_join(((struct leaving *)work->data)->relay);
}

static void on_joined(uv_work_t *work, int status)
{
    struct leaving *leaving = work->data;
    struct relays *relays = leaving->relays;
    (void)status; /* never cancelled */
    relays->leaving_count--;
    leaving->group->leaving_count--;
    relays->descriptors->relays -= leaving->descriptors;
    note_descriptors(relays);
    free(leaving);
    finish_stop(relays);
}

/* Asks it to end, without waiting. */
static void leave(struct relays *relays, struct namespace_relays *group, struct running *running)
{
    free(running->name_owned);
    relays->waiting_count -= running->is_waiting;
    if (running->relay == NULL)
        return;
    struct leaving *leaving = memory_allocate_zeroed(sizeof(*leaving));
    leaving->relays = relays;
    leaving->group = group;
    leaving->relay = running->relay;
    leaving->descriptors = running->descriptors;
    leaving->work.data = leaving;
    relays->leaving_count++;
    group->leaving_count++;
    relay_stop(leaving->relay);
    sigset_t signals;
    keep_signals(&signals);
    uv_queue_work(relays->loop, &leaving->work, join, on_joined);
    give_signals_back(&signals);
}

static void leave_all(struct relays *relays, struct namespace_relays *group)
{
    for (size_t i = 0; i < group->count; i++)
        leave(relays, group, &group->items_owned[i]);
    group->count = 0;
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

static void wake(void *context)
{
    uv_async_send(&((struct relays *)context)->woken);
}

/* Reads a stored record. It was checked when it came, by this version or an earlier one. */
static bool read_spec(struct relays *relays, const struct namespace_relays *group, const struct relay_record *record,
                      struct relay_spec *spec, struct fault *fault)
{
    yyjson_doc *doc = json_read(record->spec_owned.ptr, record->spec_owned.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    bool is_good = relay_spec_read(spec, yyjson_obj_get(root, "Source"), yyjson_obj_get(root, "Sink"),
                                   yyjson_get_str(yyjson_obj_get(root, "Order")), fault);
    yyjson_doc_free(doc);
    if (is_good && (spec->source == SOURCE_QUEUE || spec->sink == SINK_QUEUE))
        is_good = relay_door_enter(&relays->door, group->opened->name_owned, spec, fault);
    return is_good;
}

/* To the operator, and to who reads the events of the namespace. */
static void tell(const struct relays *relays, const struct namespace_relays *group, const char *action,
                 const char *text)
{
    relays->report(relays->report_context, text);
    server_note_event(relays->server, &group->opened->served, action, text);
}

/* Says once that it waits. */
static void report_waiting(struct relays *relays, const struct namespace_relays *group, struct running *running)
{
    char text[FAULT_TEXT_SIZE + 200];
    (void)snprintf(text, sizeof(text), "relay %s (namespace %s): %s.", running->name_owned, group->opened->name_owned,
                   running->fault.text);
    tell(relays, group, "RelayWaits", text);
    running->is_in_trouble = true;
    running->reported_at_ms = relay_facts_now_ms();
}

static void start(struct relays *relays, const struct namespace_relays *group, const struct relay_record *record,
                  struct running *running)
{
    struct relay_spec spec;
    relay_spec_init(&spec);
    char *name = memory_allocate(record->name_owned.size + 1);
    (void)snprintf(name, record->name_owned.size + 1, "%.*s", BYTES_FORMAT(record->name_owned));
    *running = (struct running){
        .number = record->number, .name_owned = name, .since_ms = relay_facts_now_ms(), .is_paused = record->is_paused};
    if (read_spec(relays, group, record, &spec, &running->fault) && take_descriptors(relays, &spec, running)) {
        spec.name_owned = name; /* lent: the relay takes a copy */
        sigset_t signals;
        keep_signals(&signals);
        running->relay = relay_start(
            &(struct relay_options){.spec = &spec, .wake = wake, .context = relays, .is_paused = record->is_paused});
        give_signals_back(&signals);
        spec.name_owned = NULL;
    }
    relay_spec_deinit(&spec);
}

/* Tries relays again that wait for descriptors. */
static void start_waiting(struct relays *relays, struct namespace_relays *group)
{
    for (size_t i = 0; i < group->count && relays->waiting_count > 0; i++) {
        struct running *running = &group->items_owned[i];
        const struct running before = *running;
        if (!before.is_waiting)
            continue;
        const struct core *core = namespace_core(group->opened->ns);
        const struct relay_record *record = relay_record_find(core, bytes_from_string(before.name_owned));
        ASSERT(record != NULL && record->number == before.number); /* the group has just followed */
        relays->waiting_count--;
        start(relays, group, record, running);
        running->is_in_trouble = before.is_in_trouble; /* so that its end is reported */
        running->reported_at_ms = before.reported_at_ms;
        running->since_ms = running->is_waiting ? before.since_ms : running->since_ms;
        free(before.name_owned);
    }
}

static void namespace_relays_add(struct relays *relays, struct namespace_relays *group,
                                 const struct relay_record *record)
{
    if (group->count == group->capacity) {
        group->capacity = group->capacity == 0 ? 8 : group->capacity * 2;
        group->items_owned = memory_resize(group->items_owned, group->capacity * sizeof(*group->items_owned));
    }
    size_t index = namespace_relays_index(group, record->number);
    struct running *running = &group->items_owned[index];
    memmove(running + 1, running, (group->count - index) * sizeof(*running));
    start(relays, group, record, running);
    if (running->is_waiting)
        report_waiting(relays, group, running);
    group->count++;
}

static void follow_record(struct relays *relays, struct namespace_relays *group, const struct relay_record *record)
{
    struct running *running = namespace_relays_find(group, record->number);
    if (running == NULL) {
        namespace_relays_add(relays, group, record);
        return;
    }
    if (running->is_paused != record->is_paused && running->relay != NULL)
        relay_set_paused(running->relay, record->is_paused);
    running->is_paused = record->is_paused;
}

static bool is_recorded(const struct core *core, const struct running *running)
{
    const struct relay_record *record = relay_record_find(core, bytes_from_string(running->name_owned));
    return record != NULL && record->number == running->number;
}

/* Makes the group match the records. */
static void namespace_relays_follow(struct relays *relays, struct namespace_relays *group)
{
    const struct core *core = namespace_core(group->opened->ns);
    group->change_count = relay_record_change_count(core);
    size_t kept = 0;
    for (size_t i = 0; i < group->count; i++)
        if (is_recorded(core, &group->items_owned[i]))
            group->items_owned[kept++] = group->items_owned[i];
        else
            leave(relays, group, &group->items_owned[i]);
    group->count = kept;
    for (uint32_t i = 0; i < relay_record_count(core); i++)
        follow_record(relays, group, relay_record_at(core, i));
}

static void follow_all(struct relays *relays)
{
    relays->has_news = false;
    struct namespace_relays *group;
    for (size_t index = 0; (group = namespace_relays_next(relays, &index)) != NULL;)
        if (relay_record_change_count(namespace_core(group->opened->ns)) != group->change_count)
            namespace_relays_follow(relays, group);
}

static void on_check(uv_check_t *handle)
{
    struct relays *relays = handle->data;
    relays->descriptors->promised = 0; /* admitted relays are started now */
    if (relays->has_news)
        follow_all(relays);
    if (relays->waiting_count == 0 || uv_now(relays->loop) < relays->waiting_due_ms)
        return;
    relays->waiting_due_ms = uv_now(relays->loop) + WAITING_CHECK_MS;
    struct namespace_relays *group;
    for (size_t index = 0; (group = namespace_relays_next(relays, &index)) != NULL;)
        start_waiting(relays, group);
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

/* Rows of a relay that wait too long, whatever its state; the relay says how often. */
static void report_alarm(struct relays *relays, const struct namespace_relays *group, struct running *running,
                         const struct relay_status *status)
{
    char text[FAULT_TEXT_SIZE + 200];
    if (status->alarms == running->alarms)
        return;
    running->alarms = status->alarms;
    (void)snprintf(text, sizeof(text), "relay %s (namespace %s), %s: %s.", running->name_owned,
                   group->opened->name_owned, relay_state_name(status->state), status->health.warning);
    tell(relays, group, "RelayLags", text);
}

/* Reports to operators: trouble that begins, and its end. */
static void report_status(struct relays *relays, const struct namespace_relays *group, struct running *running)
{
    struct relay_status status;
    relay_get_status(running->relay, &status);
    report_alarm(relays, group, running, &status);
    bool is_in_trouble = status.state == RELAY_BLOCKED || status.state == RELAY_FAILED;
    uint64_t now_ms = relay_facts_now_ms();
    if (is_in_trouble == running->is_in_trouble || status.state == RELAY_STARTING ||
        (is_in_trouble && now_ms - running->reported_at_ms < REPORT_PAUSE_MS))
        return;
    char text[FAULT_TEXT_SIZE + 200];
    (void)snprintf(text, sizeof(text), "relay %s (namespace %s): %s%s%s", running->name_owned,
                   group->opened->name_owned, relay_state_name(status.state), is_in_trouble ? ": " : ".",
                   is_in_trouble ? status.last_error : "");
    tell(relays, group, is_in_trouble ? "RelayBlocked" : "RelayRecovered", text);
    running->is_in_trouble = is_in_trouble;
    running->reported_at_ms = now_ms;
}

static void on_woken(uv_async_t *handle)
{
    struct relays *relays = handle->data;
    struct namespace_relays *group;
    for (size_t index = 0; (group = namespace_relays_next(relays, &index)) != NULL;)
        for (size_t i = 0; i < group->count; i++)
            if (group->items_owned[i].relay != NULL)
                report_status(relays, group, &group->items_owned[i]);
}

/* --- control ------------------------------------------------------------------------------------------------------ */

/* As a sentence. */
static void put_reason(char reason[RELAY_REASON_SIZE], const char *text)
{
    (void)snprintf(reason, RELAY_REASON_SIZE, "%.*s.", (int)(RELAY_REASON_SIZE - 2), text);
    reason[0] = (char)toupper((unsigned char)reason[0]);
}

static bool control_check(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                          char reason[RELAY_REASON_SIZE])
{
    (void)context;
    struct relay_spec spec;
    struct fault fault;
    relay_spec_init(&spec);
    bool is_good = relay_spec_read(&spec, source, sink, order, &fault);
    relay_spec_deinit(&spec);
    if (!is_good)
        put_reason(reason, fault.text);
    return is_good;
}

/* Until the relay's record exists, its descriptors are only reserved. */
static bool control_admit(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                          char reason[RELAY_REASON_SIZE])
{
    struct relays *relays = context;
    struct relay_spec spec;
    struct fault fault;
    char text[FAULT_TEXT_SIZE];
    relay_spec_init(&spec);
    bool is_read = relay_spec_read(&spec, source, sink, order, &fault);
    ASSERT(is_read); /* it passed control_check() */
    const size_t count = relay_descriptors_max(&spec);
    const bool is_admitted = suffice(relays, count, text, sizeof(text));
    if (is_admitted)
        relays->descriptors->promised += count;
    else
        put_reason(reason, text);
    relay_spec_deinit(&spec);
    return is_admitted;
}

static void control_note_change(void *context)
{
    ((struct relays *)context)->has_news = true;
}

static bool control_can_run(void *context, struct bytes namespace_name, const struct relay_record *record,
                            char reason[RELAY_REASON_SIZE])
{
    struct relays *relays = context;
    const struct running *running = find(relays, namespace_name, record);
    if (running == NULL || !running->is_waiting)
        return true;
    put_reason(reason, running->fault.text);
    return false;
}

static struct bytes control_show_connection(void *context, struct bytes connection, struct arena *arena)
{
    (void)context;
    struct buffer text;
    buffer_init(&text);
    char *copy = memory_allocate(connection.size + 1);
    memcpy(copy, connection.ptr, connection.size);
    copy[connection.size] = '\0';
    conninfo_redact(copy, &text);
    struct bytes shown = arena_copy(arena, buffer_bytes(&text));
    free(copy);
    buffer_deinit(&text);
    return shown;
}

static void control_report(void *context, struct bytes namespace_name, const struct relay_record *record,
                           struct relay_report *report)
{
    const struct running *running = find(context, namespace_name, record);
    *report = (struct relay_report){.state = relay_state_name(RELAY_STARTING)};
    if (running == NULL)
        return;
    if (running->relay != NULL) {
        relay_facts_report(running->relay, report);
        return;
    }
    report->state = relay_state_name(RELAY_FAILED);
    report->since_ms = report->last_error_ms = running->since_ms;
    (void)snprintf(report->last_error, sizeof(report->last_error), "%s", running->fault.text);
}

static void control_list_parked(void *context, struct bytes namespace_name, const struct relay_record *record,
                                struct arena *arena, struct relay_parked_row **doubts, size_t *count)
{
    const struct running *running = find(context, namespace_name, record);
    *count = 0;
    if (running != NULL && running->relay != NULL)
        relay_facts_parked(running->relay, arena, doubts, count);
}

static void control_resolve(void *context, struct bytes namespace_name, const struct relay_record *record,
                            const struct relay_parked_row *doubt, bool is_to_be_sent)
{
    const struct running *running = find(context, namespace_name, record);
    struct uid uid;
    bool is_uid = uid_from_text(bytes_from_string(doubt->uid), &uid);
    ASSERT(is_uid);
    if (running != NULL && running->relay != NULL)
        relay_resolve(running->relay, &uid, is_to_be_sent ? RESOLUTION_SEND : RESOLUTION_DROP);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct relays *relays_create(struct descriptors *descriptors, void (*report)(void *context, const char *text),
                             void *context)
{
    struct relays *relays = memory_allocate_zeroed(sizeof(*relays));
    relays->descriptors = descriptors;
    relays->report = report;
    relays->report_context = context;
    relays->control = (struct relay_control){
        .context = relays,
        .check = control_check,
        .admit = control_admit,
        .note_change = control_note_change,
        .can_run = control_can_run,
        .show_connection = control_show_connection,
        .report = control_report,
        .list_parked = control_list_parked,
        .resolve = control_resolve,
    };
    return relays;
}

const struct relay_control *relays_control(const struct relays *relays)
{
    return &relays->control;
}

/* Marks a handle as ours: it finds the relays, and does not keep the loop alive. */
static void own(struct relays *relays, void *handle)
{
    ((uv_handle_t *)handle)->data = relays;
    uv_unref(handle);
}

/* For namespaces that have none. */
static void make_groups(struct relays *relays)
{
    for (size_t i = 0; i < front_count(relays->namespaces->front); i++) {
        struct opened_namespace *opened = namespaces_at(relays->namespaces, i);
        if (opened->namespace_relays_owned != NULL || opened->is_leaving)
            continue;
        opened->namespace_relays_owned = memory_allocate_zeroed(sizeof(struct namespace_relays));
        opened->namespace_relays_owned->opened = opened;
        namespace_relays_follow(relays, opened->namespace_relays_owned);
    }
}

enum error relays_begin(struct relays *relays, uv_loop_t *loop, const struct namespaces *namespaces, const char *data,
                        struct failure *failure)
{
    enum error error = relay_door_init(&relays->door, namespaces, data, failure);
    if (error != OK) {
        relay_door_deinit(&relays->door);
        return error;
    }
    relays->loop = loop;
    relays->server = namespaces->server;
    relays->namespaces = namespaces;
    uv_check_init(loop, &relays->check);
    uv_async_init(loop, &relays->woken, on_woken);
    own(relays, &relays->check);
    own(relays, &relays->woken);
    make_groups(relays);
    uv_check_start(&relays->check, on_check);
    return OK;
}

void relays_follow_namespaces(struct relays *relays)
{
    ASSERT(relays->namespaces != NULL);
    relay_door_renew(&relays->door);
    make_groups(relays);
}

void relays_leave_namespace(struct relays *relays, struct opened_namespace *opened)
{
    struct namespace_relays *group = opened->namespace_relays_owned;
    if (group == NULL)
        return;
    group->is_leaving = true;
    leave_all(relays, group);
}

bool relays_have_left_namespace(const struct opened_namespace *opened)
{
    return opened->namespace_relays_owned == NULL || opened->namespace_relays_owned->leaving_count == 0;
}

void relays_forget_namespace(struct opened_namespace *opened)
{
    ASSERT(relays_have_left_namespace(opened));
    if (opened->namespace_relays_owned == NULL)
        return;
    free(opened->namespace_relays_owned->items_owned);
    free(opened->namespace_relays_owned);
    opened->namespace_relays_owned = NULL;
}

void relays_stop(struct relays *relays, void (*done)(void *context), void *context)
{
    relays->done = done;
    relays->done_context = context;
    if (relays->namespaces != NULL)
        uv_check_stop(&relays->check);
    struct namespace_relays *group;
    for (size_t index = 0; (group = namespace_relays_next(relays, &index)) != NULL;)
        leave_all(relays, group);
    finish_stop(relays);
}

size_t relays_running_count(const struct relays *relays)
{
    size_t count = 0;
    struct namespace_relays *group;
    for (size_t index = 0; (group = namespace_relays_next(relays, &index)) != NULL;)
        for (size_t i = 0; i < group->count; i++)
            count += group->items_owned[i].relay != NULL;
    return count;
}

static void ignore(void *context)
{
    (void)context;
}

void relays_close(struct relays *relays)
{
    if (relays->namespaces == NULL)
        return;
    relays_stop(relays, ignore, NULL);
    while (relays->leaving_count > 0)
        uv_run(relays->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < front_count(relays->namespaces->front); i++)
        relays_forget_namespace(namespaces_at(relays->namespaces, i));
    uv_close((uv_handle_t *)&relays->check, NULL);
    uv_close((uv_handle_t *)&relays->woken, NULL);
}

void relays_destroy(struct relays *relays)
{
    if (relays->namespaces != NULL)
        relay_door_deinit(&relays->door);
    free(relays);
}
