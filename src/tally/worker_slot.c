/* One worker: takes a message, runs its program, keeps the message hidden meanwhile, tells the server how it ended. */
#include "tally/worker_slot.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "tally/process.h"
#include "tally/text.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define RECEIVE_WAIT_S 20
#define UNTIL_EMPTY_WAIT_S 1
#define HEARTBEAT_MIN_MS 200
#define KILL_AFTER_MS 3000 /* from SIGTERM to SIGKILL */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct tally_client *worker_slot_client(struct worker_slot *slot)
{
    return slot->client_owned;
}

struct worker_pool *worker_slot_pool(struct worker_slot *slot)
{
    return slot->pool;
}

/* What the server says of the queue; where it says nothing of that, messages are delivered at least once. */
static enum delivery_mode ask_delivery_mode(struct worker_slot *slot)
{
    enum delivery_mode delivery = DELIVERY_AT_LEAST_ONCE;
    struct json_body body;
    struct tally_reply reply;
    const char *text;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", slot->pool->options->queue);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), "All");
    switch (json_body_call(&body, slot->client_owned, "AmazonSQS.GetQueueAttributes", &reply)) {
    case TALLY_OK:
        break;
    case TALLY_REFUSED: /* Amazon SQS may let us receive and not ask; it has no such mode */
        return DELIVERY_AT_LEAST_ONCE;
    default:
        return DELIVERY_UNKNOWN;
    }
    text = json_text(yyjson_obj_get(json_root(&reply), "Attributes"), "Tally.DeliveryMode");
    if (text != NULL && strcmp(text, "at-most-once") == 0)
        delivery = DELIVERY_AT_MOST_ONCE;
    tally_reply_deinit(&reply);
    return delivery;
}

bool worker_slot_is_at_most_once(struct worker_slot *slot)
{
    struct worker_pool *pool = slot->pool;
    enum delivery_mode delivery;
    pthread_mutex_lock(&pool->mutex);
    delivery = pool->delivery;
    pthread_mutex_unlock(&pool->mutex);
    if (delivery == DELIVERY_UNKNOWN) {
        delivery = ask_delivery_mode(slot);
        pthread_mutex_lock(&pool->mutex);
        pool->delivery = delivery;
        pthread_mutex_unlock(&pool->mutex);
    }
    return delivery == DELIVERY_AT_MOST_ONCE;
}

static void take_in_hand(struct worker_slot *slot, const struct tally_message *message)
{
    pthread_mutex_lock(&slot->pool->mutex);
    slot->message_id_owned = memory_duplicate_string(message->id);
    slot->handle_owned = memory_duplicate_string(message->receipt_handle);
    pthread_mutex_unlock(&slot->pool->mutex);
}

static void let_go(struct worker_slot *slot)
{
    pthread_mutex_lock(&slot->pool->mutex);
    free(slot->message_id_owned);
    free(slot->handle_owned);
    slot->message_id_owned = NULL;
    slot->handle_owned = NULL;
    pthread_mutex_unlock(&slot->pool->mutex);
}

bool worker_slot_renew(struct worker_slot *slot, const char *message_id, const char *receipt_handle)
{
    bool is_ours;
    pthread_mutex_lock(&slot->pool->mutex);
    is_ours = slot->message_id_owned != NULL && strcmp(slot->message_id_owned, message_id) == 0;
    if (is_ours) {
        free(slot->handle_owned);
        slot->handle_owned = memory_duplicate_string(receipt_handle);
    }
    pthread_mutex_unlock(&slot->pool->mutex);
    return is_ours;
}

/* The newest handle of the message in hand, in the slot's arena. */
static const char *current_handle(struct worker_slot *slot)
{
    const char *handle;
    pthread_mutex_lock(&slot->pool->mutex);
    handle = text_format(&slot->arena, "%s", slot->handle_owned);
    pthread_mutex_unlock(&slot->pool->mutex);
    return handle;
}

static void beat(struct worker_slot *slot, const struct tally_message *message, bool *has_complained)
{
    const struct worker_options *options = slot->pool->options;
    if (tally_change_visibility(slot->client_owned, options->queue, current_handle(slot), options->visibility_s) ==
        TALLY_OK)
        return;
    if (!*has_complained)
        complain("message %s: its heartbeat failed, so another worker may get it too: %s", message->id,
                 tally_client_error(slot->client_owned)->message);
    *has_complained = true;
}

