#include "auth/sigv4.h"

#include "auth/canonical.h"
#include "auth/claim.h"
#include "auth/signing_key.h"
#include "base/assert.h"
#include "base/memory.h"
#include <openssl/crypto.h>
#include <stdlib.h>

#define STAMP_FORMAT(stamp) ((int)STAMP_SIZE), ((stamp).text)
#define UNSIGNED_PAYLOAD BYTES("UNSIGNED-PAYLOAD")

struct sigv4 {
    struct sha256 sha256;
    struct signing_keys keys;
    struct head head;
    struct url_query query;
    struct buffer text; /* the canonical request, then the string to sign */
};

struct sigv4 *sigv4_create(const char *service)
{
    struct sigv4 *sigv4 = memory_allocate(sizeof(*sigv4));
    sha256_init(&sigv4->sha256);
    signing_keys_init(&sigv4->keys, bytes_from_string(service));
    head_init(&sigv4->head);
    url_query_init(&sigv4->query);
    buffer_init(&sigv4->text);
    return sigv4;
}

void sigv4_destroy(struct sigv4 *sigv4)
{
    sha256_deinit(&sigv4->sha256);
    signing_keys_deinit(&sigv4->keys);
    head_deinit(&sigv4->head);
    url_query_deinit(&sigv4->query);
    buffer_deinit(&sigv4->text);
    free(sigv4);
}

/* Compares without telling by its time where two texts differ. */
static bool equal_secretly(struct bytes a, struct bytes b)
{
    return a.size == b.size && CRYPTO_memcmp(a.ptr, b.ptr, a.size) == 0;
}

/* --- what is claimed ---------------------------------------------------------------------------------------------- */

static enum error find_credential(const struct credentials *credentials, const struct claim *claim,
                                  const struct credential **credential, struct failure *failure)
{
    const struct credential *found = credentials_find(credentials, claim->access_key);
    if (found == NULL || (found->token.size > 0 && !equal_secretly(found->token, claim->token)))
        return failure_set(failure, ERROR_UNKNOWN_ACCESS_KEY, NULL);
    *credential = found;
    return OK;
}

static enum error check_scope(const struct sigv4 *sigv4, const struct claim *claim, struct failure *failure)
{
    if (!bytes_equal(claim->terminator, BYTES("aws4_request")))
        return failure_set(failure, ERROR_INVALID_SIGNATURE,
                           "Credential should be scoped with a valid terminator: 'aws4_request'.");
    if (!bytes_equal(claim->service, sigv4->keys.service))
        return failure_set(failure, ERROR_INVALID_SIGNATURE, "Credential should be scoped to correct service: '%.*s'.",
                           BYTES_FORMAT(sigv4->keys.service));
    if (!bytes_equal(claim->date, bytes_make(claim->stamp.text, SIGNING_DATE_SIZE)))
        return failure_set(failure, ERROR_INVALID_SIGNATURE,
                           "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.");
    return OK;
}

static enum error check_time(const struct claim *claim, int64_t now_s, struct failure *failure)
{
    int64_t signed_s = claim->stamp.s;
    int64_t good_for_s = claim->is_presigned ? claim->expires_s : SIGV4_SKEW_S;
    bool is_early = signed_s > now_s + SIGV4_SKEW_S;
    if (!is_early && now_s <= signed_s + good_for_s)
        return OK;
    struct stamp now = stamp_of(now_s);
    if (is_early)
        return failure_set(failure, ERROR_INVALID_SIGNATURE,
                           "Signature not yet current: %.*s is more than %d min. after %.*s, the time here.",
                           STAMP_FORMAT(claim->stamp), SIGV4_SKEW_S / 60, STAMP_FORMAT(now));
    return failure_set(failure, ERROR_INVALID_SIGNATURE,
                       "Signature expired: %.*s was good for %lld s, and it is %.*s here.", STAMP_FORMAT(claim->stamp),
                       (long long)good_for_s, STAMP_FORMAT(now));
}

/* --- the signature ------------------------------------------------------------------------------------------------ */

