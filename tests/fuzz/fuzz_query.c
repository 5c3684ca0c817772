/* AWS Query under the fuzzer. The first byte says how to read the rest:
 *   even   requests: each a byte that may name an action, a length, that many bytes of query string, then a body up to
 *          a zero byte, in which bytes from 128 on stand for words of SQS; 255 means the next byte as it is. Whatever
 *          they are, the reply must be XML that a strict reader takes.
 *   odd    requests of SQS that are written down in both forms, by an encoder that shares nothing with the decoder
 *          under test: an action, then members with their values, until a zero byte. One server gets them as AWS JSON
 *          and another, with the same disk, as AWS Query; both must say the same and be in the same state. */
#include "api/action.h"
#include "base/assert.h"
#include "fuzz/backend.h"
#include "support/core_rig.h"

#include <stdlib.h>
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_SIZE_MAX 4096u

/* The byte at the front of the input, taken off; 0 where there is none. */
static uint8_t take(struct bytes *input)
{
    if (input->size == 0)
        return 0;
    uint8_t byte = input->ptr[0];
    *input = bytes_skip(*input, 1);
    return byte;
}

static struct bytes take_some(struct bytes *input, size_t size)
{
    struct bytes some = bytes_make(input->ptr, size < input->size ? size : input->size);
    *input = bytes_skip(*input, some.size);
    return some;
}

/* --- is it XML? --------------------------------------------------------------------------------------------------- */

#define DEPTH_MAX 16u

struct xml {
    struct bytes rest;
    struct bytes open[DEPTH_MAX];
    size_t depth;
    size_t root_count;
};

static bool xml_skip(struct xml *xml, struct bytes text)
{
    if (!bytes_starts_with(xml->rest, text))
        return false;
    xml->rest = bytes_skip(xml->rest, text.size);
    return true;
}

/* What stands before the next `end`, which is taken off too. */
static struct bytes xml_until(struct xml *xml, uint8_t end)
{
    const uint8_t *at = memchr(xml->rest.ptr, end, xml->rest.size);
    ASSERT(at != NULL);
    struct bytes found = bytes_make(xml->rest.ptr, (size_t)(at - xml->rest.ptr));
    xml->rest = bytes_skip(xml->rest, found.size + 1);
    return found;
}

static void xml_check_tag(struct xml *xml)
{
    struct bytes tag = xml_until(xml, '>');
    bool is_end = tag.ptr[0] == '/', is_empty = tag.ptr[tag.size - 1] == '/';
    struct bytes name = is_end ? bytes_skip(tag, 1) : tag;
    name.size -= is_empty;
    const uint8_t *blank = memchr(name.ptr, ' ', name.size); /* what is behind it is xmlns */
    if (blank != NULL)
        name.size = (size_t)(blank - name.ptr);
    ASSERT(name.size > 0);
    for (size_t i = 0; i < name.size; i++)
        ASSERT((name.ptr[i] | 0x20) >= 'a' ? (name.ptr[i] | 0x20) <= 'z'
                                           : i > 0 && name.ptr[i] <= '9' && name.ptr[i] >= '0');
    if (is_end) {
        ASSERT(xml->depth > 0 && bytes_equal(xml->open[--xml->depth], name));
        return;
    }
    xml->root_count += xml->depth == 0;
    if (is_empty)
        return;
    ASSERT(xml->depth < DEPTH_MAX);
    xml->open[xml->depth++] = name;
}

/* One character of text. That it is UTF-8 has been checked. */
static void xml_check_text(struct xml *xml)
{
    static const struct bytes references[] = {BYTES("&amp;"),  BYTES("&lt;"),  BYTES("&gt;"),
                                              BYTES("&quot;"), BYTES("&#xD;"), BYTES("&#xFFFD;")};
    uint8_t byte = xml->rest.ptr[0];
    ASSERT(xml->depth > 0 || byte == '\n');
    for (size_t i = 0; byte == '&' && i < ARRAY_LENGTH(references); i++)
        if (xml_skip(xml, references[i]))
            return;
    ASSERT(byte != '&' && byte != '>' && (byte >= ' ' || byte == '\t' || byte == '\n'));
    ASSERT(!bytes_starts_with(xml->rest, BYTES("\xef\xbf\xbe")) &&
           !bytes_starts_with(xml->rest, BYTES("\xef\xbf\xbf")));
    xml->rest = bytes_skip(xml->rest, 1);
}

