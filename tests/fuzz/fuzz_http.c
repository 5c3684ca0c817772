/* The HTTP + JSON front under the fuzzer: bytes of a connection through the parser, and every whole request through the
 * api into a namespace on a disk in memory.
 *
 * The first byte says how to read the rest:
 *   even   it is what a client sends. Fed whole and fed in random pieces it must give the same requests.
 *   odd    actions: a byte that names one, then its body up to a zero byte. So that the fuzzer need not first learn
 *          HTTP and the names of SQS, bytes from 128 on stand for words of JSON; 255 means the next byte as it is.
 *
 * Checked behind each request: the reply is complete, its body is empty, JSON or XML, and the core keeps its
 * invariants. */
#include "api/action.h"
#include "base/assert.h"
#include "base/quote.h"
#include "base/trace_context.h"
#include "fuzz/backend.h"
#include "server/guard.h"
#include "server/http.h"
#include "unit/onward_check.h"
#include "unit/random.h"

#include <stdlib.h>

#define REQUESTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.head_size_max = 2048, .body_size_max = 4096};

/* --- The api behind it -------------------------------------------------------------------------------------------- */

#define FUZZED_UUID "\"00000000-0000-4000-8000-000000000001\""
#define FUZZED_PUBLISHER "\"Publisher\":" FUZZED_UUID ",\"Owner\":" FUZZED_UUID

/* A disk with a namespace on it that has something of everything; made once, copied for each run. */
static struct disk *founded_disk(void)
{
    static struct disk *disk;
    static const struct {
        const char *target;
        struct bytes json;
    } calls[] = {
        {"AmazonSQS.CreateQueue", BYTES("{\"QueueName\":\"d\"}")},
        {"AmazonSQS.CreateQueue", BYTES("{\"QueueName\":\"q\"}")},
        {"AmazonSQS.SendMessage", BYTES("{\"QueueUrl\":\"q\",\"MessageBody\":\"one\"}")},
        {"AmazonSQS.SendMessage", BYTES("{\"QueueUrl\":\"q\",\"MessageBody\":\"two\",\"DelaySeconds\":5}")},
        {"Tally.CreateBatch", BYTES("{\"BatchId\":\"b\",\"OnComplete\":{\"QueueUrl\":\"d\"}}")},
        {"Tally.AddUnits", BYTES("{\"BatchId\":\"b\",\"Units\":[\"u\",\"v\"]}")},
        {"Tally.CreateBatch", BYTES("{\"BatchId\":\"x\",\"Tracking\":\"xor\"}")},
        {"Tally.OpenPublisher", BYTES("{" FUZZED_PUBLISHER ",\"Epoch\":1}")},
        {"Tally.Publish",
         BYTES("{" FUZZED_PUBLISHER ",\"Epoch\":1,\"Batch\":1,\"ConfirmedBatch\":0,\"Rows\":[{\"Id\":1,"
               "\"Uid\":" FUZZED_UUID ",\"QueueUrl\":\"q\",\"MessageBody\":\"three\"}]}")},
        {"Tally.CreatePool",
         BYTES("{\"PoolName\":\"p\",\"ResultQueueUrl\":\"d\",\"Matcher\":\"both\",\"Attributes\":{\"s\":\"str\",\"n\":"
               "\"num\",\"m\":\"set\"},\"Rules\":[{\"type\":\"equal\",\"attr\":\"s\"}]}")},
        {"Tally.OfferTickets", BYTES("{\"PoolName\":\"p\",\"Tickets\":[{\"TicketId\":\"t\",\"Attributes\":{\"s\":\"x\"}"
                                     "},{\"TicketId\":\"u\"}]}")},
    };
    if (disk == NULL) {
        struct backend backend;
        disk = memory_disk_create(1);
        backend_open(&backend, disk);
        for (size_t i = 0; i < ARRAY_LENGTH(calls); i++)
            backend_call(&backend, calls[i].target, calls[i].json, NULL);
        backend_close(&backend);
        memory_disk_kill(disk);
    }
    return memory_disk_clone(disk, 2);
}

/* --- The parser --------------------------------------------------------------------------------------------------- */

struct reading {
    struct request requests[REQUESTS_MAX]; /* views into `bytes_owned` */
    size_t count;
    uint8_t *bytes_owned;
    enum http_result end;
};

/* Reads requests from `bytes` as a connection would, being given more in steps that `random` draws; NULL: all at
 * once. */
