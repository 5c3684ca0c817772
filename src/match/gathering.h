/* A gathering: the candidates that fit one seed, in the order of pick, and the search among them for a complete group.
 * In a complete group all fit each other, the weights add up to a match, and the teams can be filled. Part of the
 * matcher; nobody else includes this.
 *
 * The smallest group comes first, then the one whose members come first. The search is bounded: by pairs that are
 * checked, by steps, by divisions into teams that are tried. Within its bounds it finds a group wherever there is
 * one. */
#ifndef TALLY_MATCH_GATHERING_H
#define TALLY_MATCH_GATHERING_H

#include "match/look.h"

#define GATHERING_MAX 512u /* candidates among which a group is searched */
#define GATHERING_CHECKS_MAX                                                                                           \
    32768u /* pairs: more than the 19,900 of a group of RULES_WEIGHT_MAX; so many again to fill one in the end */
#define GATHERING_STEPS_MAX 16384u
#define GATHERING_STEPS_OF_A_SIZE 6144u /* in the search for a group of so many members */
#define GATHERING_DIVISIONS_MAX 16384u
#define GATHERING_CHECK_WORK 128u  /* this much work of a pair counts as one check; more work counts as several */
#define GATHERING_CHECKS_A_STEP 4u /* so many checks and choices cost as much as one candidate of the caller's budget */

struct gathering;

/* Continues a look for a seed of a pool of groups, to its end or to MATCHER_PROBE_MAX steps, whatever *budget says.
 * Takes its cost off *budget. LOOK_FOUND fills *group. */
enum look_end gathering_look(struct matcher *matcher, struct look *look, uint32_t *budget, struct matcher_group *group);

void gathering_destroy(struct gathering *gathering);

#endif