static void check_utf8(struct bytes text)
{
    yyjson_mut_doc *document = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(document, yyjson_mut_strn(document, (const char *)text.ptr, text.size));
    char *written = yyjson_mut_write(document, YYJSON_WRITE_NOFLAG, NULL); /* which refuses what is none */
    ASSERT(written != NULL);
    free(written);
    yyjson_mut_doc_free(document);
}

static void check_xml(struct bytes text)
{
    struct xml xml = {.rest = text};
    check_utf8(text);
    xml_skip(&xml, BYTES("<?xml version=\"1.0\"?>\n"));
    while (xml.rest.size > 0) {
        if (xml_skip(&xml, BYTES("<!--")))
            while (!xml_skip(&xml, BYTES("-->")))
                xml.rest = bytes_skip(xml.rest, 1);
        else if (xml_skip(&xml, BYTES("<")))
            xml_check_tag(&xml);
        else
            xml_check_text(&xml);
    }
    ASSERT(xml.depth == 0 && xml.root_count == 1);
}

/* --- the servers -------------------------------------------------------------------------------------------------- */

/* A disk with queues and messages on it; made once, copied for each server. */
static struct disk *founded_disk(void)
{
    static struct disk *disk;
    static const struct {
        const char *target;
        struct bytes json;
    } calls[] = {
        {"AmazonSQS.CreateQueue", BYTES("{\"QueueName\":\"d\"}")},
        {"AmazonSQS.CreateQueue", BYTES("{\"QueueName\":\"q\",\"tags\":{\"a\":\"b\"}}")},
        {"AmazonSQS.CreateQueue",
         BYTES("{\"QueueName\":\"s\",\"Attributes\":{\"RedrivePolicy\":\"{\\\"deadLetterTargetArn\\\":"
               "\\\"arn:aws:sqs:eu-west-1:000000000000:d\\\",\\\"maxReceiveCount\\\":1}\"}}")},
        {"AmazonSQS.CreateQueue", BYTES("{\"QueueName\":\"f.fifo\",\"Attributes\":{\"FifoQueue\":\"true\"}}")},
        {"AmazonSQS.SendMessage", BYTES("{\"QueueUrl\":\"d\",\"MessageBody\":\"dead\"}")},
        {"AmazonSQS.SendMessage", BYTES("{\"QueueUrl\":\"q\",\"MessageBody\":\"one\"}")},
        {"AmazonSQS.SendMessage", BYTES("{\"QueueUrl\":\"q\",\"MessageBody\":\"two\",\"DelaySeconds\":5}")},
    };
    if (disk == NULL) {
        struct backend backend;
        disk = memory_disk_create(1);
        backend_open(&backend, disk);
        for (size_t i = 0; i < ARRAY_LENGTH(calls); i++)
            ASSERT(backend_call(&backend, calls[i].target, calls[i].json, NULL) == OK);
        backend_close(&backend);
        memory_disk_kill(disk);
    }
    return memory_disk_clone(disk, 2);
}

static enum error run_query(struct backend *backend, struct bytes query, struct bytes body, struct buffer *reply)
{
    const struct request request = {
        .method = BYTES("POST"), .path = BYTES("/"), .query = query, .host = BYTES("h"), .body = body};
    buffer_truncate(reply, 0);
    enum error error = backend_run(backend, &request, reply);
    check_xml(buffer_bytes(reply));
    return error;
}

/* --- any bytes ---------------------------------------------------------------------------------------------------- */

static const char *const action_names[] = {
    "SendMessage",
    "ReceiveMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "SendMessageBatch",
    "CreateQueue",
    "DeleteQueue",
    "DeleteMessageBatch",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListQueues",
    "ChangeMessageVisibilityBatch",
    "SetQueueAttributes",
    "TagQueue",
    "UntagQueue",
    "ListQueueTags",
    "PurgeQueue",
    "AddPermission",
    "RemovePermission",
    "ListDeadLetterSourceQueues",
    "StartMessageMoveTask",
    "ListMessageMoveTasks",
    "CancelMessageMoveTask",
};