static void read_requests(struct reading *reading, struct bytes bytes, struct random *random)
{
    struct http http;
    http_init(&http, &limits);
    *reading = (struct reading){.bytes_owned = malloc(bytes.size), .end = HTTP_MORE};
    uint8_t *data = reading->bytes_owned;
    size_t begin = 0; /* of the request being read */
    size_t end = 0;   /* of the bytes there are */
    while (reading->count < REQUESTS_MAX) {
        reading->end = http_feed(&http, data + begin, end - begin);
        if (reading->end == HTTP_REFUSED || (reading->end == HTTP_MORE && bytes.size == 0))
            break;
        if (reading->end == HTTP_MORE) {
            size_t more = random == NULL ? bytes.size : 1 + random_below(random, (uint32_t)bytes.size);
            ASSERT(http.size_kept <= end - begin);
            end = begin + http.size_kept;
            memcpy(data + end, bytes.ptr, more);
            bytes = bytes_skip(bytes, more);
            end += more;
            continue;
        }
        ASSERT(http.size > 0 && http.size <= end - begin);
        http_request(&http, data + begin, &reading->requests[reading->count++]);
        begin += http.size;
        http_reset(&http);
    }
}

static void check_equal(const struct reading *whole, const struct reading *pieces)
{
    ASSERT(whole->count == pieces->count && whole->end == pieces->end);
    for (size_t i = 0; i < whole->count; i++) {
        const struct request *a = &whole->requests[i];
        const struct request *b = &pieces->requests[i];
        ASSERT(bytes_equal(a->method, b->method) && bytes_equal(a->path, b->path) && bytes_equal(a->host, b->host));
        ASSERT(bytes_equal(a->target, b->target) && bytes_equal(a->origin, b->origin));
        ASSERT(bytes_equal(a->fetch_site, b->fetch_site) && bytes_equal(a->query, b->query));
        ASSERT(bytes_equal(a->trace_header, b->trace_header) && bytes_equal(a->body, b->body));
        ASSERT(bytes_equal(a->traceparent, b->traceparent) && bytes_equal(a->tracestate, b->tracestate));
    }
}

/* What later stages rely on: no line of the head ends without CR, and the host is one, which the
 * guard judges the same each time. */
static void check_sound(const struct request *request)
{
    static const struct own_names names;
    struct guard fresh, used;
    struct authority authority;
    for (size_t i = 0; i < request->head.size; i++)
        ASSERT(request->head.ptr[i] != '\n' || (i > 0 && request->head.ptr[i - 1] == '\r'));
    ASSERT(request->host.size == 0 || authority_parse(request->host, &authority));
    ASSERT(!trace_context_is_parent(request->traceparent) || request->traceparent.size >= 55);
    ASSERT(!trace_context_is_state(request->tracestate) || request->tracestate.size >= 3);
    guard_init(&fresh, &names);
    guard_init(&used, &names);
    struct failure failure;
    enum error error = guard_check(&fresh, request, &failure);
    ASSERT(error == OK || quote_is_utf8(bytes_from_string(failure.text)));
    ASSERT(guard_check(&used, &(struct request){.host = BYTES("localhost")}, NULL) == OK);
    ASSERT(guard_check(&used, request, NULL) == error && guard_check(&fresh, request, NULL) == error);
}

static void run_connection(struct bytes bytes, uint8_t seed)
{
    struct random random = {.state = seed};
    struct reading whole, pieces;
    read_requests(&whole, bytes, NULL);
    read_requests(&pieces, bytes, &random);
    check_equal(&whole, &pieces);
    for (size_t i = 0; i < whole.count; i++) {
        check_sound(&whole.requests[i]);
        onward_check(&whole.requests[i]);
    }
    if (whole.count > 0) {
        struct backend backend;
        backend_open(&backend, founded_disk());
        for (size_t i = 0; i < whole.count; i++)
            backend_run(&backend, &whole.requests[i], NULL);
        backend_close(&backend);
        memory_disk_destroy(backend.disk);
    }
    free(whole.bytes_owned);
    free(pieces.bytes_owned);
}

/* A frame has room for its events. */
#define BODY_SIZE_MAX ((size_t)8 * 1024)

