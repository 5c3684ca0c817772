/* What both workers share: worker_publish.c, for sinks that remember, and worker_attempt.c, for others. A worker runs
 * for one term: it is started when the relay owns the source and its sink is open, and ends when it is told to or can't
 * go on. relay.c is behind it. */
#ifndef TALLY_RELAY_WORKER_H
#define TALLY_RELAY_WORKER_H

#include "relay/sink.h"
#include "relay/source.h"
#include "relay/spec.h"

struct relay;

/* Why a worker ended. */
enum worker_end {
    WORKER_RUNS,
    WORKER_TOLD,   /* the relay is to stop, or its lease is gone */
    WORKER_FENCED, /* somebody refused its term */
    WORKER_AGAIN,  /* relay and sink disagree: the term must begin again */
};

struct worker {
    struct relay *relay;
    const struct relay_spec *spec;
    struct source *source;
    struct sink *sink;
    struct term term;
    struct permit permit; /* for sink->deliver */

    /* What sink->open said is stored there and was never confirmed; it stands in `arena`. */
    struct arena arena;
    struct row_name *stored;
    size_t stored_count;

    enum worker_end end;
    unsigned failures; /* in a row */
    bool is_on_trial; /* the work was begun anew because the sink did not fit: that the source answers proves nothing */
    uint64_t undurable_ms; /* since when rows wait in worker_await_durable(); 0: they do not */
    uint64_t random;       /* state of the generator for jitter; never 0 */
};

void worker_publish_run(struct worker *worker);
void worker_attempt_run(struct worker *worker);

/* May the next piece of work begin? Asked when nothing is in flight and no scan is open: here the relay does what an
 * operator asked for and looks at the source's health, and while it is paused the call blocks. False: the worker is to
 * return. */
bool worker_may_begin(struct worker *worker);

/* Does worker_may_begin() have something to do, or would it return false? Then a worker that could go on for ever must
 * finish its work in flight. */
bool worker_has_request(struct worker *worker);

/* Is the term still the relay's? Then what was begun may be ended, also while the relay is to stop. Cheap. */
bool worker_goes_on(struct worker *worker);

/* Sleeps; false, and at once, if the worker is to return. */
bool worker_wait(struct worker *worker, unsigned wait_ms);

/* sink->deliver, which a relay that is to end gives up only where that leaves no row in doubt. */
enum step worker_deliver(struct worker *worker, struct attempt *attempts, size_t count, uint64_t settled,
                         struct fault *fault);

/* After a step that was not STEP_OK. STEP_FENCED ends the term: false. Otherwise says what is wrong in the status and
 * waits, longer each time; true: try again. False when the worker is to return; so it will be when the keeper has given
 * the lease up because nothing works. An outage never counts as a failure of a row (P14). No scan may be open:
 * meanwhile the source's health is looked at. */
bool worker_handle_failure(struct worker *worker, enum step step, const struct fault *fault);

/* A step was all right again: the outage, if there was one, is over. Not so on trial, where each new beginning would
 * hide from the keeper and from people that none of them leads to anything (P27). */
void worker_recovered(struct worker *worker);

/* The sink has taken what it was given, or there is nothing left to give: the same, and the trial is over. */
void worker_proved(struct worker *worker);

/* The pause before try number `failures` (from 1): doubles from 50 ms to 30 s, less up to a half at random, so that
 * many relays of one sink that comes back do not come all at once. */
unsigned worker_backoff_ms(struct worker *worker, unsigned failures);

enum durability {
    DURABLE,
    NOT_YET_DURABLE,
    DURABILITY_UNKNOWN, /* the rows are to be dropped; if worker_may_begin() says so, they can be read again */
};

/* To be asked with rows that were read and of which none is in flight, before they are published: does their source
 * keep them, whatever fails (source_ops.check_durable)? Waits for that for a while, as worker_may_begin() does its work
 * meanwhile, and says so in the status if it takes long; the lease stays, since the next owner would wait as well. */
enum durability worker_await_durable(struct worker *worker, const struct rows *rows);

/* Progress with rows: added to the status; `position` if it is higher. */
struct worker_progress {
    uint64_t delivered;
    uint64_t duplicates;
    uint64_t retries;
    uint64_t parked;
    uint64_t position;
};
void worker_report(struct worker *worker, const struct worker_progress *progress);

/* Something waits for a person while the rest goes on; NULL: nothing any more. */
void worker_report_blocked(struct worker *worker, const char *text);

#endif