static const char *const words[] = {
    "&QueueUrl=q",
    "&QueueUrl=f.fifo",
    "&QueueName=",
    "&QueueName=new.fifo",
    "&MessageBody=",
    "&ReceiptHandle=",
    "&MessageGroupId=",
    "&MessageDeduplicationId=",
    "&DelaySeconds=",
    "&VisibilityTimeout=0",
    "&MaxNumberOfMessages=10",
    "&MaxResults=1",
    "&NextToken=",
    "&Label=",
    "&Attribute.Name=",
    "&Attribute.Value=",
    "&Attribute.1.Name=",
    "&Attribute.1.Value=",
    "&AttributeName=All",
    "&AttributeName.1=",
    "&MessageAttributeName.1=All",
    "&MessageAttribute.1.Name=",
    "&MessageAttribute.1.Value.DataType=String",
    "&MessageAttribute.1.Value.StringValue=",
    "&MessageAttribute.1.Value.BinaryValue=AQID",
    "&MessageSystemAttribute.1.Name=AWSTraceHeader",
    "&SendMessageBatchRequestEntry.1.Id=a",
    "&SendMessageBatchRequestEntry.1.MessageBody=",
    "&SendMessageBatchRequestEntry.2.Id=b",
    "&DeleteMessageBatchRequestEntry.1.Id=a",
    "&DeleteMessageBatchRequestEntry.1.ReceiptHandle=",
    "&Tag.1.Key=",
    "&Tag.1.Value=",
    "&TagKey.1=",
    "&ActionName.1=",
    "&AWSAccountId.1=111111111111",
    "&Entries=",
    "&Action=SendMessage",
    "DelaySeconds",
    "Policy",
    "RedrivePolicy",
    "String",
    "%0D",
    "%01",
    "%C3%BC",
    "%EF%BF%BE",
    "%ED%A0%80",
    "%3C%26%3E",
    "%7B%22",
};

/* Writes out what the fuzzer abbreviated. */
static void expand(struct bytes text, struct buffer *body)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.ptr[i];
        if (byte == 255 && i + 1 < text.size)
            buffer_append_u8(body, text.ptr[++i]);
        else if (byte < 128)
            buffer_append_u8(body, byte);
        else
            buffer_append_bytes(body, bytes_from_string(words[(size_t)(byte - 128) % ARRAY_LENGTH(words)]));
    }
}

static void run_bytes(struct bytes input)
{
    struct backend backend;
    struct buffer body, reply;
    backend_open(&backend, founded_disk());
    buffer_init(&body);
    buffer_init(&reply);
    while (input.size > 0) {
        uint8_t action = take(&input), query_size = take(&input);
        struct bytes query = take_some(&input, query_size);
        const uint8_t *end = input.size == 0 ? NULL : memchr(input.ptr, 0, input.size);
        struct bytes text = take_some(&input, end == NULL ? input.size : (size_t)(end - input.ptr));
        take(&input);
        buffer_truncate(&body, 0);
        if (action < ARRAY_LENGTH(action_names))
            buffer_append_format(&body, "Action=%s", action_names[action]);
        expand(text, &body);
        run_query(&backend, query, buffer_bytes(&body), &reply);
    }
    buffer_deinit(&body);
    buffer_deinit(&reply);
    backend_close(&backend);
    memory_disk_destroy(backend.disk);
}

/* --- one request, written down twice ------------------------------------------------------------------------------ */

enum member_kind { MEMBER_TEXT, MEMBER_NUMBER, MEMBER_LIST, MEMBER_MAP, MEMBER_ATTRIBUTES, MEMBER_ENTRIES };

