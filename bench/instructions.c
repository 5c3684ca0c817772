/* instructions: feeds whole HTTP requests, 64 a frame, to the parts of a daemon that do the same in every run: the
 * parser of requests, the api with core and log, and the writer of replies. bench/count runs it under callgrind, which
 * counts what happens in measured_round().
 *
 * Left out is what a socket and the kernel make different each time: connections, the loop, the flusher's thread. The
 * log is real and writes to a folder, because system calls cost no instructions here. Time stands still but for a
 * millisecond a frame; nothing is random.
 *
 * Prints one line of JSON: who compiled it, how many requests of each action were measured, and the actions in their
 * order. */
#include "http.h"
#include "signer.h"
#include "tickets.h"
#include "workload.h"

#include "api/api.h"
#include "base/assert.h"
#include "log/disk.h"
#include "server/http.h"
#include "server/reply_head.h"

#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW_MS UINT64_C(1800000000000)
#define QUEUE(name) "{\"QueueUrl\":\"http://127.0.0.1:9324/000000000000/" name "\""

enum { SLOTS = 64, ROUNDS_BEFORE = 2, TEN = 10, BODY_SIZE = 200, GROUPS = 1000, PORT = 9324 };

/* What a connection has of a request and its reply. */
struct slot {
    struct http http;
    struct exchange exchange;
    struct text request;
    uint8_t head[REPLY_HEAD_SIZE_MAX];
    uint32_t holder_guess;
};

struct driver {
    struct disk *disk;
    struct namespace *ns;
    struct front *front;
    struct api api;
    struct credentials *credentials_owned;
    struct signer signer;
    struct request_ids ids;
    struct http_limits limits;
    struct slot slots[SLOTS];
    uint64_t now_ms;
    uint64_t number; /* of the next message with an id, or ticket */
    struct text body;
    struct text handles; /* of messages in flight, a line each */
    size_t handles_used;
};

struct action {
    const char *name;
    bool is_signed;
    unsigned rounds; /* that are measured */
    void (*build)(struct driver *driver, struct text *request);
    const char *mark; /* what a reply has, */
    unsigned marks;   /* so often */
};

/* --- Requests ----------------------------------------------------------------------------------------------------- */

static void request_finish(const struct driver *driver, struct text *request, const char *target)
{
    http_request_begin(request, target, PORT);
    http_request_end(request, text_view(&driver->body));
}

static void body_append(struct driver *driver, const char *text)
{
    text_append(&driver->body, (struct view){text, strlen(text)});
}

static void message_append(struct driver *driver)
{
    body_append(driver, ",\"MessageBody\":\"");
    workload_body_append(&driver->body, BODY_SIZE);
    body_append(driver, "\"");
}

static void send_build_to(struct driver *driver, struct text *request, const char *begin, const char *end)
{
    body_append(driver, begin);
    message_append(driver);
    body_append(driver, end);
    request_finish(driver, request, "AmazonSQS.SendMessage");
}

static void send_build(struct driver *driver, struct text *request)
{
    send_build_to(driver, request, QUEUE("one"), "}");
}

static void send_signed_build(struct driver *driver, struct text *request)
{
    send_build(driver, request);
    signer_sign(&driver->signer, request);
}

static void send_query_build(struct driver *driver, struct text *request)
{
    struct text message;
    text_init(&message);
    workload_body_append(&message, BODY_SIZE);
    body_append(driver, "Action=SendMessage&Version=2012-11-05&"
                        "QueueUrl=http%3A%2F%2F127.0.0.1%3A9324%2F000000000000%2Fone&MessageBody=");
    for (size_t at = 0; at < message.size; at++) {
        const char *escaped = message.ptr_owned[at] == ' ' ? "+" : message.ptr_owned[at] == ';' ? "%3B" : NULL;
        text_append(&driver->body, escaped == NULL ? (struct view){message.ptr_owned + at, 1}
                                                   : (struct view){escaped, strlen(escaped)});
    }
    text_deinit(&message);
    text_append_format(request,
                       "POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept-Encoding: identity\r\n"
                       "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
                       "User-Agent: Boto3/1.34.0 md/Botocore#1.34.0 ua/2.0 os/linux lang/python#3.11.2\r\n"
                       "Content-Length: ",
                       PORT);
    http_request_end(request, text_view(&driver->body));
}

