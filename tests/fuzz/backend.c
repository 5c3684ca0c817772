#include "fuzz/backend.h"

#include "base/assert.h"
#include "log/log.h"
#include "support/front_of_one.h"
#include "support/history.h"

#include <yyjson.h>

#define NOW_MS UINT64_C(1700000000000)

void backend_open(struct backend *backend, struct disk *disk)
{
    static const struct front_options front_options = {.region = "eu-west-1"};
    struct namespace_options options = {
        .name = "000000000000",
        .segment_size = 64 * 1024,
        .frame_size_max = 31 * 1024,
        .in_flight_max = 100,
    };
    struct failure failure;
    uint8_t key[CORE_KEY_SIZE] = {1};
    backend->disk = disk;
    backend->now_ms = NOW_MS;
    enum error error = namespace_open(disk, &options, NOW_MS, key, &backend->ns, &failure);
    ASSERT(error == OK);
    backend->api = front_of_one_create(backend->ns, &front_options, &backend->front);
}

void backend_close(struct backend *backend)
{
    front_of_one_destroy(backend->front, backend->api);
    namespace_close(backend->ns);
}

static void check_reply(const struct reply *reply)
{
    ASSERT(reply->status >= 200 && reply->status <= 599);
    ASSERT(reply->content_type != NULL);
    ASSERT((reply->error == OK) == (reply->status == 200));
    bool is_xml = bytes_equal(bytes_from_string(reply->content_type), BYTES("text/xml"));
    if (is_xml) { /* fuzz_query looks at it closely */
        ASSERT(reply->body.size > 0 && reply->body.data_owned[0] == '<');
    } else if (reply->body.size > 0) {
        yyjson_doc *document = yyjson_read((const char *)reply->body.data_owned, reply->body.size, 0);
        ASSERT(document != NULL);
        yyjson_doc_free(document);
    }
}

enum error backend_run(struct backend *backend, const struct request *request, struct buffer *body)
{
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = *request;
    front_submit(backend->front, &exchange, backend->now_ms++);
    if (exchange.state == EXCHANGE_WAITING)
        api_release_waiting(backend->api);
    struct exchange *finished = front_take_finished(backend->front);
    ASSERT(finished == &exchange && exchange.state == EXCHANGE_FINISHED);
    check_reply(&exchange.reply);
    history_note_reply(&exchange);
    struct failure ignored;
    (void)namespace_flush(backend->ns, &ignored);
    ASSERT(namespace_durable(backend->ns) >= exchange.hold_sequence);
    core_check(namespace_core(backend->ns));
    enum error error = exchange.reply.error;
    if (body != NULL)
        buffer_append_bytes(body, buffer_bytes(&exchange.reply.body));
    exchange_deinit(&exchange);
    return error;
}

enum error backend_call(struct backend *backend, const char *target, struct bytes json, struct buffer *body)
{
    struct request request = {
        .method = BYTES("POST"),
        .path = BYTES("/"),
        .host = BYTES("h"),
        .target = bytes_from_string(target),
        .body = json,
    };
    return backend_run(backend, &request, body);
}
