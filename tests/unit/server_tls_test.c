#include "unit/random.h"
#include "unit/tls_rig.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void open_rig(struct tls_rig *rig, int version)
{
    tls_rig_init(rig, version);
    tls_rig_connect(rig);
    assert_int_equal(tls_rig_handshake(rig, SIZE_MAX), TLS_MORE);
    assert_true(tls_is_open(rig->tls));
}

static void close_rig(struct tls_rig *rig)
{
    tls_rig_disconnect(rig);
    tls_rig_deinit(rig);
    ERR_clear_error();
}

static void assert_text(const struct buffer *text, const char *expected)
{
    assert_int_equal(text->size, strlen(expected));
    assert_memory_equal(text->data_owned, expected, text->size);
}

/* The client says `text`; the session hears it, the records in pieces of `piece`. */
static void say(struct tls_rig *rig, const char *text, size_t piece)
{
    struct buffer heard;
    buffer_init(&heard);
    assert_int_equal(SSL_write(rig->client, text, (int)strlen(text)), strlen(text));
    while (tls_rig_send(rig, piece) > 0)
        assert_int_equal(tls_rig_read(rig, &heard), TLS_MORE);
    assert_text(&heard, text);
    buffer_deinit(&heard);
}

/* The session says `text`; the client hears it. */
static void answer(struct tls_rig *rig, const char *text)
{
    char heard[100] = {0};
    assert_true(tls_write(rig->tls, text, strlen(text)));
    tls_rig_answer(rig);
    assert_int_equal(SSL_read(rig->client, heard, sizeof(heard) - 1), strlen(text));
    assert_string_equal(heard, text);
}

static void records_cut_anywhere_are_understood(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    static const size_t pieces[] = {1, 2, 7, 100, 1000, SIZE_MAX};
    (void)state;
    for (size_t v = 0; v < ARRAY_LENGTH(versions); v++) {
        struct tls_rig rig;
        tls_rig_init(&rig, versions[v]);
        for (size_t p = 0; p < ARRAY_LENGTH(pieces); p++) {
            tls_rig_connect(&rig);
            assert_int_equal(tls_rig_handshake(&rig, pieces[p]), TLS_MORE);
            assert_true(tls_is_open(rig.tls));
            assert_int_equal(SSL_version(rig.client), versions[v]);
            say(&rig, "GET /health HTTP/1.1", pieces[p]);
            answer(&rig, "HTTP/1.1 200 OK");
            assert_false(tls_has_unread(rig.tls));
            tls_rig_disconnect(&rig);
        }
        tls_rig_deinit(&rig);
    }
}

static void what_nobody_asked_for_waits(void **state)
{
    (void)state;
    struct tls_rig rig;
    uint8_t room[10];
    size_t size, total = 0;
    open_rig(&rig, TLS1_3_VERSION);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(SSL_write(rig.client, "0123456789abcdef", 16), 16);
    assert_true(tls_rig_send(&rig, SIZE_MAX) > 0);
    while (tls_has_unread(rig.tls)) {
        assert_int_equal(tls_read(rig.tls, room, sizeof(room), &size), TLS_BYTES);
        total += size;
    }
    assert_int_equal(total, 48);
    assert_int_equal(tls_read(rig.tls, room, sizeof(room), &size), TLS_MORE);
    close_rig(&rig);
}