static void send_fifo_build(struct driver *driver, struct text *request)
{
    uint64_t number = driver->number++;
    char end[128];
    (void)snprintf(end, sizeof(end), ",\"MessageGroupId\":\"g%llu\",\"MessageDeduplicationId\":\"d%010llu\"}",
                   (unsigned long long)number % GROUPS, (unsigned long long)number);
    send_build_to(driver, request, QUEUE("many.fifo"), end);
}

static void send_unit_build(struct driver *driver, struct text *request)
{
    send_build_to(driver, request, QUEUE("units"),
                  ",\"MessageAttributes\":{\"Tally.Batch\":{\"DataType\":\"String\",\"StringValue\":\"b\"}}}");
}

static void send_batch_build(struct driver *driver, struct text *request)
{
    body_append(driver, QUEUE("tens") ",\"Entries\":[");
    for (unsigned entry = 0; entry < TEN; entry++) {
        text_append_format(&driver->body, "%s{\"Id\":\"%u\"", entry > 0 ? "," : "", entry);
        message_append(driver);
        body_append(driver, "}");
    }
    body_append(driver, "]}");
    request_finish(driver, request, "AmazonSQS.SendMessageBatch");
}

static void receive_build(struct driver *driver, struct text *request)
{
    body_append(driver, QUEUE("tens") ",\"MaxNumberOfMessages\":10,\"VisibilityTimeout\":600}");
    request_finish(driver, request, "AmazonSQS.ReceiveMessage");
}

static void receive_unit_build(struct driver *driver, struct text *request)
{
    body_append(driver, QUEUE("units") ",\"VisibilityTimeout\":600}");
    request_finish(driver, request, "AmazonSQS.ReceiveMessage");
}

static void receive_none_build(struct driver *driver, struct text *request)
{
    body_append(driver, QUEUE("none") "}");
    request_finish(driver, request, "AmazonSQS.ReceiveMessage");
}

/* Appends the oldest receipt handle that no request has used. */
static void handle_append(struct driver *driver)
{
    struct view left = view_from(text_view(&driver->handles), driver->handles.ptr_owned + driver->handles_used);
    const char *end = memchr(left.ptr, '\n', left.size);
    if (end == NULL)
        fatal("there is nothing in flight any more");
    text_append(&driver->body, (struct view){left.ptr, (size_t)(end - left.ptr)});
    driver->handles_used += (size_t)(end + 1 - left.ptr);
}

static void receipt_build(struct driver *driver, struct text *request, const char *begin, const char *end,
                          const char *target)
{
    body_append(driver, begin);
    body_append(driver, ",\"ReceiptHandle\":\"");
    handle_append(driver);
    body_append(driver, end);
    request_finish(driver, request, target);
}

static void delete_build(struct driver *driver, struct text *request)
{
    receipt_build(driver, request, QUEUE("tens"), "\"}", "AmazonSQS.DeleteMessage");
}

static void delete_unit_build(struct driver *driver, struct text *request)
{
    receipt_build(driver, request, QUEUE("units"), "\"}", "AmazonSQS.DeleteMessage");
}

static void change_visibility_build(struct driver *driver, struct text *request)
{
    receipt_build(driver, request, QUEUE("tens"), "\",\"VisibilityTimeout\":900}", "AmazonSQS.ChangeMessageVisibility");
}

static void delete_batch_build(struct driver *driver, struct text *request)
{
    body_append(driver, QUEUE("tens") ",\"Entries\":[");
    for (unsigned entry = 0; entry < TEN; entry++) {
        text_append_format(&driver->body, "%s{\"Id\":\"%u\",\"ReceiptHandle\":\"", entry > 0 ? "," : "", entry);
        handle_append(driver);
        body_append(driver, "\"}");
    }
    body_append(driver, "]}");
    request_finish(driver, request, "AmazonSQS.DeleteMessageBatch");
}

