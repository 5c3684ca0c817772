/* Signatures and credentials from outside.
 *
 * First byte: bit 0: the rest is a text of credentials; else it is up to five parts with zero bytes between them,
 * method, path, query string, head and body, which take the place of those of a request that AWS signed. What is
 * verified twice (the second time with the signing key kept) must have one answer, one of those that sigv4.h names, in
 * a text that can be shown; and credentials that were read can be found. */
#include "auth/sigv4.h"
#include "base/assert.h"

#define NOW_S 1440938160 /* 20150830T123600Z */
#define PARTS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_credentials(struct bytes text)
{
    struct credentials *credentials = NULL;
    struct failure failure = {0};
    if (credentials_parse(text, &credentials, &failure) != OK) {
        ASSERT(failure.text[0] != '\0' && credentials == NULL);
        return;
    }
    ASSERT(credentials_count(credentials) > 0);
    const struct credential *credential = credentials_find(credentials, BYTES("AKIDEXAMPLE"));
    if (credential != NULL) {
        ASSERT(credential->rights != 0 && credential->secret.size > 0);
        ASSERT(credential->patterns.size > 0 || credential_covers(credential, BYTES("orders")));
    }
    credentials_destroy(credentials);
}

static bool is_expected(enum error error)
{
    return error == OK || error == ERROR_ACCESS_DENIED || error == ERROR_INCOMPLETE_SIGNATURE ||
           error == ERROR_UNKNOWN_ACCESS_KEY || error == ERROR_INVALID_SIGNATURE;
}

static void verify(const struct signed_request *request)
{
    struct credentials *credentials = NULL;
    enum error error = credentials_parse(
        BYTES("AKIDEXAMPLE wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY 000000000000 read"), &credentials, NULL);
    ASSERT(error == OK);
    struct sigv4 *sigv4 = sigv4_create("service");
    enum error errors[2];
    for (unsigned i = 0; i < 2; i++) {
        struct failure failure = {0};
        const struct credential *credential = NULL;
        errors[i] = sigv4_verify(sigv4, credentials, request, NOW_S, &credential, &failure);
        ASSERT(is_expected(errors[i]) && (errors[i] == OK) == (credential != NULL));
        for (const char *at = failure.text; *at != '\0'; at++)
            ASSERT(*at >= ' ' && *at <= '~');
    }
    ASSERT(errors[0] == errors[1]);
    sigv4_destroy(sigv4);
    credentials_destroy(credentials);
}

static void read_request(struct bytes input)
{
    struct signed_request request = {
        .method = BYTES("GET"),
        .path = BYTES("/"),
        .query = BYTES("Param2=value2&Param1=value1"),
        .head = BYTES("Host:example.amazonaws.com\r\nAuthorization:AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/"
                      "us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, "
                      "Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500\r\n"
                      "X-Amz-Date:20150830T123600Z\r\n"),
    };
    struct bytes *const parts[PARTS] = {&request.method, &request.path, &request.query, &request.head, &request.body};
    for (size_t i = 0; i < PARTS && input.size > 0; i++) {
        const uint8_t *zero = memchr(input.ptr, 0, input.size);
        size_t part_size = zero == NULL ? input.size : (size_t)(zero - input.ptr);
        if (part_size > 0)
            *parts[i] = bytes_make(input.ptr, part_size);
        input = bytes_skip(input, part_size + (zero != NULL));
    }
    verify(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes rest = bytes_make(data + 1, size - 1);
    if ((data[0] & 1) != 0)
        read_credentials(rest);
    else
        read_request(rest);
    return 0;
}