/* Appends the SHA-256 of the body, or what stands for it where the client left the body out of the signature. */
static enum error add_payload(struct sigv4 *sigv4, struct bytes body, struct buffer *out, struct failure *failure)
{
    size_t at = head_find(&sigv4->head, 0, BYTES("x-amz-content-sha256"));
    struct bytes claimed = at < sigv4->head.count ? sigv4->head.fields_owned[at].value : bytes_make(NULL, 0);
    if (bytes_equal(claimed, UNSIGNED_PAYLOAD)) {
        buffer_append_bytes(out, claimed);
        return OK;
    }
    char *digest = (char *)buffer_extend(out, SHA256_HEX_SIZE);
    sha256_digest_hex(&sigv4->sha256, body, digest);
    if (claimed.ptr != NULL && !bytes_equal(claimed, bytes_make(digest, SHA256_HEX_SIZE)))
        return failure_set(failure, ERROR_INVALID_SIGNATURE,
                           "The header x-amz-content-sha256 is neither the SHA-256 of the body nor UNSIGNED-PAYLOAD.");
    return OK;
}

static enum error write_canonical_request(struct sigv4 *sigv4, const struct signed_request *request,
                                          const struct claim *claim, struct buffer *out, struct failure *failure)
{
    buffer_truncate(out, 0);
    buffer_append_bytes(out, request->method);
    buffer_append_u8(out, '\n');
    canonical_path(request->path, out);
    buffer_append_u8(out, '\n');
    url_query_append(&sigv4->query, BYTES("X-Amz-Signature"), out);
    buffer_append_u8(out, '\n');
    enum error error = canonical_headers(&sigv4->head, claim->signed_headers, out, failure);
    if (error != OK)
        return error;
    buffer_append_u8(out, '\n');
    buffer_append_bytes(out, claim->signed_headers);
    buffer_append_u8(out, '\n');
    return add_payload(sigv4, request->body, out, failure);
}

/* Replaces the canonical request by the text that is signed: algorithm, time, scope and the digest of the request. */
static void write_string_to_sign(struct sigv4 *sigv4, const struct claim *claim, struct buffer *out)
{
    char digest[SHA256_HEX_SIZE];
    sha256_digest_hex(&sigv4->sha256, buffer_bytes(out), digest);
    buffer_truncate(out, 0);
    buffer_append_bytes(out, BYTES("AWS4-HMAC-SHA256\n"));
    buffer_append(out, claim->stamp.text, STAMP_SIZE);
    buffer_append_u8(out, '\n');
    buffer_append_bytes(out, claim->date);
    buffer_append_u8(out, '/');
    buffer_append_bytes(out, claim->region);
    buffer_append_u8(out, '/');
    buffer_append_bytes(out, claim->service);
    buffer_append_bytes(out, BYTES("/aws4_request\n"));
    buffer_append(out, digest, sizeof(digest));
}

static enum error check_signature(struct sigv4 *sigv4, const struct signed_request *request, const struct claim *claim,
                                  const struct credential *credential, struct failure *failure)
{
    enum error error = write_canonical_request(sigv4, request, claim, &sigv4->text, failure);
    if (error != OK)
        return error;
    write_string_to_sign(sigv4, claim, &sigv4->text);
    const struct hmac_key *key =
        signing_keys_get(&sigv4->keys, &sigv4->sha256, credential->secret, claim->date, claim->region);
    uint8_t signature[SHA256_SIZE];
    char expected[SHA256_HEX_SIZE];
    sha256_hmac(&sigv4->sha256, key, buffer_bytes(&sigv4->text), signature);
    bytes_to_hex(bytes_make(signature, sizeof(signature)), expected);
    if (!equal_secretly(claim->signature, bytes_make(expected, sizeof(expected))))
        return failure_set(failure, ERROR_INVALID_SIGNATURE, NULL);
    return OK;
}

enum error sigv4_verify(struct sigv4 *sigv4, const struct credentials *credentials,
                        const struct signed_request *request, int64_t now_s, const struct credential **credential,
                        struct failure *failure)
{
    struct claim claim;
    const struct credential *found = NULL;
    head_read(&sigv4->head, request->head);
    url_query_read(&sigv4->query, request->query);
    enum error error = claim_read(&sigv4->head, &sigv4->query, &claim, failure);
    if (error == OK)
        error = find_credential(credentials, &claim, &found, failure);
    if (error == OK)
        error = check_scope(sigv4, &claim, failure);
    if (error == OK)
        error = check_time(&claim, now_s, failure);
    if (error == OK)
        error = check_signature(sigv4, request, &claim, found, failure);
    if (error == OK)
        *credential = found;
    return error;
}