static void large_texts_pass_both_ways(void **state)
{
    (void)state;
    struct tls_rig rig;
    struct buffer text, heard;
    open_rig(&rig, TLS1_3_VERSION);
    buffer_init(&text);
    buffer_init(&heard);
    memset(buffer_extend(&text, 300000), 'x', 300000);
    assert_int_equal(SSL_write(rig.client, text.data_owned, (int)text.size), text.size);
    while (tls_rig_send(&rig, SIZE_MAX) > 0)
        assert_int_equal(tls_rig_read(&rig, &heard), TLS_MORE);
    assert_int_equal(heard.size, text.size);
    assert_memory_equal(heard.data_owned, text.data_owned, text.size);

    assert_true(tls_write(rig.tls, text.data_owned, text.size));
    assert_true(tls_output(rig.tls)->size < text.size + text.size / 100); /* framing costs less than 1 % */
    tls_rig_answer(&rig);
    for (size_t left = text.size; left > 0;) {
        int got = SSL_read(rig.client, heard.data_owned, (int)heard.size);
        assert_true(got > 0);
        left -= (size_t)got;
    }
    buffer_deinit(&text);
    buffer_deinit(&heard);
    close_rig(&rig);
}

static void half_a_handshake_opens_nothing(void **state)
{
    (void)state;
    struct tls_rig rig;
    struct buffer none;
    buffer_init(&none);
    tls_rig_init(&rig, TLS1_3_VERSION);
    for (size_t size = 1; size < 200; size += 13) {
        tls_rig_connect(&rig);
        SSL_do_handshake(rig.client);
        assert_int_equal(tls_rig_send(&rig, size), size);
        assert_int_equal(tls_rig_read(&rig, &none), TLS_MORE);
        assert_false(tls_is_open(rig.tls));
        tls_end(rig.tls);
        assert_int_equal(tls_output(rig.tls)->size, 0);
        tls_rig_disconnect(&rig);
    }
    tls_rig_deinit(&rig);
}

/* Gives the session bytes that no client made. */
static enum tls_result take_raw(struct tls_rig *rig, const void *data, size_t size)
{
    size_t room_size;
    struct buffer none;
    buffer_init(&none);
    memcpy(tls_room(rig->tls, &room_size), data, size);
    tls_take(rig->tls, size);
    enum tls_result result = tls_rig_read(rig, &none);
    assert_int_equal(none.size, 0);
    buffer_deinit(&none);
    return result;
}

static void a_handshake_has_memory_from_its_first_whole_record_until_it_is_over(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
        struct tls_rig rig;
        struct buffer none;
        buffer_init(&none);
        tls_rig_init(&rig, versions[i]);
        tls_rig_connect(&rig);
        SSL_do_handshake(rig.client);
        assert_int_equal(tls_rig_send(&rig, 100), 100);
        assert_int_equal(tls_rig_read(&rig, &none), TLS_MORE);
        tls_fit(rig.tls);
        assert_in_range(tls_memory(rig.tls), 100, 101);
        assert_true(tls_rig_send(&rig, SIZE_MAX) > 0);
        assert_int_equal(tls_rig_read(&rig, &none), TLS_MORE);
        assert_true(tls_memory(rig.tls) > 30000);
        tls_rig_answer(&rig);
        assert_int_equal(tls_rig_handshake(&rig, SIZE_MAX), TLS_MORE);
        assert_true(tls_is_open(rig.tls));
        assert_int_equal(tls_memory(rig.tls), 0);
        close_rig(&rig);
    }
}

static void take(struct tls_rig *rig, const void *bytes, size_t size)
{
    size_t room_size;
    memcpy(tls_room(rig->tls, &room_size), bytes, size);
    tls_take(rig->tls, size);
}

/* OpenSSL would take 128 KiB for each of these. */
static void a_handshake_that_promises_too_much_fails_before_openssl_sees_it(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } rows[] = {
        {"\x16\x03\x01\x00\x06\x01\x02\x00\x00\x03\x03", 11},                     /* a hello of 128 KiB */
        {"\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x05\x02\x00\x00\x03\x03", 16}, /* its head in two records */
        {"\x16\x03\x01\x00\x05\x01\x00\x00\x02\x03\x16\x03\x01\x00\x05\x03\x01\x02\x00\x00",
         20}, /* behind another one */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct tls_rig rig;
        struct buffer none;
        buffer_init(&none);
        tls_rig_init(&rig, TLS1_3_VERSION);
        tls_rig_connect(&rig);
        take(&rig, rows[i].bytes, rows[i].size - 1);
        take(&rig, rows[i].bytes + rows[i].size - 1, 1);
        assert_int_equal(tls_rig_read(&rig, &none), TLS_FAILED);
        tls_fit(rig.tls);
        assert_true(tls_memory(rig.tls) < 100);
        tls_rig_disconnect(&rig);
        tls_rig_deinit(&rig);
    }
}

