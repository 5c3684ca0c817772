#include "matcher/async_calls.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include <pthread.h>
#include <stdlib.h>

#define FEED_AHEAD_MAX 16 /* answers of the feed that nobody has read yet */
#define RETRY_MS 300u

struct async_call {
    struct async_call *next;
    char *body_owned;
    void *batch;
};

struct async_calls {
    struct async_calls_options options;
    pthread_mutex_t lock; /* everything below, but not the clients */
    pthread_cond_t has_changed;
    struct call_answer *answer_first, *answer_last;
    struct async_call *first, *last; /* to be sent */
    unsigned feed_ahead;
    uint64_t from;
    bool is_feeding;
    bool is_stopping;
    bool has_complained;
    struct tally_client *clients[PROPOSERS_MAX + 1]; /* the feed's first */
    pthread_t threads[PROPOSERS_MAX + 1];
    unsigned thread_count;
    unsigned next_client;
};

static void post(struct async_calls *calls, struct call_answer *answer)
{
    pthread_mutex_lock(&calls->lock);
    if (calls->answer_last == NULL)
        calls->answer_first = answer;
    else
        calls->answer_last->next = answer;
    calls->answer_last = answer;
    if (answer->kind == ANSWER_FEED)
        calls->feed_ahead++;
    pthread_cond_broadcast(&calls->has_changed);
    pthread_mutex_unlock(&calls->lock);
}

static bool is_stopping(struct async_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    bool is = calls->is_stopping;
    pthread_mutex_unlock(&calls->lock);
    return is;
}

bool async_calls_repeats(struct async_calls *calls, const struct tally_error *error)
{
    bool is_away = error->status == TALLY_UNREACHABLE || error->http_status >= 500;
    pthread_mutex_lock(&calls->lock);
    bool is_news = calls->has_complained != is_away && !calls->is_stopping;
    if (is_news)
        calls->has_complained = is_away;
    pthread_mutex_unlock(&calls->lock);
    if (is_news)
        calls->options.note(calls->options.context, is_away ? error->message : "the server is there again");
    return is_away;
}

/* Calls until there is an answer, or the calls end; then the error is TALLY_INTERRUPTED. */
static void call(struct async_calls *calls, struct tally_client *client, const char *target, const char *body,
                 struct call_answer *answer)
{
    for (;;) {
        (void)tally_call(client, target, body, &answer->reply); /* what it came to, the client's error says */
        answer->error = *tally_client_error(client);
        if (!async_calls_repeats(calls, &answer->error) || is_stopping(calls))
            return;
        sleep_for(RETRY_MS);
    }
}

/* --- The feed ----------------------------------------------------------------------------------------------------- */

/* Waits until the feed may be read on; false: it is over. */
static bool wait_for_turn(struct async_calls *calls, uint64_t *from)
{
    pthread_mutex_lock(&calls->lock);
    while (!calls->is_stopping && (!calls->is_feeding || calls->feed_ahead >= FEED_AHEAD_MAX))
        pthread_cond_wait(&calls->has_changed, &calls->lock);
    bool goes_on = !calls->is_stopping;
    *from = calls->from;
    pthread_mutex_unlock(&calls->lock);
    return goes_on;
}

