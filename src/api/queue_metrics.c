/* The metrics of queues. */
#include "api/metrics.h"

#include "api/wait.h"
#include "base/assert.h"
#include "core/messages/message_list.h"
#include "core/order/group_list.h"

#define GROUPS_COUNTED_MAX 1000u

#define AGE_HELP                                                                                                       \
    "Age of the queue's oldest message; and of the oldest one that a receive could have now, of groups whose turn is " \
    "next. 0: there is none."

/* Figures with a state label are series of one metric. */
static const struct {
    const char *name;
    const char *kind;
    const char *state; /* NULL: none */
    bool is_ms;
    const char *help; /* NULL: it stands at the figure before */
} rows[QUEUE_FIGURE_COUNT] = {
    [QUEUE_VISIBLE] = {"tally_queue_messages", "gauge", "visible", false, "Messages in a queue by state."},
    [QUEUE_IN_FLIGHT] = {"tally_queue_messages", "gauge", "in_flight", false, NULL},
    [QUEUE_DELAYED] = {"tally_queue_messages", "gauge", "delayed", false, NULL},
    [QUEUE_BLOCKED] = {"tally_queue_messages", "gauge", "blocked", false, NULL},
    [QUEUE_AGE_ANY_MS] = {"tally_queue_oldest_message_age_seconds", "gauge", "any", true, AGE_HELP},
    [QUEUE_AGE_DELIVERABLE_MS] = {"tally_queue_oldest_message_age_seconds", "gauge", "deliverable", true, NULL},
    [QUEUE_RECEIVERS] = {"tally_queue_receivers_waiting", "gauge", NULL, false, "Long polls that wait there."},
    [QUEUE_LAST_RECEIVE_MS] = {"tally_queue_last_receive_timestamp_seconds", "gauge", NULL, true,
                               "When somebody last asked for messages, in vain or not; 0: not since the start."},
    [QUEUE_PAUSED] = {"tally_queue_paused", "gauge", NULL, false, "1: the queue is paused."},
    [QUEUE_GROUPS_HELD] = {"tally_queue_groups", "gauge", "held", false,
                           "Groups that deliver nothing: held by a failure, paused by a person; 1,000 at most are "
                           "counted."},
    [QUEUE_GROUPS_PAUSED] = {"tally_queue_groups", "gauge", "paused", false, NULL},
    [QUEUE_DEAD_LETTERS] = {"tally_queue_dead_letters", "gauge", NULL, false,
                            "Messages of the queue that were moved there because they failed elsewhere."},
#define COUNTER_ROW(COUNTER, name, help)                                                                               \
    [QUEUE_COUNTED + COUNTER_##COUNTER] = {name, "counter", NULL, false, help " Since the start."},
    QUEUE_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
};

static uint64_t age_ms(uint64_t since_ms, uint64_t now_ms)
{
    return since_ms < now_ms ? now_ms - since_ms : 0; /* UINT64_MAX: there is no message */
}

void queue_figures_read(const struct api *api, const struct queue *queue, uint64_t now_ms,
                        struct queue_figures *figures)
{
    const struct core *core = namespace_core(api->ns);
    const struct message_list *list = core_message_list(core, queue);
    uint64_t *values = figures->values;
    ASSERT(queue->name_owned.size <= sizeof(figures->name));
    figures->name_size = queue->name_owned.size;
    memcpy(figures->name, queue->name_owned.ptr, queue->name_owned.size);
    values[QUEUE_VISIBLE] = message_list_visible_count(list);
    values[QUEUE_IN_FLIGHT] = list->in_flight_count;
    values[QUEUE_DELAYED] = list->delayed_count - list->waiting_count;
    values[QUEUE_BLOCKED] = list->waiting_count;
    values[QUEUE_AGE_ANY_MS] = age_ms(core_oldest_since_ms(core, queue), now_ms);
    values[QUEUE_AGE_DELIVERABLE_MS] = age_ms(core_oldest_deliverable_ms(core, queue), now_ms);
    values[QUEUE_RECEIVERS] = wait_receive_count(api, queue);
    values[QUEUE_LAST_RECEIVE_MS] = queue->counters.last_receive_ms;
    values[QUEUE_PAUSED] = queue->is_paused;
    values[QUEUE_GROUPS_HELD] = list->held_count;
    values[QUEUE_GROUPS_PAUSED] = group_count_paused(core, queue, GROUPS_COUNTED_MAX);
    values[QUEUE_DEAD_LETTERS] = list->moved.count;
    memcpy(values + QUEUE_COUNTED, queue->counters.counts, sizeof(queue->counters.counts));
}

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

void queue_figures_sum(const struct queue_figures *queue, struct namespace_figures *sum)
{
    raise_to(&sum->ages_ms[AGE_ANY], queue->values[QUEUE_AGE_ANY_MS]);
    raise_to(&sum->ages_ms[AGE_DELIVERABLE], queue->values[QUEUE_AGE_DELIVERABLE_MS]);
    sum->values[METRIC_QUEUES_PAUSED] += queue->values[QUEUE_PAUSED];
    sum->values[METRIC_GROUPS_HELD] += queue->values[QUEUE_GROUPS_HELD];
}

void queue_figures_write(const struct queue_figures *queues, size_t count, enum queue_figure figure, bool is_first,
                         const struct namespace_figures *namespaces, struct arena *arena, struct buffer *text)
{
    if (is_first && rows[figure].help != NULL)
        metric_write_head(text, rows[figure].name, rows[figure].kind, rows[figure].help);
    for (size_t i = 0; i < count; i++) {
        const struct namespace_figures *owner = &namespaces[queues[i].name_space];
        const struct bytes account = bytes_make(owner->account, owner->account_size);
        const struct bytes name = bytes_make(queues[i].name, queues[i].name_size);
        const struct bytes labels =
            rows[figure].state == NULL
                ? arena_format(arena, "queue=\"%.*s\"", BYTES_FORMAT(name))
                : arena_format(arena, "queue=\"%.*s\",state=\"%s\"", BYTES_FORMAT(name), rows[figure].state);
        if (rows[figure].is_ms)
            metric_write_seconds(text, account, rows[figure].name, labels, queues[i].values[figure]);
        else
            metric_write_number(text, account, rows[figure].name, labels, queues[i].values[figure]);
    }
}
