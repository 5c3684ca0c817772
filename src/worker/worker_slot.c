/* One worker: takes a message, runs its program, keeps the message hidden meanwhile, tells the server how it ended. */
#include "worker/worker_slot.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include "worker/process.h"
#include "worker/text.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECEIVE_WAIT_S 20
#define UNTIL_EMPTY_WAIT_S 1
#define HEARTBEAT_MIN_MS 200
#define BEAT_WAIT_MIN_MS 2000 /* how long a heartbeat may take; in between, as long as until the next one is due */
#define BEAT_WAIT_MAX_MS 60000
#define BACKOFF_MAX_S 900

struct tally_client *worker_slot_client(struct worker_slot *slot)
{
    return slot->client_owned;
}

struct worker_pool *worker_slot_pool(struct worker_slot *slot)
{
    return slot->pool;
}

/* A number of an attribute whose text is a JSON object; 0: it has none. */
static unsigned read_number(yyjson_val *attributes, const char *attribute, const char *name)
{
    const char *text = json_text(attributes, attribute);
    yyjson_doc *doc = text == NULL ? NULL : json_read(text, strlen(text));
    const unsigned number = (unsigned)json_number(yyjson_doc_get_root(doc), name);
    yyjson_doc_free(doc);
    return number;
}

static void read_facts(yyjson_val *attributes, struct queue_facts *facts)
{
    const char *delivery = json_text(attributes, "Tally.DeliveryMode");
    const unsigned backoff_max_s = read_number(attributes, "Tally.Backoff", "max");
    if (delivery != NULL && strcmp(delivery, "at-most-once") == 0)
        facts->delivery = DELIVERY_AT_MOST_ONCE;
    facts->receive_count_max = read_number(attributes, "RedrivePolicy", "maxReceiveCount");
    facts->backoff_max_s = backoff_max_s == 0 ? BACKOFF_MAX_S : backoff_max_s;
}

/* The reply has all attributes of the queue. Not TALLY_OK: there is none. */
static enum tally_status ask_attributes(struct worker_slot *slot, struct tally_reply *reply)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", slot->pool->options->queue);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), "All");
    return json_body_call(&body, slot->client_owned, "AmazonSQS.GetQueueAttributes", reply);
}

/* What the server says of the queue; where it says nothing of that, messages are delivered at least once. */
static struct queue_facts ask_facts(struct worker_slot *slot)
{
    struct queue_facts facts = {.delivery = DELIVERY_AT_LEAST_ONCE, .backoff_max_s = BACKOFF_MAX_S};
    struct tally_reply reply;

    switch (ask_attributes(slot, &reply)) {
    case TALLY_OK:
        read_facts(yyjson_obj_get(json_root(&reply), "Attributes"), &facts);
        tally_reply_deinit(&reply);
        return facts;
    case TALLY_REFUSED: /* Amazon SQS may let us receive and not ask; it has no such mode */
        return facts;
    default:
        return (struct queue_facts){.delivery = DELIVERY_UNKNOWN};
    }
}

/* Asks at the first time, and again while there is no answer. */
static struct queue_facts queue_facts(struct worker_slot *slot)
{
    struct worker_pool *pool = slot->pool;
    pthread_mutex_lock(&pool->mutex);
    struct queue_facts facts = pool->facts;
    pthread_mutex_unlock(&pool->mutex);
    if (facts.delivery == DELIVERY_UNKNOWN) {
        facts = ask_facts(slot);
        pthread_mutex_lock(&pool->mutex);
        pool->facts = facts;
        pthread_mutex_unlock(&pool->mutex);
    }
    return facts;
}

bool worker_slot_is_at_most_once(struct worker_slot *slot)
{
    return queue_facts(slot).delivery == DELIVERY_AT_MOST_ONCE;
}