static void garbage_fails_and_stays_failed(void **state)
{
    (void)state;
    struct tls_rig rig;
    struct random random = {.state = 7};
    tls_rig_init(&rig, TLS1_3_VERSION);
    tls_rig_connect(&rig);
    assert_int_equal(take_raw(&rig, "*1\r\n$4\r\nPING\r\n", 14), TLS_FAILED);
    assert_int_equal(take_raw(&rig, "more", 4), TLS_FAILED);
    assert_false(tls_has_unread(rig.tls));
    tls_rig_disconnect(&rig);
    for (unsigned i = 0; i < 200; i++) {
        uint8_t bytes[64];
        for (size_t at = 0; at < sizeof(bytes); at++)
            bytes[at] = (uint8_t)random_below(&random, 256);
        bytes[0] = i % 2 == 0 ? 22 : bytes[0]; /* a record of a handshake */
        bytes[1] = i % 4 == 0 ? 3 : bytes[1];
        tls_rig_connect(&rig);
        take_raw(&rig, bytes, sizeof(bytes));
        assert_false(tls_is_open(rig.tls));
        tls_rig_disconnect(&rig);
    }
    tls_rig_deinit(&rig);
    ERR_clear_error();
}

static void plain_http_is_told_from_garbage(void **state)
{
    (void)state;
    struct tls_rig rig;
    tls_rig_init(&rig, TLS1_3_VERSION);
    tls_rig_connect(&rig);
    assert_int_equal(take_raw(&rig, "", 0), TLS_MORE);
    assert_int_equal(take_raw(&rig, "G", 1), TLS_PLAIN);
    assert_int_equal(take_raw(&rig, "ET / HTTP/1.1\r\n\r\n", 17), TLS_PLAIN);
    assert_int_equal(tls_output(rig.tls)->size, 0);
    tls_rig_disconnect(&rig);
    tls_rig_connect(&rig);
    SSL_do_handshake(rig.client);
    assert_true(tls_rig_send(&rig, 1) == 1);
    assert_int_equal(take_raw(&rig, "GET /", 5), TLS_FAILED); /* behind the first byte it is nothing but wrong */
    tls_rig_disconnect(&rig);
    tls_rig_deinit(&rig);
    ERR_clear_error();
}

static void a_changed_record_is_not_believed(void **state)
{
    (void)state;
    struct tls_rig rig;
    uint8_t record[200];
    open_rig(&rig, TLS1_3_VERSION);
    SSL_write(rig.client, "delete everything", 17);
    int size = BIO_read(SSL_get_wbio(rig.client), record, sizeof(record));
    assert_true(size > 17);
    record[size - 20] ^= 1;
    assert_int_equal(take_raw(&rig, record, (size_t)size), TLS_FAILED);
    assert_true(tls_output(rig.tls)->size > 0); /* an alert says why */
    assert_false(tls_write(rig.tls, "reply", 5));
    close_rig(&rig);
}

static void each_side_says_when_nothing_more_comes(void **state)
{
    (void)state;
    struct tls_rig rig;
    char byte;
    struct buffer heard;
    buffer_init(&heard);
    open_rig(&rig, TLS1_3_VERSION);
    SSL_write(rig.client, "last", 4);
    SSL_shutdown(rig.client);
    tls_rig_send(&rig, SIZE_MAX);
    assert_int_equal(tls_rig_read(&rig, &heard), TLS_ENDED);
    assert_text(&heard, "last");
    answer(&rig, "a reply all the same");
    tls_end(rig.tls);
    assert_false(tls_write(rig.tls, "more", 4));
    tls_rig_answer(&rig);
    assert_int_equal(SSL_read(rig.client, &byte, 1), 0);
    assert_int_equal(SSL_get_error(rig.client, 0), SSL_ERROR_ZERO_RETURN);
    buffer_deinit(&heard);
    close_rig(&rig);
}

