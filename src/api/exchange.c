#include "api/exchange.h"

#include "api/action.h"

/* A reply that needed more gives its memory back: a rare answer of megabytes must not stay with every exchange. */
#define EXCHANGE_BODY_KEPT_MAX ((size_t)64 * 1024)

/* Does the body look like JSON? Some programs, like curl, call every body a form. */
static bool is_json(struct bytes body)
{
    while (body.size > 0 && memchr(" \t\r\n", body.ptr[0], 4) != NULL)
        body = bytes_skip(body, 1);
    return body.size == 0 || memchr("{[\"", body.ptr[0], 3) != NULL;
}

enum wire_form request_form(const struct request *request)
{
    if (request->target.size > 0 && (!request->is_form || is_json(request->body)))
        return WIRE_JSON;
    return request->takes_json ? WIRE_QUERY_JSON : WIRE_QUERY;
}

bool request_is_as_received(const struct request *request)
{
    return bytes_equal(request->path, BYTES(RECEIVED_PATH)) ||
           bytes_starts_with(request->path, BYTES(RECEIVED_PATH "/"));
}

bool exchange_walks(const struct exchange *exchange)
{
    return exchange->row != NULL && exchange->row->reply_length == REPLY_WALK;
}

void exchange_init(struct exchange *exchange)
{
    *exchange = (struct exchange){.state = EXCHANGE_NEW};
    memset(exchange->request_id, '0', sizeof(exchange->request_id));
    arena_init(&exchange->arena);
    buffer_init(&exchange->reply.body);
}

static void drop_grant(struct exchange *exchange)
{
    grant_destroy(exchange->grant_owned);
    exchange->grant_owned = NULL;
}

void exchange_deinit(struct exchange *exchange)
{
    ASSERT(!list_is_linked(&exchange->api_link));
    drop_grant(exchange);
    buffer_deinit(&exchange->reply.body);
    arena_deinit(&exchange->arena);
}

size_t exchange_reply_memory(const struct exchange *exchange)
{
    size_t grant_size = exchange->grant_owned == NULL ? 0 : sizeof(*exchange->grant_owned);
    return EXCHANGE_SIZE + grant_size + exchange->reply.body.capacity;
}

/* A smaller body has too little to give back to be worth a call. */
#define EXCHANGE_FIT_MIN ((size_t)1024)

void exchange_count_reply(struct exchange *exchange, struct reply_budget *budget)
{
    struct buffer *body = &exchange->reply.body;
    ASSERT(exchange->state == EXCHANGE_FINISHED);
    /* A buffer that was large for one reply is usually needed again, so it is cut only if memory is short. */
    if (body->capacity >= EXCHANGE_FIT_MIN && body->size < body->capacity / 2 && budget->held > budget->max / 2)
        buffer_fit(body);
    reply_budget_add(budget, exchange_reply_memory(exchange));
}

void exchange_note_form(struct exchange *exchange)
{
    exchange->form = request_form(&exchange->request);
    exchange->is_as_received = request_is_as_received(&exchange->request);
    exchange->is_own = exchange->form == WIRE_JSON && !exchange->is_as_received &&
                       bytes_starts_with(exchange->request.target, BYTES("Tally."));
}

void exchange_rest(struct exchange *exchange)
{
    exchange->request = (struct request){0};
    drop_grant(exchange);
    arena_reset(&exchange->arena);
    buffer_truncate(&exchange->reply.body, 0);
    if (exchange->reply.body.capacity > EXCHANGE_WAITING_BODY_MAX)
        buffer_deinit(&exchange->reply.body);
}

void exchange_reset(struct exchange *exchange)
{
    ASSERT(!list_is_linked(&exchange->api_link));
    arena_reset(&exchange->arena);
    buffer_truncate(&exchange->reply.body, 0);
    if (exchange->reply.body.capacity > EXCHANGE_BODY_KEPT_MAX)
        buffer_deinit(&exchange->reply.body);
    exchange->request = (struct request){0};
    exchange->form = WIRE_JSON;
    exchange->api = NULL;
    exchange->row = NULL;
    exchange->caller = NULL;
    exchange->queue_id = 0;
    exchange->action = NULL;
    exchange->is_own = false;
    exchange->is_as_received = false;
    exchange->reply.status = 0;
    exchange->reply.fields = NULL;
    exchange->reply.content_type = NULL;
    exchange->reply.error = OK;
    exchange->reply.is_not_owner = false;
    exchange->hold_sequence = 0;
    if (exchange->grant_owned != NULL)
        grant_forget(exchange->grant_owned);
    exchange->state = EXCHANGE_NEW;
    exchange->waiter_slot = 0;
}
