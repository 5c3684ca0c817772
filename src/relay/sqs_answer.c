#include "relay/sqs_answer.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include <stdio.h>

/* By the bare code: without a namespace in front of it and "Exception" behind it, for both protocols name the same
 * error in several ways. Source: SQS API reference, "Common errors" and SendMessageBatch; what an endpoint has been
 * seen to say besides. */
static const struct {
    const char *code;
    enum sqs_meaning meaning;
} meanings[] = {
    {"InvalidMessageContents", SQS_REFUSED},
    {"InvalidParameterValue", SQS_REFUSED},
    {"InvalidParameterCombination", SQS_REFUSED},
    {"InvalidAttributeName", SQS_REFUSED},
    {"InvalidAttributeValue", SQS_REFUSED},
    {"MissingParameter", SQS_REFUSED},
    {"MissingRequiredParameter", SQS_REFUSED},
    {"BatchRequestTooLong", SQS_REFUSED},
    {"MessageTooLong", SQS_REFUSED},
    {"RequestTooLarge", SQS_REFUSED},
    {"Serialization", SQS_REFUSED},
    {"MalformedInput", SQS_REFUSED},
    {"Validation", SQS_REFUSED},
    {"ValidationError", SQS_REFUSED},

    {"Throttling", SQS_BUSY},
    {"Throttled", SQS_BUSY},
    {"RequestThrottled", SQS_BUSY},
    {"RequestLimitExceeded", SQS_BUSY},
    {"TooManyRequests", SQS_BUSY},
    {"LimitExceeded", SQS_BUSY},
    {"OverLimit", SQS_BUSY},
    {"SlowDown", SQS_BUSY},
    {"KmsThrottled", SQS_BUSY},
    {"KMS.Throttling", SQS_BUSY},

    {"InternalError", SQS_FAILED},
    {"InternalFailure", SQS_FAILED},
    {"InternalServerError", SQS_FAILED},
    {"ServiceUnavailable", SQS_FAILED},
    {"RequestTimeout", SQS_FAILED},

    {"QueueDoesNotExist", SQS_CLOSED},
    {"NonExistentQueue", SQS_CLOSED},
    {"QueueDeletedRecently", SQS_CLOSED},
    {"ResourceNotFound", SQS_CLOSED},
    {"AccessDenied", SQS_CLOSED},
    {"AuthFailure", SQS_CLOSED},
    {"NotAuthorized", SQS_CLOSED},
    {"InvalidAccessKeyId", SQS_CLOSED},
    {"InvalidClientTokenId", SQS_CLOSED},
    {"UnrecognizedClient", SQS_CLOSED},
    {"InvalidSignature", SQS_CLOSED},
    {"SignatureDoesNotMatch", SQS_CLOSED},
    {"IncompleteSignature", SQS_CLOSED},
    {"MissingAuthenticationToken", SQS_CLOSED},
    {"ExpiredToken", SQS_CLOSED},
    {"RequestExpired", SQS_CLOSED},
    {"OptInRequired", SQS_CLOSED},
    {"InvalidAddress", SQS_CLOSED},
    {"InvalidSecurity", SQS_CLOSED},
    {"InvalidAction", SQS_CLOSED},
    {"UnknownOperation", SQS_CLOSED},
    {"UnsupportedOperation", SQS_CLOSED},
    {"KmsAccessDenied", SQS_CLOSED},
    {"KmsDisabled", SQS_CLOSED},
    {"KmsInvalidKeyUsage", SQS_CLOSED},
    {"KmsInvalidState", SQS_CLOSED},
    {"KmsNotFound", SQS_CLOSED},
    {"KmsOptInRequired", SQS_CLOSED},
};

/* "com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "ThrottlingException". */
static struct bytes bare_code(struct bytes code)
{
    static const struct bytes family = BYTES("AWS.SimpleQueueService."), ending = BYTES("Exception");
    const uint8_t *hash = code.size == 0 ? NULL : memchr(code.ptr, '#', code.size);
    if (hash != NULL)
        code = bytes_skip(code, (size_t)(hash - code.ptr) + 1);
    if (bytes_starts_with(code, family))
        code = bytes_skip(code, family.size);
    if (bytes_ends_with(code, ending))
        code.size -= ending.size;
    return code;
}

