#include "relay/sink_forward.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"
#include "relay/queue_calls.h"
#include "relay/queue_row.h"
#include "relay/sqs_endpoint.h"
#include <stdio.h>
#include <stdlib.h>

#define CALL_ROWS_MAX 200u
#define COMMIT_ROWS_MAX TALLY_COMMIT_SENDS_MAX
/* The sends of one Commit have a mebibyte at most; attributes grow a little on their way. */
#define COMMIT_SIZE_MAX (768u << 10)

struct sink_forward {
    struct sink base;
    struct relay_spec spec;
    struct tally_client *client_owned;
    bool is_fifo;
    bool is_moving; /* the messages come from elsewhere, where the source deletes them afterwards */
};

static struct sink_forward *sink_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct sink_forward, base);
}

/* --- one commit --------------------------------------------------------------------------------------------------- */

static void add_delete(const struct sink_forward *forward, struct json_body *body, yyjson_mut_val *deletes,
                       const struct row *row)
{
    yyjson_mut_val *end = json_append_object(body, deletes);
    json_add_text(body, end, "QueueUrl", forward->spec.source_queue_owned);
    yyjson_mut_obj_add_strncpy(body->doc_owned, end, "ReceiptHandle", (const char *)row->handle.ptr, row->handle.size);
}

static void add_text(struct json_body *body, yyjson_mut_val *send, const char *name, struct bytes text,
                     const char *other)
{
    if (text.size > 0)
        yyjson_mut_obj_add_strncpy(body->doc_owned, send, name, (const char *)text.ptr, text.size);
    else
        yyjson_mut_obj_add_strcpy(body->doc_owned, send, name, other);
}

/* A message from elsewhere is known by its uid, and keeps its own deduplication id and its own Tally.OutboxId. It has
 * waited for its delay already. */
static void add_send(const struct sink_forward *forward, struct json_body *body, yyjson_mut_val *sends,
                     const struct row *row)
{
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    yyjson_mut_val *send = json_append_object(body, sends);
    yyjson_mut_val *attributes = queue_row_add(body, send, forward->spec.queue_owned, row);
    if (forward->is_moving) {
        yyjson_mut_obj_add_strcpy(body->doc_owned, send, "Uid", uid);
        json_add_number(body, send, "DelaySeconds", 0);
    } else {
        queue_row_add_attribute(body, attributes, ROW_UID_ATTRIBUTE, uid);
    }
    if (forward->is_moving && (forward->is_fifo || row->deduplication_id.size > 0))
        add_text(body, send, "MessageDeduplicationId", row->deduplication_id, uid);
    else if (forward->is_fifo)
        yyjson_mut_obj_add_strcpy(body->doc_owned, send, "MessageDeduplicationId", uid);
    if (forward->is_fifo && row->group.size == 0)
        yyjson_mut_obj_add_strcpy(body->doc_owned, send, "MessageGroupId", uid);
}

static enum tally_status commit(struct sink_forward *forward, struct attempt *attempts, size_t count)
{
    struct json_body body;
    json_body_init(&body);
    yyjson_mut_val *sends = json_add_array(&body, body.root, "Sends");
    for (size_t i = 0; i < count; i++)
        add_send(forward, &body, sends, attempts[i].row);
    yyjson_mut_val *deletes = forward->is_moving ? NULL : json_add_array(&body, body.root, "Deletes");
    for (size_t i = 0; deletes != NULL && i < count; i++)
        add_delete(forward, &body, deletes, attempts[i].row);
    struct tally_reply reply = {0};
    enum tally_status status = json_body_call(&body, forward->client_owned, "Tally.Commit", &reply);
    yyjson_val *sent = yyjson_obj_get(json_root(&reply), "Sends");
    /* A 200 from something else than a Tally on the way must not pass for a Commit. */
    if (status == TALLY_OK && yyjson_arr_size(sent) != count)
        status = client_garbled(forward->client_owned, "Tally.Commit");
    for (size_t i = 0; status == TALLY_OK && i < count; i++)
        attempts[i].is_duplicate = json_is_true(yyjson_arr_get(sent, i), "Duplicate");
    tally_reply_deinit(&reply);
    return status;
}

/* --- what became of it -------------------------------------------------------------------------------------------- */

static void set_all(struct attempt *attempts, size_t count, enum verdict verdict, const char *reason)
{
    for (size_t i = 0; i < count; i++) {
        attempts[i].verdict = verdict;
        snprintf(attempts[i].reason, sizeof(attempts[i].reason), "%.*s", (int)sizeof(attempts[i].reason) - 1, reason);
    }
}

/* Its handle is not the newest: a Commit whose answer was lost has done it, or the message went to somebody else, or
 * will. Either way there is nothing left to do for this delivery; if the message comes again it is another one. */
static bool is_overtaken(const struct tally_client *client)
{
    return queue_calls_is_refused(client, "ReceiptHandleIsInvalid");
}

/* The one row of a Commit that was refused because of it. */
static void judge(const struct sink_forward *forward, struct attempt *attempt)
{
    const struct tally_error *error = tally_client_error(forward->client_owned);
    char reason[ROW_REASON_SIZE];
    snprintf(reason, sizeof(reason), "%s: %.200s", error->code, error->message);
    attempt->is_duplicate = is_overtaken(forward->client_owned);
    if (attempt->is_duplicate)
        set_all(attempt, 1, VERDICT_DELIVERED, "");
    else
        set_all(attempt, 1, VERDICT_REFUSED, reason);
}

