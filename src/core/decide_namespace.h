/* Decisions (docs/architecture.md, "Decide and apply"). The namespace itself, and what time does to it. */
#ifndef TALLY_CORE_DECIDE_NAMESPACE_H
#define TALLY_CORE_DECIDE_NAMESPACE_H

#include "core/core.h"

/* The first event of a new log. */
void decide_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size);

/* A lease that a restart interrupts lasts this much longer at most (docs/guarantees.md, section 2). */
#define RESTART_GRACE_MS 30000u

/* The first event of each owner; in a frame of its own whose time is that of the last frame. O(leases). */
void decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);

/* Before a reply is given: what time has done by itself may show in it, so it is logged, if no event of this frame or a
 * later one has done that yet. Else a crash could take back what somebody was told, the end of a lease for one. */
void decide_time_passed(struct core *core);

/* Lets time pass to now_ms, not before the core's, inside the open frame: what follows is decided then. */
void decide_pass_time(struct core *core, uint64_t now_ms);

/* Decides what has fallen due: messages whose retention is over, deadlines and retention of batches, and a
 * portion of what purges and cancels left to end; all but schedules (decide_fire_schedule()). Does a bounded
 * amount; true if more is due now. */
bool decide_due(struct core *core);

#endif
