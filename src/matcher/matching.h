/* A matcher outside of the server: follows the feed of a pool, keeps what waits in memory (pool_copy.h), and proposes
 * what fits (proposals.h). `tally match` runs one. It prints nothing: the caller is told what is worth a line. */
#ifndef TALLY_MATCHER_MATCHING_H
#define TALLY_MATCHER_MATCHING_H

#include "matcher/async_calls.h"
#include "matcher/proposals.h"
#include <signal.h>

struct matching;

/* Who runs it. All of it is called by the thread that runs it, but for calls.note. */
struct matching_options {
    struct tally_client *client; /* borrowed: for what is asked in between */
    struct async_calls_options calls;
    unsigned batch;                                                 /* proposals in one request, at most */
    bool is_once;                                                   /* ends when nothing is left to match */
    void (*report)(void *context, const struct matching *matching); /* now and then, if something was proposed */
};

enum matching_end {
    MATCHING_DONE,      /* stopped, or nothing is left to match */
    MATCHING_REFUSED,   /* `error` is libtally's: the server refused, or was not there at the beginning */
    MATCHING_NO_RULES,  /* the matcher can't read the pool's rules */
    MATCHING_NO_ANSWER, /* what the server said is no answer */
    MATCHING_NO_TEXT,   /* the name of the pool is not UTF-8 */
    MATCHING_NO_CLIENT, /* calls.connect gave none */
};

struct matching {
    struct matching_options options;
    struct rules *rules_owned; /* until matching_run() */
    bool has_own_rules;
    struct async_calls *calls_owned;
    bool is_replica_there; /* since matching_run() */
    struct pool_copy copy;
    struct proposals proposals;
    uint64_t rules_version; /* 0: they are not the pool's */
    uint64_t read_at;       /* the newest event when they were read: the list, which is read later, has what it did */
    unsigned idle_answers;
    uint64_t reported_ms;
    sigset_t signals; /* which end it, and wait until it asks */
    enum matching_end end;
    struct tally_error error; /* its message says why, unless it is done */
    bool is_over;
};

/* Asks for the pool's rules, to see that the pool is there. False: `end` and `error` say why. The caller calls
 * matching_deinit() either way. */
bool matching_init(struct matching *matching, const struct matching_options *options);
void matching_deinit(struct matching *matching);

/* Matches by these rules instead of the pool's, which are the matching's from then on. Before matching_run(). */
void matching_use_rules(struct matching *matching, struct rules *rules);

/* Matches until SIGINT or SIGTERM, which are blocked from then on, or until nothing is left. `end` and `error` say how
 * it ended, and what it did stays readable. */
void matching_run(struct matching *matching);

#endif
