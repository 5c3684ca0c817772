/* Judges a pool of tickets event by event, by a model of its own: arrays and loops, written from docs/reference and
 * not from src/core.
 *
 * The linker puts it around core_emit(): it hears of each event before it is applied, knows what a client asked for at
 * that moment, and says whether the event was allowed. After a crash the server must be where the newest durable frame
 * left the model, or at its newest change: nothing between. After each call the server's tickets, matches and messages
 * must be those of the model. */
#ifndef TALLY_TESTS_SIM_POOL_JUDGE_H
#define TALLY_TESTS_SIM_POOL_JUDGE_H

#include "core/pools/ticket.h"
#include "support/world.h"

#define JUDGE_TICKETS 48 /* names "t0" … */
#define JUDGE_MATCHES 512
#define JUDGE_SETS 4
#define JUDGE_MODES 3
#define JUDGE_STEPS 2

struct judge_ticket {
    uint64_t number; /* 0: there is none of that name, or none any more */
    uint64_t offered_at, expires_at, ended_at;
    uint64_t match; /* number; 0: none */
    uint64_t order; /* of its end */
    uint32_t version, level;
    unsigned state; /* enum ticket_state */
    int offered_mmr;
    int mmr, mode, need, set; /* need: a mode that the other must have, set: -1: none */
    bool is_settled;
};

struct judge_match {
    uint64_t number;  /* 0: not there any more */
    uint64_t message; /* 0: none */
    uint64_t held_at, confirm_by, ended_at, order;
    uint64_t seen_at; /* while held: when its record became durable; 0: it is not */
    int members[2];
    bool has_confirmed[2];
    uint32_t versions[2]; /* as proposed */
    int proposal;         /* -1: the built-in matcher's */
    enum { JUDGE_HELD, JUDGE_MADE, JUDGE_ACKED, JUDGE_PUT_BACK, JUDGE_REFUSED } state;
};

/* What the pool was created with. */
struct judge_rules {
    bool is_built_in, verifies, is_either;
    int near[1 + JUDGE_STEPS];          /* by level; -1: off */
    uint64_t after_ms[1 + JUDGE_STEPS]; /* ages at which the levels begin */
    uint64_t confirm_ms, ttl_ms, retention_ms;
    unsigned results_max;
};

struct judge_model {
    uint32_t rules_version;
    int near[1 + JUDGE_STEPS]; /* as in the rules, until they are changed */
    uint64_t ticket_number, match_number, order;
    unsigned expired_count; /* messages in the expiry queue */
    struct judge_ticket tickets[JUDGE_TICKETS];
    unsigned match_count;
    struct judge_match matches[JUDGE_MATCHES];
};

/* What a client asks for now. */
struct judge_request {
    enum {
        ASKS_NOTHING,
        ASKS_OFFER,
        ASKS_UPDATE,
        ASKS_CANCEL,
        ASKS_PROPOSE,
        ASKS_PUT_BACK,
        ASKS_CONFIRM,
        ASKS_DELETE,
        ASKS_RULES
    } kind;
    int tickets[3]; /* propose; the others' is the first */
    uint32_t versions[3];
    unsigned count;
    int mmr, mode, need, set;
    uint64_t ttl_ms;
    uint32_t rules_version;    /* propose */
    int near[1 + JUDGE_STEPS]; /* rules */
    int proposal;
    uint64_t match;
    bool accepts;
    bool was_offered; /* results: it was offered, matched, undone (but not by time), made by this very call */
    bool was_matched;
    bool was_undone;
    bool was_made;
};

/* Both are the judge's; the simulator runs one world at a time. */
extern struct judge_model judge_model;
extern struct judge_request judge_request;

/* So long the next frame takes to become durable. */
extern uint64_t judge_stall_ms;

void judge_begin(const struct judge_rules *rules, struct world *world);
void judge_end(void);

/* Do two tickets fit, by the rules? */
bool judge_fits(const struct judge_ticket *a, const struct judge_ticket *b);

/* May a match take it, as far as its exclusive set goes? */
bool judge_is_free(const struct judge_ticket *ticket);
/* Matches that are not over: each has a place in the result queue. */
unsigned judge_count_unsettled(void);

/* The match of that number, or of that proposal; NULL: there is none. */
struct judge_match *judge_find_match(uint64_t number);
struct judge_match *judge_find_proposal(int proposal);

/* The server is where the model is. `is_idle`: all that was due has happened. */
void judge_compare(bool is_idle);

#endif
