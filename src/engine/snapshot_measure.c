#include "engine/snapshot_measure.h"

#include "base/accounted.h"

/* A state of up to the one size is measured whenever it is asked for, a larger one at most so often. */
#define QUICK_SIZE (UINT64_C(64) << 10)
#define PAUSE_MS UINT64_C(50)

/* What an event adds to a snapshot, as a multiple of its own size. An event that adds more, as one that counts units of
 * a batch, shows in the memory. */
#define GROWTH_FACTOR 4u

void snapshot_measure_note(struct snapshot_measure *measure, uint64_t size, uint64_t position)
{
    *measure = (struct snapshot_measure){.size = size, .end = position, .in_use = accounted_in_use()};
}

static void count_piece(void *context, struct bytes piece)
{
    *(uint64_t *)context += piece.size;
}

void snapshot_measure_renew(struct snapshot_measure *measure, const struct core *core, uint64_t next, uint64_t grown,
                            uint64_t end, uint64_t now_ms)
{
    if (measure->size > SNAPSHOT_MEASURE_MAX || grown == 0 ||
        (measure->size > QUICK_SIZE && now_ms < measure->measured_ms + PAUSE_MS))
        return;
    uint64_t size = next;
    if (next <= SNAPSHOT_MEASURE_MAX) {
        size = 0;
        core_encode(core, count_piece, &size);
    }
    *measure = (struct snapshot_measure){.size = size, .end = end, .in_use = accounted_in_use(), .measured_ms = now_ms};
}

uint64_t snapshot_measure_bound(const struct snapshot_measure *measure, uint64_t grown)
{
    if (measure->size > SNAPSHOT_MEASURE_MAX)
        return UINT64_MAX;
    const uint64_t in_use = accounted_in_use();
    const uint64_t by_memory = grown > 0 && in_use > measure->in_use ? in_use - measure->in_use : 0;
    const uint64_t by_log = GROWTH_FACTOR * grown;
    const uint64_t bound = measure->size + (by_memory > by_log ? by_memory : by_log);
    return bound < in_use ? bound : in_use;
}
