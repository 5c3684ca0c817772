/* The name of a run and its units. Both follow from the command line and the folder alone, so the same command line
 * finds the same batch again. Knows nothing of the server. */
#ifndef TALLY_TALLY_RUN_PLAN_H
#define TALLY_TALLY_RUN_PLAN_H

#include "base/arena.h"
#include "tally/command.h"
#include "tally/input.h"
#include "tally/unit_map.h"

#define RUN_NAME_SIZE_MAX 64

struct run_plan {
    const char *folder;                        /* as given; NULL: the units are lines of standard input */
    char batch[RUN_NAME_SIZE_MAX + 8];         /* run-NAME */
    char work_queue[RUN_NAME_SIZE_MAX + 16];   /* tally-run-NAME */
    char result_queue[RUN_NAME_SIZE_MAX + 17]; /* tally-run-NAME-done */
};

/* Names the run and adds its units to `map`. The name is `name`, or else made from the folder's real path (or the
 * lines) and the command. EXIT_DONE, or the exit status; then the user has been told. */
int run_plan_init(struct run_plan *plan, const struct invocation *invocation, const char *name, struct unit_map *map);

/* The text that replaces {} in the command: a file's path, or the line; in the arena. */
char *run_plan_argument(const struct run_plan *plan, struct arena *arena, const char *text);

#endif
