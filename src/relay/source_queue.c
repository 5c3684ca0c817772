#include "relay/source_queue.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/machine_time.h"
#include "relay/queue_leases.h"
#include "relay/queue_parked.h"
#include "relay/sqs_endpoint.h"
#include <stdio.h>
#include <stdlib.h>

/* What may be in hand at most; then nothing is received until some of it is dealt with. */
#define HAND_ROWS_MAX 1000u
#define HAND_SIZE_MAX (64u << 20)
/* At most once, what is in hand when the relay is killed is in doubt afterwards: no more than the sink takes at
 * once. */
#define HAND_ROWS_MAX_ONCE 16u

/* A scan that has so many rows for the worker looks for no more of them. */
#define SCAN_ENOUGH 200u

#define VISIBILITY_S_MIN 2u

/* For how long it is told what the queue did that it must not do. It does that again sooner as a rule: when a message
 * that could not be taken comes back. */
#define WARNING_MS 120000u

/* Messages that were done lately: one whose delete came too late for its handle is not to go out again. */
#define DONE_MAX 1024u

struct source_queue {
    struct source base;
    struct relay_spec spec;
    struct queue_access *access_owned;
    struct tally_client *client_owned; /* of the Tally where the parked ones are */
    struct leased_rows leases;
    struct parked_queue parked;
    struct uid done[DONE_MAX]; /* MessageIds */
    size_t done_count, done_next;
    bool was_empty;          /* the last scan found nothing: the next one may wait for what comes */
    uint64_t stuck_since_ms; /* when there was something first, since the last message left; 0: there is nothing */
    /* Of the scan that is open: */
    struct row_name *in_flight_owned;
    size_t in_flight_count, in_flight_capacity;
    unsigned limit;
    size_t size_max;
};

static struct source_queue *source_of(struct source *source)
{
    return CONTAINER_OF(source, struct source_queue, base);
}

static enum step remove_messages(struct source_queue *queue, const char *const *handles, size_t count,
                                 struct fault *fault)
{
    return queue->access_owned->ops->remove(queue->access_owned, handles, count, fault);
}

/* --- done --------------------------------------------------------------------------------------------------------- */

/* Not where the sink is a Tally queue. Of a queue of the same Tally, what got there left this one in the same
 * record, so a message that comes again did not get there, whatever the sink made of a handle that was too old. And
 * of one from elsewhere the sink itself knows the uid. */
static void note_done(struct source_queue *queue, const struct uid *message_id)
{
    if (queue->spec.sink == SINK_QUEUE)
        return;
    queue->done[queue->done_next] = *message_id;
    queue->done_next = (queue->done_next + 1) % DONE_MAX;
    if (queue->done_count < DONE_MAX)
        queue->done_count++;
}

static bool is_done(const struct source_queue *queue, const struct uid *message_id)
{
    for (size_t i = 0; i < queue->done_count; i++)
        if (memcmp(&queue->done[i], message_id, sizeof(*message_id)) == 0)
            return true;
    return false;
}

/* Deletes them, as far as they are still in hand. */
static enum step settle(struct source_queue *queue, const struct row_name *done, size_t count, struct fault *fault)
{
    struct leased_row **items = memory_allocate((count + 1) * sizeof(struct leased_row *));
    const char **handles = memory_allocate((count + 1) * sizeof(char *));
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        struct leased_row *item = leased_rows_find(&queue->leases, done[i].id, &done[i].uid);
        if (item == NULL)
            continue;
        items[found] = item;
        handles[found++] = item->handle_owned;
    }
    enum step step = remove_messages(queue, handles, found, fault);
    for (size_t i = 0; step == STEP_OK && i < found; i++) {
        note_done(queue, &items[i]->message_id);
        leased_rows_drop(&queue->leases, items[i]);
    }
    free(items);
    free(handles);
    return step;
}

/* --- scanning ----------------------------------------------------------------------------------------------------- */

static enum step queue_begin_scan(struct source *source, const struct term *term, const struct row_name *done,
                                  size_t done_count, const struct row_name *in_flight, size_t in_flight_count,
                                  unsigned limit, size_t size_max, struct fault *fault)
{
    struct source_queue *queue = source_of(source);
    (void)term;
    leased_rows_use(&queue->leases);
    if (done_count > 0)
        queue->stuck_since_ms = 0;
    if (in_flight_count > queue->in_flight_capacity) {
        queue->in_flight_capacity = in_flight_count;
        queue->in_flight_owned =
            memory_resize(queue->in_flight_owned, in_flight_count * sizeof(*queue->in_flight_owned));
    }
    if (in_flight_count > 0)
        memcpy(queue->in_flight_owned, in_flight, in_flight_count * sizeof(*in_flight));
    queue->in_flight_count = in_flight_count;
    queue->limit = limit;
    queue->size_max = size_max;
    return settle(queue, done, done_count, fault);
}

