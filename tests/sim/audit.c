#include "audit.h"

#include "core/batches/batch.h"
#include "core/event.h"
#include "fail.h"
#include <inttypes.h>

/* The batch that an event brings nearer to its end, or 0. */
static uint64_t batch_of_cause(const struct event *event)
{
    switch (event->kind) {
    case EVENT_UNIT_ENDED:
        return event->unit_ended.batch;
    case EVENT_XOR_APPLIED:
        return event->xor_applied.batch;
    case EVENT_BATCH_SEALED:
        return event->batch_sealed.batch;
    default:
        return 0;
    }
}

/* What may end a batch, and what fires, in the events of `payload` before `end`. */
struct findings {
    bool has_cause;
    bool has_fired; /* the same event */
};

static struct findings scan_back(struct bytes payload, const uint8_t *end, const struct event_batch_fired *fired)
{
    struct findings findings = {false, false};
    struct event event;
    while (payload.ptr < end && event_decode(&payload, &event) && payload.ptr < end) {
        findings.has_cause = findings.has_cause || batch_of_cause(&event) == fired->batch;
        if (event.kind == EVENT_BATCH_FIRED && event.batch_fired.batch == fired->batch &&
            event.batch_fired.event == fired->event)
            findings.has_fired = true;
    }
    return findings;
}

void audit_frame(uint64_t sequence, struct bytes payload)
{
    struct bytes rest = payload;
    struct event event, before = {0};
    for (; rest.size > 0 && event_decode(&rest, &event); before = event) {
        if (event.kind == EVENT_SENT && event.sent.completes != 0 &&
            (before.kind != EVENT_BATCH_FIRED || before.batch_fired.batch != event.sent.batch ||
             before.batch_fired.event != event.sent.completes))
            fail("frame %" PRIu64 ": the message of an event of batch %" PRIu64 " does not follow that event", sequence,
                 event.sent.batch);
        if (event.kind != EVENT_BATCH_FIRED)
            continue;
        struct findings findings = scan_back(payload, rest.ptr, &event.batch_fired);
        bool is_by_units = event.batch_fired.event == BATCH_EVENT_COMPLETE &&
                           (event.batch_fired.status == BATCH_SUCCEEDED || event.batch_fired.status == BATCH_FAILED);
        if (findings.has_fired)
            fail("frame %" PRIu64 ": an event of batch %" PRIu64 " fires twice", sequence, event.batch_fired.batch);
        if (is_by_units && !findings.has_cause)
            fail("frame %" PRIu64 ": batch %" PRIu64 " completes, but its last unit ended in another frame", sequence,
                 event.batch_fired.batch);
    }
}
