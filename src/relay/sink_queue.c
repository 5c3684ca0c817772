#include "relay/sink_queue.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/publish_body.h"
#include <stdio.h>
#include <stdlib.h>

#define ROWS_MAX 1000u
#define SIZE_MAX_OF_ROWS (4u << 20)
#define BODY_SIZE_MIN (64u << 10)

/* A first try ends soon: until it has ended, the caller may keep a statement open in the source (P18). */
#define QUICK_MS 900u
#define PATIENT_MS 10000u

/* After so long no further Publish begins in a call: meanwhile the answer of a scan may wait to be read, and the source
 * must not hold its snapshot for longer than a second (P18). */
#define CALL_MS 100u

/* Calls of a term that may be open at once, in the sense of `settled`. */
#define CALLS_MAX 8u

struct sink_queue {
    struct sink head;
    struct tally_client *quick_owned;
    struct tally_client *patient_owned;
    char *queue_owned; /* where rows go that name none; NULL: nowhere */
    bool is_strict;
    bool blocks_group;
    size_t body_size_max; /* smaller after the server has called a request too large */

    uint64_t batch;               /* the last one that was answered */
    uint64_t calls;               /* of this term */
    uint64_t first_batch;         /* the last one before this term */
    uint64_t batch_of[CALLS_MAX]; /* the last one of each call, by its number modulo CALLS_MAX */

    /* A batch that was sent and not answered is sent again as it is before anything else is. */
    struct buffer body;
    bool is_unknown;
    size_t next; /* the first of the call's attempts that has no verdict */
    size_t end;  /* behind the last one in the body */
};

static struct sink_queue *queue_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct sink_queue, head);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static bool is_code(const struct tally_error *error, const char *code)
{
    return strcmp(error->code, code) == 0;
}

/* What a refused or lost request means for the relay. What isn't known here is taken for something that an operator
 * mends: a right, a limit. It is tried again then, and no row pays for it (P14). */
