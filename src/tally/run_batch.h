/* The server's side of a run: its batch, its two queues, and the completion message.
 *
 * How a run survives being killed anywhere
 * - The ledger is the batch: each file or line is an external unit. It is registered by its key and ended by
 *   CompleteUnits. Both count once, however often they are repeated.
 * - Units are registered after their messages were sent. So a registered unit that has not ended has a message: in the
 *   work queue, or with a worker that will return it or lose its lease. Only units that are not registered yet are sent
 *   again, so a kill doubles at most RUN_CHUNK messages. A second message of a unit is recognised (unit_map.h); at
 *   worst it runs its command again and is not counted again.
 * - A message is deleted after its unit's end was recorded, never before.
 * - The seal comes last: a sealed batch has all its units.
 * - If messages are lost (somebody purged the queue), run_batch_mend() sends them again. Each step may be repeated, so
 *   the same command line continues wherever the last one stopped. */
#ifndef TALLY_TALLY_RUN_BATCH_H
#define TALLY_TALLY_RUN_BATCH_H

#include "tally/run_plan.h"
#include <pthread.h>

#define RUN_CHUNK 1000

enum run_stage {
    RUN_FRESH,    /* the batch was made now */
    RUN_RESUMED,  /* it existed and goes on */
    RUN_COMPLETE, /* it existed and is complete */
};

/* Makes or finds the batch and, unless it is complete, its queues. */
enum tally_status run_batch_open(struct tally_client *client, const struct run_plan *plan, enum run_stage *stage);

/* Deletes a batch of an earlier run and the rest of that run, complete or not. */
enum tally_status run_batch_forget(struct tally_client *client, const struct run_plan *plan);

/* Marks in the map which units are registered and which have ended; `failed` counts those that failed. */
enum tally_status run_batch_load(struct tally_client *client, const struct run_plan *plan, struct unit_map *map,
                                 uint64_t *ended, uint64_t *failed);

/* Sends a message for each unit that is not registered and registers it, then seals the batch. If the batch is already
 * sealed, nothing is added; `left_out` counts the units that it does not have. */
enum tally_status run_batch_fill(struct tally_client *client, const struct run_plan *plan, struct unit_map *map,
                                 uint64_t *left_out);

/* If the work queue is empty or gone although units are outstanding, sends their messages again. `mended` counts them.
 * `mutex` guards the map, which other threads use at the same time. */
enum tally_status run_batch_mend(struct tally_client *client, const struct run_plan *plan, const struct unit_map *map,
                                 pthread_mutex_t *mutex, uint64_t *mended);

/* The completion message of the run. */
struct run_completion {
    char *body_owned;
    char *handle_owned; /* NULL: another process has taken the message; the body was made from DescribeBatch */
    char status[16];
    char message_id[TALLY_MESSAGE_ID_SIZE];
    uint64_t total;
    uint64_t succeeded;
};

void run_completion_deinit(struct run_completion *completion);

/* Waits for the completion message for up to `wait_s` seconds (0 to 20). `is_complete`: it came, and `completion` is
 * filled. */
enum tally_status run_batch_completion(struct tally_client *client, const struct run_plan *plan, unsigned wait_s,
                                       bool *is_complete, struct run_completion *completion);

/* After the completion was printed: deletes its message and both queues. */
enum tally_status run_batch_close(struct tally_client *client, const struct run_plan *plan,
                                  const struct run_completion *completion);

#endif
