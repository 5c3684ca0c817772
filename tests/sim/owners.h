/* What the parts of the simulator of several owners ask of each other, and of its main program. */
#ifndef TALLY_TESTS_SIM_OWNERS_H
#define TALLY_TESTS_SIM_OWNERS_H

#include "log/disk.h"
#include "owners_fiber.h"

/* A line of the trace, where one is wanted. */
void owners_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* PostgreSQL has answered a statement of that process, sent at that time, which changed something under a fence. */
void owners_note_proof(const struct process *process, uint64_t sent_at);

/* PostgreSQL has given up the connection on which that process last changed something, because it was silent. */
void owners_note_given_up(const struct process *process);

/* The folder of that name, which a disk of PostgreSQL keeps its cache in. */
struct disk *owners_find_folder(const char *name);

/* Random bytes of the system. */
void owners_draw_bytes(void *bytes, size_t size);

/* --- a forked child that writes a snapshot (owners_child.c) ------------------------------------------------------- */

/* The child of that process is killed with it; its packets are held like its owner's (network_cut()). */
void owners_child_kill(const struct process *owner);
void owners_child_cut(const struct process *owner, uint64_t until);

/* A copy of a disk of PostgreSQL, as a forked process has it. */
struct disk *owners_disk_fork(const struct disk *disk);

#endif