static bool is_in_flight(const struct source_queue *queue, const struct row *row)
{
    for (size_t i = 0; i < queue->in_flight_count; i++)
        if (queue->in_flight_owned[i].id == row->id)
            return true;
    return false;
}

/* Rows in hand that nobody holds back, in their order. */
static size_t count_free(const struct source_queue *queue)
{
    size_t count = 0;
    for (size_t i = 0; i < queue->leases.count; i++)
        count += !is_in_flight(queue, &queue->leases.items_owned[i]->row);
    return count;
}

static void list_free(const struct source_queue *queue, struct rows *rows)
{
    for (size_t i = 0; i < queue->leases.count && rows->count < queue->limit; i++) {
        const struct row *row = &queue->leases.items_owned[i]->row;
        if (is_in_flight(queue, row))
            continue;
        rows_append(rows, row);
        if (rows->size >= queue->size_max)
            return;
    }
}

static void warn(struct source_queue *queue, const struct fault *warning)
{
    memcpy(queue->access_owned->warning, warning->text, sizeof(queue->access_owned->warning));
    queue->access_owned->warned_ms = boottime_ms();
}

/* Takes what a receive gave. */
static void take(struct source_queue *queue, const struct received_messages *messages, uint64_t asked_ms)
{
    for (size_t i = 0; i < messages->count; i++) {
        const struct received *received = &messages->items_owned[i];
        const char *handle = (const char *)received->row.handle.ptr;
        struct fault fault;
        if (is_done(queue, &received->message_id)) {
            remove_messages(queue, &handle, 1, &fault);
        } else if (!leased_rows_take(&queue->leases, &received->row, &received->message_id, asked_ms)) {
            char uid[UID_TEXT_SIZE];
            uid_to_text(&received->message_id, uid);
            fault_set(&fault, STEP_OK,
                      "the source gives two messages with other bodies the MessageId %s: both are carried", uid);
            warn(queue, &fault);
        }
    }
}

/* One receive; *count is how many came. What came is taken also where a part of it failed. */
static enum step receive(struct source_queue *queue, unsigned max, unsigned wait_s, size_t *count, struct fault *fault)
{
    struct received_messages messages;
    uint64_t asked_ms = boottime_ms();
    received_init(&messages);
    enum step step = queue->access_owned->ops->receive(queue->access_owned, max, wait_s, queue->leases.visibility_s,
                                                       &messages, fault);
    *count = messages.count;
    take(queue, &messages, asked_ms);
    received_deinit(&messages);
    return *count > 0 ? STEP_OK : step;
}

/* Receives until there are `limit` rows for the worker, or no more. */
static enum step receive_all(struct source_queue *queue, struct fault *fault)
{
    size_t leased_rows_max = queue->spec.is_at_most_once ? HAND_ROWS_MAX_ONCE : HAND_ROWS_MAX;
    size_t free_count = count_free(queue);
    /* If rows are in hand, the worker must not wait for more. */
    unsigned wait_s = queue->leases.count == 0 && queue->was_empty ? 1 : 0;
    unsigned enough = queue->limit < SCAN_ENOUGH ? queue->limit : SCAN_ENOUGH;
    while (free_count < enough && queue->leases.count < leased_rows_max && queue->leases.size < HAND_SIZE_MAX) {
        size_t count = 0;
        size_t room = leased_rows_max - queue->leases.count, wanted = enough - free_count;
        enum step step = receive(queue, (unsigned)(room < wanted ? room : wanted), wait_s, &count, fault);
        if (step != STEP_OK)
            return step;
        if (count == 0)
            break;
        free_count += count;
        wait_s = 0;
    }
    queue->was_empty = free_count == 0;
    return STEP_OK;
}

static enum step queue_end_scan(struct source *source, struct rows *rows, struct fault *fault)
{
    struct source_queue *queue = source_of(source);
    rows_clear(rows);
    enum step step = receive_all(queue, fault);
    if (step == STEP_OK)
        list_free(queue, rows);
    return step;
}

/* --- parking ------------------------------------------------------------------------------------------------------ */

static void warn_of_kept(struct source_queue *queue, const struct uid *message_id, const char *reason)
{
    struct fault warning;
    char uid[UID_TEXT_SIZE];
    uid_to_text(message_id, uid);
    fault_set(&warning, STEP_OK, "the source gives a message that can't be taken, nor parked, and keeps it: %s: %.300s",
              uid, reason);
    warn(queue, &warning);
}

static enum step queue_park(struct source *source, const struct term *term, const struct row *row, const char *error,
                            bool is_doubted, struct fault *fault)
{
    struct source_queue *queue = source_of(source);
    struct leased_row *item = leased_rows_find(&queue->leases, row->id, &row->uid);
    (void)term;
    if (item == NULL)
        return STEP_OK; /* it was parked by a call before this one, or left to others */
    bool is_taken = true;
    enum step step = parked_queue_put(&queue->parked, row, item->handle_owned, error, is_doubted, &is_taken, fault);
    if (!is_taken) /* it comes again when its timeout is over, and meanwhile the others go on */
        warn_of_kept(queue, &item->message_id, error);
    else if (step == STEP_OK && queue->spec.source == SOURCE_SQS) /* else it left the queue in the same record */
        step = remove_messages(queue, (const char *const[]){item->handle_owned}, 1, fault);
    if (step == STEP_OK)
        leased_rows_drop(&queue->leases, item);
    return step;
}

