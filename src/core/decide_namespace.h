/* Decisions (docs/internals/architecture.md, "Decide and apply"). The namespace itself, and the effects of time on it.
 * */
#ifndef TALLY_CORE_DECIDE_NAMESPACE_H
#define TALLY_CORE_DECIDE_NAMESPACE_H

#include "core/core.h"

/* The first event of a new log. */
void decide_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size);

/* A lease that a restart interrupts lasts at most this much longer (docs/explanation/guarantees.md, "Restarts"). */
#define RESTART_GRACE_MS 30000u

/* The first event of each owner, and of one who goes on after a long silence. No time passes before it. O(leases). */
void decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);

/* By how much a restore raises numbers: the newest ones of the log that was left behind are certainly below that, and a
 * JSON number holds what two thousand restores have raised. */
#define RESTORE_STEP (UINT64_C(1) << 42)

/* The log was made from a backup: raises every number that must not come back, and pauses every relay until a person
 * resumes it. False, with nothing changed: the numbers are as high as they can get. O(publishers + pools + relays). */
bool decide_restore(struct core *core, uint64_t restored_at_ms);

/* Called before a reply is given. The reply may show what time has done by itself, so the time is logged, unless an
 * event of this frame or a later one has logged it. Otherwise a crash could undo what a client was told, for example
 * the end of a lease. */
void decide_time_passed(struct core *core);

/* Advances the time to now_ms, not before the core's time, inside the open frame. Later decisions are made at that
 * time. */
void decide_pass_time(struct core *core, uint64_t now_ms);

/* Decides what has fallen due: messages whose retention is over, deadlines and retention of batches, and a portion of
 * the messages that purges and cancels left to end. Only schedules are left out (decide_fire_schedule()). Does a
 * bounded amount; true if more is due now. */
bool decide_due(struct core *core);

#endif
