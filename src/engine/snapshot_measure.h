/* How large the next snapshot of a small namespace can be, from what the namespace itself holds. Its memory is not
 * counted apart from that of the others (base/accounted.h), so the state is encoded and counted now and then, while
 * that takes less than a millisecond or two. Between two such times the log says how much has come, or the memory of
 * all namespaces, whichever is more. */
#ifndef TALLY_ENGINE_SNAPSHOT_MEASURE_H
#define TALLY_ENGINE_SNAPSHOT_MEASURE_H

#include "core/core.h"

/* A larger state is not measured. */
#define SNAPSHOT_MEASURE_MAX (UINT64_C(1) << 20)

struct snapshot_measure {
    uint64_t size;   /* of the state, encoded, when the log ended there */
    uint64_t end;    /* position */
    uint64_t in_use; /* memory of all namespaces then */
    uint64_t measured_ms;
};

/* A snapshot of that size was taken or read, of the state as it was at that position. */
void snapshot_measure_note(struct snapshot_measure *measure, uint64_t size, uint64_t position);

/* Measures the state, if it is small and something was written since. `next`: about what a snapshot takes now; `grown`:
 * bytes of the log since measure->end; `end`: where it ends now. */
void snapshot_measure_renew(struct snapshot_measure *measure, const struct core *core, uint64_t next, uint64_t grown,
                            uint64_t end, uint64_t now_ms);

/* What a snapshot takes at most, when the log has grown by so many bytes since measure->end: no more than the memory of
 * all namespaces. UINT64_MAX: the state is not small. */
uint64_t snapshot_measure_bound(const struct snapshot_measure *measure, uint64_t grown);

#endif