static void old_versions_are_refused(void **state)
{
    (void)state;
    struct tls_rig rig;
    tls_rig_init(&rig, TLS1_1_VERSION);
    tls_rig_connect(&rig);
    assert_int_equal(tls_rig_handshake(&rig, SIZE_MAX), TLS_FAILED);
    assert_false(tls_is_open(rig.tls));
    close_rig(&rig);
}

static void a_renegotiation_is_refused_and_the_session_goes_on(void **state)
{
    (void)state;
    struct tls_rig rig;
    struct buffer none;
    buffer_init(&none);
    open_rig(&rig, TLS1_2_VERSION);
    SSL_renegotiate(rig.client);
    SSL_do_handshake(rig.client);
    assert_true(tls_rig_send(&rig, SIZE_MAX) > 0);
    assert_int_equal(tls_rig_read(&rig, &none), TLS_MORE);
    size_t alert_size = tls_output(rig.tls)->size;
    assert_true(alert_size > 0 && alert_size < 100);
    tls_rig_answer(&rig);
    assert_int_equal(SSL_do_handshake(rig.client), -1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    assert_true(tls_write(rig.tls, "still here", 10));
    close_rig(&rig);
}

static void new_keys_are_answered_with_new_keys(void **state)
{
    (void)state;
    struct tls_rig rig;
    open_rig(&rig, TLS1_3_VERSION);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(SSL_key_update(rig.client, SSL_KEY_UPDATE_REQUESTED), 1);
        say(&rig, "under new keys", 3);
        answer(&rig, "the same");
    }
    close_rig(&rig);
}

