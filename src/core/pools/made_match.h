/* Matches that were made, or are being confirmed: their members, and their result message. A match can be put back
 * until its message has ended. Then it is settled, and remembered for a while, so that a repeated proposal or put back
 * gets its answer. */
#ifndef TALLY_CORE_POOLS_MADE_MATCH_H
#define TALLY_CORE_POOLS_MADE_MATCH_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "core/digest.h"
#include "core/event.h"
#include "core/messages/message.h"
#include "core/pools/ticket.h"
#include "match/rules.h"

struct core;
struct core_writer;
struct ticket_pool;

#define MATCH_BODY_SIZE_MAX 65536u /* the proposal's */

/* The largest possible result: the tickets' contents, as JSON; their keys and teams, escaped, and the text around them;
 * the proposal's body, escaped. */
#define MATCH_RESULT_SIZE_MAX                                                                                          \
    (TICKET_GROUP_SIZE_MAX + RULES_WEIGHT_MAX * (2 * TICKET_KEY_SIZE_MAX + 6 * RULES_NAME_SIZE_MAX + 128) +            \
     2 * MATCH_BODY_SIZE_MAX + 1024)
static_assert(MATCH_RESULT_SIZE_MAX <= 1048576, "a result is a message");

/* The largest possible events of a decision that makes a match: the result, and the numbers of members and siblings. A
 * frame has room for them. */
#define MATCH_EVENTS_SIZE_MAX                                                                                          \
    (MATCH_RESULT_SIZE_MAX + RULES_WEIGHT_MAX * (sizeof(uint64_t) * EXCLUSIVE_SET_TICKETS_MAX + 16) + 4096)

/* In a snapshot. */
enum match_state {
    MATCH_HELD = 1, /* waits for confirmations */
    MATCH_MADE,     /* its message is there */
    MATCH_ACKED,    /* its message has gone: settled */
    MATCH_PUT_BACK, /* settled */
    MATCH_REFUSED,  /* a hold that was refused or timed out: settled */
};

/* Why a match was undone. In the log. */
enum match_undoing { MATCH_UNDONE_PUT_BACK = 1, MATCH_UNDONE_REFUSED = 2, MATCH_UNDONE_TIMED_OUT = 3 };

struct match_member {
    uint64_t ticket; /* number */
    uint8_t team;
    bool has_confirmed;
};

struct made_match {
    uint64_t number;  /* in the namespace */
    uint64_t message; /* number of its result message; 0: none (any more) */
    uint64_t made_at_ms;
    uint64_t confirm_by_ms; /* while held */
    uint64_t ended_at_ms;
    struct digest_tag digest;           /* of the proposal */
    struct bytes proposal_owned;        /* ProposalId; empty: the built-in matcher's */
    struct bytes body_owned;            /* of the proposal, while held */
    struct match_member *members_owned; /* in the order of the event; NULL once settled */
    uint32_t member_count;
    uint32_t pool;       /* id */
    uint32_t prev, next; /* among the pool's settled ones, or those that are not */
    uint32_t hold_index; /* in core->matches.holds */
    uint8_t state;       /* enum match_state */
    bool has_body;
    bool is_unseen; /* no part of the state: the record that holds it is not durable, so nobody can know of it */
};

struct made_match *made_match_at(const struct core *core, uint32_t slot);
/* Slots, 0: none. Matches of a deleted pool are not found. */
uint32_t made_match_find(const struct core *core, uint64_t number);
uint32_t made_match_find_proposal(const struct core *core, const struct ticket_pool *pool, struct bytes proposal);
/* The match whose result message has that number; while its memory is there, also of a deleted pool. */
uint32_t made_match_find_message(const struct core *core, uint64_t message);

/* A new owner took over at resumed_at_ms. From then on, members have at least their own time or grace_ms, whichever is
 * shorter, because nobody could confirm while nobody served. */
void made_match_restarted(struct core *core, uint64_t resumed_at_ms, uint32_t grace_ms);

/* A result message has ended, or got another number by a move. For apply.c; the message is marked as a result. When it
 * ends, the tickets are settled with their match, and tickets that waited in their exclusive sets are cancelled. Not
 * with END_PUT_BACK, which is followed by `match_undone`. O(tickets of those sets). */
void made_match_message_ended(struct core *core, uint64_t message, enum end_reason reason);
void made_match_message_moved(struct core *core, uint64_t from, uint64_t to);

/* Forgets the oldest settled match of the pool. For apply_tickets_forgotten(). */
void made_match_forget(struct core *core, struct ticket_pool *pool);
/* Makes all matches of a deleted pool unreachable: O(1) if no ticket is held, else O(matches). Their memory is freed in
 * portions, of `*left` matches at most; true when none is left. */
void made_match_forget_all(struct core *core, struct ticket_pool *pool);
bool made_match_give_back(struct core *core, struct ticket_pool *pool, unsigned *left);

/* When the time of a hold is next over; UINT64_MAX: never. decide_end_holds() then ends it. O(1). */
uint64_t made_match_due_ms(const struct core *core);

/* Have all members said yes? */
bool made_match_is_confirmed(const struct made_match *match);

void made_match_init(struct core *core);
void made_match_deinit(struct core *core);

/* --- snapshots (made_match_snapshot.c) ---------------------------------------------------------------------------- */

void made_match_encode(const struct core *core, struct core_writer *writer);
/* After messages and ticket pools. */
bool made_match_decode(struct core *core, struct cursor *cursor);
void made_match_check(const struct core *core);

/* How a snapshot makes it again: a match with that number, which is in no list yet; puts it after the unsettled or the
 * settled ones; marks its result (slots). */
uint32_t made_match_add(struct core *core, struct ticket_pool *pool, uint64_t number, struct bytes proposal);
void made_match_link_unsettled(struct core *core, struct ticket_pool *pool, uint32_t match);
void made_match_link_settled(struct core *core, struct ticket_pool *pool, uint32_t match);
void made_match_link_message(struct core *core, uint32_t match, uint32_t message);

#endif
