/* What another node says, under the fuzzer: any bytes as its answer, and any bytes as its side of a TLS handshake.
 *
 * The first byte says how to read the rest:
 *   even   the bytes of a connection. Fed whole and fed in pieces they give the same answer.
 *   odd    records, for a session that has connected and waits for the certificate of the other node.
 *
 * Checked: the bounds of what is kept; that a whole answer has a final status, and fields that can stand in a header
 * line; that nobody is taken for a node who has not shown a certificate. */
#include "base/assert.h"
#include "server/answer_reader.h"
#include "unit/random.h"
#include "unit/tls_rig.h"

#include <openssl/err.h>

#define BODY_SIZE_MAX ((size_t)2048)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- Answers ------------------------------------------------------------------------------------------------------ */

/* Feeds it until an answer is whole, in pieces that `random` draws; NULL: at once. How it ended; *used: how many of the
 * bytes are the answer's. */
static enum answer_result read_answer(struct answer_reader *reader, struct bytes bytes, struct random *random,
                                      size_t *used)
{
    enum answer_result result = ANSWER_MORE;
    *reader = (struct answer_reader){0};
    *used = 0;
    answer_reader_init(reader, BODY_SIZE_MAX);
    while (bytes.size > 0 && result == ANSWER_MORE) {
        const size_t size = random == NULL ? bytes.size : 1 + random_below(random, (uint32_t)bytes.size);
        size_t taken;
        result = answer_reader_feed(reader, (const char *)bytes.ptr, size, &taken);
        ASSERT(taken <= size && (result != ANSWER_MORE || taken == size));
        *used += taken;
        bytes = bytes_skip(bytes, size);
    }
    return result;
}

static void check_answer(const struct answer_reader *reader)
{
    const unsigned status = answer_reader_status(reader);
    ASSERT(status >= 200 && status <= 599 && reader->body.size <= BODY_SIZE_MAX);
    for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++) {
        const struct bytes value = answer_reader_field(reader, (enum answer_field)i);
        ASSERT(value.size <= ANSWER_FIELD_SIZE_MAX);
        for (size_t at = 0; at < value.size; at++)
            ASSERT(value.ptr[at] != '\r' && value.ptr[at] != '\n' && value.ptr[at] != '\0');
    }
}

static void run_answer(struct bytes bytes, uint8_t seed)
{
    struct random random = {.state = seed};
    struct answer_reader whole, pieces;
    size_t used, used_in_pieces;
    const enum answer_result result = read_answer(&whole, bytes, NULL, &used);
    const enum answer_result in_pieces = read_answer(&pieces, bytes, &random, &used_in_pieces);
    ASSERT(result == in_pieces);
    if (result == ANSWER_WHOLE) {
        ASSERT(used == used_in_pieces);
        check_answer(&whole);
        check_answer(&pieces);
        ASSERT(bytes_equal(buffer_bytes(&whole.body), buffer_bytes(&pieces.body)));
        ASSERT(answer_reader_keeps_alive(&whole) == answer_reader_keeps_alive(&pieces));
        for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++)
            ASSERT(bytes_equal(answer_reader_field(&whole, (enum answer_field)i),
                               answer_reader_field(&pieces, (enum answer_field)i)));
    }
    answer_reader_deinit(&whole);
    answer_reader_deinit(&pieces);
}

/* --- Records ------------------------------------------------------------------------------------------------------ */

static struct tls_context *nodes_context(void)
{
    static struct tls_context *context;
    if (context == NULL) {
        struct tls_rig rig;
        tls_rig_init(&rig, TLS1_3_VERSION);
        context = tls_context_create(TLS_FOR_NODES);
        const struct tls_files files = {.certificate = rig.certificate, .key = rig.key, .authority = rig.certificate};
        const enum error error = tls_context_load(context, &files, NULL);
        ASSERT(error == OK);
        tls_rig_deinit(&rig);
    }
    return context;
}

static void run_records(struct bytes bytes, uint8_t seed)
{
    struct random random = {.state = seed};
    struct tls *tls = tls_connect(nodes_context(), "one.example");
    uint8_t room[512];
    char why[256];
    size_t heard, room_size;
    enum tls_result result = TLS_MORE;
    ASSERT(tls_output(tls)->size > 0);
    while (bytes.size > 0 && result == TLS_MORE) {
        const size_t size = 1 + random_below(&random, (uint32_t)bytes.size);
        memcpy(tls_room(tls, &room_size), bytes.ptr, size);
        tls_take(tls, size);
        bytes = bytes_skip(bytes, size);
        result = tls_read(tls, room, sizeof(room), &heard);
        ASSERT(result != TLS_BYTES && !tls_is_open(tls) && !tls_is_taken(tls));
    }
    tls_explain(tls, why, sizeof(why));
    ASSERT((result == TLS_FAILED || result == TLS_PLAIN) == (why[0] != '\0'));
    tls_destroy(tls);
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 2 * BODY_SIZE_MAX)
        return 0;
    const struct bytes rest = bytes_make(data + 1, size - 1);
    if (data[0] % 2 == 0)
        run_answer(rest, data[0]);
    else
        run_records(rest, data[0]);
    return 0;
}