static const struct member {
    const char *name;  /* in JSON */
    const char *field; /* in a form */
    const char *key;   /* of a map's pair */
    enum member_kind kind;
} members[] = {
    {"QueueUrl", "QueueUrl", NULL, MEMBER_TEXT},
    {"QueueName", "QueueName", NULL, MEMBER_TEXT},
    {"QueueNamePrefix", "QueueNamePrefix", NULL, MEMBER_TEXT},
    {"MessageBody", "MessageBody", NULL, MEMBER_TEXT},
    {"MessageGroupId", "MessageGroupId", NULL, MEMBER_TEXT},
    {"MessageDeduplicationId", "MessageDeduplicationId", NULL, MEMBER_TEXT},
    {"ReceiptHandle", "ReceiptHandle", NULL, MEMBER_TEXT},
    {"ReceiveRequestAttemptId", "ReceiveRequestAttemptId", NULL, MEMBER_TEXT},
    {"NextToken", "NextToken", NULL, MEMBER_TEXT},
    {"Label", "Label", NULL, MEMBER_TEXT},
    {"SourceArn", "SourceArn", NULL, MEMBER_TEXT},
    {"DestinationArn", "DestinationArn", NULL, MEMBER_TEXT},
    {"TaskHandle", "TaskHandle", NULL, MEMBER_TEXT},
    {"Id", "Id", NULL, MEMBER_TEXT},
    {"DelaySeconds", "DelaySeconds", NULL, MEMBER_NUMBER},
    {"VisibilityTimeout", "VisibilityTimeout", NULL, MEMBER_NUMBER},
    {"WaitTimeSeconds", "WaitTimeSeconds", NULL, MEMBER_NUMBER},
    {"MaxNumberOfMessages", "MaxNumberOfMessages", NULL, MEMBER_NUMBER},
    {"MaxResults", "MaxResults", NULL, MEMBER_NUMBER},
    {"MaxNumberOfMessagesPerSecond", "MaxNumberOfMessagesPerSecond", NULL, MEMBER_NUMBER},
    {"AttributeNames", "AttributeName", NULL, MEMBER_LIST},
    {"MessageAttributeNames", "MessageAttributeName", NULL, MEMBER_LIST},
    {"MessageSystemAttributeNames", "MessageSystemAttributeName", NULL, MEMBER_LIST},
    {"TagKeys", "TagKey", NULL, MEMBER_LIST},
    {"AWSAccountIds", "AWSAccountId", NULL, MEMBER_LIST},
    {"Actions", "ActionName", NULL, MEMBER_LIST},
    {"Attributes", "Attribute", "Name", MEMBER_MAP},
    {"Tags", "Tag", "Key", MEMBER_MAP},
    {"MessageAttributes", "MessageAttribute", "Name", MEMBER_ATTRIBUTES},
    {"MessageSystemAttributes", "MessageSystemAttribute", "Name", MEMBER_ATTRIBUTES},
    {"Entries", NULL, NULL, MEMBER_ENTRIES},
};

static const struct bytes texts[] = {
    BYTES("q"),
    BYTES("q"),
    BYTES("d"),
    BYTES("f.fifo"),
    BYTES(""),
    BYTES("new"),
    BYTES("new.fifo"),
    BYTES("http://h/000000000000/q"),
    BYTES("a b+c%20&=;"),
    BYTES("\r\n\t<&>\"'"),
    BYTES("gr\xc3\xbc\xc3\x9f \xf0\x9f\x8e\x89"),
    BYTES("\x01"),
    BYTES("\xef\xbf\xbe"),
    BYTES("true"),
    BYTES("30"),
    BYTES("0"),
    BYTES("All"),
    BYTES("String"),
    BYTES("Number"),
    BYTES("Binary"),
    BYTES("AQID"),
    BYTES("AWSTraceHeader"),
    BYTES("VisibilityTimeout"),
    BYTES("DelaySeconds"),
    BYTES("FifoQueue"),
    BYTES("ContentBasedDeduplication"),
    BYTES("Policy"),
    BYTES("RedrivePolicy"),
    BYTES("{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-west-1:000000000000:d\",\"maxReceiveCount\":1}"),
    BYTES("arn:aws:sqs:eu-west-1:000000000000:d"),
    BYTES("arn:aws:sqs:eu-west-1:000000000000:q"),
    BYTES("SendMessage"),
    BYTES("111111111111"),
    BYTES("Tally.Priority"),
};

static const int64_t numbers[] = {0, 1, 10, 20, 30, 900, 1000, 43200, -1, INT64_MAX};

#define HANDLE_SIZE_MAX 200u

/* A request that is being written in both forms. */
struct twin {
    struct bytes input;
    struct writer json;
    struct buffer json_text;
    struct buffer form_text;
    struct bytes handle; /* of the newest message received */
    const char *action;
};

static void form_escape(struct buffer *out, struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.ptr[i];
        bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
        if (is_plain)
            buffer_append_u8(out, byte);
        else
            buffer_append_format(out, "%%%02X", byte);
    }
}

/* A field; `name` is all of it. */
static void form_field(struct twin *twin, const char *name, struct bytes value)
{
    buffer_append_format(&twin->form_text, "&%s=", name);
    form_escape(&twin->form_text, value);
}

static struct bytes draw_text(struct twin *twin)
{
    size_t which = take(&twin->input) % (ARRAY_LENGTH(texts) + 1);
    return which < ARRAY_LENGTH(texts) ? texts[which] : twin->handle;
}

