/* The record of a long run: what its processes know of every message, in a file that all of them map.
 *
 * A message is a number, counted from 0, which its body carries. The record outlives any process of the load and the
 * server: workers may be killed under it, and the next phase goes on with it. A mark is set before a request leaves or
 * after a reply was read, never in between, so what it says is certain. A message may have ended whose delete was asked
 * for by somebody who did not live to read the answer; not if it was refused, and not if the message was delivered
 * again after it. */
#ifndef TALLY_BENCH_RECORD_H
#define TALLY_BENCH_RECORD_H

#include "histogram.h"
#include "text.h"

#include <stdio.h>

enum { RECORD_SLOTS = 64, RECORD_BODY_MIN = 48, RECORD_BODY_MAX = 1024 };

/* Whose latencies the record keeps. */
enum record_kind { KIND_SEND, KIND_RECEIVE, KIND_DELETE, KIND_AGE, KIND_COUNT };

/* One for each process of the load, which alone writes it. */
struct record_slot {
    struct histogram latency[KIND_COUNT]; /* age: from when a message's send was due until its first delivery */
};

enum record_count {
    COUNT_ASKED, /* messages whose send was asked for; the next number */
    COUNT_SENT,  /* and acknowledged */
    COUNT_DELIVERIES,
    COUNT_ENDED,      /* messages whose delete was confirmed */
    COUNT_GIVEN_BACK, /* deliveries returned to the queue */
    COUNT_LET_GO,     /* deliveries that were left alone until their lease ended */
    COUNT_END_ASKED,  /* deletes that were asked for, */
    COUNT_REFUSED,    /* that were refused, */
    COUNT_LATE,       /* that were confirmed too late to mean anything, */
    COUNT_ANSWERED,   /* and that were answered in time: confirmed or refused */
    COUNT_TWICE,      /* messages that were delivered, or whose delete was confirmed, after a confirmed delete */
    COUNT_HELD_TWICE, /* deliveries of a message that somebody held for longer than the run */
    COUNT_WRONG,      /* bodies that are none of this run */
    COUNT_COUNT,
};

struct record;

/* Maps the record of `messages` messages, whose bodies all have that size, and makes the file where there is none. Ends
 * the program if it can't. */
struct record *record_open(const char *path, uint64_t messages, unsigned body_size);

void record_count(struct record *record, enum record_count count, uint64_t more);
uint64_t record_counted(const struct record *record, enum record_count count);

/* The next `count` numbers, whose sends are asked for now; returns the first. Ends the program where there are no
 * more. */
uint64_t record_take(struct record *record, uint64_t count);

/* Writes the body of a message over size >= RECORD_BODY_MIN bytes: its number, when its send was due, a digest of both,
 * and text that follows from the number. */
void record_body_write(char *at, unsigned size, uint64_t number, uint64_t due_at_ns);

/* All of these may be told of any number that record_take gave. */
void record_sent(struct record *record, uint64_t number);
/* A body was delivered. False if it is wrong in any byte or its size; then that was counted. Else *number, and the age
 * is added to the slot if it is the message's first delivery. */
bool record_delivered(struct record *record, struct record_slot *slot, struct view body, uint64_t now_ns,
                      uint64_t *number);
/* It is held for longer than the run lasts: nobody may be given it until it is given back. */
void record_held(struct record *record, uint64_t number);
void record_given_back(struct record *record, uint64_t number);
void record_end_asked(struct record *record, uint64_t number);
/* What became of it: it was confirmed; it was refused; or it was confirmed, but that may have been to an old handle. */
void record_ended(struct record *record, uint64_t number);
void record_end_refused(struct record *record, uint64_t number);
void record_end_late(struct record *record);

struct record_slot *record_slot(struct record *record, unsigned slot);

/* What all processes of the load have added so far, in *latency. */
void record_latency(const struct record *record, enum record_kind kind, struct histogram *latency);

/* Prints p50, p99 and p99.9 in microseconds, as one more field of a JSON object; nothing where there is no latency. */
void record_percentiles_print(enum record_kind kind, const struct histogram *latency, FILE *file);

/* Prints counts as fields of a JSON object, without its braces. */
void record_counts_print(const struct record *record, FILE *file);

/* Walks all marks and prints one line of JSON: the counts, and of the messages acknowledged how many were never seen,
 * how many never ended (lost), and how many may have (maybe_ended); and how many deletes have no answer in time, which
 * maybe_ended can't exceed (unanswered); and how many messages were seen whose send was never acknowledged; and p50,
 * p99 and p99.9 of all latencies, in microseconds. */
void record_verdict_print(const struct record *record, FILE *file);

#endif