/* Ends the child: politely at first, with force when it has had time. */
struct ending {
    uint64_t kill_at_ms; /* 0: not asked yet */
};

static void end_child(struct worker_slot *slot, struct ending *ending)
{
    uint64_t now = worker_now_ms();
    if (ending->kill_at_ms == 0) {
        kill(-slot->child, SIGTERM);
        ending->kill_at_ms = now + KILL_AFTER_MS;
    } else if (now >= ending->kill_at_ms) {
        kill(-slot->child, SIGKILL);
        ending->kill_at_ms = now + KILL_AFTER_MS;
    }
}

/* Waits until the child has exited, sends heartbeats, enforces the time limit and the end of the pool's grace. */
static void supervise(struct worker_slot *slot, const struct tally_message *message, struct worker_end *end)
{
    struct worker_pool *pool = slot->pool;
    const struct worker_options *options = pool->options;
    uint64_t interval_ms = options->visibility_s * 1000ull / 3;
    uint64_t limit_ms = options->time_limit_s == 0 ? UINT64_MAX : worker_now_ms() + options->time_limit_s * 1000ull;
    uint64_t beat_ms;
    bool is_at_most_once = worker_slot_is_at_most_once(slot);
    bool has_complained = false;
    struct ending ending = {.kill_at_ms = 0};

    interval_ms = interval_ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : interval_ms;
    beat_ms = is_at_most_once ? UINT64_MAX : worker_now_ms() + interval_ms;
    pthread_mutex_lock(&pool->mutex);
    while (!slot->has_exited) {
        uint64_t stop_ms = pool->is_stopping ? pool->stop_by_ms : UINT64_MAX;
        uint64_t end_ms = ending.kill_at_ms != 0 ? ending.kill_at_ms : earlier(limit_ms, stop_ms);
        uint64_t now = worker_now_ms();
        if (now >= end_ms) {
            end->was_stopped = end->was_stopped || now >= stop_ms;
            end->was_too_slow = end->was_too_slow || now >= limit_ms;
            end_child(slot, &ending);
        } else if (now >= beat_ms) {
            pthread_mutex_unlock(&pool->mutex);
            beat(slot, message, &has_complained);
            pthread_mutex_lock(&pool->mutex);
            beat_ms = worker_now_ms() + interval_ms;
        } else {
            struct timespec until = worker_time_of(earlier(beat_ms, end_ms));
            pthread_cond_timedwait(&slot->changed, &pool->mutex, &until);
        }
    }
    end->wait_status = slot->wait_status;
    slot->child = 0;
    slot->has_exited = false;
    pthread_mutex_unlock(&pool->mutex);
}

static void run_program(struct worker_slot *slot, const struct tally_message *message, const struct worker_job *job,
                        struct worker_end *end)
{
    struct worker_pool *pool = slot->pool;
    struct process_start start = {
        .path = job->path,
        .argv = job->argv,
        .environment = job->environment,
        .input = job->input,
        .output = job->output,
        .errors = job->errors,
        .mask = &pool->original_mask,
    };

