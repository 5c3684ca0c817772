/* Salvage: a replay that goes on after a gap. See salvage.h. */
#include "core/salvage_state.h"

#include "core/finish.h"
#include "core/identity.h"
#include "core/pools/ticket_pool.h"
#include "core/publishers/publisher.h"

#include "base/memory.h"
#include <stdlib.h>

struct core_salvage *
core_salvage_create(struct core *core, void (*report)(void *context, const struct core_finding *finding), void *context)
{
    struct core_salvage *salvage = memory_allocate_zeroed(sizeof(*salvage));
    salvage->core = core;
    salvage->report = report;
    salvage->context = context;
    number_map_init(&salvage->ended);
    number_map_init(&salvage->renamed_by_successor);
    number_map_init(&salvage->orphan_by_number);
    number_map_init(&salvage->doubtful);
    return salvage;
}

void core_salvage_destroy(struct core_salvage *salvage)
{
    number_map_deinit(&salvage->ended);
    number_map_deinit(&salvage->renamed_by_successor);
    free(salvage->renamed_owned);
    number_map_deinit(&salvage->orphan_by_number);
    number_map_deinit(&salvage->doubtful);
    free(salvage->heard_owned);
    free(salvage->ranges_owned);
    free(salvage->orphans_owned);
    free(salvage);
}

void salvage_report(const struct core_salvage *salvage, enum core_loss kind, uint64_t number, struct bytes name)
{
    salvage->report(salvage->context, &(struct core_finding){.kind = kind, .number = number, .name = name});
}

/* From here on, numbers may exist of which nothing is known. */
static void open_number(struct core_salvage *salvage)
{
    if (!salvage->is_number_open)
        salvage->message_number = salvage->core->messages.message_number;
    salvage->is_number_open = true;
}

void core_salvage_gap(struct core_salvage *salvage)
{
    salvage->gap_count++;
    open_number(salvage);
    salvage->batch_number = salvage->core->batches.batch_number;
}

bool core_salvage_has_gap(const struct core_salvage *salvage)
{
    return salvage->gap_count > 0;
}

/* --- what is heard of messages ------------------------------------------------------------------------------------ */

static void hear_of(struct core_salvage *salvage, uint64_t number, uint32_t gap_count)
{
    uint32_t slot = core_find_message(salvage->core, number);
    if (slot == 0)
        return;
    if (slot >= salvage->heard_count) {
        uint32_t count = slot * 2 + 64;
        salvage->heard_owned = memory_resize(salvage->heard_owned, count * sizeof(*salvage->heard_owned));
        memset(salvage->heard_owned + salvage->heard_count, 0,
               (count - salvage->heard_count) * sizeof(*salvage->heard_owned));
        salvage->heard_count = count;
    }
    salvage->heard_owned[slot] = gap_count;
}

/* A content without a message: its `sent` event is lost, or it is the changed copy of a message that could not be
 * replaced. */
static void keep_orphan(struct core_salvage *salvage, uint64_t number, struct bytes content, uint64_t position)
{
    if (number == 0 || number > IDENTITY_NUMBER_MAX || number_map_find(&salvage->ended, number) != 0)
        return;
    uint32_t index = number_map_find(&salvage->orphan_by_number, number);
    if (index == 0) {
        if (salvage->orphan_count == UINT32_MAX - 1)
            return;
        salvage->orphans_owned =
            memory_resize(salvage->orphans_owned, (salvage->orphan_count + 1) * sizeof(*salvage->orphans_owned));
        index = (uint32_t)++salvage->orphan_count;
        number_map_insert(&salvage->orphan_by_number, number, index);
    }
    salvage->orphans_owned[index - 1] =
        (struct salvage_orphan){.number = number, .position = position, .size = (uint32_t)content.size};
}

static void drop_orphan(struct core_salvage *salvage, uint64_t number)
{
    const uint32_t index = number_map_find(&salvage->orphan_by_number, number);
    if (index != 0)
        salvage->orphans_owned[index - 1].number = 0;
}

uint64_t salvage_number(const struct core_salvage *salvage, uint64_t number)
{
    uint32_t index = number_map_find(&salvage->renamed_by_successor, number);
    return index == 0 ? number : salvage->renamed_owned[index - 1].number;
}

