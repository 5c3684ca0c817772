/* The requests of `tally match`, carried out by threads of their own, so that the one that matches never waits for the
 * server: one follows the feed, some propose. Answers come back as mail, in any order. Whoever gets no answer, or that
 * of a server that can't (5xx), asks again until it is stopped; a proposal that is repeated does no harm. */
#ifndef TALLY_MATCHER_ERRANDS_H
#define TALLY_MATCHER_ERRANDS_H

#include "tally/tally.h"
#include <stdbool.h>
#include <stdint.h>

#define PROPOSERS_MAX 16u

enum mail_kind { MAIL_FEED, MAIL_PROPOSED };

/* An answer. The one who takes it ends it with mail_destroy(). */
struct mail {
    struct mail *next;
    enum mail_kind kind;
    struct tally_error error; /* TALLY_OK, or why there is no reply: then nothing more of this kind will come */
    struct tally_reply reply;
    void *batch; /* of MAIL_PROPOSED: what errands_propose() was given */
};

struct errands;

struct errands_options {
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
 * waits for errands_feed_from(). NULL if there is no client. */
struct errands *errands_create(const struct errands_options *options);

/* Ends requests that are under way, joins the threads, throws unread mail away: batches are not freed. */
void errands_destroy(struct errands *errands);

void errands_feed_from(struct errands *errands, uint64_t from);

/* Is the same request to be sent again after this? Says once that the server is away, and once that it is there
 * again. */
bool errands_repeats(struct errands *errands, const struct tally_error *error);

/* Sends a ProposeMatches; `body_owned` is freed. */
void errands_propose(struct errands *errands, char *body_owned, void *batch);

/* The next mail; NULL after `wait_ms`. */
struct mail *errands_take(struct errands *errands, unsigned wait_ms);
void mail_destroy(struct mail *mail);

#endif
