#include "core/messages/move.h"

#include "core/apply.h"
#include "core/messages/selection.h"
#include "core/snapshot.h"

#include "base/accounted.h"
#include <stdlib.h>

static struct move_task *task_of(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->moves.tasks, slot);
}

void move_init(struct moves *moves)
{
    slab_init(&moves->tasks, sizeof(struct move_task));
    heap_init(&moves->due, &moves->tasks, offsetof(struct move_task, due_index), offsetof(struct move_task, number));
}

void move_deinit(struct core *core)
{
    for (size_t i = 0; i < core_queue_count(core); i++)
        move_forget_queue(core, core_queue_by_name(core, i));
    heap_deinit(&core->moves.due);
    slab_deinit(&core->moves.tasks);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

const struct move_task *move_at(const struct core *core, const struct queue *source, uint32_t index)
{
    ASSERT(index < source->move_count);
    return task_of(core, source->moves[source->move_count - 1 - index]);
}

/* The slot of the running task, or 0: only the newest task can be running. */
static uint32_t running_slot(const struct core *core, const struct queue *source)
{
    uint32_t newest = source->move_count == 0 ? 0 : source->moves[source->move_count - 1];
    return newest != 0 && task_of(core, newest)->status == MOVE_RUNNING ? newest : 0;
}

const struct move_task *move_running(const struct core *core, const struct queue *source)
{
    uint32_t slot = running_slot(core, source);
    return slot == 0 ? NULL : task_of(core, slot);
}

bool move_is_dead_letter_queue(const struct core *core, const struct queue *queue)
{
    if (core_message_list_at(core, queue->message_list)->moved.count > 0)
        return true;
    for (uint32_t i = 0; i < core->queues.order.count; i++)
        if (queue_is_source_of(core_queue(core, name_index_at(&core->queues.order, i)), queue))
            return true;
    return false;
}

const struct queue *move_find_target(const struct core *core, const struct queue *source, struct bytes destination,
                                     const struct message *message, enum move_failure *failure)
{
    *failure = destination.size == 0 && message->origin == 0 ? MOVE_NO_ORIGIN : MOVE_NO_QUEUE;
    if (*failure == MOVE_NO_ORIGIN)
        return NULL;
    struct bytes name = destination.size > 0 ? destination : core_queue(core, message->origin)->name_owned;
    const struct queue *target = core_find_queue(core, name);
    return target == source ? NULL : target;
}

uint32_t move_find_line(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t group = core_group_of(core, message);
    if (!target->settings.is_fifo || group == 0)
        return 0;
    return group_find(core, target->message_list, core_group(core, group)->id_owned);
}

bool move_is_early(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t line = move_find_line(core, message, target);
    return dependency_is_untold(core, message->number) ||
           (line != 0 && list_is_linked(&core_group(core, line)->draining_link));
}

uint64_t move_find_sequence(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t line = move_find_line(core, message, target);
    uint32_t slot = line == 0 ? 0 : dependency_first_in_line(core, message, line);
    if (slot == 0 || (core_group(core, line)->is_held && core_group(core, line)->first == slot))
        return 0;
    const struct message_extra *extra = core_extra_of(core, core_message(core, slot));
    uint64_t before = extra->prev == 0 ? 0 : core_extra_of(core, core_message(core, extra->prev))->sequence;
    return extra->sequence > before + 1 ? before + 1 : before;
}

uint64_t move_due_ms(const struct core *core)
{
    return heap_top_key(&core->moves.due);
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

/* A task may catch up a tenth of a second's moves, so that late frames don't slow it down. */
static struct rate rate_of(const struct move_task *task)
{
    return task->rate == 0
               ? (struct rate){0}
               : (struct rate){.interval_us = (1000000 + task->rate - 1) / task->rate, .burst = task->rate / 10 + 1};
}

/* A running task is in the heap by the time of its next move. One that has looked without finding anything goes behind
 * the others. */
static void set_due(struct core *core, uint32_t slot)
{
    const struct move_task *task = task_of(core, slot);
    struct rate rate = rate_of(task);
    uint64_t due_ms = task->rate == 0 ? task->moved_at_ms : rate_allows_at_ms(&rate, task->rate_tat_us);
    if (task->selection_owned != NULL && due_ms < task->moved_at_ms)
        due_ms = task->moved_at_ms;
    heap_set(&core->moves.due, task->status == MOVE_RUNNING ? due_ms : HEAP_NEVER, slot);
}

static void forget_task(struct core *core, uint32_t slot)
{
    heap_set(&core->moves.due, HEAP_NEVER, slot);
    accounted_replace(&task_of(core, slot)->destination_owned, bytes_make(NULL, 0));
    selection_destroy(task_of(core, slot)->selection_owned);
    task_of(core, slot)->selection_owned = NULL;
    slab_free(&core->moves.tasks, slot);
}

void move_forget_queue(struct core *core, struct queue *source)
{
    while (source->move_count > 0)
        forget_task(core, source->moves[--source->move_count]);
}

/* Adds a task after the others of its source, and removes the oldest if there are too many. */
static struct move_task *add_task(struct core *core, uint64_t number, uint32_t source_slot, uint32_t *slot)
{
    struct queue *source = core_queue(core, source_slot);
    if (source->move_count == MOVES_PER_QUEUE_MAX) {
        forget_task(core, source->moves[0]);
        source->move_count--;
        memmove(source->moves, source->moves + 1, source->move_count * sizeof(source->moves[0]));
    }
    *slot = slab_allocate(&core->moves.tasks);
    source->moves[source->move_count++] = *slot;
    struct move_task *task = task_of(core, *slot);
    *task = (struct move_task){.number = number, .source = source_slot};
    return task;
}

static bool can_begin(const struct core *core, const struct event_move_started *started)
{
    const struct queue *source = core_find_queue_by_id(core, started->source);
    const struct queue *destination = core_find_queue_by_id(core, started->destination);
    return source != NULL && (started->destination == 0 || destination != NULL) && source != destination &&
           started->task == core->moves.number + 1 && started->rate <= MOVE_RATE_MAX && running_slot(core, source) == 0;
}

static void begin(struct core *core, const struct event_move_started *started, struct selection *selection)
{
    const struct queue *destination = core_find_queue_by_id(core, started->destination);
    core->moves.number = started->task;
    uint32_t slot;
    struct move_task *task = add_task(core, started->task, core_find_queue_slot(core, started->source), &slot);
    task->status = MOVE_RUNNING;
    task->selection_owned = selection;
    task->destination = started->destination;
    if (destination != NULL)
        accounted_replace(&task->destination_owned, destination->name_owned);
    task->rate = started->rate;
    task->to_move = started->to_move;
    task->started_at_ms = task->moved_at_ms = core->now_ms;
    struct rate rate = rate_of(task);
    if (task->rate > 0) /* the bucket has one token */
        task->rate_tat_us = core->now_ms * 1000 + rate.interval_us * (rate.burst - 1);
    set_due(core, slot);
}

bool apply_move_started(struct core *core, const struct event_move_started *started)
{
    if (!can_begin(core, started))
        return false;
    begin(core, started, NULL);
    return true;
}

bool apply_selection_started(struct core *core, const struct event_selection_started *started)
{
    const struct event_move_started move = {.task = started->task,
                                            .source = started->source,
                                            .destination = started->destination,
                                            .rate = started->rate,
                                            .to_move = started->to_move};
    if (!can_begin(core, &move) || (started->act == SELECTION_DELETES && started->destination != 0))
        return false;
    struct selection *selection = selection_create(started, core->messages.message_number);
    if (selection != NULL)
        begin(core, &move, selection);
    return selection != NULL;
}

/* Of the running task of that number; else NULL. */
static struct move_task *find_running(const struct core *core, const struct queue *source, uint64_t number,
                                      uint32_t *slot)
{
    *slot = source == NULL ? 0 : running_slot(core, source);
    struct move_task *task = *slot == 0 ? NULL : task_of(core, *slot);
    return task != NULL && task->number == number ? task : NULL;
}

/* One more was moved or deleted. */
static void count_one(const struct core *core, struct move_task *task)
{
    struct rate rate = rate_of(task);
    task->moved++;
    task->moved_at_ms = core->now_ms;
    task->rate_tat_us = rate_after_delivery(&rate, task->rate_tat_us, core->now_ms);
}

bool move_count(struct core *core, const struct queue *source, uint64_t number)
{
    uint32_t slot;
    struct move_task *task = find_running(core, source, number, &slot);
    if (task == NULL || task->moved == task->to_move ||
        (task->selection_owned != NULL && task->selection_owned->act != SELECTION_MOVES))
        return false;
    count_one(core, task);
    set_due(core, slot);
    return true;
}

bool apply_selection_looked(struct core *core, const struct event_selection_looked *looked)
{
    uint32_t slot;
    struct move_task *task = find_running(core, core_find_queue_by_id(core, looked->source), looked->task, &slot);
    if (task == NULL || task->selection_owned == NULL || looked->deleted > task->to_move - task->moved ||
        looked->counted_from_ms > core->now_ms ||
        !selection_look(task->selection_owned, looked, core->messages.message_number))
        return false;
    for (uint32_t i = 0; i < looked->deleted; i++)
        count_one(core, task);
    task->moved_at_ms = core->now_ms;
    set_due(core, slot);
    return true;
}

bool apply_move_ended(struct core *core, const struct event_move_ended *ended)
{
    uint32_t slot;
    struct move_task *task = find_running(core, core_find_queue_by_id(core, ended->source), ended->task, &slot);
    if (task == NULL || ended->status <= MOVE_RUNNING || ended->status > MOVE_FAILED ||
        ended->failure > MOVE_NO_ORIGIN || (ended->status == MOVE_FAILED) != (ended->failure != MOVE_NO_FAILURE))
        return false;
    task->status = (enum move_status)ended->status;
    task->failure = (enum move_failure)ended->failure;
    if (task->selection_owned != NULL)
        selection_end(task->selection_owned);
    set_due(core, slot);
    return true;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

static void write_task(const struct move_task *task, struct buffer *out)
{
    buffer_append_u64(out, task->number);
    buffer_append_u32(out, task->destination);
    buffer_append_sized(out, task->destination_owned);
    buffer_append_u32(out, task->rate);
    buffer_append_u8(out, (uint8_t)task->status);
    buffer_append_u8(out, (uint8_t)task->failure);
    buffer_append_u64(out, task->to_move);
    buffer_append_u64(out, task->moved);
    buffer_append_u64(out, task->started_at_ms);
    buffer_append_u64(out, task->moved_at_ms);
    buffer_append_u64(out, task->rate_tat_us);
}

/* By queue, in order of name; each queue's oldest task first. */
void move_encode(const struct core *core, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, core->moves.number);
    buffer_append_u32(&writer->piece, core->moves.tasks.used);
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        for (uint32_t at = 0; at < queue->move_count; at++) {
            buffer_append_u32(&writer->piece, queue->id);
            write_task(task_of(core, queue->moves[at]), &writer->piece);
            core_writer_pass_on(writer);
        }
    }
}

/* For each task, in the order above, whether it has a selection, and that. */
void move_encode_selections(const struct core *core, struct core_writer *writer)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        for (uint32_t at = 0; at < queue->move_count; at++) {
            const struct selection *selection = task_of(core, queue->moves[at])->selection_owned;
            buffer_append_u8(&writer->piece, selection != NULL);
            if (selection != NULL)
                selection_encode(selection, &writer->piece);
            core_writer_pass_on(writer);
        }
    }
}

