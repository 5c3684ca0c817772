#include "tally/run_batch.h"

#include "base/memory.h"
#include "client/json.h"
#include <stdio.h>
#include <stdlib.h>

#define COMPLETION_VISIBILITY_S 10

static bool is_code(const struct tally_client *client, const char *code)
{
    const struct tally_error *error = tally_client_error(client);
    return error->status == TALLY_REFUSED && strcmp(error->code, code) == 0;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static enum tally_status create_queues(struct tally_client *client, const struct run_plan *plan)
{
    static const struct tally_pair keep_long[] = {
        {"MessageRetentionPeriod", "1209600"}}; /* as long as a batch can live */
    enum tally_status status = tally_queue_create(client, plan->work_queue, keep_long, 1, NULL);
    if (status == TALLY_OK)
        status = tally_queue_create(client, plan->result_queue, keep_long, 1, NULL);
    return status;
}

enum tally_status run_batch_open(struct tally_client *client, const struct run_plan *plan, enum run_stage *stage)
{
    const struct tally_target target = {.queue = plan->result_queue};
    const struct tally_batch_options options = {.id = plan->batch, .on_complete = &target};
    struct tally_batch batch;
    enum tally_status status = tally_batch_describe(client, plan->batch, &batch);
    bool is_new = is_code(client, "BatchDoesNotExist");

    if (status != TALLY_OK && !is_new)
        return status;
    if (!is_new && strcmp(batch.state, "completed") == 0) {
        *stage = RUN_COMPLETE;
        return TALLY_OK;
    }
    status = create_queues(client, plan);
    if (status == TALLY_OK && is_new)
        status = tally_batch_create(client, &options, NULL);
    if (status == TALLY_OK)
        *stage = is_new ? RUN_FRESH : RUN_RESUMED;
    return status;
}

/* Deletes a queue that may be gone already. */
static enum tally_status drop_queue(struct tally_client *client, const char *queue)
{
    enum tally_status status = tally_queue_delete(client, queue);
    return is_code(client, "QueueDoesNotExist") ? TALLY_OK : status;
}

enum tally_status run_batch_forget(struct tally_client *client, const struct run_plan *plan)
{
    enum tally_status status = tally_batch_cancel(client, plan->batch);
    if (status == TALLY_OK || is_code(client, "BatchDoesNotExist"))
        status = drop_queue(client, plan->work_queue);
    if (status == TALLY_OK)
        status = drop_queue(client, plan->result_queue);
    if (status == TALLY_OK)
        status = tally_batch_delete(client, plan->batch);
    return is_code(client, "BatchDoesNotExist") ? TALLY_OK : status;
}

enum tally_status run_batch_load(struct tally_client *client, const struct run_plan *plan, struct unit_map *map,
                                 uint64_t *ended, uint64_t *failed)
{
    struct tally_units units = {.count = 0};
    char *token = NULL;
    enum tally_status status;

    *ended = *failed = 0;
    do {
        status = tally_batch_units(client, plan->batch, NULL, token, &units);
        free(token);
        token = NULL;
        if (status != TALLY_OK)
            break;
        for (size_t i = 0; i < units.count; i++) {
            const struct tally_unit *listed = &units.items_owned[i];
            struct unit *unit = unit_map_find(map, listed->key);
            bool is_outstanding = strcmp(listed->state, "outstanding") == 0;
            if (unit == NULL) /* its file has gone, or another process added it */
                unit = unit_map_add(map, memory_duplicate_string(listed->key));
            unit->state = is_outstanding ? UNIT_OUTSTANDING : UNIT_ENDED;
            *ended += !is_outstanding;
            *failed += strcmp(listed->state, "failed") == 0;
        }
        token = units.next_token == NULL ? NULL : memory_duplicate_string(units.next_token);
        tally_units_deinit(&units);
    } while (token != NULL);
    return status;
}

/* ---- Filling ----------------------------------------------------------------------------------------------------- */

/* Sends one message for each text. */
static enum tally_status send_texts(struct tally_client *client, const struct run_plan *plan, const char *const *texts,
                                    size_t count)
{
    enum tally_status status = TALLY_OK;
    size_t size = 0;

    for (size_t start = 0, end = 0; start < count && status == TALLY_OK; start = end) {
        struct tally_outgoing messages[TALLY_SEND_BATCH_MAX] = {{.body = NULL}};
        struct tally_sent sent[TALLY_SEND_BATCH_MAX];
        for (size = 0; end < count && end - start < TALLY_SEND_BATCH_MAX; end++) {
            size += strlen(texts[end]);
            if (end > start && size > 1u << 20) /* the most that one request may have */
                break;
            messages[end - start].body = texts[end];
        }
        status = tally_send_batch(client, plan->work_queue, messages, end - start, sent);
        for (size_t i = 0; i < end - start && status == TALLY_OK; i++)
            if (!sent[i].is_sent) /* again alone, to get its whole error message */
                status = tally_send(client, plan->work_queue, &messages[i], NULL);
    }
    return status;
}

/* Sends and registers the units [0, count), in this order; run_batch.h says why. */
static enum tally_status fill_chunk(struct tally_client *client, const struct run_plan *plan, struct unit **units,
                                    size_t count)
{
    const char *texts[RUN_CHUNK] = {NULL};
    const char *keys[RUN_CHUNK] = {NULL};
    enum tally_status status;

    for (size_t i = 0; i < count; i++) {
        texts[i] = units[i]->text_owned;
        keys[i] = units[i]->key_owned;
    }
    status = send_texts(client, plan, texts, count);
    if (status == TALLY_OK)
        status = tally_batch_add(client, plan->batch, keys, count, NULL);
    for (size_t i = 0; i < count && status == TALLY_OK; i++)
        units[i]->state = UNIT_OUTSTANDING;
    return status;
}

enum tally_status run_batch_fill(struct tally_client *client, const struct run_plan *plan, struct unit_map *map,
                                 uint64_t *left_out)
{
    struct unit *chunk[RUN_CHUNK];
    size_t count = 0;
    struct tally_batch batch;
    enum tally_status status = tally_batch_describe(client, plan->batch, &batch);

    *left_out = 0;
    for (uint32_t i = 0; i < map->count && status == TALLY_OK; i++) {
        struct unit *unit = unit_map_at(map, i);
        if (unit->state != UNIT_NEW)
            continue;
        if (strcmp(batch.state, "open") != 0) {
            ++*left_out;
            continue;
        }
        chunk[count++] = unit;
        if (count == RUN_CHUNK) {
            status = fill_chunk(client, plan, chunk, count);
            count = 0;
        }
    }
    if (status == TALLY_OK && count > 0)
        status = fill_chunk(client, plan, chunk, count);
    if (status == TALLY_OK)
        status = tally_batch_seal(client, plan->batch, NULL);
    return status;
}

/* The text that belongs to a key. It lives as long as the map. */
static const char *find_text(const struct unit_map *map, pthread_mutex_t *mutex, const char *key)
{
    const struct unit *unit;
    pthread_mutex_lock(mutex);
    unit = unit_map_find(map, key);
    pthread_mutex_unlock(mutex);
    return unit == NULL ? key : unit->text_owned;
}

/* Sends the messages of all outstanding units. */
static enum tally_status send_outstanding(struct tally_client *client, const struct run_plan *plan,
                                          const struct unit_map *map, pthread_mutex_t *mutex, uint64_t *sent)
{
    struct tally_units units = {.count = 0};
    char *token = NULL;
    enum tally_status status;

    do {
        const char *texts[RUN_CHUNK];
        size_t count = 0;
        status = tally_batch_units(client, plan->batch, "outstanding", token, &units);
        free(token);
        token = NULL;
        if (status != TALLY_OK)
            break;
        for (size_t i = 0; i < units.count && count < RUN_CHUNK; i++)
            texts[count++] = find_text(map, mutex, units.items_owned[i].key);
        status = send_texts(client, plan, texts, count);
        *sent += count;
        token = units.next_token == NULL ? NULL : memory_duplicate_string(units.next_token);
        tally_units_deinit(&units);
    } while (token != NULL && status == TALLY_OK);
    free(token);
    return status;
}

enum tally_status run_batch_mend(struct tally_client *client, const struct run_plan *plan, const struct unit_map *map,
                                 pthread_mutex_t *mutex, uint64_t *mended)
{
    struct tally_queue_counts counts = {.visible = 0};
    struct tally_batch batch;
    enum tally_status status = tally_queue_count(client, plan->work_queue, &counts);
    *mended = 0;
    if (is_code(client, "QueueDoesNotExist")) {
        status = tally_batch_describe(client, plan->batch, &batch);
        if (status == TALLY_OK &&
            strcmp(batch.state, "completed") == 0) /* the process that saw it first has cleaned up */
            return TALLY_OK;
        if (status == TALLY_OK)
            status = create_queues(client, plan);
    }
    if (status != TALLY_OK || counts.visible + counts.in_flight + counts.delayed > 0)
        return status;
    /* A message is deleted after its unit has ended. So units that are listed now, after the queue was empty, have no
     * message. */
    return send_outstanding(client, plan, map, mutex, mended);
}

/* ---- Completion -------------------------------------------------------------------------------------------------- */

void run_completion_deinit(struct run_completion *completion)
{
    free(completion->body_owned);
    free(completion->handle_owned);
    *completion = (struct run_completion){.total = 0};
}

static void read_message(const struct tally_message *message, struct run_completion *completion)
{
    yyjson_doc *doc = json_read(message->body, message->body_size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    *completion = (struct run_completion){
        .body_owned = memory_duplicate_string(message->body),
        .handle_owned = memory_duplicate_string(message->receipt_handle),
        .total = json_number(root, "total"),
        .succeeded = json_number(root, "succeeded"),
    };
    snprintf(completion->message_id, sizeof completion->message_id, "%s", message->id);
    json_copy(root, "status", completion->status, sizeof completion->status);
    yyjson_doc_free(doc);
}

/* The completion message's body as the server writes it, made from the batch's description. */
static void make_from_batch(const struct tally_batch *batch, struct run_completion *completion)
{
    struct json_body body;
    *completion = (struct run_completion){.total = batch->total, .succeeded = batch->succeeded};
    json_body_init(&body);
    json_add_text(&body, body.root, "batch", batch->id);
    json_add_text(&body, body.root, "status", batch->status);
    json_add_number(&body, body.root, "total", batch->total);
    json_add_number(&body, body.root, "succeeded", batch->succeeded);
    json_add_number(&body, body.root, "failed", batch->failed);
    json_add_number(&body, body.root, "cancelled", batch->cancelled);
    yyjson_mut_obj_add_real(body.doc_owned, body.root, "createdAt", batch->created_at);
    yyjson_mut_obj_add_real(body.doc_owned, body.root, "completedAt", batch->completed_at);
    completion->body_owned = json_write(body.doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(body.doc_owned);
    snprintf(completion->status, sizeof completion->status, "%s", batch->status);
    snprintf(completion->message_id, sizeof completion->message_id, "%s", batch->completion_message_id);
}

/* Receives from the result queue; no message if the queue is gone. Skips messages that are not this run's
 * completion. */
static enum tally_status receive_completion(struct tally_client *client, const struct run_plan *plan, unsigned wait_s,
                                            bool *is_complete, struct run_completion *completion)
{
    const struct tally_receive_options options = {
        .max = 1,
        .has_wait = true,
        .wait_s = wait_s,
        .has_visibility = true,
        .visibility_s = COMPLETION_VISIBILITY_S,
    };
    struct tally_messages messages;
    enum tally_status status = tally_receive(client, plan->result_queue, &options, &messages);

    if (status != TALLY_OK)
        return is_code(client, "QueueDoesNotExist") ? TALLY_OK : status;
    for (size_t i = 0; i < messages.count && !*is_complete; i++) {
        const char *batch = tally_message_attribute(&messages.items_owned[i], "Tally.Batch.Completed");
        if (batch != NULL && strcmp(batch, plan->batch) == 0) {
            read_message(&messages.items_owned[i], completion);
            *is_complete = true;
        }
    }
    tally_messages_deinit(&messages);
    return TALLY_OK;
}

enum tally_status run_batch_completion(struct tally_client *client, const struct run_plan *plan, unsigned wait_s,
                                       bool *is_complete, struct run_completion *completion)
{
    struct tally_batch batch;
    enum tally_status status;

    *is_complete = false;
    status = receive_completion(client, plan, wait_s, is_complete, completion);
    if (status != TALLY_OK || *is_complete)
        return status;
    status = tally_batch_describe(client, plan->batch, &batch);
    if (status != TALLY_OK || strcmp(batch.state, "completed") != 0)
        return status;
    /* Complete: the message came just now, or another process has it, or had it. */
    status = receive_completion(client, plan, 0, is_complete, completion);
    if (status == TALLY_OK && !*is_complete) {
        make_from_batch(&batch, completion);
        *is_complete = true;
    }
    return status;
}

enum tally_status run_batch_close(struct tally_client *client, const struct run_plan *plan,
                                  const struct run_completion *completion)
{
    enum tally_status status = TALLY_OK;
    if (completion->handle_owned != NULL)
        status = tally_delete(client, plan->result_queue, completion->handle_owned);
    if (status == TALLY_OK || is_code(client, "QueueDoesNotExist"))
        status = drop_queue(client, plan->work_queue);
    if (status == TALLY_OK)
        status = drop_queue(client, plan->result_queue);
    return status;
}
