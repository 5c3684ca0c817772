#include "relay/sink_http.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/webhook_headers.h"
#include "relay/webhook_transfer.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALL_ROWS_MAX 100u
#define CALL_SIZE_MAX (4u << 20)

/* How long deliver() waits without progress before it leaves the requests under way to the next call. */
#define PATIENCE_MS 100u
/* When such a row must come again; the next call waits again. */
#define PENDING_MS 10u

#define BACKOFF_FIRST_MS 200u
#define BACKOFF_MAX_MS 30000u

/* Rows that failed and were not settled since, the newest ones. */
#define TRIES_MAX 1024u

/* Requests under way, and the ends of those whose rows are still to come again. A call leaves no more than what is
 * under way, and its rows come a moment later, unless a whole call of earlier rows stands before them. If that happens
 * so often that there is no place any more, the end that has waited longest is forgotten and its row sent again: it may
 * be waiting for the very rows that would wait for it. */
#define TRANSFERS_MAX 128u
static_assert(TRANSFERS_MAX > WEBHOOK_REQUESTS_MAX, "an end has a place while all requests are under way");

struct tries {
    struct uid uid;
    unsigned count;
    bool may_have_arrived;
};

struct sink_http {
    struct sink base;
    char *url_owned;
    struct webhook_keys keys;
    struct fault fault; /* of the secret; "": none */
    bool is_at_most_once;
    bool is_strict;
    /* the receiver could not be used the last time it was tried: one request is to find out whether it can */
    bool is_wary;
    unsigned timeout_ms;
    CURLM *multi_owned;
    struct transfer transfers[TRANSFERS_MAX];
    struct tries tries[TRIES_MAX];
    size_t tries_next; /* the index of the next one; it replaces the oldest */
    uint64_t random;   /* state of the generator for jitter; never 0 */
};

static struct sink_http *sink_http_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct sink_http, base);
}

static bool uid_equal(const struct uid *a, const struct uid *b)
{
    return memcmp(a->bytes, b->bytes, UID_SIZE) == 0;
}

/* --- what is remembered of rows that failed ----------------------------------------------------------------------- */

/* NULL: nothing is known of it. A free entry has a count of 0. */
static struct tries *find_tries(struct sink_http *http, const struct uid *uid)
{
    for (size_t i = 0; i < TRIES_MAX; i++)
        if (http->tries[i].count > 0 && uid_equal(&http->tries[i].uid, uid))
            return &http->tries[i];
    return NULL;
}

/* xorshift64* */
static uint64_t draw(struct sink_http *http)
{
    http->random ^= http->random >> 12;
    http->random ^= http->random << 25;
    http->random ^= http->random >> 27;
    return http->random * 0x2545f4914f6cdd1du;
}

/* The pause after attempt number `count`: doubling, less up to a half at random, so that what failed together does not
 * come together. */
static uint32_t backoff_ms(struct sink_http *http, unsigned count)
{
    uint32_t pause_ms = BACKOFF_MAX_MS;
    if (count <= 8 && BACKOFF_FIRST_MS << (count - 1) < BACKOFF_MAX_MS)
        pause_ms = BACKOFF_FIRST_MS << (count - 1);
    return pause_ms - (uint32_t)(draw(http) % (pause_ms / 2 + 1));
}

/* Counts an attempt that is to be repeated, and says when if the receiver did not. */
static void note_failure(struct sink_http *http, struct attempt *attempt)
{
    struct tries *tries = find_tries(http, &attempt->row->uid);
    if (tries == NULL) {
        tries = &http->tries[http->tries_next];
        http->tries_next = (http->tries_next + 1) % TRIES_MAX;
        *tries = (struct tries){.uid = attempt->row->uid};
    }
    tries->count++;
    tries->may_have_arrived = tries->may_have_arrived || attempt->may_have_arrived;
    if (attempt->retry_ms == 0)
        attempt->retry_ms = backoff_ms(http, tries->count);
}