/* When a lease that was asked for at asked_ms may end: it lasts nine tenths of its timeout at least. */
static uint64_t lease_end_ms(const struct worker_slot *slot, uint64_t asked_ms)
{
    return asked_ms + slot->pool->options->visibility_s * 900ull;
}

/* A message has just come under this handle. Under the mutex. */
static void take_handle(struct worker_slot *slot, const char *handle)
{
    free(slot->handle_owned);
    slot->handle_owned = memory_duplicate_string(handle);
    slot->beaten_ms = monotonic_ms();
    slot->held_until_ms = lease_end_ms(slot, slot->beaten_ms);
}

static void take_in_hand(struct worker_slot *slot, const struct tally_message *message)
{
    pthread_mutex_lock(&slot->pool->mutex);
    slot->message_id_owned = memory_duplicate_string(message->id);
    take_handle(slot, message->receipt_handle);
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
    if (is_ours)
        take_handle(slot, receipt_handle);
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

/* Is the message in hand still this worker's alone? */
static bool is_held(const struct worker_slot *slot)
{
    pthread_mutex_lock(&slot->pool->mutex);
    bool is_held = slot->held_until_ms > monotonic_ms();
    pthread_mutex_unlock(&slot->pool->mutex);
    return is_held;
}

/* Was no heartbeat even tried for as long as a lease lasts, because this process or its machine stood still? A server
 * that was away is another matter: it gives leases time to be renewed. */
static bool is_overslept(const struct worker_slot *slot)
{
    pthread_mutex_lock(&slot->pool->mutex);
    bool is_overslept = lease_end_ms(slot, slot->beaten_ms) <= monotonic_ms();
    pthread_mutex_unlock(&slot->pool->mutex);
    return is_overslept;
}

static void note_beat(struct worker_slot *slot, uint64_t asked_ms, bool is_good)
{
    pthread_mutex_lock(&slot->pool->mutex);
    slot->beaten_ms = monotonic_ms();
    if (is_good && slot->held_until_ms > asked_ms && slot->held_until_ms < lease_end_ms(slot, asked_ms))
        slot->held_until_ms = lease_end_ms(slot, asked_ms);
    pthread_mutex_unlock(&slot->pool->mutex);
}

static uint64_t beat_interval_ms(const struct worker_slot *slot)
{
    uint64_t interval_ms = slot->pool->options->visibility_s * 1000ull / 3;
    return interval_ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : interval_ms;
}

/* Sends a heartbeat. One without a reply is given up while there is time for another one, which then takes a connection
 * of its own: worker_pool_watch() interrupts it. */
static enum tally_status send_beat(struct worker_slot *slot, uint64_t asked_ms)
{
    const struct worker_options *options = slot->pool->options;
    uint64_t wait_ms = beat_interval_ms(slot);
    wait_ms = wait_ms < BEAT_WAIT_MIN_MS ? BEAT_WAIT_MIN_MS : wait_ms;
    wait_ms = wait_ms > BEAT_WAIT_MAX_MS ? BEAT_WAIT_MAX_MS : wait_ms;
    const char *handle = current_handle(slot);

    pthread_mutex_lock(&slot->pool->mutex);
    slot->beat_until_ms = asked_ms + wait_ms;
    pthread_mutex_unlock(&slot->pool->mutex);
    enum tally_status status =
        tally_change_visibility(slot->client_owned, options->queue, handle, options->visibility_s);
    pthread_mutex_lock(&slot->pool->mutex);
    slot->beat_until_ms = 0;
    tally_client_resume(slot->client_owned);
    pthread_mutex_unlock(&slot->pool->mutex);
    return status;
}

/* Why the last call failed. */
static const char *why_failed(const struct worker_slot *slot)
{
    const struct tally_error *error = tally_client_error(slot->client_owned);
    return error->status == TALLY_INTERRUPTED ? "the server did not answer in time" : error->message;
}

/* Did the server refuse the last call for good? A clock that is off may be set right. */
static bool is_refused(const struct worker_slot *slot)
{
    return tally_client_error(slot->client_owned)->status == TALLY_REFUSED && !slot->client_owned->is_clock_off;
}

/* Tells the user why the last call failed, and pauses. False when the pool is stopping. */
static bool pause_after_failure(struct worker_slot *slot)
{
    struct tally_error error = *tally_client_error(slot->client_owned);
    if (slot->client_owned->is_clock_off)
        error.status = TALLY_UNREACHABLE; /* it is told, as no refusal is */
    return worker_pool_pause(slot->pool, &error);
}

/* Prolongs the lease, unless it may be somebody else's by now. Then the message comes again by itself. */
static void beat(struct worker_slot *slot, const struct tally_message *message, bool *has_complained)
{
    const uint64_t asked_ms = monotonic_ms();
    const char *why = "it came too late";
    if (!is_overslept(slot)) {
        bool is_good = send_beat(slot, asked_ms) == TALLY_OK;
        note_beat(slot, asked_ms, is_good);
        if (is_good)
            return;
        why = why_failed(slot);
    }
    if (!*has_complained)
        worker_pool_report(slot->pool, "message %s: its heartbeat failed, so another worker may get it too: %s",
                           message->id, why);
    *has_complained = true;
}

/* When the next heartbeat is due after one that began then: at once, nearly, if that one was given up. */
static uint64_t next_beat_ms(const struct worker_slot *slot, uint64_t began_ms)
{
    uint64_t at_ms = began_ms + beat_interval_ms(slot), min_ms = monotonic_ms() + HEARTBEAT_MIN_MS;
    return at_ms < min_ms ? min_ms : at_ms;
}

/* Waits until the child has exited, and sends heartbeats. worker_pool_watch() ends the child where it must. */
static void supervise(struct worker_slot *slot, const struct tally_message *message, struct worker_end *end)
{
    struct worker_pool *pool = slot->pool;
    bool has_complained = false;
    uint64_t beat_ms = worker_slot_is_at_most_once(slot) ? UINT64_MAX : next_beat_ms(slot, monotonic_ms());

    pthread_mutex_lock(&pool->mutex);
    while (!slot->has_exited) {
        uint64_t now_ms = monotonic_ms();
        if (now_ms >= beat_ms) {
            pthread_mutex_unlock(&pool->mutex);
            beat(slot, message, &has_complained);
            pthread_mutex_lock(&pool->mutex);
            beat_ms = next_beat_ms(slot, now_ms);
        } else {
            (void)condition_wait_until(&slot->changed, &pool->mutex, beat_ms);
        }
    }
    end->wait_status = slot->wait_status;
    end->was_stopped = slot->was_stopped;
    end->was_too_slow = slot->was_too_slow;
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
    unsigned limit_s = pool->options->time_limit_s;

    *end = (struct worker_end){.wait_status = 0};
    pthread_mutex_lock(&pool->mutex); /* reap() must not see the child before the slot knows it */
    slot->limit_ms = limit_s == 0 ? UINT64_MAX : monotonic_ms() + limit_s * 1000ull;
    slot->kill_at_ms = 0;
    slot->was_stopped = slot->was_too_slow = false;
    slot->child = process_start(&start);
    if (slot->child < 0) {
        end->start_errno = errno;
        slot->child = 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (end->start_errno == 0)
        supervise(slot, message, end);
}

const char *worker_end_text(struct arena *arena, const struct worker_end *end, unsigned time_limit_s)
{
    if (end->start_errno != 0)
        return text_format(arena, "could not be started: %s", strerror(end->start_errno));
    if (end->was_too_slow)
        return text_format(arena, "ran longer than %u s", time_limit_s);
    if (WIFSIGNALED(end->wait_status))
        return text_format(arena, "signal %d", WTERMSIG(end->wait_status));
    return text_format(arena, "exit status %d", WEXITSTATUS(end->wait_status));
}

/* --- telling the server ------------------------------------------------------------------------------------------- */

/* Who gets a dead letter wants it dealt with: it is not thrown away because it had its attempts elsewhere. */
static unsigned attempts_max_for(struct worker_slot *slot, const struct tally_message *message)
{
    const struct worker_options *options = slot->pool->options;
    unsigned of_queue = queue_facts(slot).receive_count_max;
    if (options->has_attempts_max)
        return options->attempts_max;
    if (message->dead_letter_source != NULL)
        return 0;
    return of_queue > WORKER_ATTEMPTS_MAX ? of_queue : WORKER_ATTEMPTS_MAX;
}

/* Makes the message visible again so much later. If somebody else may have it, he would lose it by that, and if nobody
 * has, it comes again anyway: then nothing is done, and job->is_left says so. */
static enum tally_status give_back(struct worker_slot *slot, const char *handle, unsigned wait_s,
                                   struct worker_job *job)
{
    job->is_left = !is_held(slot);
    return job->is_left ? TALLY_OK
                        : tally_change_visibility(slot->client_owned, slot->pool->options->queue, handle, wait_s);
}

/* For a server that has no FailMessage (Amazon SQS): the same back-off. How many attempts there are its RedrivePolicy
 * says. */
static enum tally_status give_back_later(struct worker_slot *slot, const char *handle,
                                         const struct tally_message *message, struct worker_job *job,
                                         struct tally_failed *failed)
{
    const struct worker_options *options = slot->pool->options;
    uint64_t doublings = message->receive_count < 1 ? 0 : message->receive_count - 1;
    unsigned wait_s = doublings < 10 ? 1u << doublings : BACKOFF_MAX_S;
    if (wait_s > BACKOFF_MAX_S)
        wait_s = BACKOFF_MAX_S;
    wait_s -=
        (unsigned)(message->sent_at_ms % (wait_s / 5 + 1)); /* so that what failed together is not tried together */
    if (options->has_retry_after)
        wait_s = options->retry_after_s;
    enum tally_status status = give_back(slot, handle, wait_s, job);
    if (!job->is_left)
        *failed = (struct tally_failed){
            .outcome = "returned", .attempt = message->receive_count, .retry_after_s = (double)wait_s};
    return status;
}

static enum tally_status fail_message(struct worker_slot *slot, const char *handle, const struct tally_message *message,
                                      struct worker_job *job, struct tally_failed *failed)
{
    const struct worker_options *options = slot->pool->options;
    const struct tally_error *error = tally_client_error(slot->client_owned);
    const struct tally_failure failure = {
        .reason = job->reason,
        .has_retry_after = options->has_retry_after,
        .retry_after_s = options->retry_after_s,
        .attempts_max = attempts_max_for(slot, message),
        .dead_letter_queue = options->dead_letter_queue,
    };
    enum tally_status status = tally_fail_attempt(slot->client_owned, options->queue, handle, &failure, failed);
    if (status == TALLY_REFUSED &&
        (strcmp(error->code, "UnknownOperationException") == 0 || strcmp(error->code, "InvalidAction") == 0))
        return give_back_later(slot, handle, message, job, failed);
    return status;
}

static enum tally_status settle_once(struct worker_slot *slot, const struct tally_message *message,
                                     enum worker_verdict verdict, struct worker_job *job, struct tally_failed *failed)
{
    const struct worker_options *options = slot->pool->options;
    const char *handle = current_handle(slot);
    if (verdict == WORKER_DELETE)
        return tally_delete(slot->client_owned, options->queue, handle);
    if (verdict == WORKER_FAIL)
        return fail_message(slot, handle, message, job, failed);
    return give_back(slot, handle, verdict == WORKER_RETRY ? options->retry_after_s : 0, job);
}

/* Tells the server what becomes of the message in hand; as often as it takes while the pool goes on. Returns why it
 * could not be told, in the slot's arena, or NULL. Then has_lost becomes true if an answer was lost: it may have been
 * told. */
static const char *settle(struct worker_slot *slot, const struct tally_message *message, enum worker_verdict verdict,
                          struct worker_job *job, struct tally_failed *failed, bool *has_lost)
{
    if (verdict == WORKER_LEAVE || worker_slot_is_at_most_once(slot))
        return NULL;
    while (settle_once(slot, message, verdict, job, failed) != TALLY_OK) {
        *has_lost = *has_lost || slot->client_owned->has_lost;
        if (is_refused(slot) || !pause_after_failure(slot))
            return text_format(&slot->arena, "%s", why_failed(slot));
    }
    return NULL;
}

/* The pool waits for what failed here and comes again, so much later at the most. */
static void note_return(struct worker_pool *pool, double seconds)
{
    uint64_t at_ms = monotonic_ms() + (uint64_t)(seconds * 1000) + 1;
    pthread_mutex_lock(&pool->mutex);
    pool->retry_by_ms = at_ms > pool->retry_by_ms ? at_ms : pool->retry_by_ms;
    pthread_mutex_unlock(&pool->mutex);
}

/* A message may come again of which nothing is known here, so much later at the most. */
static void note_loss(struct worker_pool *pool, unsigned seconds)
{
    const uint64_t until_ms = monotonic_ms() + seconds * 1000ull;
    pthread_mutex_lock(&pool->mutex);
    if (pool->facts.delivery != DELIVERY_AT_MOST_ONCE && until_ms > pool->lost_by_ms)
        pool->lost_by_ms = until_ms;
    pthread_mutex_unlock(&pool->mutex);
}

/* A FIFO queue refuses so the repeat of a failure that it has taken, when the first answer was lost. Then the message
 * backs off. */
static void note_refused_failure(struct worker_slot *slot)
{
    const struct worker_options *options = slot->pool->options;
    note_loss(slot->pool, options->has_retry_after ? options->retry_after_s : queue_facts(slot).backoff_max_s);
}

/* Was the last request refused because somebody else has the message by now, or could have it? */
static bool is_lost(struct worker_slot *slot)
{
    const char *code = tally_client_error(slot->client_owned)->code;
    return strcmp(code, "ReceiptHandleIsInvalid") == 0 || strcmp(code, "InvalidParameterValue") == 0;
}

/* For what is not a failure. That a message was deleted or given back is told only with a reason. */
static void tell_settled(const struct worker_slot *slot, const struct tally_message *message,
                         enum worker_verdict verdict, const struct worker_job *job)
{
    const char *reason = job->reason == NULL ? "" : job->reason, *comma = job->reason == NULL ? "" : "; ";
    if (job->settle_error != NULL)
        worker_pool_report(slot->pool, "message %s: %s%sit could not be %s, so it comes back in at most %u s: %s",
                           message->id, reason, comma, verdict == WORKER_DELETE ? "deleted" : "given back",
                           slot->pool->options->visibility_s, job->settle_error);
    else if (verdict == WORKER_GIVE_BACK && job->reason != NULL)
        worker_pool_report(slot->pool, "message %s: %s; %s", message->id, job->reason,
                           job->is_left
                               ? "the message is left alone, because our lease was over and another worker may have it"
                               : "the message is given back");
}

/* Does what the verdict says. A failure is told in one line, also if the server did not take it. */
static void conclude(struct worker_slot *slot, const struct tally_message *message, enum worker_verdict verdict,
                     struct worker_job *job)
{
    const struct worker_handler *handler = slot->pool->handler;
    struct tally_failed failed = {.outcome = ""};
    bool has_lost = false;
    job->settle_error = settle(slot, message, verdict, job, &failed, &has_lost);
    if (verdict != WORKER_FAIL) {
        tell_settled(slot, message, verdict, job);
        return;
    }
    if (job->settle_error != NULL && is_lost(slot) && has_lost)
        note_refused_failure(slot);
    else if (job->settle_error != NULL && !is_lost(slot))
        note_return(slot->pool, slot->pool->options->visibility_s);
    else if (strcmp(failed.outcome, "returned") == 0)
        note_return(slot->pool, failed.retry_after_s);
    handler->report(handler->context, slot, message, job, &failed);
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
    conclude(slot, message, verdict, &job);
    let_go(slot);
    arena_reset(&slot->arena);
}

/* --- taking messages ---------------------------------------------------------------------------------------------- */

/* Is a message of the queue in flight, or in its back-off, or is it back since the receive that gave none? It may be
 * one that was lost here, or any other. No answer says nothing, so yes. */
static bool may_come_again(struct worker_slot *slot)
{
    static const char *const names[] = {"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                                        "ApproximateNumberOfMessagesDelayed"};
    struct tally_reply reply;
    bool may_come = false;
    if (ask_attributes(slot, &reply) != TALLY_OK)
        return !is_refused(slot); /* who may not ask does not wait for it */
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *count = json_text(yyjson_obj_get(json_root(&reply), "Attributes"), names[i]);
        may_come = may_come || (count != NULL && strcmp(count, "0") != 0);
    }
    tally_reply_deinit(&reply);
    return may_come;
}

/* Is nothing left, as a receive says that began then and gave nothing? What another worker has in hand may come
 * again. */
static bool is_drained(struct worker_slot *slot, uint64_t began_ms)
{
    struct worker_pool *pool = slot->pool;
    bool is_busy;
    pthread_mutex_lock(&pool->mutex);
    is_busy = began_ms < pool->retry_by_ms;
    const bool has_lost = began_ms < pool->lost_by_ms;
    for (unsigned i = 0; i < pool->options->concurrency && !is_busy; i++)
        is_busy = pool->slots_owned[i].message_id_owned != NULL;
    pthread_mutex_unlock(&pool->mutex);
    return !is_busy && !(has_lost && may_come_again(slot));
}

/* How long a receive waits for a message. */
static unsigned receive_wait_s(struct worker_pool *pool)
{
    uint64_t now_ms = monotonic_ms(), retry_by_ms, wait_s = UNTIL_EMPTY_WAIT_S;
    if (!pool->options->is_until_empty)
        return RECEIVE_WAIT_S;
    pthread_mutex_lock(&pool->mutex);
    retry_by_ms = pool->retry_by_ms;
    pthread_mutex_unlock(&pool->mutex);
    if (retry_by_ms > now_ms)
        wait_s = (retry_by_ms - now_ms) / 1000 + 1;
    return wait_s < RECEIVE_WAIT_S ? (unsigned)wait_s : RECEIVE_WAIT_S;
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
    struct tally_receive_options receive = {
        .max = 1,
        .has_wait = true,
        .has_visibility = true,
        .visibility_s = options->visibility_s,
    };

    while (begin_receive(slot)) {
        uint64_t began_ms = monotonic_ms();
        receive.wait_s = receive_wait_s(slot->pool);
        enum tally_status status = tally_receive(slot->client_owned, options->queue, &receive, messages);
        end_receive(slot);
        /* The server may have given out a message, or may give one yet. It comes again when its lease is over. */
        if (slot->client_owned->has_lost)
            note_loss(slot->pool, receive.wait_s + options->visibility_s);
        if (status == TALLY_OK) {
            worker_pool_reached(slot->pool);
            if (messages->count > 0)
                return true;
            tally_messages_deinit(messages);
            if (options->is_until_empty && is_drained(slot, began_ms))
                return false;
            continue;
        }
        if (is_refused(slot) && !options->is_patient && error->http_status < 500 &&
            strcmp(error->code, "OverLimit") != 0) {
            worker_pool_fail(slot->pool, error);
            return false;
        }
        if (status != TALLY_INTERRUPTED && !pause_after_failure(slot))
            return false;
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
