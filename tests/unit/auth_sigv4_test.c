/* Signature Version 4: what AWS published, what SDKs sign, and 10,000 requests in which somebody changed a byte. */
#include "auth/sigv4.h"

#include "auth_vectors.h"
#include "base/assert.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define TEXT_SIZE 2048

/* Requests to SQS, as botocore 1.29 signed them. */
#define NOW_S 1795176000 /* 20261120T120000Z */
#define SQS_SCOPE(region) "Credential=AKIDEXAMPLE/20261120/" region "/sqs/aws4_request"
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct parts {
    char method[16], path[256], query[TEXT_SIZE], head[TEXT_SIZE], body[256];
};

static struct signed_request request_of(const struct parts *parts)
{
    return (struct signed_request){
        .method = bytes_from_string(parts->method),
        .path = bytes_from_string(parts->path),
        .query = bytes_from_string(parts->query),
        .head = bytes_from_string(parts->head),
        .body = bytes_from_string(parts->body),
    };
}

static struct parts parts_of_vector(const struct vector *vector)
{
    struct parts parts;
    snprintf(parts.method, sizeof(parts.method), "%s", vector->method);
    snprintf(parts.path, sizeof(parts.path), "%s", vector->path);
    snprintf(parts.body, sizeof(parts.body), "%s", vector->body);
    if (!vector->is_presigned) {
        snprintf(parts.query, sizeof(parts.query), "%s", vector->query);
        snprintf(parts.head, sizeof(parts.head),
                 "%sAuthorization:" ALGORITHM " Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                 "SignedHeaders=%s, Signature=%s\r\nX-Amz-Date:20150830T123600Z\r\n\r\n",
                 vector->head, vector->signed_headers, vector->signature);
        return parts;
    }
    char names[128] = "";
    for (const char *at = vector->signed_headers; *at != '\0'; at++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), *at == ';' ? "%%3B" : "%c", *at);
    snprintf(parts.head, sizeof(parts.head), "%s\r\n", vector->head);
    snprintf(
        parts.query, sizeof(parts.query),
        "%s%sX-Amz-Algorithm=" ALGORITHM "&X-Amz-Credential=AKIDEXAMPLE%%2F20150830%%2Fus-east-1%%2Fservice"
        "%%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-SignedHeaders=%s&X-Amz-Expires=3600&X-Amz-Signature=%s",
        vector->query, vector->query[0] == '\0' ? "" : "&", names, vector->signature);
    return parts;
}

static const struct parts json = {
    "POST",
    "/",
    "",
    "Host: 127.0.0.1:9324\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
    "User-Agent: Boto3/1.26.27\r\nX-Amz-Date: 20261120T120000Z\r\nAuthorization: " ALGORITHM
    " " SQS_SCOPE("eu-central-1") ", SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
                                  "Signature=7024da04114b942df17a702f01f4fef0b908daad5eb32e0efff716a30c346f15\r\n"
                                  "Content-Length: 78\r\n\r\n",
    "{\"QueueUrl\":\"http://127.0.0.1:9324/000000000000/orders\",\"MessageBody\":\"hello\"}",
};

static const struct parts form = {
    "POST",
    "/000000000000/orders.fifo",
    "",
    "Host: 127.0.0.1:9324\r\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
    "X-Amz-Date: 20261120T120000Z\r\nAuthorization: " ALGORITHM
    " " SQS_SCOPE("us-east-1") ", SignedHeaders=content-type;host;x-amz-date, "
                               "Signature=e1d0ade9b88ba76d5ff83e64167cb7fca53d0df0732ded333b00765a4d6c99d0\r\n\r\n",
    "Action=SendMessage&Version=2012-11-05&MessageBody=hello+world",
};

static const struct parts presigned = {
    "GET",
    "/000000000000/orders",
    "Action=ReceiveMessage&AttributeName.1=All&MaxNumberOfMessages=10&QueueUrl=http%3A%2F%2F127.0.0.1%3A9324%"
    "2F000000000000"
    "%2Forders&X-Amz-Algorithm=" ALGORITHM "&X-Amz-Credential=AKIDEXAMPLE%2F20261120%2Fus-east-1%2Fsqs%2Faws4_request&"
    "X-Amz-Date=20261120T120000Z&X-Amz-Expires=60"
    "&X-Amz-SignedHeaders=host&X-Amz-Signature=1b3df1379601cf3674368125068d906b9048629758bdec68754ac7b254b90cba",
    "Host: 127.0.0.1:9324\r\n\r\n",
    "",
};

