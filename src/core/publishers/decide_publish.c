/* Decisions about publishers. A batch is decided row by row, since one row may send what the next one waits for; what
 * became of all of them is one event, which stands behind what they did, in the same frame. So either all of it is
 * durable or nothing, and a batch whose answer was lost can be asked for again. */
#include "core/publishers/decide_publish.h"
#include "core/messages/decide_message.h"

#include "core/size_bound.h"

/* More than a `published` event takes, but for its rows and results. */
#define PUBLISHED_SIZE 256u

/* At least what any row takes in it without a text. */
#define ROW_SIZE PUBLISHER_ROW_SIZE
#define RESULT_SIZE 16u /* an index, a fate and two sizes */

/* A `publisher_bound` event. */
#define BOUND_SIZE (EVENT_HEADER_SIZE + PUBLISHER_ID_SIZE + 4u + 8u)

/* What may stand in the event before a message that finds room whatever it takes. */
#define ROOM_BEFORE_FIRST (16u << 10)

/* What searches for cycles may take in a batch before its other rows are put off: those of ten messages, as many as any
 * other request sends, and that of one row more. */
#define VISITS_MAX (10u * DEPENDENCY_VISITS_MAX)

enum error decide_open_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t epoch,
                                 const uint8_t owner[PUBLISHER_ID_SIZE], bool *is_accepted)
{
    uint32_t slot = publisher_find_slot(core, id);
    const struct publisher *known = slot == 0 ? NULL : publisher_at(core, slot);
    if (known == NULL && core->publishers.items.used >= PUBLISHERS_MAX)
        return ERROR_OVER_LIMIT; /* a log of a time without this limit may have made more */
    if (known != NULL && epoch <= known->epoch) {
        *is_accepted = epoch == known->epoch && memcmp(owner, known->owner, PUBLISHER_ID_SIZE) == 0;
        return OK;
    }
    struct event event = {.kind = EVENT_PUBLISHER_OPENED, .publisher_opened = {.epoch = epoch}};
    memcpy(event.publisher_opened.publisher, id, PUBLISHER_ID_SIZE);
    memcpy(event.publisher_opened.owner, owner, PUBLISHER_ID_SIZE);
    core_emit(core, &event);
    *is_accepted = true;
    return OK;
}

void decide_claim_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t claim)
{
    ASSERT(claim != 0);
    struct event event = {.kind = EVENT_PUBLISHER_BOUND, .publisher_bound = {.claim = claim}};
    memcpy(event.publisher_bound.publisher, id, PUBLISHER_ID_SIZE);
    core_emit(core, &event);
}

const struct publisher *decide_find_publisher(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE])
{
    uint32_t slot = publisher_find_slot(core, id);
    return slot == 0 ? NULL : publisher_at(core, slot);
}

/* --- the whole batch ---------------------------------------------------------------------------------------------- */

/* Rows that a confirmation of the batches up to that one leaves unconfirmed, or more where they are few. O(rows it
 * confirms). */
static uint32_t count_left(const struct core *core, const struct publisher *publisher, uint64_t confirmed_batch)
{
    uint32_t count = publisher->unconfirmed_count;
    if (count + PUBLISHER_ROWS_MAX <= PUBLISHER_UNCONFIRMED_MAX)
        return count; /* or fewer */
    const struct row_entry *entry = publisher_next_unconfirmed(core, publisher, NULL);
    for (; entry != NULL && entry->since <= confirmed_batch; entry = publisher_next_unconfirmed(core, publisher, entry))
        count--;
    return count;
}

static enum error check_batch(const struct core *core, const struct publish_command *command,
                              const struct publication *publication, bool *is_repeat)
{
    if (publication->publisher == 0)
        return ERROR_PUBLISHER_FENCED;
    const struct publisher *publisher = publisher_at(core, publication->publisher);
    if (command->epoch != publisher->epoch || memcmp(command->owner, publisher->owner, PUBLISHER_ID_SIZE) != 0)
        return ERROR_PUBLISHER_FENCED;
    *is_repeat = command->batch == publisher->batch;
    if (*is_repeat)
        return publication->row_count == publisher->row_count &&
                       digest_tag_equal(publication->digest, publisher->digest)
                   ? OK
                   : ERROR_PUBLISHER_BATCH_CONFLICT;
    if (command->batch != publisher->batch + 1)
        return ERROR_PUBLISHER_BATCH_OUT_OF_ORDER;
    if (count_left(core, publisher, command->confirmed_batch) + publication->row_count > PUBLISHER_UNCONFIRMED_MAX)
        return ERROR_PUBLISHER_IS_FULL;
    return PUBLISHED_SIZE + (uint64_t)publication->row_count * (ROW_SIZE + RESULT_SIZE) <= command->size_max
               ? OK
               : ERROR_OVER_LIMIT;
}