static void offer_build_kind(struct driver *driver, struct text *request, const char *kind)
{
    body_append(driver, "{\"PoolName\":\"p\",\"Tickets\":[");
    for (unsigned entry = 0; entry < TEN; entry++) {
        body_append(driver, entry > 0 ? ",{\"TicketId\":\"" : "{\"TicketId\":\"");
        ticket_name_append(&driver->body, driver->number);
        body_append(driver, "\",\"Attributes\":");
        ticket_kind_find(kind)->append(&driver->body, driver->number++);
        body_append(driver, "}");
    }
    body_append(driver, "]}");
    request_finish(driver, request, "Tally.OfferTickets");
}

static void offer_build(struct driver *driver, struct text *request)
{
    offer_build_kind(driver, request, "alone");
}

static void offer_pairs_build(struct driver *driver, struct text *request)
{
    offer_build_kind(driver, request, "pair");
}

/* In the order in which they run: later ones use what earlier ones left. */
static const struct action ACTIONS[] = {
    {"SendMessage", false, 8, send_build, "\"MessageId\"", 1},
    {"SendMessage, signed", true, 8, send_signed_build, "\"MessageId\"", 1},
    {"SendMessage, Query", false, 8, send_query_build, "<MessageId>", 1},
    {"SendMessage, FIFO, deduplicated", false, 8, send_fifo_build, "\"MessageId\"", 1},
    {"SendMessage, unit of a batch", false, 8, send_unit_build, "\"MessageId\"", 1},
    {"SendMessageBatch of 10", false, 8, send_batch_build, "\"MessageId\"", TEN},
    {"ReceiveMessage of none", false, 8, receive_none_build, "\"MessageId\"", 0},
    {"ReceiveMessage of 1, unit of a batch", false, 8, receive_unit_build, "\"MessageId\"", 1},
    {"DeleteMessage, unit of a batch", false, 8, delete_unit_build, "", 0},
    {"ReceiveMessage of 10", false, 8, receive_build, "\"MessageId\"", TEN},
    {"ChangeMessageVisibility", false, 8, change_visibility_build, "", 0},
    {"DeleteMessage", false, 8, delete_build, "", 0},
    {"DeleteMessageBatch of 10", false, 4, delete_batch_build, "\"Id\"", TEN},
    {"OfferTickets of 10, none fits", false, 8, offer_build, "\"waiting\"", TEN},
    {"OfferTickets of 10, 5 matches", false, 8, offer_pairs_build, "\"Status\"", TEN},
};

/* --- What is measured --------------------------------------------------------------------------------------------- */

static void slot_submit(struct driver *driver, struct slot *slot)
{
    uint8_t *data = (uint8_t *)slot->request.ptr_owned;
    if (http_feed(&slot->http, data, slot->request.size) != HTTP_WHOLE)
        fatal("this is no whole request: %.*s", (int)slot->request.size, slot->request.ptr_owned);
    exchange_reset(&slot->exchange);
    http_request(&slot->http, data, &slot->exchange.request);
    slot->exchange.request.wall_s = (int64_t)(NOW_MS / 1000);
    slot->exchange.request.address = BYTES("127.0.0.1");
    slot->exchange.request.holder_guess = &slot->holder_guess;
    request_ids_next(&driver->ids, slot->exchange.request_id);
    front_submit(driver->front, &slot->exchange, driver->now_ms);
    http_reset(&slot->http);
}

static void flush(struct driver *driver)
{
    struct failure failure;
    if (namespace_flush(driver->ns, &failure) != OK)
        fatal("%s", failure.text);
}

static void slot_write_head(struct slot *slot)
{
    const struct reply *reply = &slot->exchange.reply;
    reply_head_write(
        &(struct reply_head){
            .status = reply->status,
            .error = reply->error,
            .content_type = reply->content_type,
            .request_id = slot->exchange.request_id,
            .date = "Fri, 15 Jan 2027 08:00:00 GMT",
            .body_size = reply->body.size,
        },
        slot->head);
}