/* A move did not fit. The message stays where it was, and events of its successor apply to it. */
static void rename_message(struct core_salvage *salvage, uint64_t number, uint64_t successor)
{
    if (salvage->renamed_count == UINT32_MAX - 1 || number_map_find(&salvage->renamed_by_successor, successor) != 0 ||
        number >= successor)
        return;
    salvage->renamed_owned =
        memory_resize(salvage->renamed_owned, (salvage->renamed_count + 1) * sizeof(*salvage->renamed_owned));
    salvage->renamed_owned[salvage->renamed_count++] = (struct renamed){.successor = successor, .number = number};
    number_map_insert(&salvage->renamed_by_successor, successor, salvage->renamed_count);
}

/* An unknown message has ended, so it is not lost. */
static void note_end(struct core_salvage *salvage, uint64_t number)
{
    if (number == 0)
        return;
    if (number_map_find(&salvage->ended, number) == 0)
        number_map_insert(&salvage->ended, number, 1);
    drop_orphan(salvage, number);
}

size_t core_salvage_orphans(const struct core_salvage *salvage, const struct salvage_orphan **orphans)
{
    *orphans = salvage->orphans_owned;
    return salvage->orphan_count;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The message that an event proves to be alive; 0: none. Contents may move even if their message only waits to be
 * ended. */
static uint64_t shown_alive(const struct event *event)
{
    switch (event->kind) {
    case EVENT_SENT:
        return event->sent.number;
    case EVENT_SENT_IN_GROUP:
        return event->sent_in_group.number;
    case EVENT_RECEIVED:
        return event->received.number;
    case EVENT_VISIBILITY_CHANGED:
        return event->visibility_changed.number;
    case EVENT_LEASE_RENEWED:
        return event->lease_renewed.number;
    case EVENT_FAILED:
        return event->failed.number;
    case EVENT_DEAD_LETTERED:
        return event->dead_lettered.number;
    case EVENT_MESSAGE_MOVED:
        return event->message_moved.successor;
    case EVENT_REPLACED:
        return event->replaced.successor;
    default:
        return 0;
    }
}

/* Every message of the queue may have ended. */
static void doubt_queue(struct core_salvage *salvage, uint32_t id)
{
    const struct queue *queue = core_find_queue_by_id(salvage->core, id);
    for (uint32_t slot = 1; queue != NULL && slot < salvage->core->messages.items.slot_end; slot++) {
        const struct message *message = core_message(salvage->core, slot);
        if (message_is_used(message) && message->message_list == queue->message_list)
            hear_of(salvage, message->number, 0);
    }
}

static void lose_sent(struct core_salvage *salvage, uint64_t number)
{
    if (number == 0 || number > IDENTITY_NUMBER_MAX) /* no message can have it, so there is no id to report */
        return;
    salvage_report(salvage, LOSS_SENT, number, bytes_make(NULL, 0));
    if (salvage->core->messages.message_number == number - 1)
        salvage->core->messages.message_number++;
}

/* The number was given out. */
static void pass_number(struct core_salvage *salvage, uint64_t number)
{
    salvage_skip_messages(salvage, number - 1);
    if (salvage->core->messages.message_number == number - 1)
        salvage->core->messages.message_number++;
}

/* A message that should have become another one stays what it was. */
static void keep_old(struct core_salvage *salvage, uint64_t number, uint64_t successor)
{
    pass_number(salvage, successor);
    rename_message(salvage, number, successor);
    hear_of(salvage, number, 0);
}

/* Of an unknown message, nothing is left but its changed copy. A known one stays, and its copy is an orphan beside it
 * until the message ends: nobody knows whether it was replaced before or after what was lost. */
static void keep_copy(struct core_salvage *salvage, const struct event_replaced *replaced, uint64_t position)
{
    if (core_find_message(salvage->core, replaced->number) != 0) {
        keep_old(salvage, replaced->number, replaced->successor);
    } else {
        pass_number(salvage, replaced->successor);
        note_end(salvage, replaced->number);
    }
    keep_orphan(salvage, salvage_number(salvage, replaced->successor), replaced->content,
                position + EVENT_REPLACED_CONTENT_OFFSET);
}

/* The content of a message is elsewhere now. */
static void follow_content(struct core_salvage *salvage, const struct event_content_moved *moved, uint64_t position)
{
    if (core_find_message(salvage->core, moved->number) == 0 ||
        number_map_find(&salvage->orphan_by_number, moved->number) != 0)
        keep_orphan(salvage, moved->number, moved->content, position + EVENT_CONTENT_MOVED_CONTENT_OFFSET);
}

/* What an event that does not fit still shows about messages: that they have ended, or may have. */
static void doubt_messages(struct core_salvage *salvage, const struct event *event)
{
    const struct core *core = salvage->core;
    switch (event->kind) {
    case EVENT_ENDED:
        if (core_find_message(core, event->ended.number) == 0)
            note_end(salvage, event->ended.number);
        break;
    case EVENT_MESSAGE_MOVED:
        keep_old(salvage, event->message_moved.number, event->message_moved.successor);
        break;
    case EVENT_SENT:
        lose_sent(salvage, event->sent.number);
        break;
    case EVENT_SENT_IN_GROUP:
        lose_sent(salvage, event->sent_in_group.number);
        break;
    case EVENT_QUEUE_PURGED:
        doubt_queue(salvage, event->queue_purged.queue);
        break;
    case EVENT_QUEUE_DELETED:
        doubt_queue(salvage, event->queue_deleted.queue);
        break;
    case EVENT_GROUP_CANCELLED:
        doubt_queue(salvage, event->group_cancelled.queue);
        break;
    default:
        break;
    }
}

/* What an event that does not fit still shows. */
static void refuse(struct core_salvage *salvage, const struct event *event, uint64_t position)
{
    const char *name = event_kind_name(event->kind);
    salvage->report(salvage->context, &(struct core_finding){.kind = LOSS_EVENT,
                                                             .name = bytes_from_string(name == NULL ? "" : name),
                                                             .position = position});
    doubt_messages(salvage, event);
    if (event->kind == EVENT_CONTENT_MOVED)
        follow_content(salvage, &event->content_moved, position);
    if (event->kind == EVENT_REPLACED)
        keep_copy(salvage, &event->replaced, position);
    if (event->kind == EVENT_UNIT_ENDED || event->kind == EVENT_BATCH_SEALED || event->kind == EVENT_BATCH_FIRED)
        salvage_doubt_batch(salvage, event->kind == EVENT_UNIT_ENDED     ? event->unit_ended.batch
                                     : event->kind == EVENT_BATCH_SEALED ? event->batch_sealed.batch
                                                                         : event->batch_fired.batch);
}

void core_salvage_know_queues(struct core_salvage *salvage, uint64_t position, const struct salvage_numbers *newest)
{
    salvage->queues_known_until = position;
    salvage->known = *newest;
}

/* Does the event describe a queue that a later snapshot has already described? A queue deleted before that snapshot is
 * not in it. If messages sent to it have brought it back, it is deleted now. */
static bool is_known_better(const struct core_salvage *salvage, const struct event *event, uint64_t position)
{
    return position < salvage->queues_known_until &&
           (event->kind == EVENT_FOUNDED || event->kind == EVENT_QUEUE_CREATED || event->kind == EVENT_QUEUE_SET ||
            event->kind == EVENT_QUEUE_PAUSED ||
            (event->kind == EVENT_QUEUE_DELETED &&
             core_find_queue_by_id(salvage->core, event->queue_deleted.queue) == NULL));
}

/* The message will be ended. If no event named it since a gap, it may have been elsewhere by then, and is lost here. */
static void report_if_unheard(const struct core_salvage *salvage, uint32_t slot)
{
    uint32_t heard = slot < salvage->heard_count ? salvage->heard_owned[slot] : 0;
    if (heard < salvage->gap_count)
        salvage_report(salvage, LOSS_SENT, core_message(salvage->core, slot)->number, bytes_make(NULL, 0));
}

static void report_emptied(const struct core_salvage *salvage, uint32_t id)
{
    const struct queue *queue = core_find_queue_by_id(salvage->core, id);
    for (uint32_t slot = 1; queue != NULL && slot < salvage->core->messages.items.slot_end; slot++) {
        const struct message *message = core_message(salvage->core, slot);
        if (message_is_used(message) && message->message_list == queue->message_list)
            report_if_unheard(salvage, slot);
    }
}

/* Only the group: the other messages of its queue stay. */
static void report_cancelled(const struct core_salvage *salvage, const struct event_group_cancelled *cancelled)
{
    const struct core *core = salvage->core;
    const struct queue *queue = core_find_queue_by_id(core, cancelled->queue);
    uint32_t group =
        queue == NULL || cancelled->group.size == 0 ? 0 : group_find(core, queue->message_list, cancelled->group);
    for (uint32_t slot = group == 0 ? 0 : core_group(core, group)->first; slot != 0;) {
        const struct message_extra *extra = core_extra_of(core, core_message(core, slot));
        if (extra->sequence <= cancelled->sequence)
            report_if_unheard(salvage, slot);
        slot = extra->next;
    }
}

static void expect_emptied(const struct core_salvage *salvage, const struct event *event)
{
    if (event->kind == EVENT_QUEUE_PURGED)
        report_emptied(salvage, event->queue_purged.queue);
    else if (event->kind == EVENT_QUEUE_DELETED)
        report_emptied(salvage, event->queue_deleted.queue);
    else if (event->kind == EVENT_GROUP_CANCELLED)
        report_cancelled(salvage, &event->group_cancelled);
}

static bool take_event(struct core_salvage *salvage, struct event *event, uint64_t position, uint32_t gap_count)
{
    if (is_known_better(salvage, event, position))
        return true;
    if (salvage->gap_count > 0) {
        salvage_bridge(salvage, event);
        expect_emptied(salvage, event);
    }
    if (!salvage_is_safe(salvage->core, event) || !core_apply(salvage->core, event, position)) {
        refuse(salvage, event, position);
        return false;
    }
    if (event->kind == EVENT_ENDED || event->kind == EVENT_REPLACED)
        drop_orphan(salvage, event->kind == EVENT_ENDED ? event->ended.number : event->replaced.number);
    hear_of(salvage, shown_alive(event), gap_count);
    return true;
}

static void pass_time(struct core *core, uint64_t time_ms)
{
    core_advance(core, time_ms > core->now_ms ? time_ms : core->now_ms);
}

bool core_salvage_frame(struct core_salvage *salvage, struct bytes payload, uint64_t position, uint64_t time_ms,
                        uint64_t *unknown_position)
{
    ASSERT(salvage->core->frame.events == NULL);
    pass_time(salvage->core, time_ms);
    struct bytes rest = payload;
    while (rest.size > 0) {
        uint64_t at = position + (payload.size - rest.size);
        struct event event;
        if (!event_decode(&rest, &event)) {
            *unknown_position = at;
            return false;
        }
        (void)take_event(salvage, &event, at + EVENT_HEADER_SIZE, salvage->gap_count);
    }
    return true;
}

/* --- damaged frames ----------------------------------------------------------------------------------------------- */

/* Does the content prove itself? It does by its checksum, and by the id that only this namespace gives to that message
 * number. */
static bool is_proven(const struct core *core, struct bytes encoded, uint64_t number)
{
    struct content content;
    return content_decode(encoded, &content) && identity_message_number(core->digest_owned, content.id) == number;
}

/* Is this a credible event of a damaged frame? Its other fields have no checksum of their own, so they must at least be
 * possible. */
static bool is_believed(const struct core *core, struct event *event, size_t frame_size)
{
    /* A frame of that size can't hold more messages. */
    const uint64_t newest = core->messages.message_number + frame_size / EVENT_SENT_CONTENT_OFFSET + 1;
    switch (event->kind) {
    case EVENT_SENT:
        return event->sent.number > core->messages.message_number && event->sent.completes == 0 &&
               event->sent.visible_at_ms <= core->now_ms + 900000 &&
               core_find_queue_by_id(core, event->sent.queue) != NULL &&
               is_proven(core, event->sent.content, event->sent.number);
    case EVENT_SENT_IN_GROUP:
        return event->sent_in_group.number > core->messages.message_number && event->sent_in_group.completes == 0 &&
               event->sent_in_group.visible_at_ms <= core->now_ms + 900000 &&
               core_find_queue_by_id(core, event->sent_in_group.queue) != NULL &&
               is_proven(core, event->sent_in_group.content, event->sent_in_group.number);
    case EVENT_REPLACED:
        return event->replaced.successor > core->messages.message_number && event->replaced.successor <= newest &&
               event->replaced.number < event->replaced.successor &&
               event->replaced.visible_at_ms <= core->now_ms + 900000 &&
               core_find_queue_by_id(core, event->replaced.queue) != NULL &&
               is_proven(core, event->replaced.content, event->replaced.successor);
    case EVENT_CONTENT_MOVED:
        return event->content_moved.number <= newest && core_find_message(core, event->content_moved.number) != 0 &&
               is_proven(core, event->content_moved.content, event->content_moved.number);
    default:
        return false;
    }
}

/* Tries every byte, because anything between two events may be damaged. An event is recognised by its kind and by
 * consistent sizes. */
unsigned core_salvage_broken_frame(struct core_salvage *salvage, struct bytes payload, uint64_t position,
                                   uint64_t time_ms)
{
    ASSERT(salvage->gap_count > 0 && salvage->core->frame.events == NULL);
    unsigned count = 0;
    if (salvage->core->digest_owned == NULL)
        return 0;
    pass_time(salvage->core, time_ms);
    for (size_t at = 0; at < payload.size;) {
        struct bytes rest = bytes_skip(payload, at);
        struct event event;
        const bool is_wanted = rest.ptr[0] == EVENT_SENT || rest.ptr[0] == EVENT_SENT_IN_GROUP ||
                               rest.ptr[0] == EVENT_CONTENT_MOVED || rest.ptr[0] == EVENT_REPLACED;
        if (!is_wanted || !event_decode(&rest, &event) || !is_believed(salvage->core, &event, payload.size)) {
            at++;
            continue;
        }
        /* It may have ended in the same frame, so it counts as a message that no event named since. */
        count += take_event(salvage, &event, position + at + EVENT_HEADER_SIZE, salvage->gap_count - 1);
        at = payload.size - rest.size;
    }
    open_number(salvage); /* events after those are lost, too */
    return count;
}

/* --- what is decided in the new log ------------------------------------------------------------------------------- */

uint32_t core_salvage_slot_end(const struct core *core)
{
    return core->messages.items.slot_end;
}

bool core_salvage_content(const struct core *core, uint32_t slot, struct live_content *content)
{
    const struct message *message = core_message(core, slot);
    if (!message_is_used(message))
        return false;
    *content =
        (struct live_content){.number = message->number, .position = message->position, .size = message->content_size};
    return true;
}

bool core_salvage_find(const struct core *core, uint64_t number, struct live_content *content)
{
    uint32_t slot = core_find_message(core, number);
    return slot != 0 && core_salvage_content(core, slot, content);
}

void decide_lose_message(struct core *core, const struct live_content *content)
{
    ASSERT(core->frame.events != NULL && core_has_content(core, content));
    finish_message(core, core_find_message(core, content->number), END_FAILED);
}

/* The queue for messages without one, made if there is none. */
static const struct queue *open_salvage_queue(struct core *core)
{
    const struct queue *queue = core_find_queue(core, BYTES(SALVAGE_QUEUE_NAME));
    if (queue != NULL)
        return queue;
    struct queue_settings settings = salvage_queue_settings();
    struct buffer encoded;
    buffer_init(&encoded);
    queue_settings_encode(&settings, &encoded);
    core_emit(core, &(struct event){.kind = EVENT_QUEUE_CREATED,
                                    .queue_created = {.queue = core->queues.queue_id + 1,
                                                      .name = BYTES(SALVAGE_QUEUE_NAME),
                                                      .settings = buffer_bytes(&encoded)}});
    buffer_deinit(&encoded);
    return core_find_queue(core, BYTES(SALVAGE_QUEUE_NAME));
}

void decide_send_orphan(struct core *core, struct bytes content)
{
    ASSERT(core->frame.events != NULL);
    const struct queue *queue = open_salvage_queue(core);
    core_emit_sent(core, queue,
                   &(struct event_sent_in_group){.number = core->messages.message_number + 1,
                                                 .queue = queue->id,
                                                 .priority = PRIORITY_DEFAULT,
                                                 .content = content});
}
