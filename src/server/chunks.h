/* The framing of a chunked body, read strictly: a size in hexadecimal digits, CR LF, so many bytes, CR LF; at the end
 * the size 0 and two CR LF. No extensions, no trailers, no blanks, no sign, no bare CR or LF.
 *
 * llhttp reads the same bytes and takes the body out of them. Its versions differ in what else they let pass: 8.1
 * takes a bare LF for the last CR LF, so that a proxy and we could see different requests. What passes here, both
 * read alike. */
#ifndef TALLY_SERVER_CHUNKS_H
#define TALLY_SERVER_CHUNKS_H

#include "base/bytes.h"

enum chunks_state {
    CHUNKS_SIZE_FIRST, /* before the first digit of a size */
    CHUNKS_SIZE,       /* before another digit, or CR */
    CHUNKS_SIZE_LF,
    CHUNKS_DATA,
    CHUNKS_DATA_CR,
    CHUNKS_DATA_LF,
    CHUNKS_LAST_CR, /* behind the size 0 */
    CHUNKS_LAST_LF,
    CHUNKS_WHOLE,
};

/* Zeroed: before the body. */
struct chunks {
    enum chunks_state state;
    uint64_t left; /* CHUNKS_SIZE: of the size, so far; CHUNKS_DATA: bytes of the chunk that have not come */
};

/* Reads on; bytes behind the body are not looked at. NULL, or a static text that says what is wrong: then nothing
 * more can be read. */
const char *chunks_read(struct chunks *chunks, struct bytes bytes);

static inline bool chunks_are_whole(const struct chunks *chunks)
{
    return chunks->state == CHUNKS_WHOLE;
}

#endif
