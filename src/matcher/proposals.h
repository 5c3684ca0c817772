/* What `tally match` proposes: requests full of groups that a copy has found, those that are under way, and what
 * their answers make of the copy's tickets. It sends nothing itself. */
#ifndef TALLY_MATCHER_PROPOSALS_H
#define TALLY_MATCHER_PROPOSALS_H

#include "base/list.h"
#include "client/json.h"
#include "matcher/pool_copy.h"

#define PROPOSALS_BATCH_MAX 100u
#define PROPOSALS_OUTCOMES 6u
#define PROPOSALS_REASONS 6u

/* Words of the server: what became of a proposal, and why a conflict names a member. */
extern const char *const proposals_outcomes[PROPOSALS_OUTCOMES];
extern const char *const proposals_reasons[PROPOSALS_REASONS];

struct proposals_counts {
    uint64_t proposals;
    uint64_t by_outcome[PROPOSALS_OUTCOMES];
    uint64_t by_reason[PROPOSALS_REASONS]; /* members that a conflict named */
};

/* A proposal that is under way: its members as they were proposed. */
struct proposed {
    uint32_t count;
    uint32_t *slots_owned;
    uint64_t *versions_owned;
};

/* One request. */
struct batch {
    struct list_link link; /* among those under way */
    uint32_t count;
    uint32_t epoch;
    struct proposed proposed[PROPOSALS_BATCH_MAX];
    struct json_body body; /* until it is sent */
    yyjson_mut_val *list;  /* of the proposals, in the body */
};

struct proposals {
    const char *pool;       /* borrowed */
    struct pool_copy *copy; /* borrowed */
    struct list under_way;  /* batches */
    unsigned in_flight;     /* how many those are */
    uint32_t epoch;         /* of the copy: slots of an older one mean nothing any more */
    char name[24];          /* the beginning of our ProposalIds, which no other matcher has */
    uint64_t attempt;
    struct proposals_counts counts;
};

void proposals_init(struct proposals *proposals, const char *pool, struct pool_copy *copy);
void proposals_deinit(struct proposals *proposals);

/* The copy has been cleared: what is under way is only counted when it is answered. */
void proposals_begin_epoch(struct proposals *proposals);

/* An empty request, which the caller gives to proposals_send() and proposals_answer(), or to batch_destroy(). */
struct batch *batch_create(const struct proposals *proposals);
void batch_destroy(struct batch *batch);

/* Adds a group that pool_copy_find() gave. At most PROPOSALS_BATCH_MAX. rules_version 0: by rules of our own. */
void batch_add(struct batch *batch, struct proposals *proposals, const struct matcher_group *group,
               uint64_t rules_version);

/* The request is under way from now on. Its text, which the caller frees. */
char *proposals_send(struct proposals *proposals, struct batch *batch);

/* Takes the answer to a request, or NULL if there is none, and ends the batch: its tickets are over, look again, or do
 * so later. False, with nothing done for them, if these are not its results. */
bool proposals_answer(struct proposals *proposals, struct batch *batch, yyjson_val *results, uint64_t now_ms);

#endif
