/* Signs requests to a world as SDKs do (Signature Version 4), for tests with credentials. The secret of the access key
 * "OPS" is "secret-of-OPS". Tests may sign with another: "OPS:other" signs with "other". */
#ifndef TALLY_TESTS_UNIT_SIGNER_H
#define TALLY_TESTS_UNIT_SIGNER_H

#include "auth/signing_key.h"
#include "auth/stamp.h"
#include "sqs.h"
#include "support/history.h"

#define SIGNER_HEAD_SIZE 1024u

/* Writes the head of a signed request, and sets it. `as` is the access key, perhaps with a secret. */
static inline void signer_sign(struct request *request, const char *as, const char *token, uint64_t now_ms,
                               char head[SIGNER_HEAD_SIZE])
{
    static const char names[] = "host;x-amz-date;x-amz-target";
    const char *colon = strchr(as, ':');
    int key_size = colon == NULL ? (int)strlen(as) : (int)(colon - as);
    struct stamp stamp = stamp_of((int64_t)(now_ms / 1000));
    struct sha256 sha256;
    struct signing_keys keys;
    uint8_t signature[SHA256_SIZE];
    char secret[200], canonical[2048], text[512], digest[SHA256_HEX_SIZE], hex[SHA256_HEX_SIZE];
    sha256_init(&sha256);
    signing_keys_init(&keys, BYTES("sqs"));
    sha256_digest_hex(&sha256, request->body, digest);
    int size = snprintf(canonical, sizeof(canonical),
                        "%.*s\n%.*s\n\nhost:%.*s\nx-amz-date:%.16s\nx-amz-target:%.*s\n\n%s\n%.64s",
                        BYTES_FORMAT(request->method), BYTES_FORMAT(request->path), BYTES_FORMAT(request->host),
                        stamp.text, BYTES_FORMAT(request->target), names, digest);
    sha256_digest_hex(&sha256, bytes_make(canonical, (size_t)size), digest);
    size = snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%.16s\n%.8s/us-east-1/sqs/aws4_request\n%.64s", stamp.text,
                    stamp.text, digest);
    snprintf(secret, sizeof(secret), "%s%.*s", colon == NULL ? "secret-of-" : colon + 1, colon == NULL ? key_size : 0,
             as);
    const struct hmac_key *key = signing_keys_get(&keys, &sha256, bytes_from_string(secret),
                                                  bytes_make(stamp.text, SIGNING_DATE_SIZE), BYTES("us-east-1"));
    sha256_hmac(&sha256, key, bytes_make(text, (size_t)size), signature);
    bytes_to_hex(bytes_make(signature, sizeof(signature)), hex);
    signing_keys_deinit(&keys);
    sha256_deinit(&sha256);
    size = snprintf(head, SIGNER_HEAD_SIZE,
                    "Host: %.*s\r\nX-Amz-Date: %.16s\r\nX-Amz-Target: %.*s\r\n%s%s%sAuthorization: AWS4-HMAC-SHA256 "
                    "Credential=%.*s/%.8s/us-east-1/sqs/aws4_request, SignedHeaders=%s, Signature=%.64s\r\n\r\n",
                    BYTES_FORMAT(request->host), stamp.text, BYTES_FORMAT(request->target),
                    token == NULL ? "" : "X-Amz-Security-Token: ", token == NULL ? "" : token,
                    token == NULL ? "" : "\r\n", key_size, as, stamp.text, names, hex);
    assert_true(size > 0 && (size_t)size < SIGNER_HEAD_SIZE);
    request->head = bytes_make(head, (size_t)size);
    request->wall_s = (int64_t)(now_ms / 1000);
}

static inline struct credentials *signer_credentials(const char *text)
{
    struct credentials *credentials = NULL;
    struct failure failure = {0};
    if (credentials_parse(bytes_from_string(text), &credentials, &failure) != OK)
        fail_msg("%s", failure.text);
    return credentials;
}

/* As world_call(), in a world that is never interrupted: signed, and a request that would wait is answered at once.
 * The caller frees *doc, which the answer points into. */
static inline struct answer signer_call(struct world *world, const char *as, const char *action, const char *body,
                                        yyjson_doc **doc)
{
    char head[SIGNER_HEAD_SIZE], target[80];
    struct answer answer = {0};
    struct exchange exchange;
    char *text = strdup(body);
    assert_non_null(text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    snprintf(target, sizeof(target), "%s%s", strchr(action, '.') == NULL ? "AmazonSQS." : "", action);
    exchange_init(&exchange);
    exchange.request = (struct request){.method = BYTES("POST"),
                                        .path = BYTES("/"),
                                        .host = BYTES("localhost"),
                                        .target = bytes_from_string(target),
                                        .body = bytes_from_string(text)};
    if (world->address != NULL)
        exchange.request.address = bytes_from_string(world->address);
    signer_sign(&exchange.request, as, NULL, world->now_ms, head);
    front_submit(world->front, &exchange, world->now_ms);
    if (exchange.state == EXCHANGE_WAITING)
        api_release_waiting(world->api);
    assert_ptr_equal(front_take_finished(world->front), &exchange);
    EXPECT(world, world_flush(world));
    history_note_reply(&exchange);
    answer.status = exchange.reply.status;
    *doc = yyjson_read((const char *)exchange.reply.body.data_owned, exchange.reply.body.size, 0);
    answer.root = yyjson_doc_get_root(*doc);
    if (exchange.reply.error != OK)
        answer.error = error_row(exchange.reply.error)->name;
    exchange_deinit(&exchange);
    free(text);
    return answer;
}

#endif
