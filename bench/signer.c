#include "signer.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { DAY_SIZE = 8, HEX_SIZE = 2 * SIGNER_DIGEST_SIZE, KEY_SIZE = sizeof(SIGNER_ACCESS_KEY) - 1 };

#define REGION "us-east-1"
#define SIGNED_HEADERS "content-type;host;x-amz-date;x-amz-target"

static void hmac(const void *key, size_t key_size, struct view data, unsigned char out[SIGNER_DIGEST_SIZE])
{
    unsigned size = SIGNER_DIGEST_SIZE;
    if (HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)data.ptr, data.size, out, &size) == NULL)
        fatal("can't sign");
}

static void hex_write(const unsigned char digest[SIGNER_DIGEST_SIZE], char *at)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < SIGNER_DIGEST_SIZE; i++) {
        *at++ = DIGITS[digest[i] >> 4];
        *at++ = DIGITS[digest[i] & 15];
    }
}

static void digest_append(struct text *out, struct view data)
{
    unsigned char digest[SIGNER_DIGEST_SIZE];
    char hex[HEX_SIZE];
    if (EVP_Digest(data.ptr, data.size, digest, NULL, EVP_sha256(), NULL) != 1)
        fatal("can't make a digest");
    hex_write(digest, hex);
    text_append(out, (struct view){hex, HEX_SIZE});
}

void signer_init(struct signer *signer, time_t now, const char *access_key)
{
    if (strlen(access_key) != KEY_SIZE)
        fatal("an access key here has %d characters, not those of %s", KEY_SIZE, access_key);
    signer->access_key = access_key;
    struct tm civil;
    strftime(signer->stamp, sizeof(signer->stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &civil));
    static const char FIRST[] = "AWS4" SIGNER_SECRET;
    hmac(FIRST, sizeof(FIRST) - 1, (struct view){signer->stamp, DAY_SIZE}, signer->key);
    static const struct view REST[] = {{REGION, sizeof(REGION) - 1}, {"sqs", 3}, {"aws4_request", 12}};
    for (size_t i = 0; i < sizeof(REST) / sizeof(REST[0]); i++)
        hmac(signer->key, sizeof(signer->key), REST[i], signer->key);
}

/* The place behind `mark` in the request, which has it. */
static char *index_of(struct text *request, struct view mark)
{
    const char *at = view_find(text_view(request), mark);
    if (at == NULL)
        fatal("a request without %.*s can't be signed", (int)mark.size, mark.ptr);
    return request->ptr_owned + (at - request->ptr_owned) + mark.size;
}

static void header_append(struct text *out, struct text *request, struct view name, struct view mark)
{
    const char *value = index_of(request, mark);
    text_append(out, name);
    text_append(out, (struct view){value, (size_t)(strchr(value, '\r') - value)});
    text_append(out, VIEW("\n"));
}

static void canonical_append(struct text *out, struct text *request)
{
    text_append(out, VIEW("POST\n/\n\n"));
    header_append(out, request, VIEW("content-type:"), VIEW("\r\nContent-Type: "));
    header_append(out, request, VIEW("host:"), VIEW("\r\nHost: "));
    header_append(out, request, VIEW("x-amz-date:"), VIEW("\r\nX-Amz-Date: "));
    header_append(out, request, VIEW("x-amz-target:"), VIEW("\r\nX-Amz-Target: "));
    text_append(out, VIEW("\n" SIGNED_HEADERS "\n"));
    digest_append(out, view_from(text_view(request), index_of(request, VIEW("\r\n\r\n"))));
}

void signer_sign(const struct signer *signer, struct text *request)
{
    memcpy(index_of(request, VIEW("\r\nX-Amz-Date: ")), signer->stamp, SIGNER_STAMP_SIZE);
    char *credential = index_of(request, VIEW("Credential="));
    memcpy(credential, signer->access_key, KEY_SIZE);
    memcpy(credential + KEY_SIZE + 1, signer->stamp, DAY_SIZE);
    struct text canonical, to_sign;
    text_init(&canonical);
    canonical_append(&canonical, request);
    text_init(&to_sign);
    text_append_format(&to_sign, "AWS4-HMAC-SHA256\n%s\n%.*s/" REGION "/sqs/aws4_request\n", signer->stamp, DAY_SIZE,
                       signer->stamp);
    digest_append(&to_sign, text_view(&canonical));
    unsigned char signature[SIGNER_DIGEST_SIZE];
    hmac(signer->key, sizeof(signer->key), text_view(&to_sign), signature);
    hex_write(signature, index_of(request, VIEW(" Signature=")));
    text_deinit(&canonical);
    text_deinit(&to_sign);
}
