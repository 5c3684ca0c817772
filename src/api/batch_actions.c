/* SealBatch, CancelBatch, DescribeBatch, ListBatches and DeleteBatch. Each is little more than a decision or a
 * description. */
#include "api/reach.h"
#include "api/selection.h"
#include "core/state.h"

/* How many batches one ListBatches looks at. If a filter fits few, a page may hold fewer than MaxResults, or none. */
#define VISITED_MAX 10000u

/* A target as CreateBatch takes it, but for its body and attributes, which want a right of their own. A queue may have
 * been deleted since the batch has completed. */
static void write_target(struct call *call, const char *member, const struct batch_target *target)
{
    const struct queue *queue = target->queue == 0 ? NULL : core_find_queue_by_id(call->core, target->queue);
    if (queue == NULL)
        return;
    writer_object_begin(call->reply, member);
    writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    if (target->group.size > 0)
        writer_text(call->reply, "MessageGroupId", target->group);
    writer_object_end(call->reply);
}

/* What CreateBatch said of it, in its words. The parent may be out of reach where the batch is within. */
static void write_spec(struct call *call, const struct batch *batch)
{
    const struct batch_spec *spec = &batch->spec;
    const struct batch *parent = batch->parent == 0 ? NULL : core_batch(call->core, batch->parent);
    writer_string(call->reply, "Tracking", spec->tracking == BATCH_XOR ? "xor" : "exact");
    if (spec->has_total)
        writer_number(call->reply, "ExpectedTotal", (uint64_t)spec->total + batch->grown);
    if (parent != NULL && !parent->is_deleted && reach_batch(call, parent))
        writer_text(call->reply, "Parent", parent->id_owned);
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        write_target(call, call_target_member(i), &spec->targets[i]);
}

static void write_completion(struct call *call, const struct batch *batch)
{
    struct writer *writer = call->reply;
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    writer_time(writer, "CompletedAt", batch->completed_at_ms);
    if (batch->spec.targets[BATCH_EVENT_COMPLETE - 1].queue == 0)
        return;
    identity_completion(call_digest(call), core_name(call->core), batch->id_owned, batch->number, BATCH_EVENT_COMPLETE,
                        id);
    identity_to_text(id, text);
    writer_text(writer, "CompletionMessageId", bytes_make(text, sizeof(text)));
}

static void write_batch(struct call *call, const struct batch *batch)
{
    struct writer *writer = call->reply;
    struct batch_counts counts = batch_counts(batch);
    writer_text(writer, "BatchId", batch->id_owned);
    writer_string(writer, "State", batch_state_name(batch->state));
    if (batch->state == BATCH_COMPLETED)
        writer_string(writer, "Status", batch_status_name(batch->status));
    writer_number(writer, "Total", counts.total);
    writer_number(writer, "Succeeded", counts.succeeded);
    writer_number(writer, "Failed", counts.failed);
    writer_number(writer, "Cancelled", counts.cancelled);
    writer_number(writer, "Remaining", counts.remaining);
    writer_time(writer, "CreatedAt", batch->created_at_ms);
    if (batch->sealed_at_ms != 0)
        writer_time(writer, "SealedAt", batch->sealed_at_ms);
    if (batch->state == BATCH_COMPLETED)
        write_completion(call, batch);
    write_spec(call, batch);
    if (batch->state != BATCH_COMPLETED)
        writer_time(writer, "ExpiresAt", batch_deadline_ms(batch));
}

enum error action_seal_batch(struct call *call)
{
    const struct batch *batch;
    enum error error = call_batch(call, &batch);
    if (error != OK)
        return error;
    bool is_completed;
    decide_seal_batch(call->core, batch, &is_completed);
    writer_string(call->reply, "State", batch_state_name(batch->state));
    writer_number(call->reply, "Remaining", batch_counts(batch).remaining);
    writer_boolean(call->reply, "Completed", is_completed);
    return OK;
}

static void write_preview(struct call *call, const struct batch *batch)
{
    struct preview preview;
    preview_init(&preview, call->core);
    preview_cancel(&preview, batch);
    selection_write_ends(call, &preview);
    preview_deinit(&preview);
}

enum error action_cancel_batch(struct call *call)
{
    const struct batch *batch;
    bool is_dry_run = false;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        error = selection_read_dry_run(call, &is_dry_run);
    if (error != OK)
        return error;
    if (is_dry_run) {
        write_preview(call, batch);
        return OK;
    }
    decide_cancel_batch(call->core, batch);
    write_batch(call, batch);
    return OK;
}

enum error action_describe_batch(struct call *call)
{
    const struct batch *batch;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        write_batch(call, batch);
    return error;
}

static enum error read_state(struct call *call, enum batch_state *state)
{
    struct bytes text = {NULL, 0};
    enum error error = params_text(&call->params, "State", &text);
    *state = 0;
    if (error != OK || text.ptr == NULL)
        return error;
    for (enum batch_state known = BATCH_OPEN; known <= BATCH_COMPLETED; known++)
        if (bytes_equal(text, bytes_from_string(batch_state_name(known))))
            *state = known;
    return *state != 0 ? OK : params_invalid(&call->params, "State", text, "It must be open, sealed or completed.");
}

/* The cost of looking at a batch: its reach may be checked for each of its queues. */
static unsigned cost_of(const struct call *call, const struct batch *batch)
{
    return reach_is_confined(call) ? 1 + batch->queues.count : 1;
}

enum error action_list_batches(struct call *call)
{
    enum batch_state state;
    struct bytes prefix = {NULL, 0};
    uint64_t from = 0;
    int64_t results_max;
    enum error error = read_state(call, &state);
    if (error == OK)
        error = params_text(&call->params, "Prefix", &prefix);
    if (error == OK)
        error = call_page(call, &from, &results_max);
    if (error != OK)
        return error;
    const struct batch *batch = core_next_batch(call->core, from);
    int64_t count = 0;
    unsigned visited = 0;
    writer_list_begin(call->reply, "Batches");
    while (batch != NULL && visited < VISITED_MAX) {
        bool fits = (state == 0 || batch->state == state) && bytes_starts_with(batch->id_owned, prefix) &&
                    reach_batch(call, batch);
        /* If only batches out of reach follow, a token would reveal them. */
        if (count == results_max && (fits || !reach_is_confined(call)))
            break;
        if (fits) {
            count++;
            writer_object_begin(call->reply, NULL);
            write_batch(call, batch);
            writer_object_end(call->reply);
        }
        visited += cost_of(call, batch);
        batch = core_next_batch(call->core, batch->number + 1);
    }
    writer_list_end(call->reply);
    if (batch != NULL)
        call_write_token(call, &batch->number, 1);
    return OK;
}

enum error action_delete_batch(struct call *call)
{
    const struct batch *batch;
    enum error error = call_batch(call, &batch);
    if (error != OK)
        return error;
    error = decide_delete_batch(call->core, batch);
    if (error == ERROR_BATCH_NOT_COMPLETED)
        return call_fail(call, error, "Batch '%.*s' is %s; only a completed batch can be deleted. Cancel it first.",
                         BYTES_FORMAT(batch->id_owned), batch_state_name(batch->state));
    return error;
}
