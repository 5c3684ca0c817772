/* A row: one message on its way from a source to a sink. */
#ifndef TALLY_RELAY_ROW_H
#define TALLY_RELAY_ROW_H

#include "base/arena.h"
#include "base/buffer.h"

#define UID_SIZE UUID_SIZE
#define UID_TEXT_SIZE (UUID_TEXT_SIZE + 1) /* as text, in the form 8-4-4-4-12, with a NUL */

/* The attribute under which a row's uid travels with its message. */
#define ROW_UID_ATTRIBUTE "Tally.OutboxId"

struct uid {
    uint8_t bytes[UID_SIZE];
};

enum row_kind {
    ROW_SEND,
    ROW_ACK, /* a message that was received is to be deleted: `body` is its receipt handle, there is no queue */
};

/* What `ptr` NULL means stands beside each. All of it stands in one arena, of its struct rows as a rule. */
struct row {
    uint64_t id;    /* rises in the source; never 0 */
    struct uid uid; /* names the message for ever; outlives a reuse of the id */
    enum row_kind kind;
    uint32_t delay_s;
    struct bytes queue;            /* name of the sink's queue; empty: the sink's own */
    struct bytes group;            /* rows of one group are delivered in their order; NULL: no order */
    struct bytes deduplication_id; /* NULL: the uid */
    struct bytes attributes; /* a JSON object: name -> string, number, or {"DataType", …} as in SQS; NULL: none */
    struct bytes body;
    struct bytes trace_header; /* AWSTraceHeader; NULL: none */
    uint64_t age_ms;           /* since it was written, by the source's clock, when it was read */
    /* Of a queue as the source: */
    uint32_t receive_count; /* this time included; 0: the source is none */
    struct bytes handle;    /* its receipt handle */
};

/* Rows in the order of their ids. */
struct rows {
    struct arena arena;
    struct row *items_owned;
    size_t count;
    size_t capacity;
    size_t size;       /* bytes of all bodies and attributes */
    bool is_cut_short; /* the source may have more, from the first on: a row that is not here need not be gone */
    /* Of a source that is asked whether it keeps them (source_ops.check_durable): how far it was when they had been
     * read, and which of its connections they came over. */
    uint64_t read_position;
    unsigned read_connection;
};

/* With all it points to. */
struct row row_copy(struct arena *arena, const struct row *row);

void rows_init(struct rows *rows);
void rows_deinit(struct rows *rows);

/* Empties it; what its rows pointed to is gone. */
void rows_clear(struct rows *rows);

/* A copy of the row, with all it points to, behind the others. Borrowed until the next one is appended. */
struct row *rows_append(struct rows *rows, const struct row *row);

void uid_to_text(const struct uid *uid, char text[UID_TEXT_SIZE]);

/* False if `text` is not of the form 8-4-4-4-12. */
bool uid_from_text(struct bytes text, struct uid *uid);

/* A fresh random one (version 4), from the system. */
void uid_generate(struct uid *uid);

/* Writes the row's attributes, and its uid among them, as the JSON of SQS's MessageAttributes. If there are more than
 * `max`, the context of its trace gives way: the baggage first, then the tracestate, then the traceparent. False if
 * they are no attributes; `reason` then says why, for the row to be parked with. */
#define ROW_REASON_SIZE 300u
#define ROW_ATTRIBUTES_ALL SIZE_MAX
bool row_write_attributes(const struct row *row, size_t max, struct buffer *json, char reason[ROW_REASON_SIZE]);

#endif