static void only_http_1_1_is_chosen(void **state)
{
    (void)state;
    struct tls_rig rig;
    const unsigned char *chosen;
    unsigned size;
    tls_rig_init(&rig, TLS1_3_VERSION);
    SSL_CTX_set_alpn_protos(rig.client_context, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    tls_rig_connect(&rig);
    assert_int_equal(tls_rig_handshake(&rig, SIZE_MAX), TLS_MORE);
    SSL_get0_alpn_selected(rig.client, &chosen, &size);
    assert_int_equal(size, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    tls_rig_disconnect(&rig);

    SSL_CTX_set_alpn_protos(rig.client_context, (const unsigned char *)"\x02h2", 3);
    tls_rig_connect(&rig);
    assert_int_equal(tls_rig_handshake(&rig, SIZE_MAX), TLS_FAILED);
    close_rig(&rig);
}

/* --- The certificate ---------------------------------------------------------------------------------------------- */

static void assert_certificate(const struct tls_rig *rig, const char *name)
{
    char found[100];
    X509 *certificate = SSL_get1_peer_certificate(rig->client);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, found, sizeof(found));
    assert_string_equal(found, name);
    X509_free(certificate);
}

static void a_new_certificate_is_for_new_sessions(void **state)
{
    (void)state;
    struct tls_rig rig, other;
    open_rig(&rig, TLS1_3_VERSION);
    assert_certificate(&rig, "first");
    tls_rig_write_certificate(&rig, "second", NULL);
    assert_int_equal(tls_rig_load(&rig, NULL), OK);
    other = rig;
    tls_rig_connect(&other);
    assert_int_equal(tls_rig_handshake(&other, SIZE_MAX), TLS_MORE);
    assert_certificate(&other, "second");
    say(&rig, "goes on", 5);
    answer(&rig, "of course");
    tls_rig_disconnect(&other);
    close_rig(&rig);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_not_loaded(struct tls_rig *rig, const char *path, const char *reason)
{
    struct failure failure;
    assert_int_equal(tls_rig_load(rig, &failure), ERROR_INVALID_PARAMETER_VALUE);
    assert_non_null(strstr(failure.text, path));
    assert_non_null(strstr(failure.text, reason));
    tls_rig_connect(rig);
    assert_int_equal(tls_rig_handshake(rig, SIZE_MAX), TLS_MORE);
    assert_certificate(rig, "first");
    tls_rig_disconnect(rig);
}

static void a_broken_certificate_leaves_the_old_one_in_force(void **state)
{
    (void)state;
    struct tls_rig rig, other;
    tls_rig_init(&rig, TLS1_3_VERSION);
    tls_rig_init(&other, TLS1_3_VERSION);
    unlink(rig.certificate);
    assert_not_loaded(&rig, rig.certificate, "No such file");
    put_file(rig.certificate, "no certificate\n");
    assert_not_loaded(&rig, rig.certificate, "no start line");
    tls_rig_write_certificate(&rig, "second", NULL);
    put_file(rig.key, "");
    assert_not_loaded(&rig, rig.key, "private key");
    tls_rig_write_certificate(&rig, "second", "secret");
    assert_not_loaded(&rig, rig.key, "not encrypted");
    unlink(rig.key);
    assert_int_equal(link(other.key, rig.key), 0);
    assert_not_loaded(&rig, rig.key, "mismatch");
    tls_rig_deinit(&rig);
    tls_rig_deinit(&other);
}

/* --- Nodes -------------------------------------------------------------------------------------------------------- */

/* Two nodes that have one certificate each and know whom the other one trusts. */
struct line {
    struct tls_rig rigs[2];
    struct tls_context *contexts[2];
    struct tls *ends[2]; /* that accepts, that connects */
};

static void open_line(struct line *line, bool trusts, const char *host)
{
    for (size_t i = 0; i < 2; i++)
        tls_rig_init(&line->rigs[i], TLS1_3_VERSION);
    for (size_t i = 0; i < 2; i++) {
        const struct tls_rig *own = &line->rigs[i], *other = &line->rigs[trusts ? 1 - i : i];
        const struct tls_files files = {
            .certificate = own->certificate, .key = own->key, .authority = other->certificate};
        line->contexts[i] = tls_context_create(TLS_FOR_NODES);
        assert_int_equal(tls_context_load(line->contexts[i], &files, NULL), OK);
        assert_int_equal(tls_context_loaded_count(line->contexts[i]), 1);
    }
    line->ends[0] = tls_create(line->contexts[0]);
    line->ends[1] = tls_connect(line->contexts[1], host);
}

static void close_line(struct line *line)
{
    for (size_t i = 0; i < 2; i++) {
        tls_destroy(line->ends[i]);
        tls_context_destroy(line->contexts[i]);
        tls_rig_deinit(&line->rigs[i]);
    }
    ERR_clear_error();
}

/* What one end has to send arrives at the other, which reads it into `text` and says how that ended. */
static enum tls_result pass_on(struct tls *from, struct tls *to, struct buffer *text)
{
    struct buffer *records = tls_output(from);
    uint8_t room[1000];
    size_t size;
    enum tls_result result;
    if (records->size > 0)
        memcpy(tls_room(to, &size), records->data_owned, records->size);
    tls_take(to, records->size);
    buffer_deinit(records);
    while ((result = tls_read(to, room, sizeof(room), &size)) == TLS_BYTES)
        buffer_append(text, room, size);
    return result;
}

static void nodes_that_know_each_other_speak_once_both_have_seen_the_certificate_of_the_other(void **state)
{
    (void)state;
    struct line line;
    struct buffer heard;
    buffer_init(&heard);
    open_line(&line, true, "one.example");
    assert_int_equal(pass_on(line.ends[1], line.ends[0], &heard), TLS_MORE);
    assert_int_equal(pass_on(line.ends[0], line.ends[1], &heard), TLS_MORE);
    assert_true(tls_is_open(line.ends[1]));
    assert_false(tls_is_taken(line.ends[1])); /* the other node has not seen its certificate yet */
    assert_int_equal(pass_on(line.ends[1], line.ends[0], &heard), TLS_MORE);
    assert_true(tls_is_open(line.ends[0]));
    assert_int_equal(pass_on(line.ends[0], line.ends[1], &heard), TLS_MORE);
    assert_true(tls_is_taken(line.ends[1]));
    assert_true(tls_write(line.ends[1], "GET", 3) && tls_write(line.ends[0], "200", 3));
    (void)pass_on(line.ends[1], line.ends[0], &heard);
    (void)pass_on(line.ends[0], line.ends[1], &heard);
    assert_text(&heard, "GET200");
    buffer_deinit(&heard);
    close_line(&line);
}

static void a_node_whose_certificate_does_not_name_the_host_is_left_and_told(void **state)
{
    (void)state;
    struct line line;
    struct buffer none;
    char why[256];
    buffer_init(&none);
    open_line(&line, true, "two.example");
    (void)pass_on(line.ends[1], line.ends[0], &none);
    assert_int_equal(pass_on(line.ends[0], line.ends[1], &none), TLS_FAILED);
    tls_explain(line.ends[1], why, sizeof(why));
    assert_string_equal(why, "its certificate (/CN=first) does not name two.example in its subjectAltName");
    assert_int_equal(pass_on(line.ends[1], line.ends[0], &none), TLS_FAILED);
    tls_explain(line.ends[0], why, sizeof(why));
    assert_non_null(strstr(why, "it does not take the certificate of this node: "));
    assert_false(tls_context_suits(line.contexts[0], "two.example", why, sizeof(why)));
    close_line(&line);
}

static void a_certificate_of_another_authority_is_not_taken(void **state)
{
    (void)state;
    struct line line;
    struct buffer none;
    char why[256];
    buffer_init(&none);
    open_line(&line, false, "10.0.0.1");
    assert_true(tls_context_suits(line.contexts[0], "10.0.0.1", why, sizeof(why)));
    (void)pass_on(line.ends[1], line.ends[0], &none);
    assert_int_equal(pass_on(line.ends[0], line.ends[1], &none), TLS_FAILED);
    assert_true(tls_has_judged(line.ends[1]));
    tls_explain(line.ends[1], why, sizeof(why));
    assert_non_null(strstr(why, "its certificate (/CN=first) is not taken: "));
    close_line(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_cut_anywhere_are_understood),
        cmocka_unit_test(what_nobody_asked_for_waits),
        cmocka_unit_test(large_texts_pass_both_ways),
        cmocka_unit_test(half_a_handshake_opens_nothing),
        cmocka_unit_test(a_handshake_has_memory_from_its_first_whole_record_until_it_is_over),
        cmocka_unit_test(a_handshake_that_promises_too_much_fails_before_openssl_sees_it),
        cmocka_unit_test(garbage_fails_and_stays_failed),
        cmocka_unit_test(plain_http_is_told_from_garbage),
        cmocka_unit_test(a_changed_record_is_not_believed),
        cmocka_unit_test(each_side_says_when_nothing_more_comes),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(a_renegotiation_is_refused_and_the_session_goes_on),
        cmocka_unit_test(new_keys_are_answered_with_new_keys),
        cmocka_unit_test(only_http_1_1_is_chosen),
        cmocka_unit_test(a_new_certificate_is_for_new_sessions),
        cmocka_unit_test(a_broken_certificate_leaves_the_old_one_in_force),
        cmocka_unit_test(nodes_that_know_each_other_speak_once_both_have_seen_the_certificate_of_the_other),
        cmocka_unit_test(a_node_whose_certificate_does_not_name_the_host_is_left_and_told),
        cmocka_unit_test(a_certificate_of_another_authority_is_not_taken),
    };
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