static bool find_meaning(struct bytes code, enum sqs_meaning *meaning)
{
    struct bytes bare = bare_code(code);
    for (size_t i = 0; i < ARRAY_LENGTH(meanings); i++)
        if (bytes_equal(bare, bytes_from_string(meanings[i].code))) {
            *meaning = meanings[i].meaning;
            return true;
        }
    if (bytes_starts_with(bare, BYTES("KMS."))) {
        *meaning = SQS_CLOSED;
        return true;
    }
    return false;
}

/* An error whose code nobody here knows. What may be a matter of configuration, or of something between us and the
 * server, stops the destination and is told, rather than to take the messages for bad ones (P14). */
static enum sqs_meaning meaning_of_status(int status)
{
    if (status == 413)
        return SQS_REFUSED;
    if (status == 429)
        return SQS_BUSY;
    if (status == 408 || status >= 500)
        return SQS_FAILED;
    return SQS_CLOSED;
}

static void set_reason(struct sqs_outcome *outcome, struct bytes code, const char *message)
{
    struct bytes bare = bare_code(code);
    snprintf(outcome->reason, sizeof(outcome->reason), "%.*s: %.200s", BYTES_FORMAT(bare),
             message == NULL ? "(without a text)" : message);
}

void sqs_read_error(int status, struct bytes text, const char *query_error, struct sqs_outcome *outcome)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *type = json_text(root, "__type");
    const char *message = json_text(root, "message");
    if (message == NULL)
        message = json_text(root, "Message");
    struct bytes code = type == NULL ? BYTES("") : bytes_from_string(type);
    struct bytes query_code = bytes_make(query_error, strcspn(query_error, ";")); /* "CODE;Sender" */
    if (code.size > SQS_CODE_SIZE)
        code.size = SQS_CODE_SIZE;
    if (!find_meaning(code, &outcome->meaning) && !find_meaning(query_code, &outcome->meaning))
        outcome->meaning = meaning_of_status(status);
    if (code.size > 0)
        set_reason(outcome, code, message);
    else if (query_code.size > 0)
        set_reason(outcome, query_code, message);
    else
        snprintf(outcome->reason, sizeof(outcome->reason), "HTTP status %d, and the body is no answer of SQS", status);
    yyjson_doc_free(doc);
}

/* The Id of an entry; false if it is none that we gave. */
static bool read_id(yyjson_val *entry, size_t count, size_t *index)
{
    const char *id = json_text(entry, "Id");
    if (id == NULL || id[0] < '0' || id[0] > '9' || id[1] != '\0' || (size_t)(id[0] - '0') >= count)
        return false;
    *index = (size_t)(id[0] - '0');
    return true;
}

static void read_failed(yyjson_val *entry, struct sqs_outcome *outcome)
{
    const char *text = json_text(entry, "Code");
    struct bytes code = text == NULL ? BYTES("an error without a code") : bytes_from_string(text);
    if (code.size > SQS_CODE_SIZE)
        code.size = SQS_CODE_SIZE;
    if (!find_meaning(code, &outcome->meaning))
        outcome->meaning = json_is_true(entry, "SenderFault") ? SQS_REFUSED : SQS_FAILED;
    /* The request as a whole was allowed and understood, so what is not supported is this message. */
    if (outcome->meaning == SQS_CLOSED && bytes_equal(bare_code(code), BYTES("UnsupportedOperation")))
        outcome->meaning = SQS_REFUSED;
    set_reason(outcome, code, json_text(entry, "Message"));
}

void sqs_read_batch(struct bytes text, struct sqs_outcome outcomes[SQS_BATCH_MAX], size_t count)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *entry;
    size_t i, max, index;
    ASSERT(count <= SQS_BATCH_MAX);
    for (i = 0; i < count; i++) {
        outcomes[i].meaning = SQS_FAILED;
        snprintf(outcomes[i].reason, sizeof(outcomes[i].reason), "the answer does not say what became of this message");
    }
    yyjson_arr_foreach(yyjson_obj_get(root, "Successful"), i, max, entry)
    {
        if (read_id(entry, count, &index))
            outcomes[index].meaning = SQS_TAKEN;
    }
    yyjson_arr_foreach(yyjson_obj_get(root, "Failed"), i, max, entry)
    {
        if (read_id(entry, count, &index))
            read_failed(entry, &outcomes[index]);
    }
    yyjson_doc_free(doc);
}

bool sqs_read_queue_url(struct bytes text, struct bytes *url_owned)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    const char *url = json_text(yyjson_doc_get_root(doc), "QueueUrl");
    if (url != NULL)
        *url_owned = memory_duplicate(bytes_make(url, strlen(url) + 1)); /* with its NUL */
    yyjson_doc_free(doc);
    return url != NULL;
}
