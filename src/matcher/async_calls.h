/* The requests of `tally match`, carried out by threads of their own, so that the one that matches never waits for the
 * server: one follows the feed, some propose. Answers come back as answers, in any order. Whoever gets no answer, or
 * that of a server that can't (5xx), asks again until it is stopped; a proposal that is repeated does no harm. */
#ifndef TALLY_MATCHER_ASYNC_CALLS_H
#define TALLY_MATCHER_ASYNC_CALLS_H

#include "tally/tally.h"
#include <stdbool.h>
#include <stdint.h>

#define PROPOSERS_MAX 16u

enum call_answer_kind { ANSWER_FEED, ANSWER_PROPOSED };

/* An answer. The one who takes it ends it with call_answer_destroy(). */
struct call_answer {
    struct call_answer *next;
    enum call_answer_kind kind;
    struct tally_error error; /* TALLY_OK, or why there is no reply: then nothing more of this kind will come */
    struct tally_reply reply;
    void *batch; /* of ANSWER_PROPOSED: what async_calls_propose() was given */
};

struct async_calls;

struct async_calls_options {
    /* A client that tries again by itself, for one thread. NULL: there is none, and who asked has been told. */
    struct tally_client *(*connect)(void *context);
    void (*note)(void *context, const char *text); /* what is worth a line. Any thread */
    void *context;                                 /* of both */
    const char *pool;
    unsigned part;
    unsigned parts; /* 0: not shared out */
    unsigned proposers;
    unsigned wait_s; /* of the feed */
};

/* Starts the threads. The feed begins with TALLY_FEED_NOW, to hear where it stands; after an answer that says Resync it
 * waits for async_calls_feed_from(). NULL if there is no client. */
struct async_calls *async_calls_create(const struct async_calls_options *options);

/* Ends requests that are under way, joins the threads, throws unread answers away: batches are not freed. */
void async_calls_destroy(struct async_calls *calls);

void async_calls_feed_from(struct async_calls *calls, uint64_t from);

/* Is the same request to be sent again after this? Says once that the server is away, and once that it is there
 * again. */
bool async_calls_repeats(struct async_calls *calls, const struct tally_error *error);

/* Sends a ProposeMatches; `body_owned` is freed. */
void async_calls_propose(struct async_calls *calls, char *body_owned, void *batch);

/* The next answers; NULL after `wait_ms`. */
struct call_answer *async_calls_take(struct async_calls *calls, unsigned wait_ms);
void call_answer_destroy(struct call_answer *answer);

#endif