static void forget_failures(struct sink_http *http, const struct uid *uid)
{
    struct tries *tries = find_tries(http, uid);
    if (tries != NULL)
        tries->count = 0;
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

enum row_stage {
    STAGE_WAITING, /* not yet sent */
    STAGE_UNDERWAY,
    STAGE_SETTLED, /* its verdict stands */
};

struct call {
    struct sink_http *http;
    const struct permit *permit;
    struct attempt *attempts;
    size_t count;
    enum row_stage stages[CALL_ROWS_MAX];
    int before[CALL_ROWS_MAX];                 /* the row before it in its group; -1: none */
    struct transfer *transfers[CALL_ROWS_MAX]; /* if underway */
    size_t settled_count;
    uint64_t begun_ms;
    uint64_t progress_ms; /* when something was last begun or settled */
};

static bool is_same_line(const struct call *call, const struct row *a, const struct row *b)
{
    if (call->http->is_strict)
        return true;
    return a->group.size > 0 && bytes_equal(a->group, b->group);
}

static void find_lines(struct call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        int at = (int)i - 1;
        while (at >= 0 && !is_same_line(call, call->attempts[at].row, call->attempts[i].row))
            at--;
        call->before[i] = at;
    }
}

static void settle(struct call *call, size_t index, enum verdict verdict, const char *reason)
{
    struct attempt *attempt = &call->attempts[index];
    attempt->verdict = verdict;
    if (reason != NULL)
        snprintf(attempt->reason, sizeof(attempt->reason), "%s", reason);
    call->stages[index] = STAGE_SETTLED;
    call->settled_count++;
    call->progress_ms = monotonic_ms();
}

/* The row's request has ended: what became of it. */
static void settle_ended(struct call *call, size_t index, struct transfer *transfer)
{
    struct sink_http *http = call->http;
    struct attempt *attempt = &call->attempts[index];
    struct webhook_end end = transfer_end(transfer);
    bool is_down = webhook_judge(&end, http->is_at_most_once, attempt);
    transfer_clear(transfer, http->multi_owned);
    http->base.is_down = http->base.is_down || is_down;
    http->is_wary = is_down;
    if (attempt->verdict == VERDICT_RETRY)
        note_failure(http, attempt);
    else
        forget_failures(http, &attempt->row->uid);
    settle(call, index, attempt->verdict, NULL);
}

static struct transfer *find_transfer(struct sink_http *http, const struct uid *uid)
{
    for (size_t i = 0; i < TRANSFERS_MAX; i++)
        if (http->transfers[i].is_used && uid_equal(&http->transfers[i].uid, uid))
            return &http->transfers[i];
    return NULL;
}

/* A free transfer; NULL: as many as allowed are under way. A transfer that has ended does not count any more. It keeps
 * its result for its row, which waits meanwhile. */
static struct transfer *free_transfer(struct sink_http *http)
{
    struct transfer *empty = NULL, *oldest = NULL;
    size_t underway_count = 0, connecting_count = 0;
    for (size_t i = 0; i < TRANSFERS_MAX; i++) {
        struct transfer *transfer = &http->transfers[i];
        if (!transfer->is_used) {
            empty = empty == NULL ? transfer : empty;
        } else if (!transfer->is_ended) {
            underway_count++;
            connecting_count += transfer->sends == 0;
        } else if (oldest == NULL || transfer->ended_ms < oldest->ended_ms) {
            oldest = transfer;
        }
    }
    if (underway_count >= (http->is_wary ? 1 : WEBHOOK_REQUESTS_MAX) || connecting_count >= WEBHOOK_CONNECTING_MAX)
        return NULL;
    if (empty != NULL)
        return empty;
    ASSERT(oldest != NULL);
    transfer_clear(oldest, http->multi_owned);
    return oldest;
}

