/* A window: for some time a look only proposes what it finds. At the end the best proposal is taken, then the best of
 * the rest. Each proposal belongs to one seed, which has some other choices: if its partner has been taken, the seed
 * uses its next choice, and if it has none left, it looks again in the next window. Part of the matcher; nobody else
 * includes this.
 *
 * Only pools of pairs whose pick ranks (nearest, score) use proposals: there, the first seed must not take a partner
 * that suits another one better. By age alone, and in groups, the looks themselves wait for the end: then the oldest
 * seed takes its oldest partners, which is the same. */
#ifndef TALLY_MATCH_WINDOW_H
#define TALLY_MATCH_WINDOW_H

#include "match/look.h"

/* Looks go on only while this holds; opens a window if none is open. */
bool window_lets_look(struct matcher *matcher, uint64_t now_ms);

/* Is the window over, with something in it? */
bool window_is_over(const struct matcher *matcher, uint64_t now_ms);

/* When it will be; UINT64_MAX: nothing waits for it. */
uint64_t window_due_ms(const struct matcher *matcher);

/* Does a look only propose what it finds? */
bool window_proposes(const struct matcher *matcher);

/* A kept look with choices becomes a proposal; it leaves the window again. */
void window_propose(struct matcher *matcher, struct look *look);
void window_withdraw(struct matcher *matcher, struct look *look);

/* Takes the best proposal of a window that is over, if both tickets are still there. Each proposal checked costs
 * *budget one check. NULL: no proposal is left, or no budget. */
struct look *window_take(struct matcher *matcher, uint32_t *budget);

/* Closes a window that is over and empty. */
void window_rest(struct matcher *matcher, uint64_t now_ms);

#endif