/* A verifier, and the one credential of the examples. */
struct rig {
    struct sigv4 *vectors;
    struct sigv4 *sqs;
    struct credentials *credentials;
};

static struct credentials *credentials_of(const char *text)
{
    struct credentials *credentials = NULL;
    struct failure failure = {0};
    if (credentials_parse(bytes_from_string(text), &credentials, &failure) != OK)
        fail_msg("%s", failure.text);
    return credentials;
}

static int setup(void **state)
{
    static struct rig rig;
    rig = (struct rig){
        .vectors = sigv4_create(VECTOR_SERVICE),
        .sqs = sigv4_create("sqs"),
        .credentials = credentials_of(VECTOR_CREDENTIAL),
    };
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    sigv4_destroy(rig->vectors);
    sigv4_destroy(rig->sqs);
    credentials_destroy(rig->credentials);
    return 0;
}

static enum error verify(struct rig *rig, const struct parts *parts, int64_t now_s, struct failure *failure)
{
    struct signed_request request = request_of(parts);
    const struct credential *credential = NULL;
    enum error error = sigv4_verify(rig->sqs, rig->credentials, &request, now_s, &credential, failure);
    assert_true((error == OK) == (credential != NULL));
    return error;
}

static void assert_refused(struct rig *rig, const struct parts *parts, int64_t now_s, enum error expected,
                           const char *words)
{
    struct failure failure = {0};
    enum error error = verify(rig, parts, now_s, &failure);
    if (error != expected || strstr(failure.text, words) == NULL)
        fail_msg("%s: %s", error == OK ? "OK" : error_row(error)->name, failure.text);
}

/* Puts `text` in place of `old`, which must be there. */
static void replace(char *in, const char *old, const char *text)
{
    char *at = strstr(in, old);
    assert_non_null(at);
    assert_true(strlen(in) - strlen(old) + strlen(text) < TEXT_SIZE);
    memmove(at + strlen(text), at + strlen(old), strlen(at + strlen(old)) + 1);
    memcpy(at, text, strlen(text));
}

/* --- what is right ------------------------------------------------------------------------------------------------ */

static void signatures_that_aws_published_are_right(void **state)
{
    struct rig *rig = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(vectors); i++) {
        struct parts parts = parts_of_vector(&vectors[i]);
        struct signed_request request = request_of(&parts);
        const struct credential *credential = NULL;
        struct failure failure = {0};
        if (sigv4_verify(rig->vectors, rig->credentials, &request, VECTOR_NOW_S, &credential, &failure) != OK)
            fail_msg("%s, %s: %s", vectors[i].name, vectors[i].is_presigned ? "presigned" : "header", failure.text);
        assert_memory_equal(credential->access_key.ptr, "AKIDEXAMPLE", 11);
    }
}

static void requests_that_sdks_signed_are_right_in_any_region(void **state)
{
    assert_int_equal(verify(*state, &json, NOW_S, NULL), OK);
    assert_int_equal(verify(*state, &form, NOW_S, NULL), OK);
    assert_int_equal(verify(*state, &presigned, NOW_S, NULL), OK);
}

static void separators_of_the_header_may_lack_blanks_and_come_in_any_order(void **state)
{
    struct parts parts = json;
    replace(parts.head, "aws4_request, ", "aws4_request,");
    assert_int_equal(verify(*state, &parts, NOW_S, NULL), OK);
    parts = form;
    replace(parts.head, SQS_SCOPE("us-east-1") ", ", "");
    replace(parts.head, "99d0\r\n", "99d0, " SQS_SCOPE("us-east-1") "\r\n");
    assert_int_equal(verify(*state, &parts, NOW_S, NULL), OK);
}

static void escapes_of_a_query_string_mean_the_same_however_they_are_written(void **state)
{
    struct parts parts = presigned;
    replace(parts.query, "http%3A%2F%2F127", "http:%2f/127");
    replace(parts.query, "ReceiveMessage", "Receive%4dessage");
    assert_int_equal(verify(*state, &parts, NOW_S, NULL), OK);
}