static enum step queue_list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                                   size_t *count, struct fault *fault)
{
    return parked_queue_list(&source_of(source)->parked, limit, arena, parked, count, fault);
}

static enum step queue_resolve(struct source *source, const struct uid *uid, enum resolution resolution, bool *is_found,
                               struct fault *fault)
{
    return parked_queue_resolve(&source_of(source)->parked, uid, resolution, is_found, fault);
}

/* A queue does not tell the age of its oldest message, and a paused relay receives none. But if no message has left
 * since the queue was first not empty, the oldest is at least that old. */
static uint64_t measure_stay(struct source_queue *queue, uint64_t count)
{
    uint64_t now_ms = boottime_ms();
    if (count == 0)
        queue->stuck_since_ms = 0;
    else if (queue->stuck_since_ms == 0)
        queue->stuck_since_ms = now_ms;
    return count == 0 ? 0 : now_ms - queue->stuck_since_ms;
}

static enum step queue_check_health(struct source *source, struct source_health *health, struct fault *fault)
{
    struct source_queue *queue = source_of(source);
    const struct queue_access *access = queue->access_owned;
    uint64_t waiting = 0, delayed = 0;
    enum step step = access->ops->count(queue->access_owned, &waiting, &delayed, fault);
    if (step != STEP_OK)
        return step;
    *health = (struct source_health){.waiting_count = waiting, .oldest_age_ms = measure_stay(queue, waiting - delayed)};
    if (access->warning[0] != '\0' && boottime_ms() - access->warned_ms < WARNING_MS)
        memcpy(health->warning, access->warning, sizeof(health->warning));
    for (size_t i = 0; i < queue->leases.count; i++) {
        const struct leased_row *item = queue->leases.items_owned[i];
        /* What is moved here may be days old: how long it has waited for this relay is told. */
        uint64_t age_before_ms = queue->spec.source == SOURCE_SQS ? 0 : item->row.age_ms;
        uint64_t age_ms = age_before_ms + (boottime_ms() - item->read_ms);
        if (age_before_ms < AGE_UNKNOWN_MS && age_ms > health->oldest_age_ms)
            health->oldest_age_ms = age_ms;
    }
    return parked_queue_count(&queue->parked, &health->parked_count, fault);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Makes the rows in hand visible to others at once. */
static void queue_give_back(struct source *source)
{
    struct source_queue *queue = source_of(source);
    const char **handles = memory_allocate((queue->leases.count + 1) * sizeof(char *));
    struct fault fault;
    size_t count = leased_rows_list_held(&queue->leases, handles);
    queue->access_owned->ops->hide(queue->access_owned, handles, count, 0, NULL, &fault);
    free(handles);
}

static void queue_interrupt(struct source *source)
{
    struct source_queue *queue = source_of(source);
    queue->access_owned->ops->interrupt(queue->access_owned);
    tally_client_interrupt(queue->client_owned);
}

static void queue_close(struct source *source)
{
    struct source_queue *queue = source_of(source);
    if (queue->access_owned != NULL)
        queue->access_owned->ops->close(queue->access_owned);
    leased_rows_deinit(&queue->leases);
    parked_queue_deinit(&queue->parked);
    tally_client_destroy(queue->client_owned);
    relay_spec_deinit(&queue->spec);
    free(queue->in_flight_owned);
    free(queue);
}

static const struct source_ops queue_ops = {
    .begin_scan = queue_begin_scan,
    .end_scan = queue_end_scan,
    .park = queue_park,
    .check_health = queue_check_health,
    .list_parked = queue_list_parked,
    .resolve = queue_resolve,
    .give_back = queue_give_back,
    .interrupt = queue_interrupt,
    .close = queue_close,
};

struct source *source_queue_create(const struct relay_spec *spec, struct fault *fault)
{
    struct source_queue *queue = memory_allocate_zeroed(sizeof(*queue));
    unsigned visibility_s = (spec->lease_ms + 999) / 1000;
    queue->base.ops = &queue_ops;
    relay_spec_copy(&queue->spec, spec);
    queue->was_empty = true;
    queue->access_owned = queue_access_create(spec, SQS_CONNECTIONS_MAX, fault);
    queue->client_owned = queue_calls_connect(spec, fault);
    parked_queue_init(&queue->parked, queue->client_owned, &queue->spec);
    bool has_leases = leased_rows_init(&queue->leases, spec,
                                       visibility_s > VISIBILITY_S_MIN ? visibility_s : VISIBILITY_S_MIN, fault);
    if (queue->access_owned != NULL && queue->client_owned != NULL && has_leases)
        return &queue->base;
    queue_close(&queue->base);
    return NULL;
}
