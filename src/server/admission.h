/* Admission: may a request begin now, and if not, when? It may have to wait for two reasons: the replies that exist
 * take nearly all the memory they may (api/reply_budget.h), or the disk is far behind (engine/frame_backlog.h).
 *
 * Such a request waits in one of three lines. Requests with short replies have their own line, which finds room sooner,
 * so that messages are sent and ended while large replies wait for slow clients. Requests about no namespace have their
 * own line too, because they need no disk. In a line it is first come, first served. No line waits for another. */
#ifndef TALLY_SERVER_ADMISSION_H
#define TALLY_SERVER_ADMISSION_H

#include "api/reply_budget.h"
#include "base/list.h"
#include "engine/frame_backlog.h"

enum admission_line {
    ADMISSION_PROBE, /* /health, /live, /ready and /metrics */
    ADMISSION_SHORT,
    ADMISSION_LONG,
    ADMISSION_LINE_COUNT,
};

struct admission {
    const struct reply_budget *replies; /* borrowed, as is the next */
    const struct frame_backlog *frames;
    struct list lines[ADMISSION_LINE_COUNT];
};

void admission_init(struct admission *admission, const struct reply_budget *replies,
                    const struct frame_backlog *frames);

/* Does any request wait? */
static inline bool admission_is_waited_for(const struct admission *admission)
{
    return !list_is_empty(&admission->lines[ADMISSION_PROBE]) || !list_is_empty(&admission->lines[ADMISSION_SHORT]) ||
           !list_is_empty(&admission->lines[ADMISSION_LONG]);
}

/* May every request begin, whatever its reply? Nearly always this is true, and then nobody needs to find the request's
 * line. */
static inline bool admission_is_open(const struct admission *admission)
{
    return !admission_is_waited_for(admission) && !reply_budget_is_spent(admission->replies) &&
           !frame_backlog_is_full(admission->frames);
}

/* Puts a request at the end of its line and returns true if it may not begin; false: it may. */
bool admission_put_off(struct admission *admission, struct list_link *request, enum admission_line line);

/* Takes a request out of its line, if it is in one: it begins, or its client has gone. */
void admission_leave(struct list_link *request);

/* The first request of that line if it may begin now, or NULL; it stays in the line. And: does any line have one? */
struct list_link *admission_next(const struct admission *admission, enum admission_line line);
bool admission_has_next(const struct admission *admission);

#endif