/* One frame, as a turn of the server makes it. */
static void round_run(struct driver *driver)
{
    unsigned finished = 0;
    for (unsigned at = 0; at < SLOTS; at++)
        slot_submit(driver, &driver->slots[at]);
    if (api_is_settling(&driver->api))
        api_tick(&driver->api, driver->now_ms);
    while (front_take_finished(driver->front) != NULL)
        finished++;
    if (finished != SLOTS)
        fatal("of %d requests %u are finished", SLOTS, finished);
    flush(driver);
    for (unsigned at = 0; at < SLOTS; at++)
        slot_write_head(&driver->slots[at]);
}

/* callgrind counts in here, */
static __attribute__((noinline)) void measured_round(struct driver *driver)
{
    round_run(driver);
    __asm__ volatile(""); /* no jump into round_run() instead of a call */
}

/* and writes down what it counted before this. */
static __attribute__((noinline)) void action_done(void)
{
    __asm__ volatile("");
}

/* --- Around it ---------------------------------------------------------------------------------------------------- */

static struct view reply_body(const struct slot *slot)
{
    const struct buffer *body = &slot->exchange.reply.body;
    return (struct view){(const char *)body->data_owned, body->size};
}

static void slot_check(const struct slot *slot, const struct action *action)
{
    struct view body = reply_body(slot), mark = {action->mark, strlen(action->mark)};
    bool is_whole = mark.size == 0 || view_count(body, mark) == action->marks;
    if (slot->exchange.reply.status != 200 || !is_whole || view_find(body, VIEW("\"Code\"")) != NULL)
        fatal("%s: expected status 200 and %u times %s, got %d: %.*s", action->name, action->marks, action->mark,
              slot->exchange.reply.status, (int)body.size, body.ptr);
}

static void handles_take(struct driver *driver, struct view body)
{
    struct view handle;
    while (view_text_next(&body, VIEW("\"ReceiptHandle\":\""), &handle)) {
        text_append(&driver->handles, handle);
        text_append(&driver->handles, VIEW("\n"));
    }
}

static void action_run(struct driver *driver, const struct action *action)
{
    front_set_credentials(driver->front, action->is_signed ? driver->credentials_owned : NULL);
    for (unsigned round = 0; round < ROUNDS_BEFORE + action->rounds; round++) {
        for (unsigned at = 0; at < SLOTS; at++) {
            driver->body.size = driver->slots[at].request.size = 0;
            action->build(driver, &driver->slots[at].request);
        }
        driver->now_ms++;
        if (round < ROUNDS_BEFORE)
            round_run(driver);
        else
            measured_round(driver);
        for (unsigned at = 0; at < SLOTS; at++) {
            slot_check(&driver->slots[at], action);
            handles_take(driver, reply_body(&driver->slots[at]));
        }
    }
    action_done();
}

/* One request that is not measured. */
static void call(struct driver *driver, const char *target, const char *body)
{
    struct slot *slot = &driver->slots[0];
    driver->body.size = slot->request.size = 0;
    body_append(driver, body);
    request_finish(driver, &slot->request, target);
    slot_submit(driver, slot);
    while (front_take_finished(driver->front) != NULL)
        ;
    flush(driver);
    slot_check(slot, &(struct action){.name = target, .mark = ""});
}