enum error decide_publish_begin(struct core *core, const struct publish_command *command,
                                struct publication *publication, bool *is_repeat)
{
    uint64_t row_count = command->rows.size / PUBLISHER_ROW_SIZE;
    ASSERT(row_count > 0 && row_count <= PUBLISHER_ROWS_MAX && command->rows.size % PUBLISHER_ROW_SIZE == 0);
    ASSERT(command->batch > 0 && command->confirmed_batch < command->batch);
    *publication = (struct publication){
        .command = command,
        .digest = publisher_digest(core, command->rows),
        .publisher = publisher_find_slot(core, command->publisher),
        .row_count = (uint32_t)row_count,
        .frame_size = core->frame.events->size,
    };
    *is_repeat = false;
    enum error error = check_batch(core, command, publication, is_repeat);
    if (error == OK && !*is_repeat)
        publisher_settle(core, publication->publisher);
    return error;
}

void decide_publish_end(struct core *core, struct publication *publication)
{
    ASSERT(publication->next == publication->row_count);
    const struct publish_command *command = publication->command;
    struct event event = {.kind = EVENT_PUBLISHED,
                          .published = {.epoch = command->epoch,
                                        .batch = command->batch,
                                        .confirmed_batch = command->confirmed_batch,
                                        .digest_low = publication->digest.low,
                                        .digest_high = publication->digest.high,
                                        .row_count = publication->row_count,
                                        .rows = buffer_bytes(&publication->rows),
                                        .results = buffer_bytes(&publication->results)}};
    memcpy(event.published.publisher, command->publisher, PUBLISHER_ID_SIZE);
    memcpy(event.published.owner, command->owner, PUBLISHER_ID_SIZE);
    core_emit(core, &event);
}

