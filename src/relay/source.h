/* A source: where rows come from, and where their outcome is recorded.
 *
 * Each call blocks and is one transaction, or none; none is open between two calls. Every one that changes something
 * checks the term first and answers STEP_FENCED if it is not the source's (P10). After STEP_UNREACHABLE the caller may
 * repeat any of them: each is written so that a repeat is harmless. One thread at a time, the worker's. */
#ifndef TALLY_RELAY_SOURCE_H
#define TALLY_RELAY_SOURCE_H

#include "relay/lease.h"
#include "relay/row.h"

#define SCAN_ROWS_MAX 1000u

/* Names a row. */
struct row_name {
    uint64_t id;
    struct uid uid;
};

/* Rows that were about to be tried, noted before the first attempt, and have not been dealt with since. */
struct intent {
    uint64_t epoch;
    uint64_t number; /* from 1 on within its epoch */
    uint64_t age_ms; /* since it was noted, at least: see machine_time.h */
    struct row_name *names;
    size_t count;
};

/* The health of a source, for the operator. */
struct source_health {
    uint64_t waiting_count; /* rows, an estimate where there are many */
    uint64_t oldest_age_ms;
    uint64_t parked_count;
    /* a coming problem, such as an old transaction that holds back VACUUM; "": none */
    char warning[FAULT_TEXT_SIZE];
};

/* A parked row. */
struct parked {
    struct row_name name;
    struct bytes queue, group;
    struct bytes error;
    bool is_doubted; /* it may have been delivered; else it was refused */
    uint64_t age_ms; /* since it was parked */
};

enum resolution {
    RESOLUTION_SEND, /* deliver it (again): it goes to the end of its group under its old uid */
    RESOLUTION_DROP, /* it is done */
};

struct source;

struct source_ops {
    /* The next rows that are not among `in_flight`, in the order of their ids: at most `limit` rows and about
     * `size_max` bytes, in two halves, so that the source can work while the caller does: after begin_scan() exactly
     * one end_scan(), and nothing else between. begin_scan() first settles what `done` names: deletes those rows, whose
     * delivery is durable (P5). `rows` is emptied first; where not all of `done` were there any more, it may stay empty
     * and cut short: the next scan finds what there is. */
    enum step (*begin_scan)(struct source *source, const struct term *term, const struct row_name *done,
                            size_t done_count, const struct row_name *in_flight, size_t in_flight_count, unsigned limit,
                            size_t size_max, struct fault *fault);
    enum step (*end_scan)(struct source *source, struct rows *rows, struct fault *fault);

    /* Are these rows on as many replicas as required, so that they survive the loss of the source (P25)? *is_kept
     * false: not yet, and `fault` says what they wait for. Not STEP_OK: it can't be found out any more, and the rows
     * must be read again. NULL: there is nothing to wait for. */
    enum step (*check_durable)(struct source *source, const struct rows *rows, bool *is_kept, struct fault *fault);

    /* Parks a row: it leaves the outbox and stays listed. */
    enum step (*park)(struct source *source, const struct term *term, const struct row *row, const char *error,
                      bool is_doubted, struct fault *fault);

    /* The next three are NULL where a row itself says whether somebody may have tried before (row.receive_count). One
     * step (P16): the rows of intent `last` (0: none) are done, and these are about to be tried. No names: nothing
     * is. */
    enum step (*note)(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                      const struct row_name *names, size_t count, struct fault *fault);
    /* The first open intent behind `after`, by epoch and number (NULL: the oldest), and its rows that are still there;
     * *is_open false: none. What it points to stands in `rows`. Several are open when rows of an older one still wait
     * for their next attempt. */
    enum step (*find_intent)(struct source *source, const struct term *term, const struct intent *after,
                             struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault);
    /* Ends an intent, of this epoch or an earlier one: the named rows of it are done, the others go back to waiting.
     * Only the epoch and the number of `intent` are read. */
    enum step (*end_intent)(struct source *source, const struct term *term, const struct intent *intent,
                            const struct row_name *done, size_t count, struct fault *fault);

    enum step (*check_health)(struct source *source, struct source_health *health, struct fault *fault);
    /* The oldest parked rows, at most `limit`, with all they point to in the arena. */
    enum step (*list_parked)(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                             size_t *count, struct fault *fault);
    enum step (*resolve)(struct source *source, const struct uid *uid, enum resolution resolution, bool *is_found,
                         struct fault *fault);
    /* The relay is about to end: leaves what it has in hand to others at once. NULL: it has nothing. */
    void (*give_back)(struct source *source);
    /* Ends the call in progress, and those after it, as if no answer came. For a relay that is to end and whose source
     * says nothing: all other calls are the worker's, this one any thread's. NULL: no call takes long. */
    void (*interrupt)(struct source *source);
    void (*close)(struct source *source);
};

/* The common part of each kind of source. */
struct source {
    const struct source_ops *ops;
};

#endif