static bool task_is_sound(const struct core *core, const struct move_task *task)
{
    return task->number > 0 && task->number <= core->moves.number && task->rate <= MOVE_RATE_MAX &&
           task->status >= MOVE_RUNNING && task->status <= MOVE_FAILED && task->failure <= MOVE_NO_ORIGIN &&
           (task->status == MOVE_FAILED) == (task->failure != MOVE_NO_FAILURE) && task->moved <= task->to_move &&
           task->destination <= core->queues.queue_id &&
           (task->destination == 0) == (task->destination_owned.size == 0) &&
           task->destination_owned.size <= QUEUE_NAME_SIZE_MAX && task->started_at_ms <= task->moved_at_ms &&
           task->moved_at_ms <= core->now_ms;
}

static bool read_task(struct core *core, struct cursor *cursor)
{
    struct queue *source = core_find_queue_by_id(core, cursor_u32(cursor));
    struct move_task read = {.number = cursor_u64(cursor)};
    read.destination = cursor_u32(cursor);
    read.destination_owned = cursor_sized(cursor); /* a view, for now */
    read.rate = cursor_u32(cursor);
    read.status = (enum move_status)cursor_u8(cursor);
    read.failure = (enum move_failure)cursor_u8(cursor);
    read.to_move = cursor_u64(cursor);
    read.moved = cursor_u64(cursor);
    read.started_at_ms = cursor_u64(cursor);
    read.moved_at_ms = cursor_u64(cursor);
    read.rate_tat_us = cursor_u64(cursor);
    if (cursor->is_failed || source == NULL || !task_is_sound(core, &read) ||
        source->move_count == MOVES_PER_QUEUE_MAX || running_slot(core, source) != 0 ||
        (source->move_count > 0 && move_at(core, source, 0)->number >= read.number))
        return false;
    uint32_t slot;
    struct move_task *task = add_task(core, read.number, core_find_queue_slot(core, source->id), &slot);
    read.source = task->source;
    read.destination_owned = accounted_duplicate(read.destination_owned);
    *task = read;
    set_due(core, slot);
    return true;
}