static enum step judge(const struct tally_client *client, struct fault *fault)
{
    const struct tally_error *error = tally_client_error(client);
    if (error->status == TALLY_REFUSED && is_code(error, "PublisherFenced"))
        return fault_set(fault, STEP_FENCED, "the queue knows a later owner of this outbox: %.300s", error->message);
    if (error->status == TALLY_REFUSED &&
        (is_code(error, "PublisherBatchOutOfOrder") || is_code(error, "PublisherBatchConflict")))
        return fault_set(fault, STEP_UNFIT, "%s: %.300s", error->code, error->message);
    if (error->status == TALLY_REFUSED)
        return fault_set(fault, STEP_UNREACHABLE, "%s answered %s: %.300s", tally_client_endpoint(client), error->code,
                         error->message);
    return fault_set(fault, STEP_UNREACHABLE, "%.400s", error->message);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* The rows that are stored and were never confirmed. False: the answer is not as it must be. */
static bool read_stored(yyjson_val *list, struct row_name **stored, size_t *stored_count, struct arena *arena)
{
    size_t i, max, count = yyjson_arr_size(list);
    struct row_name *names = arena_allocate(arena, (count + 1) * sizeof(*names));
    yyjson_val *item;
    yyjson_arr_foreach(list, i, max, item)
    {
        const char *uid = json_text(item, "Uid");
        names[i].id = json_number(item, "Id");
        if (uid == NULL || names[i].id == 0 || !uid_from_text(bytes_from_string(uid), &names[i].uid))
            return false;
    }
    *stored = names;
    *stored_count = count;
    return true;
}

static enum step read_opened(struct sink_queue *queue, yyjson_val *root, uint64_t *epoch_known,
                             struct row_name **stored, size_t *stored_count, struct arena *arena, struct fault *fault)
{
    uint64_t epoch = json_number(root, "Epoch");
    if (!json_is_true(root, "Accepted")) {
        const char *owner = json_text(root, "Owner");
        *epoch_known = epoch;
        return fault_set(
            fault, STEP_FENCED,
            "the queue knows epoch %llu of this outbox, by owner %.40s. If that is no relay of this database but one "
            "of another copy of it, give one of both an identity of its own: SELECT tally.rekey() (SQLite, MySQL: as "
            "the head of the schema says)",
            (unsigned long long)epoch, owner == NULL ? "unknown" : owner);
    }
    if (!read_stored(yyjson_obj_get(root, "Unconfirmed"), stored, stored_count, arena))
        return fault_set(fault, STEP_UNREACHABLE, "%s answered OpenPublisher with a row that has no Id or no Uid",
                         tally_client_endpoint(queue->patient_owned));
    queue->first_batch = queue->batch = json_number(root, "LastBatch");
    queue->calls = 0;
    queue->is_unknown = false;
    queue->next = queue->end = 0;
    return STEP_OK;
}

static enum step open(struct sink *sink, const struct term *term, uint64_t *epoch_known, struct row_name **stored,
                      size_t *stored_count, struct arena *arena, struct fault *fault)
{
    struct sink_queue *queue = queue_of(sink);
    char publisher[UID_TEXT_SIZE], owner[UID_TEXT_SIZE], body[200];
    struct tally_reply reply = {0};
    uid_to_text(&term->source_id, publisher);
    uid_to_text(&term->owner, owner);
    snprintf(body, sizeof body, "{\"Publisher\":\"%s\",\"Epoch\":%llu,\"Owner\":\"%s\"}", publisher,
             (unsigned long long)term->epoch, owner);
    if (tally_call(queue->patient_owned, "Tally.OpenPublisher", body, &reply) != TALLY_OK)
        return judge(queue->patient_owned, fault);
    enum step step = read_opened(queue, json_root(&reply), epoch_known, stored, stored_count, arena, fault);
    tally_reply_deinit(&reply);
    return step;
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

/* Up to which batch all stored rows have left the source. */
static uint64_t confirmed_batch(const struct sink_queue *queue, uint64_t settled)
{
    ASSERT(settled <= queue->calls && queue->calls - settled < CALLS_MAX);
    return settled == 0 ? queue->first_batch : queue->batch_of[settled % CALLS_MAX];
}

/* Fills the body with the next rows that can be messages; the others are refused here. False: there are none. */
static bool fill_body(struct sink_queue *queue, const struct term *term, struct attempt *attempts, size_t count,
                      uint64_t settled)
{
    const struct publish_head head = {.term = term,
                                      .batch = queue->batch + 1,
                                      .confirmed_batch = confirmed_batch(queue, settled),
                                      .is_strict = queue->is_strict,
                                      .blocks_group = queue->blocks_group};
    size_t added = 0;
    publish_body_begin(&queue->body, &head);
    for (queue->end = queue->next; queue->end < count && added < ROWS_MAX; queue->end++) {
        struct attempt *attempt = &attempts[queue->end];
        size_t start = queue->body.size;
        if (!publish_body_add(&queue->body, attempt->row, queue->queue_owned, attempt->reason)) {
            attempt->verdict = VERDICT_REFUSED;
            if (queue->blocks_group) { /* the server would not know that it holds its group */
                queue->end++;
                break;
            }
            continue;
        }
        if (queue->body.size > queue->body_size_max && added > 0) {
            buffer_truncate(&queue->body, start);
            break;
        }
        attempt->verdict = VERDICT_DELIVERED; /* unless the answer says otherwise */
        added++;
    }
    publish_body_end(&queue->body);
    buffer_append_u8(&queue->body, 0);
    return added > 0;
}

/* One entry of Results. */
static void read_result(struct attempt *attempt, yyjson_val *result)
{
    static const struct {
        const char *status;
        enum verdict verdict;
    } rows[] = {
        {"duplicate", VERDICT_DELIVERED}, {"stale", VERDICT_DELIVERED}, {"too-old", VERDICT_DOUBTED},
        {"refused", VERDICT_REFUSED},     {"blocked", VERDICT_BLOCKED}, {"held", VERDICT_RETRY},
    };
    const char *code = json_text(result, "Code"), *message = json_text(result, "Message");
    const char *status = json_text(result, "Status");
    attempt->verdict = VERDICT_RETRY;
    for (size_t i = 0; status != NULL && i < ARRAY_LENGTH(rows); i++)
        if (strcmp(rows[i].status, status) == 0)
            attempt->verdict = rows[i].verdict;
    attempt->is_duplicate = status != NULL && strcmp(status, "duplicate") == 0;
    if (attempt->verdict == VERDICT_DOUBTED)
        snprintf(
            attempt->reason, sizeof attempt->reason,
            "the queue forgot long ago whether it has this row: it came back with an id among those that were "
            "published and deleted, as after a restored backup. Look for its uid at the consumers, then send it again "
            "or drop it");
    else
        snprintf(attempt->reason, sizeof attempt->reason, "%.80s%s%.200s", code == NULL ? "" : code,
                 code == NULL ? "" : ": ", message == NULL ? "" : message);
}

/* The record was full: this row and all behind it are as if they had not been sent. */
static bool is_put_off(yyjson_val *result)
{
    const char *status = json_text(result, "Status"), *code = json_text(result, "Code");
    return status != NULL && strcmp(status, "blocked") == 0 && code != NULL && strcmp(code, "OverLimit") == 0;
}

static void put_off(struct sink_queue *queue, struct attempt *attempts, size_t at)
{
    for (size_t i = at; i < queue->end; i++)
        attempts[i].verdict = VERDICT_UNTRIED;
    queue->end = at;
    if (at == queue->next) { /* there was no room even for one */
        attempts[at].verdict = VERDICT_RETRY;
        queue->end = at + 1;
    }
}

/* A 200 from something else than a Tally on the way must not pass for rows that are stored. */
static bool accounts_for_all(const struct sink_queue *queue, const struct attempt *attempts, yyjson_val *root)
{
    size_t sent = 0;
    for (size_t i = queue->next; i < queue->end; i++)
        sent += attempts[i].verdict == VERDICT_DELIVERED;
    yyjson_val *results = yyjson_obj_get(root, "Results");
    return yyjson_is_arr(results) && json_number(root, "Stored") + yyjson_arr_size(results) == sent;
}

/* The entries are in the order of the rows, so each search goes on where the last one ended. */
static enum step read_results(struct sink_queue *queue, struct attempt *attempts, yyjson_val *root, struct fault *fault)
{
    size_t i, max, at = queue->next;
    yyjson_val *result;
    if (!accounts_for_all(queue, attempts, root))
        return fault_set(fault, STEP_UNREACHABLE,
                         "%s answered Publish with something that does not account for all rows: is that a Tally?",
                         tally_client_endpoint(queue->quick_owned));
    yyjson_arr_foreach(yyjson_obj_get(root, "Results"), i, max, result)
    {
        uint64_t id = json_number(result, "Id");
        size_t searched = 0, size = queue->end - queue->next;
        while (searched < size && (attempts[at].row->id != id || attempts[at].verdict == VERDICT_REFUSED)) {
            at = at + 1 == queue->end ? queue->next : at + 1;
            searched++;
        }
        if (searched == size)
            return fault_set(fault, STEP_UNFIT, "the answer to Publish names row %llu, which was not sent",
                             (unsigned long long)id);
        if (is_put_off(result)) {
            put_off(queue, attempts, at);
            return STEP_OK;
        }
        read_result(&attempts[at], result);
    }
    return STEP_OK;
}

/* The server's limit is lower than ours: with fewer rows at once, or, if it is a single one, without it. */
static void shrink(struct sink_queue *queue, struct attempt *attempts)
{
    struct attempt *single = NULL;
    size_t sent = 0;
    for (size_t i = queue->next; i < queue->end; i++)
        if (attempts[i].verdict == VERDICT_DELIVERED) {
            single = &attempts[i];
            sent++;
        }
    ASSERT(sent > 0);
    queue->body_size_max = queue->body.size / 2 > BODY_SIZE_MIN ? queue->body.size / 2 : BODY_SIZE_MIN;
    if (sent > 1 && queue->body.size <= BODY_SIZE_MIN)
        queue->body_size_max = queue->body.size / 2;
    if (sent == 1) {
        single->verdict = VERDICT_REFUSED;
        snprintf(single->reason, sizeof single->reason,
                 "RequestTooLarge: as a request the row has %zu bytes, more than the server takes (--body-max)",
                 queue->body.size);
        queue->next = queue->end;
    }
}

static enum step publish(struct sink_queue *queue, struct attempt *attempts, struct fault *fault)
{
    struct tally_client *client = queue->is_unknown ? queue->patient_owned : queue->quick_owned;
    struct tally_reply reply = {0};
    queue->is_unknown = true;
    if (tally_call(client, "Tally.Publish", (const char *)queue->body.data_owned, &reply) != TALLY_OK) {
        const struct tally_error *error = tally_client_error(client);
        if (error->status != TALLY_REFUSED || !is_code(error, "RequestTooLarge"))
            return judge(client, fault);
        queue->is_unknown = false;
        shrink(queue, attempts);
        return STEP_OK;
    }
    enum step step = read_results(queue, attempts, json_root(&reply), fault);
    tally_reply_deinit(&reply);
    if (step == STEP_OK) {
        queue->is_unknown = false;
        queue->batch++;
        queue->next = queue->end;
    }
    return step;
}

/* Has one of the rows just dealt with to stay in the source? Those behind it may be of its group, so no more of them
 * are sent: the server sees to the order within one batch only. */
static bool stays_behind(const struct sink_queue *queue, const struct attempt *attempts, size_t start)
{
    for (size_t i = start; i < queue->next; i++)
        if (attempts[i].verdict == VERDICT_BLOCKED || attempts[i].verdict == VERDICT_RETRY ||
            (attempts[i].verdict == VERDICT_REFUSED && queue->blocks_group))
            return true;
    return false;
}

static enum step deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                         uint64_t settled, const struct permit *permit, struct fault *fault)
{
    struct sink_queue *queue = queue_of(sink);
    uint64_t begun_ms = boottime_ms();
    (void)permit;
    for (bool goes_on = true; goes_on && queue->next < count;) {
        size_t start = queue->next;
        if (queue->is_unknown || fill_body(queue, term, attempts, count, settled)) {
            enum step step = publish(queue, attempts, fault);
            if (step != STEP_OK)
                return step;
        } else {
            queue->next = queue->end;
        }
        goes_on = !stays_behind(queue, attempts, start) && boottime_ms() - begun_ms < CALL_MS;
    }
    for (size_t i = queue->next; i < count; i++) /* also those that were in a body which the server found too large */
        attempts[i].verdict = VERDICT_UNTRIED;
    queue->next = 0;
    queue->calls++;
    queue->batch_of[queue->calls % CALLS_MAX] = queue->batch;
    return STEP_OK;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void interrupt(struct sink *sink)
{
    tally_client_interrupt(queue_of(sink)->quick_owned);
    tally_client_interrupt(queue_of(sink)->patient_owned);
}

static void close(struct sink *sink)
{
    struct sink_queue *queue = queue_of(sink);
    tally_client_destroy(queue->quick_owned);
    tally_client_destroy(queue->patient_owned);
    buffer_deinit(&queue->body);
    free(queue->queue_owned);
    free(queue);
}

static const struct sink_ops ops = {.open = open, .deliver = deliver, .interrupt = interrupt, .close = close};

static bool connect_clients(struct sink_queue *queue, const struct relay_spec *spec, struct fault *fault)
{
    struct tally_options options = {
        .endpoint = spec->endpoint_owned,
        .access_key_id = spec->endpoint_key_id_owned,
        .secret_access_key = spec->endpoint_secret_owned,
        .attempts_max = 1, /* the relay itself says when */
        .timeout_ms = QUICK_MS,
    };
    struct tally_error error;
    if (tally_client_create(&options, &queue->quick_owned, &error) == TALLY_OK) {
        options.timeout_ms = PATIENT_MS;
        if (tally_client_create(&options, &queue->patient_owned, &error) == TALLY_OK)
            return true;
    }
    fault_set(fault, STEP_UNFIT, "%.400s", error.message);
    return false;
}

struct sink *sink_queue_create(const struct relay_spec *spec, struct fault *fault)
{
    struct sink_queue *queue = memory_allocate_zeroed(sizeof(*queue));
    queue->head = (struct sink){
        .ops = &ops,
        .memory = SINK_REMEMBERS,
        .rows_max = ROWS_MAX,
        .size_max = SIZE_MAX_OF_ROWS,
        .takes_acks = true,
        .is_interruptible = true,
    };
    queue->is_strict = spec->is_strict;
    queue->blocks_group = spec->blocks_group;
    queue->body_size_max = SIZE_MAX_OF_ROWS;
    buffer_init(&queue->body);
    if (spec->queue_owned != NULL)
        queue->queue_owned = (char *)memory_duplicate(bytes_make(spec->queue_owned, strlen(spec->queue_owned) + 1)).ptr;
    if (connect_clients(queue, spec, fault))
        return &queue->head;
    close(&queue->head);
    return NULL;
}