static unsigned draw_count(struct twin *twin)
{
    return 1 + take(&twin->input) % 3;
}

#define NAME_SIZE_MAX 200u

static void write_list(struct twin *twin, const struct member *member, const char *prefix)
{
    char name[NAME_SIZE_MAX];
    writer_list_begin(&twin->json, member->name);
    for (unsigned i = 1, count = draw_count(twin); i <= count; i++) {
        struct bytes value = draw_text(twin);
        writer_text(&twin->json, NULL, value);
        snprintf(name, sizeof(name), "%s%s.%u", prefix, member->field, i);
        form_field(twin, name, value);
    }
    writer_list_end(&twin->json);
}

static void write_message_attribute(struct twin *twin, const char *prefix)
{
    static const char *const parts[] = {"DataType", "StringValue", "BinaryValue"};
    char name[NAME_SIZE_MAX + sizeof(".Value.StringValue")];
    uint8_t given = (uint8_t)(take(&twin->input) | 1); /* an object without members can't be said in a form */
    writer_object_begin(&twin->json, NULL);
    for (unsigned i = 0; i < ARRAY_LENGTH(parts); i++) {
        if ((given >> i & 1) == 0)
            continue;
        struct bytes value = draw_text(twin);
        writer_text(&twin->json, parts[i], value);
        snprintf(name, sizeof(name), "%s.Value.%s", prefix, parts[i]);
        form_field(twin, name, value);
    }
    writer_object_end(&twin->json);
}

static void write_map(struct twin *twin, const struct member *member, const char *prefix)
{
    char pair[NAME_SIZE_MAX], name[NAME_SIZE_MAX + 8];
    bool is_tags = strcmp(member->name, "Tags") == 0 && strcmp(twin->action, "CreateQueue") == 0;
    writer_object_begin(&twin->json, is_tags ? "tags" : member->name);
    for (unsigned i = 1, count = draw_count(twin); i <= count; i++) {
        struct bytes key = draw_text(twin);
        writer_name(&twin->json, key);
        snprintf(pair, sizeof(pair), "%s%s.%u", prefix, member->field, i);
        snprintf(name, sizeof(name), "%s.%s", pair, member->key);
        form_field(twin, name, key);
        if (member->kind == MEMBER_ATTRIBUTES) {
            write_message_attribute(twin, pair);
            continue;
        }
        struct bytes value = draw_text(twin);
        writer_text(&twin->json, NULL, value);
        snprintf(name, sizeof(name), "%s.Value", pair);
        form_field(twin, name, value);
    }
    writer_object_end(&twin->json);
}

static void write_members(struct twin *twin, const char *prefix, bool is_entry);

static void write_entries(struct twin *twin)
{
    char prefix[NAME_SIZE_MAX];
    writer_list_begin(&twin->json, "Entries");
    for (unsigned i = 1, count = draw_count(twin); i <= count; i++) {
        snprintf(prefix, sizeof(prefix), "%sRequestEntry.%u.", twin->action, i);
        writer_object_begin(&twin->json, NULL);
        struct bytes id = bytes_make(&"abc"[i - 1], 1);
        char name[NAME_SIZE_MAX + 8];
        writer_text(&twin->json, "Id", id);
        snprintf(name, sizeof(name), "%sId", prefix);
        form_field(twin, name, id);
        write_members(twin, prefix, true);
        writer_object_end(&twin->json);
    }
    writer_list_end(&twin->json);
}

static void write_member(struct twin *twin, const struct member *member, const char *prefix)
{
    char name[NAME_SIZE_MAX];
    snprintf(name, sizeof(name), "%s%s", prefix, member->field == NULL ? "" : member->field);
    switch (member->kind) {
    case MEMBER_TEXT: {
        struct bytes value = draw_text(twin);
        writer_text(&twin->json, member->name, value);
        form_field(twin, name, value);
        break;
    }
    case MEMBER_NUMBER: {
        int64_t number = numbers[take(&twin->input) % ARRAY_LENGTH(numbers)];
        char digits[24];
        writer_integer(&twin->json, member->name, number);
        snprintf(digits, sizeof(digits), "%lld", (long long)number);
        form_field(twin, name, bytes_from_string(digits));
        break;
    }
    case MEMBER_LIST:
        write_list(twin, member, prefix);
        break;
    case MEMBER_MAP:
    case MEMBER_ATTRIBUTES:
        write_map(twin, member, prefix);
        break;
    case MEMBER_ENTRIES:
        write_entries(twin);
        break;
    }
}

