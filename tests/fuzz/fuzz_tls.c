/* The TLS glue under the fuzzer: a session of ours and a real client in memory, and between them whatever the input
 * says.
 *
 * The first byte chooses the client's newest version; then each step is a byte that names it and one that says how
 * much: the client goes on with its handshake, says something, asks for new keys or ends; some of its bytes arrive, as
 * they are or with one changed; bytes arrive that no client made; the session reads, answers, says something, ends.
 *
 * Checked: what the session hears is what the client said, from its first byte on, however the records were cut, and
 * nothing behind a changed one; nothing is heard before the handshake is over. */
#include "unit/tls_rig.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct meeting {
    struct tls_rig rig;
    struct buffer said;  /* by the client */
    struct buffer heard; /* by the session */
};

static void client_says(struct meeting *meeting, size_t count)
{
    uint8_t text[256];
    size_t written;
    for (size_t i = 0; i < count; i++)
        text[i] = (uint8_t)(meeting->said.size + i);
    if (count > 0 && SSL_is_init_finished(meeting->rig.client) &&
        SSL_write_ex(meeting->rig.client, text, count, &written) == 1)
        buffer_append(&meeting->said, text, written);
}

/* Some bytes of the client arrive, the last of them changed. */
static void arrive_changed(struct meeting *meeting, size_t count)
{
    uint8_t bytes[256];
    size_t room_size;
    int moved = BIO_read(SSL_get_wbio(meeting->rig.client), bytes, (int)count);
    if (moved > 0) {
        bytes[moved - 1] ^= 0x55;
        memcpy(tls_room(meeting->rig.tls, &room_size), bytes, (size_t)moved);
        tls_take(meeting->rig.tls, (size_t)moved);
    }
}

/* Bytes of the input arrive; how many it were. */
static size_t arrive_raw(struct meeting *meeting, const uint8_t *data, size_t size, size_t count)
{
    size_t room_size;
    size_t taken = count < size ? count : size;
    memcpy(tls_room(meeting->rig.tls, &room_size), data, taken);
    tls_take(meeting->rig.tls, taken);
    return taken;
}

static void session_reads(struct meeting *meeting)
{
    enum tls_result result = tls_rig_read(&meeting->rig, &meeting->heard);
    ASSERT(result != TLS_BYTES);
    ASSERT(meeting->heard.size == 0 || tls_is_open(meeting->rig.tls));
    ASSERT(meeting->heard.size <= meeting->said.size);
    ASSERT(meeting->heard.size == 0 ||
           memcmp(meeting->heard.data_owned, meeting->said.data_owned, meeting->heard.size) == 0);
}

/* One step; how many bytes of the input it used up besides. */
static size_t step(struct meeting *meeting, uint8_t what, size_t count, const uint8_t *data, size_t size)
{
    static const char text[256] = "what the session says";
    struct tls_rig *rig = &meeting->rig;
    char heard[512];
    switch (what % 12) {
    case 0:
        SSL_do_handshake(rig->client);
        break;
    case 1:
        client_says(meeting, count);
        break;
    case 2:
        SSL_key_update(rig->client, SSL_KEY_UPDATE_REQUESTED);
        break;
    case 3:
        SSL_shutdown(rig->client);
        break;
    case 4:
        tls_rig_send(rig, count);
        break;
    case 5:
        tls_rig_send(rig, SIZE_MAX);
        break;
    case 6:
        arrive_changed(meeting, count);
        break;
    case 7:
        return arrive_raw(meeting, data, size, count);
    case 8:
        session_reads(meeting);
        break;
    case 9:
        tls_rig_answer(rig);
        SSL_read(rig->client, heard, sizeof(heard));
        break;
    case 10:
        if (count > 0 && tls_is_open(rig->tls))
            tls_write(rig->tls, text, count);
        break;
    default:
        tls_end(rig->tls);
        break;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct meeting meeting; /* its certificate is made once */
    if (meeting.rig.context == NULL) {
        tls_rig_init(&meeting.rig, TLS1_3_VERSION);
        tls_rig_remove_files(&meeting.rig);
    }
    if (size == 0)
        return 0;
    SSL_CTX_set_max_proto_version(meeting.rig.client_context, data[0] % 2 == 0 ? TLS1_3_VERSION : TLS1_2_VERSION);
    tls_rig_connect(&meeting.rig);
    if (data[0] % 4 < 2)
        tls_rig_handshake(&meeting.rig, (size_t)data[0] + 1);
    for (size_t at = 1; at + 2 <= size;) {
        size_t used = step(&meeting, data[at], data[at + 1], data + at + 2, size - at - 2);
        at += 2 + used;
        ERR_clear_error();
    }
    session_reads(&meeting);
    tls_rig_disconnect(&meeting.rig);
    buffer_deinit(&meeting.said);
    buffer_deinit(&meeting.heard);
    return 0;
}
