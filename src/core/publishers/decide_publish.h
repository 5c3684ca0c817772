/* Decisions (docs/internals/architecture.md, "Decide and apply"). Publishers and their batches of rows. */
#ifndef TALLY_CORE_PUBLISHERS_DECIDE_PUBLISH_H
#define TALLY_CORE_PUBLISHERS_DECIDE_PUBLISH_H

#include "core/core.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_send.h"
#include "core/publishers/publisher.h"

/* Makes `owner` the publisher's owner under `epoch` (1 to 2^63 - 1) and creates it if there is none. *is_accepted: they
 * are the ones it knows now: the epoch was above the one known, or they were known before. ERROR_OVER_LIMIT: it would
 * be new, and there are PUBLISHERS_MAX. O(1). */
enum error decide_open_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t epoch,
                                 const uint8_t owner[PUBLISHER_ID_SIZE], bool *is_accepted);

/* Says of a publisher that was just made who may open it until a row of it names a queue: a hash, not 0. */
void decide_claim_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t claim);

/* The publisher of this id, or NULL. Borrowed until the next decision. */
const struct publisher *decide_find_publisher(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE]);

struct publish_command {
    uint8_t publisher[PUBLISHER_ID_SIZE];
    uint8_t owner[PUBLISHER_ID_SIZE];
    uint64_t epoch;
    uint64_t batch;           /* at least 1 */
    uint64_t confirmed_batch; /* below that */
    struct bytes rows;        /* each u64 id (1 to 2^63 - 1), uid: 1 to PUBLISHER_ROWS_MAX of them */
    bool is_strict;           /* behind a row that stays behind, all rows do, not only those of its group */
    bool blocks_refused;      /* a row that is refused stays behind, as one that is blocked does */
    uint64_t size_max;        /* bytes of events that the frame has room for */
};

#define PUBLICATION_CELLS 2048u

static_assert(PUBLICATION_CELLS >= 2 * PUBLISHER_ROWS_MAX, "a place is found soon, and one is always free");

/* A batch between its beginning and its end. Its caller holds it and reads `rows` and `results`; all else is of
 * decide_publish.c alone. */
struct publication {
    const struct publish_command *command;
    struct digest_tag digest;
    uint32_t publisher;                 /* slot */
    uint32_t row_count;                 /* of the batch */
    uint32_t next;                      /* index of the row that is decided next */
    bool is_full;                       /* there is no room for more, or it took too long: the rest is put off */
    uint64_t visits;                    /* that the searches for cycles took */
    size_t frame_size;                  /* before it began */
    bool has_left;                      /* a row has stayed behind */
    struct bytes group;                 /* of the row that is decided next */
    struct table left;                  /* groups that have: 1 + index in left_groups, by hash */
    struct buffer left_groups;          /* struct bytes */
    uint64_t hash;                      /* of the uid of the row that is decided next */
    uint16_t stored[PUBLICATION_CELLS]; /* rows that are known from now on: 1 + index, in an open table by that hash */
    struct buffer rows;                 /* those, as in an event */
    struct buffer results;              /* of the others; see publisher.h */
};

/* Begins a batch. Then each row is decided, in order, by one of the next four; then decide_publish_end(). All in one
 * frame: no row's fault is the batch's. With *is_repeat, the batch is the last one again: there is nothing to decide,
 * and the publisher has its results. Errors, in order: ERROR_PUBLISHER_FENCED: epoch and owner are not those that it
 * knows; ERROR_PUBLISHER_BATCH_OUT_OF_ORDER: neither the last batch nor the next; ERROR_PUBLISHER_BATCH_CONFLICT: the
 * last one, with other rows; ERROR_PUBLISHER_IS_FULL: with this batch, more rows might be unconfirmed than there may
 * be; ERROR_OVER_LIMIT: size_max is too little for so many rows. */
enum error decide_publish_begin(struct core *core, const struct publish_command *command,
                                struct publication *publication, bool *is_repeat);

/* Has the row been stored before, is it too old to say, does it stand behind one of its group that stays behind, or is
 * no room left? Then that is its result, and the next row's turn. `group` is the row's, or empty; borrowed until
 * decide_publish_end(). O(1). */
bool decide_publish_known(const struct core *core, struct publication *publication, struct bytes group);

/* Sends the row's message. On an error of decide_send() it is still this row's turn: it is decide_publish_fault()'s. */
enum error decide_publish_send(struct core *core, struct publication *publication, const struct send_command *command,
                               struct send_result *result);

/* Ends the message as decide_delete() would; where that would do nothing, the row is stale. `queue` is that of the
 * handle; NULL: it is gone. */
void decide_publish_delete(struct core *core, struct publication *publication, struct queue *queue, struct bytes handle,
                           struct receipt_use *use);

/* The row was refused or is blocked. */
void decide_publish_fault(struct core *core, struct publication *publication, enum row_fate fate, struct bytes code,
                          struct bytes text);

/* The batch is the last one now. The publication's results can be read until decide_publish_deinit(). */
void decide_publish_end(struct core *core, struct publication *publication);
void decide_publish_deinit(struct publication *publication);

#endif