static void begin_request(struct call *call, size_t index, struct transfer *transfer)
{
    struct sink_http *http = call->http;
    const struct attempt *attempt = &call->attempts[index];
    const struct row *row = attempt->row;
    const struct tries *tries = find_tries(http, &row->uid);
    unsigned earlier = (tries == NULL ? 0 : tries->count) + (row->receive_count > 1 ? row->receive_count - 1 : 0);
    struct webhook_attempt about = {
        .number = earlier + 1,
        .is_maybe_duplicate =
            attempt->is_repeat || row->receive_count > 1 || (tries != NULL && tries->may_have_arrived),
        .time_s = (uint64_t)time(NULL),
    };
    struct transfer_options options = {
        .url = http->url_owned, .timeout_ms = http->timeout_ms, .is_single_use = http->is_at_most_once};
    transfer_start(transfer, http->multi_owned, &options, row, webhook_headers(row, &about, &http->keys));
}

/* Why no more request may leave in this call; NULL: one may. */
static const char *find_end(const struct call *call)
{
    if (call->http->base.is_down)
        return "the receiver can't be used now, or asks to be left alone for a while";
    if (monotonic_ms() - call->begun_ms >= call->http->timeout_ms)
        return "the rows before it took long";
    if (!call->permit->is_valid(call->permit->context))
        return "the relay's lease may be over";
    return NULL;
}

/* A row that waits: begins its request if its turn has come. */
static void advance_row(struct call *call, size_t index)
{
    struct sink_http *http = call->http;
    struct attempt *attempt = &call->attempts[index];
    int before = call->before[index];
    if (before >= 0 && call->stages[before] != STAGE_SETTLED)
        return;
    if (before >= 0 && call->attempts[before].verdict != VERDICT_DELIVERED) {
        settle(call, index, VERDICT_UNTRIED, "an earlier row of its group comes first");
        return;
    }
    if (http->is_at_most_once && (attempt->is_repeat || attempt->row->receive_count > 1)) {
        settle(call, index, VERDICT_DOUBTED, "a request may have left before, of which no answer is known");
        return;
    }
    struct transfer *transfer = find_transfer(http, &attempt->row->uid);
    if (transfer != NULL && transfer->is_ended) {
        settle_ended(call, index, transfer);
        return;
    }
    const char *end = transfer == NULL ? find_end(call) : NULL;
    if (end != NULL) {
        settle(call, index, VERDICT_UNTRIED, end);
        return;
    }
    if (transfer == NULL && (transfer = free_transfer(http)) != NULL)
        begin_request(call, index, transfer);
    if (transfer == NULL)
        return;
    call->transfers[index] = transfer;
    call->stages[index] = STAGE_UNDERWAY;
    call->progress_ms = monotonic_ms();
}

/* Lets libcurl work, and marks what has ended. */
static void drive(struct sink_http *http)
{
    int running, left;
    CURLMsg *message;
    curl_multi_perform(http->multi_owned, &running);
    while ((message = curl_multi_info_read(http->multi_owned, &left)) != NULL) {
        struct transfer *transfer;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        transfer_finish(transfer, http->multi_owned, message->data.result, monotonic_ms());
    }
}

static void advance(struct call *call)
{
    drive(call->http);
    for (size_t i = 0; i < call->count; i++)
        if (call->stages[i] == STAGE_UNDERWAY && call->transfers[i]->is_ended)
            settle_ended(call, i, call->transfers[i]);
    for (size_t i = 0; i < call->count; i++)
        if (call->stages[i] == STAGE_WAITING)
            advance_row(call, i);
}

/* Leaves the rows that are not settled to the next call. */
static void leave(struct call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct attempt *attempt = &call->attempts[i];
        if (call->stages[i] == STAGE_UNDERWAY) {
            attempt->may_have_arrived = true;
            attempt->is_under_way = true;
            attempt->retry_ms = PENDING_MS;
            settle(call, i, VERDICT_RETRY, "its request is under way");
        } else if (call->stages[i] == STAGE_WAITING) {
            settle(call, i, VERDICT_UNTRIED, "the requests before it are under way");
        }
    }
}

