/* The publisher that sends the rows of an import (docs/reference/publishers.md), a thousand in one record.
 *
 * The publisher of an export follows from the export, and remembers the numbers of its rows for ever. So an import that
 * is repeated adds nothing. Other messages go to one of a few publishers that their queue has for them. There each is
 * known by its MessageDeduplicationId, for as long as the queue remembers that. */
#ifndef TALLY_TALLY_PUBLICATION_H
#define TALLY_TALLY_PUBLICATION_H

#include "base/bytes.h"
#include "tally/command.h"
#include "tally/import_rows.h"

/* How often, and at what distance, what the server has no room for is tried again: a minute, because libtally repeats
 * each for a second, too. */
#define PUBLICATION_PAUSES_MAX 25u
#define PUBLICATION_PAUSE_MS 1000u

struct publication {
    bool is_open;
    bool is_shared; /* by imports that have nothing to do with each other */
    char publisher[UUID_TEXT_SIZE + 1];
    uint8_t owner[UUID_SIZE];
    uint64_t epoch;
    uint64_t batch;   /* the last one */
    uint64_t last_id; /* of its last row; 0: none was sent */
    char last_uid[UUID_TEXT_SIZE + 1];
};

/* Why a row did not go, and those behind it. */
struct publication_fault {
    bool is_there;
    bool is_for_now; /* memory or disk are full: it may go through later */
    char code[96];
    char text[1024];
};

/* What a request came to: the rows that it settled are no longer among those to send. */
struct publication_outcome {
    size_t sent;
    size_t known;                   /* there before, or duplicates by their ids */
    struct publication_fault fault; /* of the row that is the first now */
};

/* Opens the publisher, and takes it from an import of the same rows that is still running. Returns the program's
 * status; if it is not EXIT_DONE, the user has been told. */
int publication_open(struct publication *publication, struct invocation *invocation, const char *publisher,
                     bool is_shared);

/* Lets the server forget all rows but the last; it keeps their numbers. Nobody is told if that fails: it costs the
 * server some memory, and the next import does it. */
void publication_close(struct publication *publication, struct invocation *invocation);

/* EXIT_DONE with the outcome set, or the exit status; then the user has been told. */
int publication_send(struct publication *publication, struct invocation *invocation, struct import_rows *rows,
                     struct publication_outcome *outcome);

#endif
