#include "api/api.h"

#include "api/reply.h"
#include "api/state.h"
#include "base/memory.h"
#include <stdlib.h>

/* --- life --------------------------------------------------------------------------------------------------------- */

struct api *api_create(struct namespace *ns, const struct api_options *options)
{
    struct api *api = memory_allocate_zeroed(sizeof(*api));
    api->ns = ns;
    api->options = *options;
    api->call_counts_owned = memory_allocate_zeroed(action_count * 2 * sizeof(*api->call_counts_owned));
    table_init(&api->action_by_target);
    for (size_t i = 0; i < action_count; i++)
        table_insert(&api->action_by_target, bytes_hash(bytes_from_string(actions[i].target)), (uint32_t)i + 1);
    pool_init(&api->waiters, sizeof(struct waiter));
    heap_init(&api->waiter_deadlines, &api->waiters, offsetof(struct waiter, deadline_index),
              offsetof(struct waiter, number));
    list_init(&api->finished);
    buffer_init(&api->scratch);
    return api;
}

void api_destroy(struct api *api)
{
    ASSERT(api->waiters.used == 0);
    heap_deinit(&api->waiter_deadlines);
    pool_deinit(&api->waiters);
    table_deinit(&api->action_by_target);
    buffer_deinit(&api->scratch);
    free(api->call_counts_owned);
    free(api->deleted_owned);
    free(api);
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

void api_finish(struct api *api, struct exchange *exchange)
{
    exchange->state = EXCHANGE_FINISHED;
    exchange->hold_sequence = namespace_hold_sequence(api->ns);
    /* The tree of a large request is many times its size; it need not stay until a slow client has taken its reply. */
    arena_reset(&exchange->arena);
    list_append(&api->finished, &exchange->api_link);
}

struct exchange *api_take_finished(struct api *api)
{
    struct list_link *link = list_first(&api->finished);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct exchange, api_link);
}

void api_refuse(struct api *api, struct exchange *exchange, enum error error, const char *text)
{
    struct failure failure;
    failure_set(&failure, error, "%s", text == NULL ? "" : text);
    reply_fail(exchange, error, &failure);
    api_finish(api, exchange);
    exchange->hold_sequence = 0;
    api->refused_count++;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Runs the action. Leaves the reply complete, or the exchange waiting. */
static enum error run_action(struct call *call, const struct action *action)
{
    struct reply_draft draft;
    reply_begin(call->exchange, &draft);
    call->reply = &draft.writer;
    enum error error = action->run(call);
    if (error == OK && !call->is_waiting)
        reply_end(call->exchange, &draft, action->is_silent);
    return error;
}

void api_submit(struct api *api, struct exchange *exchange, uint64_t now_ms)
{
    struct failure failure = {.error = OK};
    struct call call = {
        .api = api,
        .exchange = exchange,
        .ns = api->ns,
        .arena = &exchange->arena,
        .failure = &failure,
        .now_ms = now_ms,
    };
    const struct action *action = NULL;
    enum error error = decode_request(&call, &action);
    if (action == NULL) {
        api_refuse(api, exchange, error, failure.text);
        return;
    }
    call.core = namespace_begin(api->ns, now_ms);
    if (error == OK)
        error = run_action(&call, action);
    api->call_counts_owned[2 * (size_t)(action - actions) + (error != OK)]++;
    decide_time_passed(call.core);
    if (error != OK)
        reply_fail(exchange, error, &failure);
    if (!call.is_waiting)
        api_finish(api, exchange);
    wait_serve(api, now_ms);
}

void api_abandon(struct api *api, struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_WAITING)
        wait_abandon(api, exchange);
    else if (list_is_linked(&exchange->api_link))
        list_remove(&exchange->api_link);
}

