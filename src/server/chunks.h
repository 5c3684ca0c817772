/* The framing of a chunked body, read strictly: a size in hexadecimal digits, CR LF, that many bytes, CR LF; at the end
 * the size 0 and two CR LF. No extensions, no trailers, no blanks, no sign, no bare CR or LF.
 *
 * llhttp reads the same bytes and takes the body out of them. Versions of llhttp differ in what else they accept. 8.1
 * takes a bare LF for the last CR LF, so a proxy and we could see different requests. Everybody reads a body in the
 * same way if it passes here. */
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
    uint64_t left; /* CHUNKS_SIZE: the size so far; CHUNKS_DATA: bytes of the chunk that have not arrived */
};

/* Reads on; bytes after the body are ignored. NULL, or a static text that says what is wrong; then nothing more can be
 * read. */
const char *chunks_read(struct chunks *chunks, struct bytes bytes);

static inline bool chunks_are_whole(const struct chunks *chunks)
{
    return chunks->state == CHUNKS_WHOLE;
}

#endif
