/* A sink: where rows go. One thread at a time, the worker's; every call blocks. */
#ifndef TALLY_RELAY_SINK_H
#define TALLY_RELAY_SINK_H

#include "relay/lease.h"
#include "relay/row.h"
#include "relay/source.h"

/* What became of a row. */
enum verdict {
    VERDICT_UNTRIED, /* nothing was sent for it: the permit ended, the sink is down, or the call had run long enough */
    VERDICT_DELIVERED, /* the sink has it, durably: by this attempt or by one before */
    VERDICT_REFUSED,   /* the sink refused this very row and would again: to be parked */
    /* it is not in the sink, or a repeat makes no difference: again after `retry_ms`, its group behind it */
    VERDICT_RETRY,
    VERDICT_DOUBTED, /* it may have been delivered and must not be tried again: to be parked as in doubt */
    VERDICT_BLOCKED, /* its destination can't be used: it and all that goes there wait until it can */
};

struct attempt {
    const struct row *row;
    /* it may have been delivered before: a sink that can't know says so in the message (`maybe-duplicate`) */
    bool is_repeat;
    enum verdict verdict;
    bool is_duplicate;     /* with DELIVERED: the sink had it from an attempt before */
    bool may_have_arrived; /* of this attempt, with RETRY or BLOCKED: no answer says that the sink did not take it */
    /* with RETRY: its request has not ended, so it is no failure to be counted; it may have arrived */
    bool is_under_way;
    uint32_t retry_ms; /* the pause that the sink asks for; 0: the relay chooses */
    char reason[ROW_REASON_SIZE];
};

/* May a request still leave? Checked right before each one (the lease, by the monotonic clock). */
struct permit {
    bool (*is_valid)(void *context);
    void *context;
};

struct sink;

struct sink_ops {
    /* A new term begins. A sink that remembers says which rows it has that were never confirmed: they are to be deleted
     * from the source first; and if it knows a later term, STEP_FENCED and *epoch_known, above which the source must be
     * taken over again. */
    enum step (*open)(struct sink *sink, const struct term *term, uint64_t *epoch_known, struct row_name **stored,
                      size_t *stored_count, struct arena *arena, struct fault *fault);

    /* Tries to deliver the rows, in their order within each group, and fills in what became of each. STEP_UNREACHABLE:
     * nothing is known of any of them; the caller then repeats the very same call before any other. A sink that does
     * not remember does not answer so, but says of each row what is known. `settled` calls of this term are over: every
     * row of theirs has left the source. */
    enum step (*deliver)(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                         uint64_t settled, const struct permit *permit, struct fault *fault);
    /* How long after its first attempt a repeat of this row is harmless; 0: each may be one more effect. NULL: as the
     * head says. */
    uint64_t (*memory_ms)(const struct sink *sink, const struct row *row);
    /* Ends the call in progress, and those after it, as if no answer came. For a relay that is to end, and a sink where
     * what may have arrived is tried again (is_interruptible; else NULL). All other calls are the worker's, this one
     * any thread's. */
    void (*interrupt)(struct sink *sink);
    void (*close)(struct sink *sink);
};

enum sink_memory {
    SINK_REMEMBERS, /* by uid, for ever: a repeat is never a second copy */
    SINK_FORGETS,   /* a repeat within `memory_ms` of the first attempt is harmless */
    SINK_BLIND,     /* each attempt may be one more effect */
};

/* The common part of each kind of sink. */
struct sink {
    const struct sink_ops *ops;
    enum sink_memory memory;
    uint64_t memory_ms; /* if it forgets */
    bool repeats; /* one that does not remember: what may have been delivered is tried again, rather than parked */
    bool parks_forgotten; /* but not where the sink would have known it for a while, and that is over */
    unsigned rows_max;    /* of one call */
    size_t size_max;
    bool takes_acks;
    /* Set by each deliver() of a sink that does not remember: the sink as a whole does not answer or asks for a pause,
     * so the relay pauses and not the rows. The verdicts say which row was tried last, and why it failed. */
    bool is_down;
    bool is_interruptible; /* a row whose answer is given up is tried again, and never waits for a person */
};

#endif
