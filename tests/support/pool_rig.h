/* Pools of tickets on a core without a log: what a test of them says in a line. Each call is a frame of its own. */
#ifndef TALLY_TESTS_SUPPORT_POOL_RIG_H
#define TALLY_TESTS_SUPPORT_POOL_RIG_H

#include "core/pools/decide_match.h"
#include "core/pools/decide_ticket.h"
#include "support/core_rig.h"

/* The queues "results" and "expired", which every rig of pools has. */
void pool_rig_make_queues(struct core_rig *rig);

/* A pool of programs from outside with these rules, as JSON in which ' stands for "; results go to "results". The text
 * is copied and lives as long as the program. */
struct pool_spec pool_rig_spec(const struct core_rig *rig, const char *rules);
struct ticket_pool *pool_rig_put(struct core_rig *rig, const char *name, const struct pool_spec *spec);

struct pool_rig_ticket {
    const char *key;
    const char *attributes; /* as JSON in which ' stands for "; NULL: none */
    const char *need;
    const char *set;
    const char *body;
    uint32_t weight; /* 0: 1 */
    uint32_t ttl_s;  /* 0: none */
    uint8_t priority;
};

/* Offers it and lets the built-in matcher look. Returns its slot; 0: the key was offered with another content. */
uint32_t pool_rig_offer(struct core_rig *rig, struct ticket_pool *pool, const struct pool_rig_ticket *ticket);
struct ticket *pool_rig_ticket(const struct ticket_pool *pool, const char *key);

/* Gives a waiting ticket other attributes. */
enum ticket_outcome pool_rig_update(struct core_rig *rig, struct ticket_pool *pool, const char *key,
                                    const char *attributes);
enum ticket_outcome pool_rig_cancel(struct core_rig *rig, struct ticket_pool *pool, const char *key);

/* Proposes `members`, like "a:1 b:2": keys and versions. */
enum proposal_status pool_rig_propose(struct core_rig *rig, struct ticket_pool *pool, const char *proposal,
                                      const char *members, struct proposal_result *result);
/* The same, with a body and the version of the rules. */
enum proposal_status pool_rig_propose_with(struct core_rig *rig, struct ticket_pool *pool, const char *proposal,
                                           const char *members, const char *body, uint32_t rules_version,
                                           struct proposal_result *result);

enum match_outcome pool_rig_put_back(struct core_rig *rig, struct ticket_pool *pool, uint64_t match);
enum match_outcome pool_rig_confirm(struct core_rig *rig, struct ticket_pool *pool, uint64_t match, const char *key,
                                    bool accepts);

/* Lets time pass, and what is due happen. */
void pool_rig_pass(struct core_rig *rig, uint64_t ms);

/* Receives one message for 30 seconds; false if there is none. The views of *content live until the next frame. */
bool pool_rig_take(struct core_rig *rig, const char *queue, struct content *content, struct handle *handle);
enum error pool_rig_delete(struct core_rig *rig, const char *queue, const struct handle *handle);
uint64_t pool_rig_count_messages(const struct core_rig *rig, const char *queue);

/* Checks the core, and that a replay and a snapshot give the same state. */
void pool_rig_check(const struct core_rig *rig);

#endif
