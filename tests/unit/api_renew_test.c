/* Credentials that change while requests wait, and GETs of nobody: who may go on, and what the others are told. */
#include "pools.h"
#include "signer.h"

#define QUEUE_WAITS "{\"QueueUrl\":\"q\",\"WaitTimeSeconds\":20}"
#define FEED_WAITS "{\"PoolName\":\"p\",\"From\":5001,\"WaitTimeSeconds\":20}"
#define COUNT_WAITS "{\"PoolName\":\"p\",\"Filter\":{\"m\":{\"min\":0}}}"

enum { RECEIVE, FEED, COUNT, KINDS };

static const struct {
    const char *target;
    const char *body;
} kinds[KINDS] = {
    {"AmazonSQS.ReceiveMessage", QUEUE_WAITS}, {"Tally.FeedTickets", FEED_WAITS}, {"Tally.CountTickets", COUNT_WAITS}};

static struct world *open_with_pool(void **state)
{
    struct world *world = sqs_open(state);
    struct buffer body;
    world_create_queue(world, "other", "");
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'p','ResultQueueUrl':'q','Matcher':'external','Attributes':{'m':'num'}}");
    sqs_call(world, "Tally.FeedTickets", "{'PoolName':'p','From':0}");
    buffer_init(&body);
    for (unsigned round = 0; round < 5; round++) {
        buffer_truncate(&body, 0);
        buffer_append_format(&body, "{'PoolName':'p','Tickets':[");
        for (unsigned i = 0; i < 1000; i++)
            buffer_append_format(&body, "%s{'TicketId':'%u.%u','Attributes':{'m':%u}}", i == 0 ? "" : ",", round, i, i);
        buffer_append_format(&body, "]}%c", '\0');
        sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
    }
    buffer_deinit(&body);
    return world;
}

static void begin_as(struct world *world, struct poll *poll, const char *as, const char *token, const char *target,
                     const char *body, char head[SIGNER_HEAD_SIZE])
{
    exchange_init(&poll->exchange);
    poll->exchange.request = (struct request){.method = BYTES("POST"),
                                              .path = BYTES("/"),
                                              .host = BYTES("localhost"),
                                              .target = bytes_from_string(target),
                                              .body = bytes_from_string(body)};
    if (as != NULL)
        signer_sign(&poll->exchange.request, as, token, world->now_ms, head);
    front_submit(world->front, &poll->exchange, world->now_ms);
}

/* The error of the reply and its message, or "waits". */
static void describe(const struct poll *poll, char *text, size_t size)
{
    snprintf(text, size, "waits");
    if (is_waiting(poll))
        return;
    const struct buffer *body = &poll->exchange.reply.body;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    assert_non_null(doc);
    snprintf(text, size, "%s: %s", error_row(poll->exchange.reply.error)->name,
             sqs_text(yyjson_doc_get_root(doc), "message"));
    yyjson_doc_free(doc);
}

static void expect_poll(const char *what, const struct poll *poll, const char *expected)
{
    char text[600];
    describe(poll, text, sizeof(text));
    if (strcmp(text, expected) != 0)
        fail_msg("%s\n  gave %s\n  not  %s", what, text, expected);
}

static void let_go(struct world *world, struct poll *poll)
{
    if (is_waiting(poll))
        api_abandon(&poll->exchange);
    else
        assert_ptr_equal(front_take_finished(world->front), &poll->exchange);
    exchange_deinit(&poll->exchange);
}

#define WAITS "waits"
#define UNKNOWN_KEY "UnrecognizedClientException: The security token included in the request is invalid."
#define OTHER_SECRET                                                                                                   \
    "InvalidSignatureException: The request signature we calculated does not match the signature you provided. Check " \
    "your AWS Secret Access Key and signing method, and whether something between client and server changes the "      \
    "request, e.g. its Host."
#define LACKS_READ(action)                                                                                             \
    "AccessDeniedException: Access is denied: the credential W lacks the right 'read', which " action " needs."
#define ONE_OF_ANOTHER(action)                                                                                         \
    "AccessDeniedException: Access is denied: " action                                                                 \
    " is for credentials of namespace 000000000000 only; W is one of namespace 111111111111."