    *end = (struct worker_end){.wait_status = 0};
    pthread_mutex_lock(&pool->mutex); /* reap() must not see the child before the slot knows it */
    slot->child = process_start(&start);
    if (slot->child < 0) {
        end->start_errno = errno;
        slot->child = 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (end->start_errno == 0)
        supervise(slot, message, end);
}

/* Fails the attempt. A server that has no such action (Amazon SQS, Tally 0.1) gets the message back instead. */
static enum tally_status fail_message(struct worker_slot *slot, const char *handle, const char *reason)
{
    const char *queue = slot->pool->options->queue;
    const struct tally_error *error = tally_client_error(slot->client_owned);
    enum tally_status status = tally_fail(slot->client_owned, queue, handle, reason, false);
    if (status == TALLY_REFUSED &&
        (strcmp(error->code, "UnknownOperationException") == 0 || strcmp(error->code, "InvalidAction") == 0))
        return tally_change_visibility(slot->client_owned, queue, handle, 0);
    return status;
}

static enum tally_status settle_once(struct worker_slot *slot, enum worker_verdict verdict, const char *reason)
{
    const struct worker_options *options = slot->pool->options;
    const char *handle = current_handle(slot);
    if (verdict == WORKER_DELETE)
        return tally_delete(slot->client_owned, options->queue, handle);
    if (verdict == WORKER_FAIL)
        return fail_message(slot, handle, reason);
    return tally_change_visibility(slot->client_owned, options->queue, handle,
                                   verdict == WORKER_RETRY ? options->retry_after_s : 0);
}

/* Tells the server what becomes of the message in hand; as often as it takes while the pool goes on. */
static void settle(struct worker_slot *slot, const struct tally_message *message, enum worker_verdict verdict,
                   const char *reason)
{
    const struct tally_error *error = tally_client_error(slot->client_owned);
    if (verdict == WORKER_LEAVE || worker_slot_is_at_most_once(slot))
        return;
    while (settle_once(slot, verdict, reason) != TALLY_OK) {
        if (error->status != TALLY_REFUSED && worker_pool_pause(slot->pool, error))
            continue;
        complain("message %s could not be %s, so it comes back in at most %u s: %s", message->id,
                 verdict == WORKER_DELETE ? "deleted" : "given back", slot->pool->options->visibility_s,
                 error->message);
        return;
    }
}

static void handle(struct worker_slot *slot, const struct tally_message *message)
{
    const struct worker_handler *handler = slot->pool->handler;
    struct worker_job job = {.arena = &slot->arena, .input = -1, .output = -1, .errors = -1};
    struct worker_end end;
    enum worker_verdict verdict;

    take_in_hand(slot, message);
    /* It came at the same moment as the order to stop. One that can't be given back is run all the same. */
    if (!worker_slot_is_at_most_once(slot) && worker_pool_is_stopping(slot->pool))
        verdict = WORKER_GIVE_BACK;
    else
        verdict = handler->accept(handler->context, slot, message, &job);
    if (verdict == WORKER_RUN) {
        run_program(slot, message, &job, &end);
        verdict = handler->finish(handler->context, slot, message, &job, &end);
        ASSERT(verdict != WORKER_RUN);
    }
    settle(slot, message, verdict, job.reason);
    let_go(slot);
    arena_reset(&slot->arena);
}

/* Marks the worker as receiving, so that a stop interrupts it. False when the pool is stopping. */
static bool begin_receive(struct worker_slot *slot)
{
    bool may_receive;
    pthread_mutex_lock(&slot->pool->mutex);
    may_receive = !slot->pool->is_stopping;
    slot->is_receiving = may_receive;
    pthread_mutex_unlock(&slot->pool->mutex);
    return may_receive;
}

static void end_receive(struct worker_slot *slot)
{
    pthread_mutex_lock(&slot->pool->mutex);
    slot->is_receiving = false;
    tally_client_resume(slot->client_owned);
    pthread_mutex_unlock(&slot->pool->mutex);
}

/* Takes the next message. False when there will be none: the pool stops or, if so wanted, the queue is empty. */
static bool take_message(struct worker_slot *slot, struct tally_messages *messages)
{
    const struct worker_options *options = slot->pool->options;
    const struct tally_error *error = tally_client_error(slot->client_owned);
    const struct tally_receive_options receive = {
        .max = 1,
        .has_wait = true,
        .wait_s = options->is_until_empty ? UNTIL_EMPTY_WAIT_S : RECEIVE_WAIT_S,
        .has_visibility = true,
        .visibility_s = options->visibility_s,
    };

    while (begin_receive(slot)) {
        enum tally_status status = tally_receive(slot->client_owned, options->queue, &receive, messages);
        end_receive(slot);
        if (status == TALLY_OK) {
            worker_pool_reached(slot->pool);
            if (messages->count > 0)
                return true;
            tally_messages_deinit(messages);
            if (options->is_until_empty)
                return false;
        } else if (status == TALLY_REFUSED && !options->is_patient && error->http_status < 500 &&
                   strcmp(error->code, "OverLimit") != 0) {
            worker_pool_fail(slot->pool, error);
            return false;
        } else if (status != TALLY_INTERRUPTED && !worker_pool_pause(slot->pool, error)) {
            return false;
        }
    }
    return false;
}

void *worker_slot_main(void *argument)
{
    struct worker_slot *slot = argument;
    struct tally_messages messages;

    while (take_message(slot, &messages)) {
        for (size_t i = 0; i < messages.count; i++)
            handle(slot, &messages.items_owned[i]);
        tally_messages_deinit(&messages);
    }
    pthread_mutex_lock(&slot->pool->mutex);
    slot->pool->running--;
    pthread_mutex_unlock(&slot->pool->mutex);
    kill(getpid(), WORKER_NUDGE);
    return NULL;
}