static enum step http_deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                              uint64_t settled, const struct permit *permit, struct fault *fault)
{
    struct sink_http *http = sink_http_of(sink);
    struct call call = {.http = http, .permit = permit, .attempts = attempts, .count = count};
    (void)term;
    (void)settled;
    (void)fault;
    ASSERT(count <= CALL_ROWS_MAX);
    sink->is_down = false;
    call.begun_ms = call.progress_ms = monotonic_ms();
    for (size_t i = 0; i < count; i++) {
        ASSERT(attempts[i].row->kind == ROW_SEND);
        attempts[i].may_have_arrived = false;
        attempts[i].is_under_way = false;
        attempts[i].retry_ms = 0;
        attempts[i].reason[0] = '\0';
    }
    find_lines(&call);
    for (;;) {
        advance(&call);
        if (call.settled_count == count)
            return STEP_OK;
        if (!http->is_at_most_once && monotonic_ms() - call.progress_ms >= PATIENCE_MS)
            leave(&call);
        else
            curl_multi_poll(http->multi_owned, NULL, 0, PATIENCE_MS / 4, NULL);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Cancels requests of another term: their rows belong to another relay now, or come again. */
static enum step http_open(struct sink *sink, const struct term *term, uint64_t *epoch_known, struct row_name **stored,
                           size_t *stored_count, struct arena *arena, struct fault *fault)
{
    struct sink_http *http = sink_http_of(sink);
    (void)term;
    (void)epoch_known;
    (void)arena;
    for (size_t i = 0; i < TRANSFERS_MAX; i++)
        transfer_clear(&http->transfers[i], http->multi_owned);
    *stored = NULL;
    *stored_count = 0;
    if (http->fault.text[0] == '\0')
        return STEP_OK;
    *fault = http->fault;
    return STEP_UNFIT;
}

static void http_close(struct sink *sink)
{
    struct sink_http *http = sink_http_of(sink);
    for (size_t i = 0; i < TRANSFERS_MAX; i++)
        transfer_deinit(&http->transfers[i], http->multi_owned);
    curl_multi_cleanup(http->multi_owned);
    curl_global_cleanup();
    webhook_keys_deinit(&http->keys);
    free(http->url_owned);
    free(http);
}

static const struct sink_ops http_ops = {.open = http_open, .deliver = http_deliver, .close = http_close};

struct sink *sink_http_create(const struct relay_spec *spec)
{
    struct sink_http *http = memory_allocate_zeroed(sizeof(*http));
    struct uid seed;
    uid_generate(&seed);
    http->base = (struct sink){
        .ops = &http_ops,
        .memory = SINK_BLIND,
        .repeats = !spec->is_at_most_once,
        /* What is in a call when the relay is killed is in doubt: no more than is under way at once. */
        .rows_max = spec->is_at_most_once ? WEBHOOK_REQUESTS_MAX : CALL_ROWS_MAX,
        .size_max = CALL_SIZE_MAX,
    };
    http->url_owned = (char *)memory_duplicate(bytes_make(spec->url_owned, strlen(spec->url_owned) + 1)).ptr;
    http->is_at_most_once = spec->is_at_most_once;
    http->is_strict = spec->is_strict;
    http->timeout_ms = spec->timeout_ms != 0 ? spec->timeout_ms : WEBHOOK_TIMEOUT_MS;
    http->random = bytes_get_u64(seed.bytes) | 1;
    if (spec->secret_owned != NULL)
        webhook_keys_read(&http->keys, bytes_from_string(spec->secret_owned), &http->fault);
    curl_global_init(CURL_GLOBAL_DEFAULT); /* counted, and undone in http_close() */
    http->multi_owned = curl_multi_init();
    if (http->multi_owned == NULL)
        abort(); /* out of memory; see base/memory.h */
    /* By itself it keeps four times as many open as there were requests at once. */
    curl_multi_setopt(http->multi_owned, CURLMOPT_MAXCONNECTS, (long)WEBHOOK_REQUESTS_MAX);
    curl_multi_setopt(http->multi_owned, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)WEBHOOK_REQUESTS_MAX);
    return &http->base;
}
