/* Judges what nodes do. It sees the tables of PostgreSQL, every reply and every frame that a node applies; it knows
 * nothing of how src/postgres comes to what it does. What it finds wrong ends the run (fail()), with the id of the
 * invariant (docs/internals/invariants-log.md). */
#ifndef TALLY_TESTS_SIM_OWNERS_JUDGE_H
#define TALLY_TESTS_SIM_OWNERS_JUDGE_H

#include "owners_server.h"

struct core;

struct judge_settings {
    enum replication replication;
    uint32_t lease_ms;
};

void judge_init(const struct judge_settings *settings);

/* --- what is in PostgreSQL ---------------------------------------------------------------------------------------- */

/* A fenced transaction becomes visible: what it compared, and what is in the head (L1, L5, L6). */
void judge_fence(uint64_t epoch, const uint8_t owner[PG_OWNER_SIZE], uint64_t head_epoch,
                 const uint8_t head_owner[PG_OWNER_SIZE], bool is_seal);

/* Bytes of a file become visible (L2). */
void judge_append(uint64_t commit, const char *file, uint64_t at, struct bytes body);

/* A failover or a crash has lost this one. Then all that are left are told again. */
void judge_drop(uint64_t commit);
void judge_forget_appends(void);

/* Did this commit bring a frame with events? */
bool judge_is_frame(uint64_t commit);

/* --- what nodes do ------------------------------------------------------------------------------------------------ */

/* A node has applied a frame that it read (L2, L3, L14). */
void judge_replay(int node, uint64_t position, struct bytes payload, const struct core *core);

/* What a node says of itself when it gives up. */
void judge_failure(int node, const struct failure *failure);

/* --- what clients see --------------------------------------------------------------------------------------------- */

enum request_kind { REQUEST_SEND, REQUEST_TAKE, REQUEST_READ };

#define NO_TAG 0u
#define TAGS_MAX 20000u

/* A client begins a request; `tag` is what it sends. Its number. */
uint64_t judge_begin(enum request_kind kind, uint32_t tag);

/* A node decides that this take gives that message; whether that is ever in the log is another matter. */
void judge_decide_take(uint32_t tag);

/* What a reply says, and where it comes from. */
struct judge_reply {
    int node;
    uint64_t request;
    uint32_t tag;       /* that was sent, or taken; NO_TAG: there was none */
    uint64_t sequence;  /* of the frame that it stands on */
    uint64_t first;     /* of this owner's first frame */
    uint64_t epoch;     /* of the log: that of this owner's frames */
    uint64_t proved_at; /* when the newest statement was sent that PostgreSQL did for it, as the network saw it */
    uint64_t broken_at; /* since when it can know that its connection is broken; 0: it is not */
};

/* A reply leaves a node (L7, L8, and how old what is read may be). */
void judge_answer(const struct judge_reply *reply);

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* A node's machine lost its power, or its copy of the log was damaged. */
void judge_lose_copy(void);

/* From here on what is taken is what the log holds, oldest first (L9, L20, K8). */
void judge_begin_end(void);

/* Has this node applied all there is? Which frames it has, and which there are. */
bool judge_has_followed(int node, uint64_t *applied, uint64_t *newest);

/* All was taken. */
void judge_end(void);

struct judge_counts {
    uint64_t sent, taken, read, stale, frames, lost, is_silent;
};
struct judge_counts judge_counts(void);

#endif
