/* The loop for sinks that do not remember rows. */
#include "relay/worker.h"

void worker_attempt_run(struct worker *worker)
{
    const struct fault fault = {.text = "sinks of this type are not built in yet"};
    worker_bear(worker, STEP_UNFIT, &fault);
}