/* The request. The caller frees it. */
static char *make_feed(const struct async_calls *calls, uint64_t from)
{
    const struct async_calls_options *options = &calls->options;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", options->pool);
    json_add_number(&body, body.root, "From", from);
    json_add_number(&body, body.root, "WaitTimeSeconds", options->wait_s);
    if (options->parts > 0) {
        json_add_number(&body, body.root, "Part", options->part);
        json_add_number(&body, body.root, "Parts", options->parts);
    }
    char *text = json_write(body.doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(body.doc_owned);
    ASSERT(text != NULL); /* the server knows the pool, so its name is a text */
    return text;
}

static void *follow_feed(void *context)
{
    struct async_calls *calls = context;
    uint64_t from;
    bool is_good = true;
    while (is_good && wait_for_turn(calls, &from)) {
        char *body = make_feed(calls, from);
        struct call_answer *answer = memory_allocate_zeroed(sizeof *answer);
        call(calls, calls->clients[0], "Tally.FeedTickets", body, answer);
        free(body);
        answer->kind = ANSWER_FEED;
        is_good = answer->error.status == TALLY_OK;
        pthread_mutex_lock(&calls->lock);
        if (is_good) {
            calls->from = json_number(json_root(&answer->reply), "Next");
            calls->is_feeding = !json_is_true(json_root(&answer->reply), "Resync");
        }
        pthread_mutex_unlock(&calls->lock);
        post(calls, answer);
    }
    return NULL;
}

void async_calls_feed_from(struct async_calls *calls, uint64_t from)
{
    pthread_mutex_lock(&calls->lock);
    calls->from = from;
    calls->is_feeding = true;
    pthread_cond_broadcast(&calls->has_changed);
    pthread_mutex_unlock(&calls->lock);
}

/* --- Proposals ---------------------------------------------------------------------------------------------------- */

static struct async_call *wait_for_call(struct async_calls *calls, struct tally_client **client)
{
    struct async_call *async_call;
    pthread_mutex_lock(&calls->lock);
    if (*client == NULL)
        *client = calls->clients[++calls->next_client];
    while (calls->first == NULL && !calls->is_stopping)
        pthread_cond_wait(&calls->has_changed, &calls->lock);
    async_call = calls->is_stopping ? NULL : calls->first;
    if (async_call != NULL) {
        calls->first = async_call->next;
        calls->last = calls->first == NULL ? NULL : calls->last;
    }
    pthread_mutex_unlock(&calls->lock);
    return async_call;
}

static void *propose(void *context)
{
    struct async_calls *calls = context;
    struct tally_client *client = NULL;
    struct async_call *async_call;
    while ((async_call = wait_for_call(calls, &client)) != NULL) {
        struct call_answer *answer = memory_allocate_zeroed(sizeof *answer);
        call(calls, client, "Tally.ProposeMatches", async_call->body_owned, answer);
        answer->kind = ANSWER_PROPOSED;
        answer->batch = async_call->batch;
        free(async_call->body_owned);
        free(async_call);
        post(calls, answer);
    }
    return NULL;
}

void async_calls_propose(struct async_calls *calls, char *body_owned, void *batch)
{
    struct async_call *async_call = memory_allocate_zeroed(sizeof *async_call);
    async_call->body_owned = body_owned;
    async_call->batch = batch;
    pthread_mutex_lock(&calls->lock);
    if (calls->last == NULL)
        calls->first = async_call;
    else
        calls->last->next = async_call;
    calls->last = async_call;
    pthread_cond_broadcast(&calls->has_changed);
    pthread_mutex_unlock(&calls->lock);
}

/* --- Begin, answers and end --------------------------------------------------------------------------------------- */

struct async_calls *async_calls_create(const struct async_calls_options *options)
{
    struct async_calls *calls = memory_allocate_zeroed(sizeof *calls);
    ASSERT(options->proposers >= 1 && options->proposers <= PROPOSERS_MAX);
    calls->options = *options;
    calls->from = TALLY_FEED_NOW;
    calls->is_feeding = true;
    pthread_mutex_init(&calls->lock, NULL);
    condition_init(&calls->has_changed);
    for (unsigned i = 0; i <= options->proposers; i++) {
        calls->clients[i] = options->connect(options->context);
        if (calls->clients[i] == NULL) {
            async_calls_destroy(calls);
            return NULL;
        }
    }
    for (unsigned i = 0; i <= options->proposers; i++) {
        if (pthread_create(&calls->threads[i], NULL, i == 0 ? follow_feed : propose, calls) != 0)
            abort(); /* no memory: nothing has been proposed */
        calls->thread_count++;
    }
    return calls;
}

struct call_answer *async_calls_take(struct async_calls *calls, unsigned wait_ms)
{
    const uint64_t until_ms = monotonic_ms() + wait_ms;
    pthread_mutex_lock(&calls->lock);
    while (calls->answer_first == NULL && wait_ms > 0)
        if (!condition_wait_until(&calls->has_changed, &calls->lock, until_ms))
            break;
    struct call_answer *answer = calls->answer_first;
    if (answer != NULL) {
        calls->answer_first = answer->next;
        calls->answer_last = answer->next == NULL ? NULL : calls->answer_last;
        calls->feed_ahead -= answer->kind == ANSWER_FEED;
        pthread_cond_broadcast(&calls->has_changed);
    }
    pthread_mutex_unlock(&calls->lock);
    return answer;
}

void call_answer_destroy(struct call_answer *answer)
{
    tally_reply_deinit(&answer->reply);
    free(answer);
}

void async_calls_destroy(struct async_calls *calls)
{
    struct call_answer *answer;
    pthread_mutex_lock(&calls->lock);
    calls->is_stopping = true;
    pthread_cond_broadcast(&calls->has_changed);
    pthread_mutex_unlock(&calls->lock);
    for (unsigned i = 0; i <= calls->options.proposers && calls->clients[i] != NULL; i++)
        tally_client_interrupt(calls->clients[i]);
    for (unsigned i = 0; i < calls->thread_count; i++)
        pthread_join(calls->threads[i], NULL);
    for (unsigned i = 0; i <= calls->options.proposers; i++)
        tally_client_destroy(calls->clients[i]);
    while ((answer = async_calls_take(calls, 0)) != NULL)
        call_answer_destroy(answer);
    for (struct async_call *async_call = calls->first, *next; async_call != NULL; async_call = next) {
        next = async_call->next;
        free(async_call->body_owned);
        free(async_call);
    }
    pthread_cond_destroy(&calls->has_changed);
    pthread_mutex_destroy(&calls->lock);
    free(calls);
}