static const char *const words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "0",
    "1",
    "10",
    "86400",
    "1e9",
    "1.5",
    "\"\"",
    "\"q\"",
    "\"d\"",
    "\"b\"",
    "\"x\"",
    "\"u\"",
    "\"v\"",
    "\"exact\"",
    "\"xor\"",
    "\"succeeded\"",
    "\"failed\"",
    "\"All\"",
    "\"String\"",
    "\"Number\"",
    "\"Binary\"",
    "\"AA==\"",
    "\"Tally.Batch\"",
    "\"0000000000000001\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "\"QueueUrl\":\"q\"",
    "\"QueueUrl\":",
    "\"QueueName\":",
    "\"QueueNamePrefix\":",
    "\"MessageBody\":",
    "\"DelaySeconds\":",
    "\"MessageAttributes\":",
    "\"DataType\":",
    "\"StringValue\":",
    "\"BinaryValue\":",
    "\"Entries\":[",
    "\"Id\":",
    "\"ReceiptHandle\":",
    "\"VisibilityTimeout\":",
    "\"WaitTimeSeconds\":",
    "\"MaxNumberOfMessages\":",
    "\"AttributeNames\":[",
    "\"MessageAttributeNames\":[",
    "\"MessageSystemAttributeNames\":[",
    "\"Attributes\":{",
    "\"MessageRetentionPeriod\":",
    "\"MaximumMessageSize\":",
    "\"ReceiveMessageWaitTimeSeconds\":",
    "\"RedrivePolicy\":",
    "\"RedriveAllowPolicy\":",
    "\"{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:eu-west-1:000000000000:d\\\",\\\"maxReceiveCount\\\":1}\"",
    "\"FifoQueue\":",
    "\"NextToken\":",
    "\"MaxResults\":",
    "\"BatchId\":\"b\"",
    "\"BatchId\":\"x\"",
    "\"BatchId\":",
    "\"Total\":",
    "\"Tracking\":",
    "\"OnComplete\":{",
    "\"OnSuccess\":{",
    "\"OnFirstFailure\":{",
    "\"Parent\":",
    "\"ExpiresAfterSeconds\":",
    "\"RetentionSeconds\":",
    "\"Units\":[",
    "\"Unit\":",
    "\"Count\":",
    "\"Status\":",
    "\"Detail\":",
    "\"Value\":",
    "\"Registered\":",
    "\"Finished\":",
    "\"RequestToken\":",
    "\"State\":",
    "\"Prefix\":",
    "\"Tags\":{",
    "\"TagKeys\":[",
    "\"Label\":",
    "\"Actions\":[",
    "\"AWSAccountIds\":[",
    "\"SourceArn\":",
    "\"arn:aws:sqs:eu-west-1:000000000000:d\"",
    "\"TaskHandle\":",
    "\"{\\\"redrivePermission\\\":\\\"allowAll\\\"}\"",
    FUZZED_UUID,
    FUZZED_PUBLISHER,
    "\"Epoch\":",
    "\"Batch\":",
    "\"ConfirmedBatch\":",
    "\"Rows\":[{\"Id\":",
    "\"Uid\":",
    "\"Order\":\"strict\"",
    "\"Refused\":\"block\"",
    "\"MessageGroupId\":",
    "\"PoolName\":\"p\"",
    "\"PoolName\":",
    "\"ResultQueueUrl\":\"d\"",
    "\"Tickets\":[{\"TicketId\":",
    "\"TicketId\":\"t\"",
    "\"TicketIds\":[",
    "\"Need\":{",
    "{\"s\":\"x\"}",
    "\"n\":{\"min\":",
    "\"m\":{\"any\":[",
    "\"Attributes\":{\"s\":\"x\",\"n\":",
    "\"Rules\":[{\"type\":",
    "\"near\",\"attr\":\"n\",\"max\":",
    "\"expand\":[{\"after\":\"1s\",\"max\":",
    "\"Size\":",
    "\"ConfirmSeconds\":",
    "\"Proposals\":[{\"ProposalId\":",
    "\"Members\":[{\"Version\":1,\"TicketId\":\"t\"},{\"Version\":1,\"TicketId\":\"u\"}]",
    "\"MatchId\":",
    "\"From\":",
    "\"Parts\":4",
    "\"Part\":",
    "\"Filter\":{",
};
static_assert(ARRAY_LENGTH(words) <= 128, "each has a byte of its own");

/* Writes out what the fuzzer abbreviated. */
static void expand(struct bytes text, struct buffer *body)
{
    for (size_t i = 0; i < text.size && body->size < BODY_SIZE_MAX; i++) {
        uint8_t byte = text.ptr[i];
        if (byte == 255 && i + 1 < text.size) {
            buffer_append_u8(body, text.ptr[++i]);
        } else if (byte < 128) {
            buffer_append_u8(body, byte);
        } else {
            const char *word = words[(size_t)(byte - 128) % ARRAY_LENGTH(words)];
            buffer_append(body, word, strlen(word));
        }
    }
}

/* Several in a row, so that one can build on another. */
static void run_actions(struct bytes bytes)
{
    struct backend backend;
    struct buffer body;
    backend_open(&backend, founded_disk());
    buffer_init(&body);
    while (bytes.size > 1) {
        const struct action *action = &actions[bytes.ptr[0] % action_count];
        bytes = bytes_skip(bytes, 1);
        const uint8_t *end = memchr(bytes.ptr, 0, bytes.size);
        size_t text_size = end == NULL ? bytes.size : (size_t)(end - bytes.ptr);
        buffer_truncate(&body, 0);
        expand(bytes_make(bytes.ptr, text_size), &body);
        struct request request = {
            .method = BYTES("POST"),
            .path = BYTES("/"),
            .host = BYTES("h"),
            .target = bytes_from_string(action->target),
            .body = buffer_bytes(&body),
        };
        backend_run(&backend, &request, NULL);
        bytes = bytes_skip(bytes, end == NULL ? text_size : text_size + 1);
    }
    buffer_deinit(&body);
    backend_close(&backend);
    memory_disk_destroy(backend.disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > limits.body_size_max)
        return 0;
    struct bytes rest = bytes_make(data + 1, size - 1);
    if (data[0] % 2 == 0)
        run_connection(rest, data[0]);
    else
        run_actions(rest);
    return 0;
}
