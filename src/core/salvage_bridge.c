/* Bridging a gap: changes the state, or an event, so that the event fits although earlier events are lost. What an
 * event proves is accepted as true: a number that was used, a queue that existed, a name that was free. See
 * salvage.h. */
#include "core/salvage_state.h"

#include "core/apply.h"
#include "core/identity.h"

#include "base/cursor.h"
#include "base/memory.h"
#include <stdio.h>

#define RETENTION_MAX_S 1209600u
#define MESSAGE_SIZE_MAX 1048576u
#define VISIBILITY_TIMEOUT_S 30u

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* Numbers before this one were used, and nothing was read of those after *newest. */
static void skip_to(uint64_t *newest, uint64_t number)
{
    if (number > 0 && *newest < number - 1)
        *newest = number - 1;
}

static void skip_ids_to(uint32_t *newest, uint32_t id)
{
    if (id > 0 && *newest < id - 1)
        *newest = id - 1;
}

void salvage_skip_messages(struct core_salvage *salvage, uint64_t last)
{
    struct core *core = salvage->core;
    /* In a gap, dead letters may have taken numbers; nobody knows which. */
    const uint64_t before = salvage->is_number_open ? salvage->message_number : core->messages.message_number;
    if (last > IDENTITY_NUMBER_MAX || last < before)
        return;
    salvage->is_number_open = false;
    core->messages.message_number = last > core->messages.message_number ? last : core->messages.message_number;
    if (last == before)
        return;
    salvage->ranges_owned =
        memory_resize(salvage->ranges_owned, (salvage->range_count + 1) * sizeof(*salvage->ranges_owned));
    salvage->ranges_owned[salvage->range_count++] = (struct number_range){.first = before + 1, .last = last};
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

struct queue_settings salvage_queue_settings(void)
{
    struct queue_settings settings = queue_settings_plain();
    settings.message_size_max = MESSAGE_SIZE_MAX;
    settings.retention_s = RETENTION_MAX_S; /* messages may be old, and must not expire at once */
    settings.visibility_timeout_s = VISIBILITY_TIMEOUT_S;
    return settings;
}

struct queue *salvage_need_queue(struct core_salvage *salvage, uint32_t id)
{
    struct core *core = salvage->core;
    struct queue *queue = core_find_queue_by_id(core, id);
    if (queue != NULL || id == 0 || core_find_queue_slot(core, id) != 0)
        return queue;
    char name[QUEUE_NAME_SIZE_MAX];
    const int size = snprintf(name, sizeof(name), SALVAGE_QUEUE_NAME "-%u", (unsigned)id);
    if (core_find_queue(core, bytes_make(name, (size_t)size)) != NULL)
        return NULL;
    core->queues.queue_id = core->queues.queue_id < id ? id : core->queues.queue_id;
    uint32_t slot = core_add_queue(core, id, bytes_make(name, (size_t)size));
    const struct queue_settings settings = salvage_queue_settings();
    queue = core_queue(core, slot);
    queue_adopt_settings(queue, &settings);
    queue->created_at_ms = queue->modified_at_ms = core->now_ms;
    core_add_message_list(core, ++core->message_lists.message_list_number, slot);
    salvage_report(salvage, LOSS_QUEUE, 0, queue->name_owned);
    return queue;
}

/* A queue is created under a name that another one has: that one was deleted in the gap. */
static void bridge_queue_created(struct core *core, const struct event_queue_created *created)
{
    const struct queue *former = core_find_queue(core, created->name);
    if (former != NULL && former->id != created->queue)
        (void)apply_queue_deleted(core, &(struct event_queue_deleted){.queue = former->id});
    skip_ids_to(&core->queues.queue_id, created->queue);
}

/* Settings decide the type of a queue, which is not known for a queue made here. While it is empty and nothing is to be
 * sent to it, its type may change. */
static void bridge_queue_set(struct core_salvage *salvage, const struct event_queue_set *set)
{
    struct queue *queue = salvage_need_queue(salvage, set->queue);
    struct queue_settings settings;
    if (queue == NULL || !queue_settings_decode(set->settings, &settings))
        return;
    const struct message_list *list = core_message_list(salvage->core, queue);
    if (list->count == 0 && list->group_count == 0 && queue->target_count == 0)
        queue->settings.is_fifo = settings.is_fifo;
}

/* --- messages and batches ----------------------------------------------------------------------------------------- */

void salvage_doubt_batch(struct core_salvage *salvage, uint64_t number)
{
    if (number != 0 && number_map_find(&salvage->doubtful, number) == 0)
        number_map_insert(&salvage->doubtful, number, 1);
}

/* Is the event's claim about the message's batch possible? If not, it becomes a message of no batch. */
static void bridge_sent(struct core_salvage *salvage, uint64_t number, uint32_t queue, uint64_t *batch, uint32_t *unit,
                        uint8_t *completes)
{
    if (number == 0 || number > IDENTITY_NUMBER_MAX)
        return; /* no message can have it: the event is refused */
    salvage_skip_messages(salvage, number - 1);
    (void)salvage_need_queue(salvage, queue);
    const struct event_sent sent = {.number = number, .batch = *batch, .unit = *unit, .completes = *completes};
    if (*batch == 0 || sent_fits_batch(salvage->core, &sent, core_find_batch_by_number(salvage->core, *batch)))
        return;
    salvage_doubt_batch(salvage, *batch);
    salvage_report(salvage, LOSS_UNIT, number, bytes_make(NULL, 0));
    *batch = 0;
    *unit = 0;
    *completes = 0;
}

/* The result message of a match that is not known ends like any other. */
static void bridge_ended(const struct core_salvage *salvage, struct event_ended *ended)
{
    ended->number = salvage_number(salvage, ended->number);
    uint32_t slot = core_find_message(salvage->core, ended->number);
    if (slot != 0 && ended->reason == END_PUT_BACK && !core_message(salvage->core, slot)->is_result)
        ended->reason = END_CANCELLED;
}

/* A message becomes another one. Only a line has sequence numbers between others. */
static void bridge_successor(struct core_salvage *salvage, uint64_t *number, uint64_t successor, uint32_t queue_id,
                             uint64_t *sequence)
{
    salvage_skip_messages(salvage, successor - 1);
    *number = salvage_number(salvage, *number);
    const struct queue *queue = salvage_need_queue(salvage, queue_id);
    if (queue != NULL && !queue->settings.is_fifo)
        *sequence = 0;
}

/* A batch is created under an id that another one has: that one was completed, and forgotten, in the gap. A batch whose
 * parent is unknown, or has no room, becomes a batch without a parent. */
static void bridge_batch_created(struct core_salvage *salvage, struct event_batch_created *created)
{
    struct core *core = salvage->core;
    skip_to(&core->batches.batch_number, created->batch);
    const struct batch *former = core_find_batch(core, created->id);
    if (former != NULL && former->number != created->batch)
        (void)apply_batch_deleted(core, &(struct event_batch_deleted){.batch = former->number});
    struct batch_spec spec;
    for (unsigned i = 0; batch_spec_decode(created->spec, &spec) && i < BATCH_EVENT_COUNT; i++)
        (void)salvage_need_queue(salvage, spec.targets[i].queue);
    uint32_t parent = created->parent == 0 ? 0 : core_find_batch_by_number(core, created->parent);
    if (created->parent == 0 || (parent != 0 && batch_fits_parent(core_batch(core, parent), created)))
        return;
    salvage_doubt_batch(salvage, created->parent);
    salvage_doubt_batch(salvage, created->batch);
    created->parent = 0;
    created->parent_unit = 0;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static void bridge_pool_put(struct core_salvage *salvage, const struct event_pool_put *put)
{
    struct core *core = salvage->core;
    struct pool_spec spec;
    if (pool_spec_decode(put->spec, &spec)) {
        (void)salvage_need_queue(salvage, spec.result_queue);
        (void)salvage_need_queue(salvage, spec.expiry_queue);
    }
    const struct ticket_pool *former = ticket_pool_find(core, put->name);
    if (ticket_pool_find_by_id(core, put->pool) != NULL)
        return;
    if (former != NULL)
        (void)apply_pool_deleted(core, &(struct event_pool_deleted){.pool = former->id});
    skip_ids_to(&core->pools.pool_id, put->pool);
}

/* Batches of rows are numbered without gaps, and their owner was accepted: the fence moves to this one. */
static void bridge_published(struct core *core, const struct event_published *published)
{
    uint32_t slot = publisher_find_slot(core, published->publisher);
    if (slot == 0 || publisher_at(core, slot)->epoch < published->epoch) {
        struct event_publisher_opened opened = {.epoch = published->epoch};
        memcpy(opened.publisher, published->publisher, sizeof(opened.publisher));
        memcpy(opened.owner, published->owner, sizeof(opened.owner));
        const bool is_unknown = slot == 0;
        if (!apply_publisher_opened(core, &opened))
            return;
        slot = publisher_find_slot(core, published->publisher);
        if (is_unknown) /* the queues that its rows have named are unknown, so a confined credential can't have it */
            queue_set_open(&publisher_at(core, slot)->queues);
    }
    struct publisher *publisher = publisher_at(core, slot);
    if (publisher->batch + 1 < published->batch) {
        publisher->batch = published->batch - 1;
        publisher->row_count = publisher->row_count == 0 ? 1 : publisher->row_count;
    }
}

static void bridge_schedule_put(struct core_salvage *salvage, const struct event_schedule_put *put)
{
    struct schedule_spec spec;
    if (schedule_spec_decode(put->spec, &spec))
        (void)salvage_need_queue(salvage, spec.queue);
}

/* Events of messages. False: it is not one. */
static bool bridge_message(struct core_salvage *salvage, struct event *event)
{
    switch (event->kind) {
    case EVENT_SENT:
        bridge_sent(salvage, event->sent.number, event->sent.queue, &event->sent.batch, &event->sent.unit,
                    &event->sent.completes);
        return true;
    case EVENT_SENT_IN_GROUP:
        bridge_sent(salvage, event->sent_in_group.number, event->sent_in_group.queue, &event->sent_in_group.batch,
                    &event->sent_in_group.unit, &event->sent_in_group.completes);
        return true;
    case EVENT_RECEIVED:
        skip_to(&salvage->core->messages.delivery_number, event->received.delivery);
        event->received.number = salvage_number(salvage, event->received.number);
        return true;
    case EVENT_VISIBILITY_CHANGED:
        event->visibility_changed.number = salvage_number(salvage, event->visibility_changed.number);
        return true;
    case EVENT_LEASE_RENEWED:
        event->lease_renewed.number = salvage_number(salvage, event->lease_renewed.number);
        return true;
    case EVENT_FAILED:
        event->failed.number = salvage_number(salvage, event->failed.number);
        return true;
    case EVENT_ENDED:
        bridge_ended(salvage, &event->ended);
        return true;
    case EVENT_CONTENT_MOVED:
        event->content_moved.number = salvage_number(salvage, event->content_moved.number);
        return true;
    case EVENT_DEAD_LETTERED:
        event->dead_lettered.number = salvage_number(salvage, event->dead_lettered.number);
        (void)salvage_need_queue(salvage, event->dead_lettered.queue);
        return true;
    case EVENT_MESSAGE_MOVED:
        bridge_successor(salvage, &event->message_moved.number, event->message_moved.successor,
                         event->message_moved.queue, &event->message_moved.sequence);
        return true;
    case EVENT_REPLACED:
        bridge_successor(salvage, &event->replaced.number, event->replaced.successor, event->replaced.queue,
                         &event->replaced.sequence);
        return true;
    default:
        return false;
    }
}

void salvage_bridge(struct core_salvage *salvage, struct event *event)
{
    struct core *core = salvage->core;
    if (core->digest_owned == NULL || bridge_message(salvage, event))
        return;
    switch (event->kind) {
    case EVENT_QUEUE_CREATED:
        bridge_queue_created(core, &event->queue_created);
        break;
    case EVENT_QUEUE_SET:
        bridge_queue_set(salvage, &event->queue_set);
        break;
    case EVENT_MOVE_STARTED:
        skip_to(&core->moves.number, event->move_started.task);
        break;
    case EVENT_SELECTION_STARTED:
        skip_to(&core->moves.number, event->selection_started.task);
        break;
    case EVENT_BATCH_CREATED:
        bridge_batch_created(salvage, &event->batch_created);
        break;
    case EVENT_SCHEDULE_PUT:
        bridge_schedule_put(salvage, &event->schedule_put);
        break;
    case EVENT_SCHEDULE_FIRED:
        schedule_skip_to(core, event->schedule_fired.name, event->schedule_fired.due_at_ms);
        break;
    case EVENT_PUBLISHED:
        bridge_published(core, &event->published);
        break;
    case EVENT_POOL_PUT:
        bridge_pool_put(salvage, &event->pool_put);
        break;
    case EVENT_TICKET_OFFERED:
        skip_to(&core->pools.ticket_number, event->ticket_offered.number);
        break;
    case EVENT_MATCHED:
        skip_to(&core->matches.match_number, event->matched.match);
        break;
    default:
        break;
    }
}

/* --- what apply relies on ----------------------------------------------------------------------------------------- */

/* A success is reported for a batch that has succeeded, or for a failed one whose units all succeeded later. */
static bool fired_is_safe(const struct core *core, const struct event_batch_fired *fired)
{
    uint32_t slot = core_find_batch_by_number(core, fired->batch);
    if (slot == 0 || fired->event != BATCH_EVENT_SUCCESS)
        return true;
    enum batch_status status = core_batch(core, slot)->status;
    return status == BATCH_SUCCEEDED || (status == BATCH_FAILED && fired->status == BATCH_SUCCEEDED);
}

/* Known rows are not published again. */
static bool published_is_safe(const struct core *core, const struct event_published *published)
{
    uint32_t slot = core->digest_owned == NULL ? 0 : publisher_find_slot(core, published->publisher);
    if (slot == 0)
        return true;
    const struct publisher *publisher = publisher_at(core, slot);
    for (struct cursor cursor = cursor_make(published->rows); cursor.rest.size >= PUBLISHER_ROW_SIZE;) {
        uint64_t id = cursor_u64(&cursor);
        uint8_t uid[PUBLISHER_ID_SIZE];
        cursor_copy(&cursor, uid, sizeof(uid));
        if (id == 0 || id > INT64_MAX || publisher_knows(core, slot, uid, publisher_hash_uid(core, publisher, uid)))
            return false;
    }
    return true;
}

bool salvage_is_safe(const struct core *core, const struct event *event)
{
    if (event->kind == EVENT_BATCH_FIRED)
        return fired_is_safe(core, &event->batch_fired);
    if (event->kind == EVENT_PUBLISHED)
        return published_is_safe(core, &event->published);
    return true;
}