#define NO_POOL "PoolDoesNotExist: There is no pool 'p' within the queues of this credential."

#define BEFORE "W secret-of-W 000000000000 read,write token=t\nX secret-of-X 000000000000 read\n"

/* What becomes of each kind of waiting request of W when the credentials become those. */
static void who_waits_is_held_against_the_new_credentials(void **state)
{
    static const struct {
        const char *after; /* NULL: none */
        const char *expected[KINDS];
    } rows[] = {
        {BEFORE, {WAITS, WAITS, WAITS}},
        {NULL, {WAITS, WAITS, WAITS}},
        {"Z z 000000000000 admin\nW secret-of-W 000000000000 read", {WAITS, WAITS, WAITS}},
        {"W secret-of-W 000000000000 read queues=x,q*", {WAITS, WAITS, WAITS}},
        {"X secret-of-X 000000000000 read", {UNKNOWN_KEY, UNKNOWN_KEY, UNKNOWN_KEY}},
        {"W secret-of-W 000000000000 read token=u", {UNKNOWN_KEY, UNKNOWN_KEY, UNKNOWN_KEY}},
        {"W secret-of-X 000000000000 read", {OTHER_SECRET, OTHER_SECRET, OTHER_SECRET}},
        {"W secret-of-W 000000000000 write,admin token=t",
         {LACKS_READ("ReceiveMessage"), LACKS_READ("FeedTickets"), LACKS_READ("CountTickets")}},
        {"W secret-of-W 111111111111 read",
         {"AccessDeniedException: Access is denied: namespace 111111111111 has no queue 'q', and no policy of a queue "
          "of that name lets it call ReceiveMessage.",
          ONE_OF_ANOTHER("FeedTickets"), ONE_OF_ANOTHER("CountTickets")}},
        {"W secret-of-W 000000000000 read queues=other",
         {"AccessDeniedException: Access is denied: the credential W does not cover the queue 'q'.", NO_POOL, NO_POOL}},
    };
    struct world *world = open_with_pool(state);
    struct credentials *before = signer_credentials(BEFORE);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct poll polls[KINDS];
        char heads[KINDS][SIGNER_HEAD_SIZE];
        struct credentials *after = rows[i].after == NULL ? NULL : signer_credentials(rows[i].after);
        front_set_credentials(world->front, before);
        for (size_t k = 0; k < KINDS; k++) {
            begin_as(world, &polls[k], "W", "t", kinds[k].target, kinds[k].body, heads[k]);
            expect_poll(kinds[k].target, &polls[k], WAITS);
        }
        front_set_credentials(world->front, after);
        for (size_t k = 0; k < KINDS; k++) {
            expect_poll(rows[i].after, &polls[k], rows[i].expected[k]);
            let_go(world, &polls[k]);
        }
        front_set_credentials(world->front, NULL);
        credentials_destroy(after);
    }
    credentials_destroy(before);
    sqs_close(world);
}

static void who_waits_unsigned_may_not_go_on_once_there_are_credentials(void **state)
{
    struct world *world = open_with_pool(state);
    struct credentials *credentials = signer_credentials(BEFORE);
    struct poll poll;
    begin_as(world, &poll, NULL, NULL, kinds[RECEIVE].target, kinds[RECEIVE].body, NULL);
    front_set_credentials(world->front, NULL);
    expect_poll("none", &poll, WAITS);
    front_set_credentials(world->front, credentials);
    expect_poll("all must sign", &poll, "AccessDeniedException: Access is denied.");
    let_go(world, &poll);
    front_set_credentials(world->front, NULL);
    credentials_destroy(credentials);
    sqs_close(world);
}