/* Members until a zero byte, each at most once: JSON's last would count, a form's first. */
static void write_members(struct twin *twin, const char *prefix, bool is_entry)
{
    uint32_t written = 0;
    static_assert(ARRAY_LENGTH(members) <= 32, "a bit each");
    for (uint8_t byte; (byte = take(&twin->input)) != 0;) {
        size_t which = byte % ARRAY_LENGTH(members);
        const struct member *member = &members[which];
        bool is_left_out = is_entry && (member->kind == MEMBER_ENTRIES || strcmp(member->name, "Id") == 0);
        bool is_batch = strstr(twin->action, "Batch") != NULL;
        is_left_out = is_left_out || (member->kind == MEMBER_ENTRIES && !is_batch);
        if (is_left_out || (written >> which & 1) != 0)
            continue;
        written |= UINT32_C(1) << which;
        write_member(twin, member, prefix);
    }
}

/* Draws the next request. */
static void twin_write(struct twin *twin)
{
    twin->action = action_names[take(&twin->input) % ARRAY_LENGTH(action_names)];
    buffer_truncate(&twin->json_text, 0);
    buffer_truncate(&twin->form_text, 0);
    buffer_append_format(&twin->form_text, "Action=%s", twin->action);
    twin->json = writer_make(&twin->json_text);
    writer_object_begin(&twin->json, NULL);
    write_members(twin, "", false);
    writer_object_end(&twin->json);
}

/* Keeps the handle of the last message of a reply, if there is one. */
static void note_handle(struct twin *twin, struct bytes reply, char handle[HANDLE_SIZE_MAX])
{
    yyjson_doc *document = yyjson_read((const char *)reply.ptr, reply.size, 0);
    yyjson_val *messages = yyjson_obj_get(yyjson_doc_get_root(document), "Messages");
    yyjson_val *found = yyjson_obj_get(yyjson_arr_get_last(messages), "ReceiptHandle");
    if (found != NULL && yyjson_get_len(found) <= HANDLE_SIZE_MAX) {
        memcpy(handle, yyjson_get_str(found), yyjson_get_len(found));
        twin->handle = bytes_make(handle, yyjson_get_len(found));
    }
    yyjson_doc_free(document);
}

static void check_same_state(const struct backend *a, const struct backend *b)
{
    struct buffer state_a, state_b;
    buffer_init(&state_a);
    buffer_init(&state_b);
    core_rig_encode(namespace_core(a->ns), &state_a);
    core_rig_encode(namespace_core(b->ns), &state_b);
    ASSERT(bytes_equal(buffer_bytes(&state_a), buffer_bytes(&state_b)));
    buffer_deinit(&state_a);
    buffer_deinit(&state_b);
}

static void run_twins(struct bytes input)
{
    struct backend by_json, by_query;
    struct buffer reply;
    struct twin twin = {.input = input, .handle = BYTES("garbage")};
    char handle[HANDLE_SIZE_MAX], target[80];
    backend_open(&by_json, founded_disk());
    backend_open(&by_query, founded_disk());
    buffer_init(&reply);
    buffer_init(&twin.json_text);
    buffer_init(&twin.form_text);
    while (twin.input.size > 0) {
        twin_write(&twin);
        enum error in_query = run_query(&by_query, BYTES(""), buffer_bytes(&twin.form_text), &reply);
        buffer_truncate(&reply, 0);
        snprintf(target, sizeof(target), "AmazonSQS.%s", twin.action);
        enum error in_json = backend_call(&by_json, target, buffer_bytes(&twin.json_text), &reply);
        ASSERT(in_json == in_query);
        check_same_state(&by_json, &by_query);
        if (reply.size > 0)
            note_handle(&twin, buffer_bytes(&reply), handle);
    }
    buffer_deinit(&reply);
    buffer_deinit(&twin.json_text);
    buffer_deinit(&twin.form_text);
    backend_close(&by_json);
    backend_close(&by_query);
    memory_disk_destroy(by_json.disk);
    memory_disk_destroy(by_query.disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > INPUT_SIZE_MAX)
        return 0;
    struct bytes rest = bytes_make(data + 1, size - 1);
    if (data[0] % 2 == 0)
        run_bytes(rest);
    else
        run_twins(rest);
    return 0;
}
