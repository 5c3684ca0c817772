#include "auth/claim.h"

#include "auth/signing_key.h"
#include "base/assert.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define EXPIRES_MAX_S 604800u
#define EXPIRES_DEFAULT_S 900

__attribute__((format(printf, 2, 3))) static enum error malformed(struct failure *failure, const char *format, ...)
{
    if (failure == NULL)
        return ERROR_INCOMPLETE_SIGNATURE;
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(failure, ERROR_INCOMPLETE_SIGNATURE, format, arguments);
    va_end(arguments);
    return ERROR_INCOMPLETE_SIGNATURE;
}

/* Takes what stands before the next `separator` off the text. */
static struct bytes take_until(struct bytes *text, char separator)
{
    const uint8_t *end = text->size == 0 ? NULL : memchr(text->ptr, separator, text->size);
    struct bytes item = bytes_make(text->ptr, end == NULL ? text->size : (size_t)(end - text->ptr));
    *text = bytes_skip(*text, item.size + (end != NULL));
    return item;
}

/* KEY/DATE/REGION/SERVICE/aws4_request. */
static enum error read_scope(struct bytes text, struct claim *claim, struct failure *failure)
{
    struct bytes *const parts[] = {&claim->access_key, &claim->date, &claim->region, &claim->service,
                                   &claim->terminator};
    struct bytes rest = text;
    bool is_whole = true;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        *parts[i] = take_until(&rest, '/');
        is_whole = is_whole && parts[i]->size > 0;
    }
    if (!is_whole || rest.size > 0 || text.ptr[text.size - 1] == '/')
        return malformed(failure, "Credential must have exactly 5 slash-delimited elements, e.g. "
                                  "keyid/date/region/service/term.");
    if (claim->date.size != SIGNING_DATE_SIZE)
        return malformed(failure, "The date in Credential must be 8 digits, e.g. 20150830.");
    if (claim->region.size > SIGNING_REGION_SIZE_MAX)
        return malformed(failure, "The region in Credential has more than %u characters.", SIGNING_REGION_SIZE_MAX);
    return OK;
}

/* Names of headers with semicolons between them: nothing that an answer had better not repeat. */
static enum error check_signed_headers(struct bytes list, struct failure *failure)
{
    for (size_t i = 0; i < list.size; i++) {
        uint8_t character = list.ptr[i];
        if ((character < 'a' || character > 'z') && (character < '0' || character > '9') && character != '-' &&
            character != '_' && character != '.' && character != ';')
            return malformed(failure, "SignedHeaders must be names in lower case with semicolons between them.");
    }
    return OK;
}

/* --- the header --------------------------------------------------------------------------------------------------- */

/* The only field of that name. */
static enum error read_field(const struct head *head, struct bytes name, struct bytes *value, struct failure *failure)
{
    size_t at = head_find(head, 0, name);
    *value = at < head->count ? head->fields_owned[at].value : bytes_make(NULL, 0);
    if (at < head->count && head_find(head, at + 1, name) < head->count)
        return malformed(failure, "The header %.*s stands twice.", BYTES_FORMAT(name));
    return OK;
}

/* One "name=value" of the header; each name once. */
static bool read_part(struct bytes part, struct bytes *credential, struct claim *claim)
{
    while (part.size > 0 && part.ptr[0] == ' ')
        part = bytes_skip(part, 1);
    struct bytes name = take_until(&part, '=');
    struct bytes *value = bytes_equal(name, BYTES("Credential"))      ? credential
                          : bytes_equal(name, BYTES("SignedHeaders")) ? &claim->signed_headers
                          : bytes_equal(name, BYTES("Signature"))     ? &claim->signature
                                                                      : NULL;
    if (value == NULL || value->ptr != NULL)
        return false;
    *value = part;
    return true;
}

static enum error read_authorization(struct bytes text, struct claim *claim, struct failure *failure)
{
    if (!bytes_equal(take_until(&text, ' '), BYTES(ALGORITHM)))
        return malformed(failure, "The header Authorization must begin with " ALGORITHM ".");
    struct bytes credential = {NULL, 0};
    while (text.size > 0)
        if (!read_part(take_until(&text, ','), &credential, claim))
            return malformed(failure, "Behind " ALGORITHM " can stand Credential=, SignedHeaders= and Signature=, once "
                                      "each, with commas between them.");
    if (credential.size == 0 || claim->signed_headers.size == 0 || claim->signature.size == 0)
        return malformed(failure, "The header Authorization requires%s%s%s.",
                         credential.size == 0 ? " a 'Credential' parameter" : "",
                         claim->signed_headers.size == 0 ? " a 'SignedHeaders' parameter" : "",
                         claim->signature.size == 0 ? " a 'Signature' parameter" : "");
    return read_scope(credential, claim, failure);
}