/* The server's own credentials count beside the others, and only with their own secret. */
static void the_credentials_of_the_server_itself_are_known_too(void **state)
{
    static const struct {
        const char *inner;
        const char *expected;
    } rows[] = {
        {"I secret-of-I 000000000000 read\n", WAITS},
        {"I other 000000000000 read\n", UNKNOWN_KEY},
        {"J secret-of-I 000000000000 read\n", UNKNOWN_KEY},
        {NULL, UNKNOWN_KEY},
    };
    struct world *world = open_with_pool(state);
    struct credentials *outer = signer_credentials(BEFORE);
    struct credentials *before = signer_credentials("I secret-of-I 000000000000 read,admin\n");
    struct poll poll;
    char head[SIGNER_HEAD_SIZE];
    front_set_credentials(world->front, outer);
    begin_as(world, &poll, "I", NULL, kinds[RECEIVE].target, kinds[RECEIVE].body, head);
    expect_poll("before", &poll, UNKNOWN_KEY);
    let_go(world, &poll);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct credentials *after = rows[i].inner == NULL ? NULL : signer_credentials(rows[i].inner);
        front_set_inner_credentials(world->front, before);
        begin_as(world, &poll, "I:wrong", NULL, kinds[RECEIVE].target, kinds[RECEIVE].body, head);
        expect_poll("wrong", &poll, OTHER_SECRET);
        let_go(world, &poll);
        begin_as(world, &poll, "I", NULL, kinds[RECEIVE].target, kinds[RECEIVE].body, head);
        expect_poll("inner", &poll, WAITS);
        front_set_inner_credentials(world->front, after);
        expect_poll(rows[i].inner, &poll, rows[i].expected);
        let_go(world, &poll);
        front_set_inner_credentials(world->front, NULL);
        credentials_destroy(after);
    }
    front_set_credentials(world->front, NULL);
    credentials_destroy(outer);
    credentials_destroy(before);
    sqs_close(world);
}

/* A pool may go out of reach while somebody waits for it. */
static void who_waits_for_a_pool_is_asked_again_when_it_is_answered(void **state)
{
    struct world *world = open_with_pool(state);
    struct credentials *credentials = signer_credentials("W secret-of-W 000000000000 read queues=q\n"
                                                         "OPS secret-of-OPS 000000000000 read,write,admin\n");
    struct poll feed, count, late, change;
    char heads[4][SIGNER_HEAD_SIZE];
    front_set_credentials(world->front, credentials);
    begin_as(world, &feed, "W", NULL, kinds[FEED].target, kinds[FEED].body, heads[0]);
    begin_as(world, &count, "W", NULL, kinds[COUNT].target, kinds[COUNT].body, heads[1]);
    begin_as(world, &late, "OPS", NULL, kinds[COUNT].target, kinds[COUNT].body, heads[3]);
    EXPECT(world, is_waiting(&feed) && is_waiting(&count) && is_waiting(&late));
    begin_as(world, &change, "OPS", NULL, "Tally.UpdatePool", "{\"PoolName\":\"p\",\"ResultQueueUrl\":\"other\"}",
             heads[2]);
    EXPECT(world, change.exchange.reply.status == 200);
    let_go(world, &change);
    begin_as(world, &change, "OPS", NULL, "Tally.OfferTickets",
             "{\"PoolName\":\"p\",\"Tickets\":[{\"TicketId\":\"n\",\"Attributes\":{\"m\":1}}]}", heads[2]);
    EXPECT(world, change.exchange.reply.status == 200);
    let_go(world, &change);
    api_tick(world->api, world->now_ms);
    expect_poll("feed", &feed, NO_POOL);
    let_go(world, &feed);
    for (unsigned i = 0; i < 4; i++)
        api_tick(world->api, world->now_ms);
    expect_poll("count", &count, NO_POOL);
    let_go(world, &count);
    EXPECT(world, !is_waiting(&late) && bytes_equal(buffer_bytes(&late.exchange.reply.body),
                                                    BYTES("{\"Tickets\":5001,\"Weight\":5001}")));
    let_go(world, &late);
    front_set_credentials(world->front, NULL);
    credentials_destroy(credentials);
    sqs_close(world);
}

/* --- GET ---------------------------------------------------------------------------------------------------------- */

#define IS_GET(action)                                                                                                 \
    "Access is denied: " action " came with GET, and it does more than read. Any web page can have a browser send a "  \
    "GET, so without credentials only a program may do this with one, and must sign it. Use POST."

