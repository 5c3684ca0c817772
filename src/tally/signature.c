#include "tally/signature.h"

#include "auth/stamp.h"
#include <stdlib.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define DAY_SIZE 8

/* As libtally has them (tally_client_create). */
static const char *read_variable(const char *name, const char *other, const char *fallback)
{
    const char *value = getenv(name);
    if ((value == NULL || *value == '\0') && other != NULL)
        value = getenv(other);
    return value == NULL || *value == '\0' ? fallback : value;
}

bool signature_init(struct signature *signature)
{
    *signature = (struct signature){
        .access_key = read_variable("AWS_ACCESS_KEY_ID", NULL, NULL),
        .secret = read_variable("AWS_SECRET_ACCESS_KEY", NULL, NULL),
        .token = read_variable("AWS_SESSION_TOKEN", NULL, NULL),
        .region = read_variable("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1"),
    };
    if (signature->access_key == NULL || signature->secret == NULL)
        return false;
    sha256_init(&signature->sha256);
    return true;
}

void signature_deinit(struct signature *signature)
{
    sha256_deinit(&signature->sha256);
}

static void append_digest(struct signature *signature, struct bytes data, struct buffer *out)
{
    sha256_digest_hex(&signature->sha256, data, (char *)buffer_extend(out, SHA256_HEX_SIZE));
}

/* The headers in the order of their names, each a line: what is sent besides, and what is signed. */
static void append_lines(const struct signature *signature, const char *line_end, const char *host,
                         const char *content_type, const char *target, const struct stamp *stamp, struct buffer *out)
{
    buffer_append_format(out, "content-type:%s%shost:%s%sx-amz-date:%.*s%s", content_type, line_end, host, line_end,
                         (int)STAMP_SIZE, stamp->text, line_end);
    if (signature->token != NULL)
        buffer_append_format(out, "x-amz-security-token:%s%s", signature->token, line_end);
    buffer_append_format(out, "x-amz-target:%s%s", target, line_end);
}

static const char *signed_names(const struct signature *signature)
{
    return signature->token == NULL ? "content-type;host;x-amz-date;x-amz-target"
                                    : "content-type;host;x-amz-date;x-amz-security-token;x-amz-target";
}

static void sign_step(struct signature *signature, uint8_t key[SHA256_SIZE], struct bytes data)
{
    const struct hmac_key padded = sha256_hmac_key(&signature->sha256, bytes_make(key, SHA256_SIZE));
    sha256_hmac(&signature->sha256, &padded, data, key);
}

/* Source: AWS, "Create a signed AWS API request", steps 4 and 5. */
static void sign(struct signature *signature, const struct stamp *stamp, struct bytes to_sign,
                 char hex[SHA256_HEX_SIZE])
{
    uint8_t key[SHA256_SIZE];
    struct buffer first;
    buffer_init(&first);
    buffer_append_format(&first, "AWS4%s", signature->secret);
    const struct hmac_key padded = sha256_hmac_key(&signature->sha256, buffer_bytes(&first));
    buffer_deinit(&first);
    sha256_hmac(&signature->sha256, &padded, bytes_make(stamp->text, DAY_SIZE), key);
    sign_step(signature, key, bytes_from_string(signature->region));
    sign_step(signature, key, BYTES("sqs"));
    sign_step(signature, key, BYTES("aws4_request"));
    sign_step(signature, key, to_sign);
    bytes_to_hex(bytes_make(key, SHA256_SIZE), hex);
}

void signature_append_headers(struct signature *signature, const char *host, const char *content_type,
                              const char *target, struct bytes body, int64_t now_s, struct buffer *out)
{
    const struct stamp stamp = stamp_of(now_s);
    struct buffer canonical, to_sign;
    char hex[SHA256_HEX_SIZE];

    buffer_init(&canonical);
    buffer_append_format(&canonical, "POST\n/\n\n");
    append_lines(signature, "\n", host, content_type, target, &stamp, &canonical);
    buffer_append_format(&canonical, "\n%s\n", signed_names(signature));
    append_digest(signature, body, &canonical);

    buffer_init(&to_sign);
    buffer_append_format(&to_sign, ALGORITHM "\n%.*s\n%.*s/%s/sqs/aws4_request\n", (int)STAMP_SIZE, stamp.text,
                         DAY_SIZE, stamp.text, signature->region);
    append_digest(signature, buffer_bytes(&canonical), &to_sign);
    sign(signature, &stamp, buffer_bytes(&to_sign), hex);

    append_lines(signature, "\r\n", host, content_type, target, &stamp, out);
    buffer_append_format(out, "Authorization: " ALGORITHM " Credential=%s/%.*s/%s/sqs/aws4_request, SignedHeaders=%s, ",
                         signature->access_key, DAY_SIZE, stamp.text, signature->region, signed_names(signature));
    buffer_append_format(out, "Signature=%.*s\r\n", (int)SHA256_HEX_SIZE, hex);
    buffer_deinit(&canonical);
    buffer_deinit(&to_sign);
}