void api_release_waiting(struct api *api)
{
    wait_release_all(api);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

uint64_t api_due_ms(const struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    if (core_has_ready_queue(core) && api->waiters.used > 0)
        return 0;
    uint64_t core_ms = core_due_ms(core);
    uint64_t waiter_ms = api->waiter_deadlines.count == 0 ? UINT64_MAX : heap_top(&api->waiter_deadlines).key;
    return core_ms < waiter_ms ? core_ms : waiter_ms;
}

void api_tick(struct api *api, uint64_t now_ms)
{
    struct core *core = namespace_begin(api->ns, now_ms);
    decide_due(core);
    wait_serve(api, now_ms);
    wait_expire(api, now_ms);
}

bool api_is_settling(const struct api *api)
{
    return core_is_settling(namespace_core(api->ns));
}

void api_flush(struct api *api)
{
    struct failure ignored; /* whoever shows replies asks namespace_failure() */
    (void)namespace_flush(api->ns, &ignored);
}

bool api_can_flush(const struct api *api)
{
    return namespace_can_flush(api->ns);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

static void write_gauge(struct buffer *text, const char *name, const char *help, uint64_t value)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s gauge\n%s %llu\n", name, help, name, name,
                         (unsigned long long)value);
}

static void write_counter(struct buffer *text, const char *name, const char *help, uint64_t value)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", name, help, name, name,
                         (unsigned long long)value);
}

static void write_queue_metrics(const struct core *core, struct buffer *text)
{
    buffer_append_format(text, "# HELP tally_queue_messages Messages in a queue by state.\n"
                               "# TYPE tally_queue_messages gauge\n");
    for (size_t i = 0; i < core_queue_count(core); i++) {
        const struct queue *queue = core_queue_by_name(core, i);
        const struct shelf *shelf = core_shelf(core, queue);
        const struct {
            const char *state;
            uint64_t count;
        } states[] = {{"visible", shelf_visible_count(shelf)},
                      {"in_flight", shelf->in_flight_count},
                      {"delayed", shelf->delayed_count}};
        for (size_t k = 0; k < ARRAY_LENGTH(states); k++)
            buffer_append_format(text, "tally_queue_messages{queue=\"%.*s\",state=\"%s\"} %llu\n",
                                 BYTES_FORMAT(queue->name_owned), states[k].state, (unsigned long long)states[k].count);
    }
}

void api_metrics_write(const struct api *api, struct buffer *text)
{
    const struct core *core = namespace_core(api->ns);
    struct core_metrics metrics = core_metrics(core);
    write_gauge(text, "tally_queues", "Queues.", core_queue_count(core));
    write_gauge(text, "tally_messages", "Messages in all queues.", metrics.messages);
    write_gauge(text, "tally_messages_in_flight", "Messages held by receivers.", metrics.in_flight);
    write_gauge(text, "tally_messages_delayed", "Messages not yet visible.", metrics.delayed);
    write_gauge(text, "tally_batches", "Batches remembered.", metrics.batches);
    write_gauge(text, "tally_deduplication_ids", "Deduplication ids remembered.", metrics.deduplication_ids);
    write_gauge(text, "tally_producers", "Numbered producers remembered.", metrics.producers);
    write_gauge(text, "tally_receives_waiting", "Long polls that wait for messages.", api->waiters.used);
    write_counter(text, "tally_messages_sent_total", "Messages accepted since the namespace was founded.",
                  metrics.sent);
    write_counter(text, "tally_deliveries_total", "Deliveries since the namespace was founded.", metrics.delivered);
    write_counter(text, "tally_frames_durable_total", "Frames made durable since the namespace was founded.",
                  namespace_durable(api->ns));
    write_counter(text, "tally_contents_damaged_total", "Message bodies that could not be read back from the log.",
                  api->damaged_count);
    write_counter(text, "tally_requests_refused_total", "Requests refused before an action saw them.",
                  api->refused_count);
    write_queue_metrics(core, text);
    buffer_append_format(text,
                         "# HELP tally_calls_total Calls by action and result.\n# TYPE tally_calls_total counter\n");
    for (size_t i = 0; i < action_count; i++)
        for (unsigned k = 0; k < 2; k++)
            buffer_append_format(text, "tally_calls_total{action=\"%s\",result=\"%s\"} %llu\n", actions[i].target,
                                 k == 0 ? "ok" : "error", (unsigned long long)api->call_counts_owned[2 * i + k]);
}