static void without_credentials_a_get_does_more_than_read_only_if_a_program_has_signed_it(void **state)
{
    static const char authorization[] = "Authorization: AWS4-HMAC-SHA256 x\r\n\r\n";
    static const char of_browser[] = "Authorization: x\r\nAccept-Language: de\r\n\r\n";
    static const char of_page[] = "Authorization: x\r\nReferer: http://evil/\r\n\r\n";
    static const char send[] = "Action=SendMessage&MessageBody=x";
    static const char send_signed[] = "Action=SendMessage&MessageBody=x&X-Amz-Signature=0";
    static const struct {
        const char *method;
        const char *path;
        const char *query;
        const char *head;
        int status;
        const char *message;
    } rows[] = {
        {"GET", "/000000000000/q", send, "Host: h\r\n\r\n", 403, IS_GET("SendMessage")},
        {"POST", "/000000000000/q", send, "Host: h\r\n\r\n", 200, ""},
        {"GET", "/000000000000/q", send, authorization, 200, ""},
        {"GET", "/000000000000/q", send, of_browser, 403, IS_GET("SendMessage")},
        {"GET", "/000000000000/q", send, of_page, 403, IS_GET("SendMessage")},
        {"GET", "/000000000000/q", send_signed, "Host: h\r\n\r\n", 200, ""},
        {"GET", "/000000000000/q", send_signed, "Referer: x\r\n\r\n", 403, IS_GET("SendMessage")},
        {"GET", "/000000000000/q", send_signed, "Accept-Language: x\r\n\r\n", 403, IS_GET("SendMessage")},
        {"GET", "/000000000000/q", "Action=ReceiveMessage", "Host: h\r\n\r\n", 403, IS_GET("ReceiveMessage")},
        {"GET", "/000000000000/q", "Action=GetQueueAttributes", "Host: h\r\n\r\n", 200, ""},
        {"GET", "/", "Action=ListQueues", "Host: h\r\n\r\n", 200, ""},
        {"GET", "/000000000000/q", "Action=ListQueues", "Host: h\r\n\r\n", 400, "ListQueues"},
        {"POST", "/000000000000/q", "Action=CreateQueue&QueueName=x", "Host: h\r\n\r\n", 400, "CreateQueue"},
        {"POST", "/", "Action=CreateQueue&QueueName=x", "Host: h\r\n\r\n", 200, ""},
        {"POST", "/000000000000/q", "Action=SendMessage&MessageBody=%FF", "Host: h\r\n\r\n", 400,
         "A field of the request is not valid UTF-8."},
    };
    struct world *world = sqs_open(state);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct exchange exchange;
        exchange_init(&exchange);
        exchange.request = (struct request){.method = bytes_from_string(rows[i].method),
                                            .path = bytes_from_string(rows[i].path),
                                            .query = bytes_from_string(rows[i].query),
                                            .head = bytes_from_string(rows[i].head),
                                            .host = BYTES("h"),
                                            .is_form = true};
        front_submit(world->front, &exchange, world->now_ms);
        assert_ptr_equal(front_take_finished(world->front), &exchange);
        struct bytes body = buffer_bytes(&exchange.reply.body);
        struct bytes message = bytes_from_string(rows[i].message);
        if (exchange.reply.status != rows[i].status || memmem(body.ptr, body.size, message.ptr, message.size) == NULL)
            fail_msg("%s %s %s: %d %.*s", rows[i].method, rows[i].query, rows[i].head, exchange.reply.status,
                     BYTES_FORMAT(body));
        exchange_deinit(&exchange);
    }
    EXPECT(world, world_count_messages(world, "q") == 3);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_is_held_against_the_new_credentials),
        cmocka_unit_test(who_waits_unsigned_may_not_go_on_once_there_are_credentials),
        cmocka_unit_test(the_credentials_of_the_server_itself_are_known_too),
        cmocka_unit_test(who_waits_for_a_pool_is_asked_again_when_it_is_answered),
        cmocka_unit_test(without_credentials_a_get_does_more_than_read_only_if_a_program_has_signed_it),
    };
    return cmocka_run_group_tests_name("api: credentials that change", tests, NULL, NULL);
}