static void driver_prepare(struct driver *driver)
{
    static const char *const QUEUES[] = {"one", "units", "tens", "none", "matches"};
    for (size_t at = 0; at < ARRAY_LENGTH(QUEUES); at++) {
        char body[64];
        (void)snprintf(body, sizeof(body), "{\"QueueName\":\"%s\"}", QUEUES[at]);
        call(driver, "AmazonSQS.CreateQueue", body);
    }
    call(driver, "AmazonSQS.CreateQueue", "{\"QueueName\":\"many.fifo\",\"Attributes\":{\"FifoQueue\":\"true\"}}");
    call(driver, "Tally.CreateBatch", "{\"BatchId\":\"b\",\"OnComplete\":" QUEUE("one") "}}");
    call(driver, "Tally.CreatePool",
         "{\"PoolName\":\"p\",\"ResultQueueUrl\":\"http://127.0.0.1:9324/000000000000/matches\","
         "\"Attributes\":{\"mode\":\"str\",\"mmr\":\"num\"},\"Rules\":[{\"type\":\"equal\",\"attr\":\"mode\"},"
         "{\"type\":\"near\",\"attr\":\"mmr\",\"max\":50}]}");
}

static void driver_open(struct driver *driver, const char *folder)
{
    static const struct front_options API_OPTIONS = {.region = "us-east-1"};
    static const uint8_t KEY[CORE_KEY_SIZE] = {1};
    static const uint64_t SEED[2] = {1, 2};
    const struct namespace_options options = {
        .name = "000000000000", .segment_size = 16u << 20, .frame_size_max = 2u << 20, .in_flight_max = 1000000};
    struct failure failure = {.error = OK};
    driver->disk = disk_posix_create(folder);
    if (namespace_open(driver->disk, &options, NOW_MS, KEY, &driver->ns, &failure) != OK)
        fatal("%s: %s", folder, failure.text);
    driver->front = front_create(&API_OPTIONS);
    api_init(&driver->api, driver->front, driver->ns);
    if (credentials_parse(BYTES(SIGNER_ACCESS_KEY " " SIGNER_SECRET " 000000000000 read,write,admin"),
                          &driver->credentials_owned, &failure) != OK)
        fatal("%s", failure.text);
    signer_init(&driver->signer, (time_t)(NOW_MS / 1000), SIGNER_ACCESS_KEY);
    request_ids_init(&driver->ids, SEED);
    driver->now_ms = NOW_MS;
    driver->limits = (struct http_limits){.head_size_max = 16 * 1024, .body_size_max = 4 * 1024 * 1024};
    for (unsigned at = 0; at < SLOTS; at++) {
        http_init(&driver->slots[at].http, &driver->limits);
        exchange_init(&driver->slots[at].exchange);
        text_init(&driver->slots[at].request);
    }
    text_init(&driver->body);
    text_init(&driver->handles);
}

static void driver_close(struct driver *driver)
{
    api_deinit(&driver->api);
    front_destroy(driver->front);
    namespace_close(driver->ns);
    disk_posix_destroy(driver->disk);
    credentials_destroy(driver->credentials_owned);
    for (unsigned at = 0; at < SLOTS; at++) {
        exchange_deinit(&driver->slots[at].exchange);
        text_deinit(&driver->slots[at].request);
    }
    text_deinit(&driver->body);
    text_deinit(&driver->handles);
}

static void result_print(void)
{
#if defined(__clang__)
    static const char COMPILER[] = __VERSION__;
#else
    static const char COMPILER[] = "gcc " __VERSION__;
#endif
    printf("{\"compiler\":\"%s\",\"libc\":\"%s\",\"openssl\":\"%s\",\"actions\":[", COMPILER, gnu_get_libc_version(),
           OpenSSL_version(OPENSSL_VERSION_STRING));
    for (size_t at = 0; at < ARRAY_LENGTH(ACTIONS); at++)
        printf("%s{\"name\":\"%s\",\"requests\":%u}", at > 0 ? "," : "", ACTIONS[at].name, ACTIONS[at].rounds * SLOTS);
    puts("]}");
}

int main(int argc, char **argv)
{
    static struct driver driver;
    if (argc != 2)
        fatal("expected the name of an empty folder for the log");
    driver_open(&driver, argv[1]);
    driver_prepare(&driver);
    for (size_t at = 0; at < ARRAY_LENGTH(ACTIONS); at++)
        action_run(&driver, &ACTIONS[at]);
    driver_close(&driver);
    result_print();
    return 0;
}
