/* Simulated time, and who runs in it. A fiber is a thread of a simulated process: it runs until it waits, and nothing
 * else runs meanwhile. What happens at one time happens in the order in which it was asked for, so a run can be
 * repeated exactly.
 *
 * A fiber that is killed is never resumed, and what its process had in memory is never freed: each seed runs in a
 * process of its own. */
#ifndef TALLY_TESTS_SIM_OWNERS_FIBER_H
#define TALLY_TESTS_SIM_OWNERS_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#define MS UINT64_C(1000) /* times are microseconds since the beginning, unless their names say ms */
#define NEVER UINT64_MAX

struct fiber;

/* A process of a simulated machine. */
struct process {
    int pid;
    uint64_t stopped_until; /* SIGSTOP: its fibers do not run before that */
    uint64_t cut_until;     /* its packets to PostgreSQL, and back, are held until then */
    uint64_t monotonic_ms;  /* what its clocks showed at the beginning; a wall clock may jump */
    uint64_t wall_ms;
};

uint64_t sim_now(void);

/* `call` is made at that time, on no fiber. */
void sim_at(uint64_t when, void (*call)(void *context, uint64_t number), void *context, uint64_t number);

/* Makes the next call; false if there is none. */
bool sim_step(void);

/* Begins to run when the simulation comes to it. */
struct fiber *fiber_start(struct process *process, void (*run)(void *context), void *context);
void fiber_kill(struct fiber *fiber);
void fiber_kill_all(const struct process *process);

/* The fiber that runs, and its process; NULL: none. */
struct fiber *fiber_current(void);
struct process *fiber_process(void);

/* The fiber that runs waits until then, or until it is woken. */
void fiber_wait(uint64_t until);
void fiber_wake(struct fiber *fiber);

#endif
