/* Admission: may a request begin now, and if not, when? It may have to wait for three reasons: the replies that exist
 * take nearly all the memory they may (api/reply_budget.h), the disk is far behind (engine/frame_backlog.h), or it is
 * a walk, and this turn of the loop has spent its time on walks.
 *
 * Such a request waits in one of four lines. Requests with short replies have their own line, which finds room sooner,
 * so that messages are sent and ended while large replies wait for slow clients. Walks have their own line, so that
 * other requests go between them. Requests about no namespace have their own line too, because they need no disk. In a
 * line it is first come, first served. No line waits for another. */
#ifndef TALLY_SERVER_ADMISSION_H
#define TALLY_SERVER_ADMISSION_H

#include "api/reply_budget.h"
#include "base/list.h"
#include "engine/frame_backlog.h"
#include <stdint.h>

enum admission_line {
    ADMISSION_PROBE, /* /health, /live, /ready and /metrics */
    ADMISSION_SHORT,
    ADMISSION_LONG,
    ADMISSION_WALK, /* the action may look at thousands of things (front_walks()) */
    ADMISSION_LINE_COUNT,
};

/* No walk begins in a turn that has spent so much on walks. A walk takes up to 5 ms: each turn has one at least. */
#define ADMISSION_WALKS_US 2000u

struct admission {
    const struct reply_budget *replies; /* borrowed, as is the next */
    const struct frame_backlog *frames;
    struct list lines[ADMISSION_LINE_COUNT];
    uint64_t walks_us; /* spent on walks in this turn */
};

void admission_init(struct admission *admission, const struct reply_budget *replies,
                    const struct frame_backlog *frames);

/* A turn of the loop begins; and a walk took so long. */
void admission_begin_turn(struct admission *admission);
void admission_note_walk(struct admission *admission, uint64_t took_us);

/* Does any request wait? */
static inline bool admission_is_waited_for(const struct admission *admission)
{
    return !list_is_empty(&admission->lines[ADMISSION_PROBE]) || !list_is_empty(&admission->lines[ADMISSION_SHORT]) ||
           !list_is_empty(&admission->lines[ADMISSION_LONG]) || !list_is_empty(&admission->lines[ADMISSION_WALK]);
}

/* May every request begin, whatever its reply? Nearly always this is true, and then nobody needs to find the request's
 * line. */
static inline bool admission_is_open(const struct admission *admission)
{
    return !admission_is_waited_for(admission) && !reply_budget_is_spent(admission->replies) &&
           !frame_backlog_is_full(admission->frames) && admission->walks_us < ADMISSION_WALKS_US;
}

/* Puts a request at the end of its line and returns true if it may not begin; false: it may. */
bool admission_put_off(struct admission *admission, struct list_link *request, enum admission_line line);

/* Takes a request out of its line, if it is in one: it begins, or its client has gone. */
void admission_leave(struct list_link *request);

/* The first request of that line if it may begin now, or NULL; it stays in the line. */
struct list_link *admission_next(const struct admission *admission, enum admission_line line);

/* Does any line have one that may begin now, or in the next turn? */
bool admission_has_next(const struct admission *admission);

/* Could a request of that line begin in the next turn? Then it waits for the server, not for clients or the disk. */
bool admission_has_room(const struct admission *admission, enum admission_line line);

#endif