/* The time, from X-Amz-Date or, without it, from Date. */
static enum error read_time(const struct head *head, struct claim *claim, struct failure *failure)
{
    struct bytes text;
    enum error error = read_field(head, BYTES("x-amz-date"), &text, failure);
    if (error != OK || stamp_read(text, &claim->stamp))
        return error;
    if (text.ptr != NULL)
        return malformed(failure, "The header X-Amz-Date must be a time like 20150830T123600Z.");
    error = read_field(head, BYTES("date"), &text, failure);
    if (error != OK || stamp_read(text, &claim->stamp) || stamp_read_http_date(text, &claim->stamp))
        return error;
    return malformed(failure, "The request must have the header X-Amz-Date, a time like 20150830T123600Z, or Date.");
}

static enum error read_head(const struct head *head, struct bytes authorization, struct claim *claim,
                            struct failure *failure)
{
    enum error error = read_authorization(authorization, claim, failure);
    if (error == OK)
        error = read_time(head, claim, failure);
    if (error == OK)
        error = read_field(head, BYTES("x-amz-security-token"), &claim->token, failure);
    return error;
}

/* --- the query string --------------------------------------------------------------------------------------------- */

static enum error read_expires(struct bytes text, struct claim *claim, struct failure *failure)
{
    uint64_t expires_s = EXPIRES_DEFAULT_S;
    if (text.ptr != NULL && (!bytes_to_u64(text, &expires_s) || expires_s == 0 || expires_s > EXPIRES_MAX_S))
        return malformed(failure, "X-Amz-Expires must be a number of seconds from 1 to %u.", EXPIRES_MAX_S);
    claim->expires_s = (int64_t)expires_s;
    return OK;
}

static enum error read_query(const struct url_query *query, struct claim *claim, struct failure *failure)
{
    struct bytes algorithm, credential, date, expires;
    const struct {
        struct bytes name;
        struct bytes *value;
        bool is_needed;
    } params[] = {
        {BYTES("X-Amz-Algorithm"), &algorithm, true},
        {BYTES("X-Amz-Credential"), &credential, true},
        {BYTES("X-Amz-Date"), &date, true},
        {BYTES("X-Amz-SignedHeaders"), &claim->signed_headers, true},
        {BYTES("X-Amz-Signature"), &claim->signature, true},
        {BYTES("X-Amz-Expires"), &expires, false},
        {BYTES("X-Amz-Security-Token"), &claim->token, false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(params); i++) {
        size_t count = url_query_find(query, params[i].name, params[i].value);
        if (count > 1 || (params[i].is_needed && params[i].value->size == 0))
            return malformed(failure, "A presigned request must have the parameter '%.*s' once.",
                             BYTES_FORMAT(params[i].name));
    }
    if (!bytes_equal(algorithm, BYTES(ALGORITHM)))
        return malformed(failure, "X-Amz-Algorithm must be " ALGORITHM ".");
    if (!stamp_read(date, &claim->stamp))
        return malformed(failure, "X-Amz-Date must be a time like 20150830T123600Z.");
    claim->is_presigned = true;
    enum error error = read_expires(expires, claim, failure);
    return error != OK ? error : read_scope(credential, claim, failure);
}

enum error claim_read(const struct head *head, const struct url_query *query, struct claim *claim,
                      struct failure *failure)
{
    struct bytes authorization, unused;
    enum error error = read_field(head, BYTES("authorization"), &authorization, failure);
    if (error != OK)
        return error;
    *claim = (struct claim){.is_presigned = false};
    bool is_in_query = url_query_find(query, BYTES("X-Amz-Signature"), &unused) > 0 ||
                       url_query_find(query, BYTES("X-Amz-Algorithm"), &unused) > 0;
    if (authorization.ptr != NULL && is_in_query)
        return malformed(failure,
                         "A request is signed in the header Authorization or in the query string, not in both.");
    if (authorization.ptr == NULL && !is_in_query)
        return failure_set(
            failure, ERROR_ACCESS_DENIED,
            "Access is denied: the request is not signed. Give the client an access key and its secret.");
    error = is_in_query ? read_query(query, claim, failure) : read_head(head, authorization, claim, failure);
    return error != OK ? error : check_signed_headers(claim->signed_headers, failure);
}
