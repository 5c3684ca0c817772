#include "matcher/errands.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define FEED_AHEAD_MAX 16 /* answers of the feed that nobody has read yet */
#define RETRY_NS 300000000

struct errand {
    struct errand *next;
    char *body_owned;
    void *batch;
};

struct errands {
    struct errands_options options;
    pthread_mutex_t lock; /* everything below, but not the clients */
    pthread_cond_t has_changed;
    struct mail *mail_first, *mail_last;
    struct errand *first, *last; /* to be sent */
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

static struct timespec deadline_in(unsigned wait_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static void post(struct errands *errands, struct mail *mail)
{
    pthread_mutex_lock(&errands->lock);
    if (errands->mail_last == NULL)
        errands->mail_first = mail;
    else
        errands->mail_last->next = mail;
    errands->mail_last = mail;
    if (mail->kind == MAIL_FEED)
        errands->feed_ahead++;
    pthread_cond_broadcast(&errands->has_changed);
    pthread_mutex_unlock(&errands->lock);
}

static bool is_stopping(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    bool is = errands->is_stopping;
    pthread_mutex_unlock(&errands->lock);
    return is;
}

bool errands_repeats(struct errands *errands, const struct tally_error *error)
{
    bool is_away = error->status == TALLY_UNREACHABLE || error->http_status >= 500;
    pthread_mutex_lock(&errands->lock);
    bool is_news = errands->has_complained != is_away && !errands->is_stopping;
    if (is_news)
        errands->has_complained = is_away;
    pthread_mutex_unlock(&errands->lock);
    if (is_news)
        errands->options.note(errands->options.context, is_away ? error->message : "the server is there again");
    return is_away;
}

/* Calls until there is an answer, or the errands end; then the error is TALLY_INTERRUPTED. */
static void call(struct errands *errands, struct tally_client *client, const char *target, const char *body,
                 struct mail *mail)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    for (;;) {
        (void)tally_call(client, target, body, &mail->reply); /* what it came to, the client's error says */
        mail->error = *tally_client_error(client);
        if (!errands_repeats(errands, &mail->error) || is_stopping(errands))
            return;
        nanosleep(&pause, NULL);
    }
}

/* --- The feed ----------------------------------------------------------------------------------------------------- */

/* Waits until the feed may be read on; false: it is over. */
static bool wait_for_turn(struct errands *errands, uint64_t *from)
{
    pthread_mutex_lock(&errands->lock);
    while (!errands->is_stopping && (!errands->is_feeding || errands->feed_ahead >= FEED_AHEAD_MAX))
        pthread_cond_wait(&errands->has_changed, &errands->lock);
    bool goes_on = !errands->is_stopping;
    *from = errands->from;
    pthread_mutex_unlock(&errands->lock);
    return goes_on;
}

/* The request. The caller frees it. */
static char *make_feed(const struct errands *errands, uint64_t from)
{
    const struct errands_options *options = &errands->options;
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
    struct errands *errands = context;
    uint64_t from;
    bool is_good = true;
    while (is_good && wait_for_turn(errands, &from)) {
        char *body = make_feed(errands, from);
        struct mail *mail = memory_allocate_zeroed(sizeof *mail);
        call(errands, errands->clients[0], "Tally.FeedTickets", body, mail);
        free(body);
        mail->kind = MAIL_FEED;
        is_good = mail->error.status == TALLY_OK;
        pthread_mutex_lock(&errands->lock);
        if (is_good) {
            errands->from = json_number(json_root(&mail->reply), "Next");
            errands->is_feeding = !json_is_true(json_root(&mail->reply), "Resync");
        }
        pthread_mutex_unlock(&errands->lock);
        post(errands, mail);
    }
    return NULL;
}

void errands_feed_from(struct errands *errands, uint64_t from)
{
    pthread_mutex_lock(&errands->lock);
    errands->from = from;
    errands->is_feeding = true;
    pthread_cond_broadcast(&errands->has_changed);
    pthread_mutex_unlock(&errands->lock);
}

/* --- Proposals ---------------------------------------------------------------------------------------------------- */

static struct errand *wait_for_errand(struct errands *errands, struct tally_client **client)
{
    struct errand *errand;
    pthread_mutex_lock(&errands->lock);
    if (*client == NULL)
        *client = errands->clients[++errands->next_client];
    while (errands->first == NULL && !errands->is_stopping)
        pthread_cond_wait(&errands->has_changed, &errands->lock);
    errand = errands->is_stopping ? NULL : errands->first;
    if (errand != NULL) {
        errands->first = errand->next;
        errands->last = errands->first == NULL ? NULL : errands->last;
    }
    pthread_mutex_unlock(&errands->lock);
    return errand;
}

static void *propose(void *context)
{
    struct errands *errands = context;
    struct tally_client *client = NULL;
    struct errand *errand;
    while ((errand = wait_for_errand(errands, &client)) != NULL) {
        struct mail *mail = memory_allocate_zeroed(sizeof *mail);
        call(errands, client, "Tally.ProposeMatches", errand->body_owned, mail);
        mail->kind = MAIL_PROPOSED;
        mail->batch = errand->batch;
        free(errand->body_owned);
        free(errand);
        post(errands, mail);
    }
    return NULL;
}

void errands_propose(struct errands *errands, char *body_owned, void *batch)
{
    struct errand *errand = memory_allocate_zeroed(sizeof *errand);
    errand->body_owned = body_owned;
    errand->batch = batch;
    pthread_mutex_lock(&errands->lock);
    if (errands->last == NULL)
        errands->first = errand;
    else
        errands->last->next = errand;
    errands->last = errand;
    pthread_cond_broadcast(&errands->has_changed);
    pthread_mutex_unlock(&errands->lock);
}

/* --- Begin, mail and end ------------------------------------------------------------------------------------------ */

struct errands *errands_create(const struct errands_options *options)
{
    struct errands *errands = memory_allocate_zeroed(sizeof *errands);
    pthread_condattr_t attributes;
    ASSERT(options->proposers >= 1 && options->proposers <= PROPOSERS_MAX);
    errands->options = *options;
    errands->from = TALLY_FEED_NOW;
    errands->is_feeding = true;
    pthread_mutex_init(&errands->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&errands->has_changed, &attributes);
    pthread_condattr_destroy(&attributes);
    for (unsigned i = 0; i <= options->proposers; i++) {
        errands->clients[i] = options->connect(options->context);
        if (errands->clients[i] == NULL) {
            errands_destroy(errands);
            return NULL;
        }
    }
    for (unsigned i = 0; i <= options->proposers; i++) {
        if (pthread_create(&errands->threads[i], NULL, i == 0 ? follow_feed : propose, errands) != 0)
            abort(); /* no memory: nothing has been proposed */
        errands->thread_count++;
    }
    return errands;
}

struct mail *errands_take(struct errands *errands, unsigned wait_ms)
{
    struct timespec deadline = deadline_in(wait_ms);
    pthread_mutex_lock(&errands->lock);
    while (errands->mail_first == NULL && wait_ms > 0)
        if (pthread_cond_timedwait(&errands->has_changed, &errands->lock, &deadline) != 0)
            break;
    struct mail *mail = errands->mail_first;
    if (mail != NULL) {
        errands->mail_first = mail->next;
        errands->mail_last = mail->next == NULL ? NULL : errands->mail_last;
        errands->feed_ahead -= mail->kind == MAIL_FEED;
        pthread_cond_broadcast(&errands->has_changed);
    }
    pthread_mutex_unlock(&errands->lock);
    return mail;
}

void mail_destroy(struct mail *mail)
{
    tally_reply_deinit(&mail->reply);
    free(mail);
}

void errands_destroy(struct errands *errands)
{
    struct mail *mail;
    pthread_mutex_lock(&errands->lock);
    errands->is_stopping = true;
    pthread_cond_broadcast(&errands->has_changed);
    pthread_mutex_unlock(&errands->lock);
    for (unsigned i = 0; i <= errands->options.proposers && errands->clients[i] != NULL; i++)
        tally_client_interrupt(errands->clients[i]);
    for (unsigned i = 0; i < errands->thread_count; i++)
        pthread_join(errands->threads[i], NULL);
    for (unsigned i = 0; i <= errands->options.proposers; i++)
        tally_client_destroy(errands->clients[i]);
    while ((mail = errands_take(errands, 0)) != NULL)
        mail_destroy(mail);
    for (struct errand *errand = errands->first, *next; errand != NULL; errand = next) {
        next = errand->next;
        free(errand->body_owned);
        free(errand);
    }
    pthread_cond_destroy(&errands->has_changed);
    pthread_mutex_destroy(&errands->lock);
    free(errands);
}
