#include "server/chunks.h"

static const char *const size_reason = "The size of a chunk is not hexadecimal digits with CR LF behind them.";

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    uint8_t lower = byte | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static const char *read_size(struct chunks *chunks, uint8_t byte)
{
    int digit = hex_value(byte);
    if (digit >= 0) {
        if (chunks->left >> 60 != 0)
            return "The size of a chunk is too large.";
        chunks->left = chunks->left << 4 | (uint64_t)digit;
        chunks->state = CHUNKS_SIZE;
        return NULL;
    }
    if (byte == ';')
        return "Chunk extensions are not accepted.";
    if (byte != '\r' || chunks->state == CHUNKS_SIZE_FIRST)
        return size_reason;
    chunks->state = CHUNKS_SIZE_LF;
    return NULL;
}

/* Takes the byte if it is the expected one. */
static const char *expect(struct chunks *chunks, uint8_t byte, uint8_t expected, enum chunks_state next,
                          const char *reason)
{
    if (byte != expected)
        return reason;
    chunks->state = next;
    return NULL;
}

static const char *read_framing(struct chunks *chunks, uint8_t byte)
{
    switch (chunks->state) {
    case CHUNKS_SIZE_FIRST:
    case CHUNKS_SIZE:
        return read_size(chunks, byte);
    case CHUNKS_SIZE_LF:
        return expect(chunks, byte, '\n', chunks->left == 0 ? CHUNKS_LAST_CR : CHUNKS_DATA, size_reason);
    case CHUNKS_DATA_CR:
        return expect(chunks, byte, '\r', CHUNKS_DATA_LF, "A chunk has no CR LF behind it.");
    case CHUNKS_DATA_LF:
        return expect(chunks, byte, '\n', CHUNKS_SIZE_FIRST, "A chunk has no CR LF behind it.");
    case CHUNKS_LAST_CR:
        return expect(chunks, byte, '\r', CHUNKS_LAST_LF,
                      "Behind the last chunk stands no CR LF; trailer fields are not accepted.");
    default:
        return expect(chunks, byte, '\n', CHUNKS_WHOLE, "The chunked body does not end with CR LF.");
    }
}

const char *chunks_read(struct chunks *chunks, struct bytes bytes)
{
    const char *reason = NULL;
    while (bytes.size > 0 && reason == NULL && chunks->state != CHUNKS_WHOLE) {
        if (chunks->state != CHUNKS_DATA) {
            reason = read_framing(chunks, bytes.ptr[0]);
            bytes = bytes_skip(bytes, 1);
            continue;
        }
        size_t here = chunks->left < bytes.size ? (size_t)chunks->left : bytes.size;
        bytes = bytes_skip(bytes, here);
        chunks->left -= here;
        if (chunks->left == 0)
            chunks->state = CHUNKS_DATA_CR;
    }
    return reason;
}
