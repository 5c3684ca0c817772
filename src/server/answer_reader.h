/* Reads the answer of another node out of the bytes of a connection: its status, the few fields that are passed on, and
 * its body, within bounds. Knows no socket, so unit tests and the fuzzer run the same code.
 *
 * Of an answer its framing is judged, and that its status is a final one (200 to 599). */
#ifndef TALLY_SERVER_ANSWER_READER_H
#define TALLY_SERVER_ANSWER_READER_H

#include "base/buffer.h"

#include <llhttp.h>

#define ANSWER_FIELD_SIZE_MAX ((size_t)256) /* of the value of a field that is read; what is longer is cut off */

enum answer_field {
    ANSWER_CONTENT_TYPE,
    ANSWER_QUERY_ERROR,
    ANSWER_REQUEST_ID,
    ANSWER_NOT_OWNER,
    ANSWER_FIELD_COUNT,
    ANSWER_OTHER_FIELD,
};

enum answer_result {
    ANSWER_MORE,   /* it is not whole yet */
    ANSWER_WHOLE,  /* no further bytes may be fed before answer_reader_begin() */
    ANSWER_BROKEN, /* it is no HTTP, or too large; no further bytes may be fed */
};

struct answer_reader {
    llhttp_t parser;
    size_t body_size_max;
    struct buffer name; /* of the field being read */
    enum answer_field field;
    struct buffer fields[ANSWER_FIELD_COUNT];
    struct buffer body;
    bool is_whole;
};

/* In zeroed memory. */
void answer_reader_init(struct answer_reader *reader, size_t body_size_max);
void answer_reader_deinit(struct answer_reader *reader);

/* The next bytes begin an answer. */
void answer_reader_begin(struct answer_reader *reader);

/* *used: how many of the bytes are this answer's. Where it is whole, those behind them begin the next one. */
enum answer_result answer_reader_feed(struct answer_reader *reader, const char *bytes, size_t size, size_t *used);

/* Of a whole answer: may another request be sent on its connection? */
bool answer_reader_keeps_alive(const struct answer_reader *reader);

static inline unsigned answer_reader_status(const struct answer_reader *reader)
{
    return reader->parser.status_code;
}

static inline struct bytes answer_reader_field(const struct answer_reader *reader, enum answer_field field)
{
    return buffer_bytes(&reader->fields[field]);
}

#endif