bool move_decode(struct core *core, struct cursor *cursor)
{
    core->moves.number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; i < count; i++)
        if (!read_task(core, cursor))
            return false;
    return !cursor->is_failed;
}

static bool read_selection(struct core *core, struct move_task *task, struct cursor *cursor)
{
    const unsigned has_selection = cursor_u8(cursor);
    if (has_selection == 1)
        task->selection_owned =
            selection_decode(cursor, task->status == MOVE_RUNNING, core->messages.message_number, core->now_ms);
    return !cursor->is_failed && has_selection <= 1 && (has_selection == 1) == (task->selection_owned != NULL);
}

bool move_decode_selections(struct core *core, struct cursor *cursor)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        for (uint32_t at = 0; at < queue->move_count; at++) {
            if (!read_selection(core, task_of(core, queue->moves[at]), cursor))
                return false;
            set_due(core, queue->moves[at]);
        }
    }
    return true;
}

void move_check(const struct core *core)
{
    uint32_t count = 0, running_count = 0;
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        for (uint32_t at = 0; at < queue->move_count; at++) {
            const struct move_task *task = task_of(core, queue->moves[at]);
            bool is_running = task->status == MOVE_RUNNING;
            ASSERT(task->source == name_index_at(&core->queues.order, i) && task_is_sound(core, task));
            ASSERT(task->selection_owned == NULL ||
                   selection_is_sound(task->selection_owned, is_running, core->messages.message_number, core->now_ms));
            ASSERT(at == 0 || task_of(core, queue->moves[at - 1])->number < task->number);
            ASSERT(is_running == (task->due_index != 0) && (!is_running || at == queue->move_count - 1));
            running_count += is_running;
        }
        count += queue->move_count;
    }
    ASSERT(count == core->moves.tasks.used && running_count == core->moves.due.count);
    heap_check(&core->moves.due);
}