void decide_publish_deinit(struct publication *publication)
{
    table_deinit(&publication->left);
    buffer_deinit(&publication->left_groups);
    buffer_deinit(&publication->rows);
    buffer_deinit(&publication->results);
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

static const uint8_t *row_at(const struct publication *publication, uint32_t index)
{
    ASSERT(index < publication->row_count);
    return publication->command->rows.ptr + (size_t)index * PUBLISHER_ROW_SIZE;
}

static const uint8_t *uid_of(const uint8_t *row)
{
    return row + sizeof(uint64_t);
}

static void note(struct publication *publication, const struct row_result *result)
{
    struct row_result noted = *result;
    noted.index = publication->next++;
    row_result_encode(&noted, &publication->results);
}

static void note_fate(struct publication *publication, enum row_fate fate)
{
    note(publication, &(struct row_result){.fate = fate});
}

/* Where the next row stands among those that are done, or the free place where it would. */
static uint16_t *find_cell(struct publication *publication)
{
    const uint8_t *uid = uid_of(row_at(publication, publication->next));
    size_t cell = publication->hash % PUBLICATION_CELLS;
    for (;; cell = (cell + 1) % PUBLICATION_CELLS) {
        uint16_t *stored = &publication->stored[cell];
        if (*stored == 0 || memcmp(uid_of(row_at(publication, *stored - 1u)), uid, PUBLISHER_ID_SIZE) == 0)
            return stored;
    }
}

/* The row is done: it is known from now on. */
static void note_done(struct publication *publication, bool is_duplicate)
{
    uint32_t index = publication->next;
    buffer_append(&publication->rows, row_at(publication, index), PUBLISHER_ROW_SIZE);
    *find_cell(publication) = (uint16_t)(index + 1);
    if (is_duplicate)
        note_fate(publication, ROW_DUPLICATE);
    else
        publication->next++;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static struct bytes left_group_at(const struct publication *publication, uint32_t index)
{
    struct bytes group;
    memcpy(&group, publication->left_groups.data_owned + index * sizeof(group), sizeof(group));
    return group;
}

/* Does the row, which nothing else is wrong with, stand behind one that it must not overtake? */
static bool is_held(const struct core *core, const struct publication *publication)
{
    if (!publication->has_left || publication->command->is_strict)
        return publication->has_left;
    if (publication->group.size == 0)
        return false;
    const struct table *left = &publication->left;
    for (struct table_probe probe = table_probe_start(left, digest_name(core->digest_owned, publication->group));
         table_probe_next(left, &probe);)
        if (bytes_equal(left_group_at(publication, probe.slot - 1), publication->group))
            return true;
    return false;
}

/* The row stays behind: it will come again, and what must not overtake it waits for that. */
static void leave_behind(const struct core *core, struct publication *publication)
{
    publication->has_left = true;
    if (publication->group.size == 0 || publication->command->is_strict)
        return;
    buffer_append(&publication->left_groups, &publication->group, sizeof(publication->group));
    table_insert(&publication->left, digest_name(core->digest_owned, publication->group),
                 (uint32_t)(publication->left_groups.size / sizeof(publication->group)));
}

/* --- deciding ----------------------------------------------------------------------------------------------------- */

bool decide_publish_known(const struct core *core, struct publication *publication, struct bytes group)
{
    const uint8_t *row = row_at(publication, publication->next);
    publication->group = group;
    publication->hash = publisher_hash_uid(core, publisher_at(core, publication->publisher), uid_of(row));
    enum row_fate fate = ROW_STALE;
    if (publication->is_full)
        fate = ROW_PUT_OFF;
    else if (publisher_knows(core, publication->publisher, uid_of(row), publication->hash) ||
             *find_cell(publication) != 0)
        fate = ROW_DUPLICATE;
    else if (publisher_has_forgotten(core, publication->publisher, bytes_get_u64(row)))
        fate = ROW_TOO_OLD;
    else if (is_held(core, publication))
        fate = ROW_HELD;
    else
        return false;
    note_fate(publication, fate);
    return true;
}

/* Is there room for this row, beside what there must be for the rows behind it, and time? Else it is put off, and all
 * behind it, so that none overtakes it. The first that does anything finds room whatever it takes, as it would by
 * itself: else it might never. */
static bool has_room(struct core *core, struct publication *publication, uint64_t size)
{
    uint64_t left = publication->row_count - publication->next;
    uint64_t used = core->frame.events->size - publication->frame_size + PUBLISHED_SIZE + publication->rows.size +
                    publication->results.size;
    bool is_first = core->frame.events->size == publication->frame_size && used <= ROOM_BEFORE_FIRST;
    publication->is_full =
        publication->visits >= VISITS_MAX ||
        (!is_first && used + left * (ROW_SIZE + RESULT_SIZE) + size > publication->command->size_max);
    if (publication->is_full)
        note_fate(publication, ROW_PUT_OFF);
    return !publication->is_full;
}

/* Rows of the publisher name that queue. */
static void bind(struct core *core, const struct publication *publication, uint32_t queue)
{
    const struct publisher *publisher = publisher_at(core, publication->publisher);
    if (queue_set_has(&publisher->queues, queue))
        return;
    struct event event = {.kind = EVENT_PUBLISHER_BOUND, .publisher_bound = {.queue = queue}};
    memcpy(event.publisher_bound.publisher, publisher->id, PUBLISHER_ID_SIZE);
    core_emit(core, &event);
}

enum error decide_publish_send(struct core *core, struct publication *publication, const struct send_command *command,
                               struct send_result *result)
{
    if (!has_room(core, publication, BOUND_SIZE + size_bound_of_send(core, command, NULL)))
        return OK;
    enum error error = decide_send(core, command, result);
    publication->visits += result->visits;
    if (error != OK)
        return error;
    bind(core, publication, command->queue->id);
    note_done(publication, result->is_duplicate);
    return error;
}

void decide_publish_delete(struct core *core, struct publication *publication, struct queue *queue, struct bytes handle,
                           struct receipt_use *use)
{
    *use = (struct receipt_use){0};
    uint64_t number = queue == NULL ? 0 : decide_deletable_message(core, queue, handle, use);
    uint32_t message = number == 0 ? 0 : core_find_message(core, number);
    if (message == 0) {
        note_fate(publication, ROW_STALE);
        return;
    }
    if (!has_room(core, publication, BOUND_SIZE + size_bound_of_unit(core, core_message(core, message)->batch, NULL))) {
        *use = (struct receipt_use){0}; /* its turn comes later */
        return;
    }
    bind(core, publication, queue->id);
    enum error error = decide_delete(core, queue, handle, use);
    ASSERT(error == OK);
    note_done(publication, false);
}

void decide_publish_fault(struct core *core, struct publication *publication, enum row_fate fate, struct bytes code,
                          struct bytes text)
{
    ASSERT(fate == ROW_REFUSED || fate == ROW_BLOCKED);
    if (!has_room(core, publication, code.size + text.size))
        return;
    if (fate == ROW_BLOCKED || publication->command->blocks_refused)
        leave_behind(core, publication);
    note(publication, &(struct row_result){.fate = fate, .code = code, .text = text});
}