/* No row can be sent: there is no answer, or it speaks of the queue, of rights, of the server. */
static void set_down(struct sink_forward *forward, struct attempt *attempts, size_t count)
{
    const struct tally_error *error = tally_client_error(forward->client_owned);
    char reason[ROW_REASON_SIZE];
    if (error->status == TALLY_REFUSED) /* which of both is meant, the message says: Deletes or Sends */
        snprintf(reason, sizeof(reason), "from queue %.40s to %.40s: %.60s: %.100s",
                 sqs_shown(forward->spec.source_queue_owned), forward->spec.queue_owned, error->code, error->message);
    else
        snprintf(reason, sizeof(reason), "%.200s", error->message);
    set_all(attempts, count, VERDICT_RETRY, reason);
    forward->base.is_down = true;
}

static bool is_in_line(const struct sink_forward *forward, const struct row *a, const struct row *b)
{
    return forward->spec.is_strict || (a->group.size > 0 && bytes_equal(a->group, b->group));
}

/* Did one of the first `count` rows that stands before this one in its group not get there? */
static bool is_held_up(const struct sink_forward *forward, const struct attempt *attempts, size_t count,
                       const struct row *row)
{
    for (size_t i = 0; i < count; i++)
        if (attempts[i].verdict != VERDICT_DELIVERED && is_in_line(forward, attempts[i].row, row))
            return true;
    return false;
}

/* Sends some rows at once. False: nothing more can be sent in this call. */
static bool send(struct sink_forward *forward, struct attempt *attempts, size_t at, size_t count)
{
    if (commit(forward, attempts + at, count) == TALLY_OK) {
        set_all(attempts + at, count, VERDICT_DELIVERED, "");
        return true;
    }
    /* Together they may be more than one record of the log can hold. */
    bool is_too_much = count > 1 && queue_calls_is_refused(forward->client_owned, "OverLimit");
    if (!queue_calls_is_of_message(forward->client_owned) && !is_overtaken(forward->client_owned) && !is_too_much) {
        set_down(forward, attempts + at, count);
        return false;
    }
    if (count == 1) {
        judge(forward, &attempts[at]);
        return true;
    }
    /* One of them was refused, and nothing was done: each by itself. */
    for (size_t i = at; i < at + count; i++)
        if (!is_held_up(forward, attempts, i, attempts[i].row) && !send(forward, attempts, i, 1))
            return false;
    return true;
}

/* How many rows from `at` on go together: neither too many nor too large, and none that waits for a row before `at`. */
static size_t measure(const struct sink_forward *forward, const struct attempt *attempts, size_t at, size_t count)
{
    size_t size = 0, end = at;
    for (; end < count && end - at < COMMIT_ROWS_MAX; end++) {
        const struct row *row = attempts[end].row;
        size += row->body.size + row->attributes.size;
        if ((end > at && size > COMMIT_SIZE_MAX) || is_held_up(forward, attempts, at, row))
            break;
    }
    return end - at;
}

static enum step forward_deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                                 uint64_t settled, const struct permit *permit, struct fault *fault)
{
    struct sink_forward *forward = sink_of(sink);
    (void)term;
    (void)settled;
    (void)fault;
    sink->is_down = false;
    set_all(attempts, count, VERDICT_UNTRIED, "");
    for (size_t at = 0; at < count && permit->is_valid(permit->context);) {
        size_t some = measure(forward, attempts, at, count);
        if (some > 0 && !send(forward, attempts, at, some))
            break;
        at += some > 0 ? some : 1;
    }
    return STEP_OK;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void forward_interrupt(struct sink *sink)
{
    tally_client_interrupt(sink_of(sink)->client_owned);
}

static void forward_close(struct sink *sink)
{
    struct sink_forward *forward = sink_of(sink);
    tally_client_destroy(forward->client_owned);
    relay_spec_deinit(&forward->spec);
    free(forward);
}

static const struct sink_ops forward_ops = {
    .deliver = forward_deliver, .interrupt = forward_interrupt, .close = forward_close};

struct sink *sink_forward_create(const struct relay_spec *spec, struct fault *fault)
{
    if (spec->queue_owned == NULL) {
        fault_set(fault, STEP_UNFIT, "messages of a queue do not say where they go: the sink must name a queue");
        return NULL;
    }
    struct sink_forward *forward = memory_allocate_zeroed(sizeof(*forward));
    forward->base = (struct sink){
        .ops = &forward_ops,
        .memory = SINK_FORGETS,
        /* A handle is taken once, and a uid known for as long as its source has the message: a repeat can do no
         * harm. */
        .memory_ms = INT64_MAX,
        .repeats = true,
        .is_interruptible = true,
        .rows_max = CALL_ROWS_MAX,
        .size_max = COMMIT_ROWS_MAX * COMMIT_SIZE_MAX,
    };
    relay_spec_copy(&forward->spec, spec);
    forward->is_moving = spec->source == SOURCE_SQS;
    forward->is_fifo = bytes_ends_with(bytes_from_string(spec->queue_owned), BYTES(".fifo"));
    forward->client_owned = queue_calls_connect(spec, fault);
    if (forward->client_owned != NULL)
        return &forward->base;
    forward_close(&forward->base);
    return NULL;
}