static void a_body_may_be_left_out_of_the_signature_on_purpose(void **state)
{
    struct parts parts = {
        .method = "POST",
        .path = "/",
        .head =
            "Host: q.example\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\nX-Amz-Date: 20261120T120000Z\r\n"
            "X-Amz-Target: AmazonSQS.ListQueues\r\nAuthorization: " ALGORITHM
            " " SQS_SCOPE("us-east-1") ",SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-target,"
                                       "Signature=c87f7837841fb3e10aa76dc6356c97c1c555ea87491869b691bf45bed0f87750\r\n",
        .body = "{\"QueueNamePrefix\":\"a\"}",
    };
    assert_int_equal(verify(*state, &parts, NOW_S, NULL), OK);
    replace(parts.head, "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAd");
    assert_refused(*state, &parts, NOW_S, ERROR_INVALID_SIGNATURE, "x-amz-content-sha256");
    replace(parts.head, "UNSIGNED-PAYLOAd", EMPTY_SHA256);
    assert_refused(*state, &parts, NOW_S, ERROR_INVALID_SIGNATURE, "x-amz-content-sha256");
}

static void the_time_may_stand_in_the_header_date(void **state)
{
    struct parts parts = {
        .method = "POST",
        .path = "/",
        .head =
            "Host: q.example\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nAuthorization: " ALGORITHM
            " " SQS_SCOPE("us-east-1") ",SignedHeaders=date;host,"
                                       "Signature=fd5133e4477fd90fb23ab3ec8b29807c6ea61e51e0892342a03e248c2b972eb6\r\n",
    };
    assert_int_equal(verify(*state, &parts, NOW_S, NULL), OK);
    static const char *const wrong[] = {
        "Fri, 20 Nov 2026 12:00:00 CET",
        "Fri, 20 Nox 2026 12:00:00 GMT",
        "Fri, 31 Nov 2026 12:00:00 GMT",
        "Fri, 20 Nov 2026 24:00:00 GMT",
        "20261120T120000",
        "2026-11-20T12:00:00Z",
        "20260229T120000Z",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        struct parts other = parts;
        replace(other.head, "Fri, 20 Nov 2026 12:00:00 GMT", wrong[i]);
        assert_refused(*state, &other, NOW_S, ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Date");
    }
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

static void each_kind_of_wrong_has_its_error(void **state)
{
    static const struct {
        const char *old, *text;
        enum error error;
        const char *words;
    } rows[] = {
        {"Authorization:", "X-Authorization:", ERROR_ACCESS_DENIED, "not signed"},
        {"AKIDEXAMPLE", "AKIDOTHER", ERROR_UNKNOWN_ACCESS_KEY, ""},
        {"AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", ERROR_INCOMPLETE_SIGNATURE, "begin with"},
        {"AWS4-HMAC-SHA256 ", "Bearer ", ERROR_INCOMPLETE_SIGNATURE, "begin with"},
        {"SignedHeaders=", "Signed=", ERROR_INCOMPLETE_SIGNATURE, "can stand"},
        {"Signature=", "SignedHeaders=", ERROR_INCOMPLETE_SIGNATURE, "once"},
        {", Signature=", ",", ERROR_INCOMPLETE_SIGNATURE, "can stand"},
        {SQS_SCOPE("eu-central-1") ", ", "", ERROR_INCOMPLETE_SIGNATURE, "'Credential'"},
        {"/eu-central-1", "", ERROR_INCOMPLETE_SIGNATURE, "5 slash-delimited"},
        {"aws4_request", "aws4_request/more", ERROR_INCOMPLETE_SIGNATURE, "5 slash-delimited"},
        {"aws4_request", "aws4_request/", ERROR_INCOMPLETE_SIGNATURE, "5 slash-delimited"},
        {"/20261120/", "/2026112/", ERROR_INCOMPLETE_SIGNATURE, "8 digits"},
        {"X-Amz-Date:", "X-Date:", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Date"},
        {"X-Amz-Date: 2026", "X-Amz-Date: x026", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Date"},
        {"Content-Length: 78", "Authorization: x", ERROR_INCOMPLETE_SIGNATURE, "twice"},
        {"content-type;host;", "content-type;", ERROR_INCOMPLETE_SIGNATURE, "'Host'"},
        {";x-amz-target", "", ERROR_INCOMPLETE_SIGNATURE, "'X-Amz-Target'"},
        {"content-type;host", "content-type;Host", ERROR_INCOMPLETE_SIGNATURE, "lower case"},
        {"content-type;host", "content-type;host;x-other", ERROR_INVALID_SIGNATURE, "'x-other'"},
        {"/20261120/", "/20261119/", ERROR_INVALID_SIGNATURE, "Date in Credential"},
        {"/sqs/", "/s3/", ERROR_INVALID_SIGNATURE, "'sqs'"},
        {"aws4_request", "aws5_request", ERROR_INVALID_SIGNATURE, "terminator"},
        {"127.0.0.1:9324", "proxy.example", ERROR_INVALID_SIGNATURE, ""},
        {"6f15\r\n", "6F15\r\n", ERROR_INVALID_SIGNATURE, ""},
        {"6f15\r\n", "6f1\r\n", ERROR_INVALID_SIGNATURE, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct parts parts = json;
        replace(parts.head, rows[i].old, rows[i].text);
        assert_refused(*state, &parts, NOW_S, rows[i].error, rows[i].words);
    }
}

static void each_kind_of_wrong_in_a_query_string_has_its_error(void **state)
{
    static const struct {
        const char *old, *text;
        enum error error;
        const char *words;
    } rows[] = {
        {"X-Amz-Algorithm=AWS4", "X-Amz-Algorithm=AWS5", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Algorithm"},
        {"X-Amz-Algorithm=", "Algorithm=", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Algorithm"},
        {"X-Amz-Credential=", "Credential=", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Credential"},
        {"AKIDEXAMPLE", "AKIDOTHER", ERROR_UNKNOWN_ACCESS_KEY, ""},
        {"AKIDEXAMPLE%2F", "AKIDEXAMPLE%3F", ERROR_INCOMPLETE_SIGNATURE, "5 slash-delimited"},
        {"X-Amz-Date=", "X-Amz-Date=x", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Date"},
        {"X-Amz-Expires=60", "X-Amz-Expires=0", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Expires"},
        {"X-Amz-Expires=60", "X-Amz-Expires=604801", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Expires"},
        {"X-Amz-Expires=60", "X-Amz-Expires=604800", ERROR_INVALID_SIGNATURE, ""},
        {"X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Expires=61", ERROR_INCOMPLETE_SIGNATURE, "once"},
        {"X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=%01", ERROR_INCOMPLETE_SIGNATURE, "lower case"},
        {"X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=host%3Bx", ERROR_INVALID_SIGNATURE, "'x'"},
        {"X-Amz-Signature=", "X-Amz-Signature=&Signature=", ERROR_INCOMPLETE_SIGNATURE, "X-Amz-Signature"},
        {"ReceiveMessage", "DeleteQueue", ERROR_INVALID_SIGNATURE, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct parts parts = presigned;
        replace(parts.query, rows[i].old, rows[i].text);
        assert_refused(*state, &parts, NOW_S, rows[i].error, rows[i].words);
    }
    struct parts parts = presigned;
    replace(parts.head, "\r\n\r\n", "\r\nAuthorization: x\r\n\r\n");
    assert_refused(*state, &parts, NOW_S, ERROR_INCOMPLETE_SIGNATURE, "not in both");
    parts = presigned;
    replace(parts.head, "\r\n\r\n", "\r\nX-Amz-Target: AmazonSQS.DeleteQueue\r\n\r\n");
    assert_refused(*state, &parts, NOW_S, ERROR_INCOMPLETE_SIGNATURE, "'X-Amz-Target'");
}

static void more_signed_headers_than_the_limit_are_refused(void **state)
{
    struct parts parts = json;
    char list[640] = "content-type";
    for (unsigned i = 0; i < 100; i++)
        strcat(list, ";host");
    replace(parts.head, "content-type;host", list);
    assert_refused(*state, &parts, NOW_S, ERROR_INCOMPLETE_SIGNATURE, "more than 100");
}

static void a_time_is_right_up_to_15_minutes_away(void **state)
{
    assert_int_equal(verify(*state, &json, NOW_S - SIGV4_SKEW_S, NULL), OK);
    assert_int_equal(verify(*state, &json, NOW_S + SIGV4_SKEW_S, NULL), OK);
    assert_refused(*state, &json, NOW_S - SIGV4_SKEW_S - 1, ERROR_INVALID_SIGNATURE,
                   "not yet current: 20261120T120000Z");
    assert_refused(*state, &json, NOW_S + SIGV4_SKEW_S + 1, ERROR_INVALID_SIGNATURE, "expired: 20261120T120000Z");
}

static void a_presigned_request_is_good_until_it_expires(void **state)
{
    assert_int_equal(verify(*state, &presigned, NOW_S + 60, NULL), OK);
    assert_refused(*state, &presigned, NOW_S + 61, ERROR_INVALID_SIGNATURE, "20261120T120101Z here");
    assert_int_equal(verify(*state, &presigned, NOW_S - SIGV4_SKEW_S, NULL), OK);
    assert_refused(*state, &presigned, NOW_S - SIGV4_SKEW_S - 1, ERROR_INVALID_SIGNATURE, "not yet current");
}

static void a_token_counts_only_where_the_credential_has_one(void **state)
{
    struct rig *rig = *state;
    const struct vector *with_token = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(vectors); i++)
        if (strcmp(vectors[i].name, "post-sts-header-before") == 0)
            with_token = &vectors[i];
    assert_non_null(with_token);
    const char *token = strchr(with_token->head + strlen(HOST), ':') + 1;
    static const char *const tails[] = {"", "x"};
    for (size_t i = 0; i < ARRAY_LENGTH(tails); i++) {
        char text[TEXT_SIZE];
        snprintf(text, sizeof(text), "%s token=%.*s%s", VECTOR_CREDENTIAL, (int)strcspn(token, "\r"), token, tails[i]);
        struct credentials *credentials = credentials_of(text);
        struct parts parts = parts_of_vector(with_token);
        struct parts without = parts_of_vector(&vectors[0]);
        struct signed_request request = request_of(&parts), other = request_of(&without);
        const struct credential *credential;
        assert_int_equal(sigv4_verify(rig->vectors, credentials, &request, VECTOR_NOW_S, &credential, NULL),
                         i == 0 ? OK : ERROR_UNKNOWN_ACCESS_KEY);
        assert_int_equal(sigv4_verify(rig->vectors, credentials, &other, VECTOR_NOW_S, &credential, NULL),
                         ERROR_UNKNOWN_ACCESS_KEY);
        credentials_destroy(credentials);
    }
}

static void a_new_secret_ends_the_old_one_at_once(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(verify(rig, &json, NOW_S, NULL), OK);
    credentials_destroy(rig->credentials);
    rig->credentials = credentials_of("AKIDEXAMPLE wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEz 000000000000 read");
    assert_refused(rig, &json, NOW_S, ERROR_INVALID_SIGNATURE, "");
    credentials_destroy(rig->credentials);
    rig->credentials = credentials_of(VECTOR_CREDENTIAL);
    assert_int_equal(verify(rig, &json, NOW_S, NULL), OK);
}

static void more_scopes_than_are_remembered_stay_right(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 1000; i++) {
        struct parts parts = json;
        char region[32];
        snprintf(region, sizeof(region), "/region-%u/", i);
        replace(parts.head, "/eu-central-1/", region);
        assert_refused(rig, &parts, NOW_S, ERROR_INVALID_SIGNATURE, "");
        assert_int_equal(verify(rig, &json, NOW_S, NULL), OK);
    }
}

/* --- one byte ----------------------------------------------------------------------------------------------------- */

/* Is the byte one that the signature covers, or part of it? In the head that is the value of Authorization and of each
 * header in the list. */
static bool is_covered(const struct parts *parts, const char *signed_headers, size_t at)
{
    size_t line = at;
    while (line > 0 && parts->head[line - 1] != '\n')
        line--;
    size_t name_size = strcspn(parts->head + line, ":\r");
    if (parts->head[line + name_size] != ':' || at <= line + name_size || strchr("\r\n", parts->head[at]) != NULL)
        return false;
    char name[64] = "";
    for (size_t i = 0; i < name_size; i++)
        name[i] = (char)(parts->head[line + i] | 0x20);
    if (strcmp(name, "authorization") == 0)
        return true;
    const char *found = strstr(signed_headers, name);
    return found != NULL && (found[name_size] == ';' || found[name_size] == '\0');
}

/* The case of a digit in %2f says nothing. */
static bool is_same_escape(const char *text, size_t at, char byte)
{
    bool is_digit = (at >= 1 && text[at - 1] == '%') || (at >= 2 && text[at - 2] == '%');
    return is_digit && (text[at] ^ byte) == 0x20;
}

/* Changes a byte of one part; false if it met one that says nothing. */
static bool mutate(struct parts *parts, const char *signed_headers, struct random *random)
{
    char *const texts[] = {parts->method, parts->path, parts->query, parts->head, parts->head, parts->body};
    char *text = texts[random_below(random, ARRAY_LENGTH(texts))];
    if (text[0] == '\0')
        return false;
    size_t at = random_below(random, (uint32_t)strlen(text));
    char byte = (char)(1 + random_below(random, 255));
    bool is_end_of_line = byte == '\r' || byte == '\n';
    if (byte == text[at] || is_end_of_line || (text == parts->head && !is_covered(parts, signed_headers, at)) ||
        (text == parts->query && is_same_escape(text, at, byte)))
        return false;
    text[at] = byte;
    return true;
}

static void one_changed_byte_is_refused(void **state)
{
    struct rig *rig = *state;
    struct random random = {4};
    unsigned presigned_count = 0;
    for (unsigned count = 0; count < 10000;) {
        const struct vector *vector = &vectors[random_below(&random, ARRAY_LENGTH(vectors))];
        if (strstr(vector->path, "//") != NULL || strstr(vector->path, "/.") != NULL)
            continue; /* other writings of the same path, on purpose */
        struct parts parts = parts_of_vector(vector);
        if (!mutate(&parts, vector->signed_headers, &random))
            continue;
        struct signed_request request = request_of(&parts);
        const struct credential *credential;
        if (sigv4_verify(rig->vectors, rig->credentials, &request, VECTOR_NOW_S, &credential, NULL) == OK)
            fail_msg("%s: %s %s?%s\n%s", vector->name, parts.method, parts.path, parts.query, parts.head);
        count++;
        presigned_count += vector->is_presigned;
    }
    assert_true(presigned_count > 1000);
}

static void one_changed_byte_of_a_request_to_sqs_is_refused(void **state)
{
    static const struct {
        const struct parts *parts;
        const char *signed_headers;
    } rows[] = {{&json, "content-type;host;x-amz-date;x-amz-target"},
                {&form, "content-type;host;x-amz-date"},
                {&presigned, "host"}};
    struct random random = {5};
    for (unsigned count = 0; count < 10000;) {
        size_t row = random_below(&random, ARRAY_LENGTH(rows));
        struct parts parts = *rows[row].parts;
        if (!mutate(&parts, rows[row].signed_headers, &random))
            continue;
        if (verify(*state, &parts, NOW_S, NULL) == OK)
            fail_msg("%s %s?%s\n%s\n%s", parts.method, parts.path, parts.query, parts.head, parts.body);
        count++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_that_aws_published_are_right),
        cmocka_unit_test(requests_that_sdks_signed_are_right_in_any_region),
        cmocka_unit_test(separators_of_the_header_may_lack_blanks_and_come_in_any_order),
        cmocka_unit_test(escapes_of_a_query_string_mean_the_same_however_they_are_written),
        cmocka_unit_test(a_body_may_be_left_out_of_the_signature_on_purpose),
        cmocka_unit_test(the_time_may_stand_in_the_header_date),
        cmocka_unit_test(each_kind_of_wrong_has_its_error),
        cmocka_unit_test(each_kind_of_wrong_in_a_query_string_has_its_error),
        cmocka_unit_test(more_signed_headers_than_the_limit_are_refused),
        cmocka_unit_test(a_time_is_right_up_to_15_minutes_away),
        cmocka_unit_test(a_presigned_request_is_good_until_it_expires),
        cmocka_unit_test(a_token_counts_only_where_the_credential_has_one),
        cmocka_unit_test(a_new_secret_ends_the_old_one_at_once),
        cmocka_unit_test(more_scopes_than_are_remembered_stay_right),
        cmocka_unit_test(one_changed_byte_is_refused),
        cmocka_unit_test(one_changed_byte_of_a_request_to_sqs_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
