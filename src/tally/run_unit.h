/* A run in progress: the data that its threads share, and how its workers handle one unit. run.c is the whole run. */
#ifndef TALLY_TALLY_RUN_UNIT_H
#define TALLY_TALLY_RUN_UNIT_H

#include "tally/progress.h"
#include "tally/run_batch.h"
#include "worker/worker.h"
#include <limits.h>

/* The values of its options; run.c explains them. */
struct run_settings {
    struct option_number workers;
    const char *name;
    bool again;
    struct option_number attempts;
    struct option_number retry_after;
    struct option_number time_limit;
    struct option_number visibility;
    struct option_number grace;
    const char *result_to;
    bool is_quiet;
};

struct run {
    struct invocation *invocation;
    const struct run_settings *settings;
    struct run_plan plan;
    char path[PATH_MAX]; /* of the command */
    struct worker_pool *pool;
    bool is_quiet;
    pthread_mutex_t mutex; /* guards the following members and the two outputs */
    struct progress progress;
    bool is_output_terminal; /* so other output would be on the bar's line */
    struct unit_map map;
    uint64_t ended;
    uint64_t failed;
    bool is_output_broken;
    bool is_complete;
    struct run_completion completion;
    struct tally_client *waiter_client;
};

/* The handler's two functions (worker.h); their context is the struct run. */
enum worker_verdict run_unit_accept(void *context, struct worker_slot *slot, const struct tally_message *message,
                                    struct worker_job *job);
enum worker_verdict run_unit_finish(void *context, struct worker_slot *slot, const struct tally_message *message,
                                    struct worker_job *job, const struct worker_end *end);

#endif
