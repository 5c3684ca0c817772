/* A window: for some time what looks find is only proposed; at its end the best proposal of all is taken, then the best
 * of what is left of them. Each proposal is that of one seed, which has some other choices: it falls back on the next
 * one when its partner has been taken, and looks again, in the next window, when it has none left. Part of the matcher;
 * nobody else includes this.
 *
 * Only pools of pairs with a pick that ranks, nearest or score, propose: there, who looks first must not take what
 * suits another better. By age alone, and in groups, the looks themselves wait for the end: then the oldest seed takes
 * its oldest partners, which is the same. */
#ifndef TALLY_MATCH_WINDOW_H
#define TALLY_MATCH_WINDOW_H

#include "match/look.h"

/* Looks go on only while this holds; opens a window if none is open. */
bool window_lets_look(struct matcher *matcher, uint64_t now_ms);

/* Is the window over, with something in it? */
bool window_is_over(const struct matcher *matcher, uint64_t now_ms);

/* When it will be; UINT64_MAX: nothing waits for it. */
uint64_t window_due_ms(const struct matcher *matcher);

/* Does a look propose what it finds? */
bool window_proposes(const struct matcher *matcher);

/* A kept look with choices becomes a proposal; it leaves the window again. */
void window_propose(struct matcher *matcher, struct look *look);
void window_withdraw(struct matcher *matcher, struct look *look);

/* Of a window that is over: takes the best proposal whose two are still there, which costs *budget a check, as does
 * each that is passed over. NULL: none is left, or the budget. */
struct look *window_take(struct matcher *matcher, uint32_t *budget);

/* Nothing is left to do now: a window that is over and empty is closed. */
void window_rest(struct matcher *matcher, uint64_t now_ms);

#endif
