/* Workloads of pools: tickets offered, matches proposed, and how long two that fit wait for each other. The pool and
 * its result queue have the name of the plan's queue. */
#include "http.h"
#include "tickets.h"
#include "workload.h"

enum duel_step { DUEL_OFFER, DUEL_RECEIVE };

enum { BODY_SIZE_OF_TICKET = 160, LENGTH_DIGITS = 10 };

struct pools {
    const struct plan *plan;
    const struct ticket_kind *kind;
    uint64_t *next_owned; /* number of the next ticket, or of the next proposal; over all connections */
    struct text head;     /* up to the length of the body, which is written in a fixed width */
    struct text receive;
};

static void *pools_create(const struct plan *plan, const char *target)
{
    struct pools *pools = allocate(sizeof(*pools));
    pools->plan = plan;
    pools->kind = ticket_kind_find(plan->ticket_kind);
    if (pools->kind == NULL)
        fatal("there is no kind of tickets %s; try --help", plan->ticket_kind);
    pools->next_owned = allocate(sizeof(*pools->next_owned));
    *pools->next_owned = plan->id_first;
    text_init(&pools->head);
    http_request_begin(&pools->head, target, plan->port);
    text_init(&pools->receive);
    struct text body;
    text_init(&body);
    text_append_format(&body,
                       "{\"QueueUrl\":\"http://127.0.0.1:%u/000000000000/%s\",\"WaitTimeSeconds\":20,"
                       "\"VisibilityTimeout\":43200}",
                       plan->port, plan->queue);
    http_request_begin(&pools->receive, "AmazonSQS.ReceiveMessage", plan->port);
    http_request_end(&pools->receive, text_view(&body));
    text_deinit(&body);
    return pools;
}

static void *offer_create(const struct plan *plan)
{
    return pools_create(plan, "Tally.OfferTickets");
}

static void *propose_create(const struct plan *plan)
{
    return pools_create(plan, "Tally.ProposeMatches");
}

/* Begins a request whose body has no known length yet; returns where the body begins. A length may have leading
 * zeros. */
static size_t request_begin(const struct pools *pools, struct text *out, const char *list)
{
    out->size = 0;
    text_reserve(out, pools->head.size + (size_t)pools->plan->batch * BODY_SIZE_OF_TICKET);
    text_append(out, text_view(&pools->head));
    text_append_format(out, "%0*u\r\n\r\n", LENGTH_DIGITS, 0);
    size_t body_at = out->size;
    text_append_format(out, "{\"PoolName\":\"%s\",\"%s\":[", pools->plan->queue, list);
    return body_at;
}

static void request_end(struct text *out, size_t body_at)
{
    text_append(out, VIEW("]}"));
    size_t size = out->size - body_at;
    for (size_t at = body_at - 4; size > 0; size /= 10)
        out->ptr_owned[--at] = (char)('0' + size % 10);
}

static void request_ready(struct connection *connection)
{
    connection->out = text_view(&connection->own);
    connection->replies_due = 1;
}

static void offer_build(const struct pools *pools, struct text *out)
{
    size_t body_at = request_begin(pools, out, "Tickets");
    for (unsigned entry = 0; entry < pools->plan->batch; entry++) {
        uint64_t number = (*pools->next_owned)++;
        text_append(out, entry > 0 ? VIEW(",{\"TicketId\":\"") : VIEW("{\"TicketId\":\""));
        ticket_name_append(out, number);
        text_append(out, VIEW("\",\"Attributes\":"));
        pools->kind->append(out, number);
        text_append(out, VIEW("}"));
    }
    request_end(out, body_at);
}

/* Proposal n has the tickets 2n and 2n + 1. */
static void propose_build(const struct pools *pools, struct text *out)
{
    size_t body_at = request_begin(pools, out, "Proposals");
    for (unsigned entry = 0; entry < pools->plan->batch; entry++) {
        uint64_t number = (*pools->next_owned)++;
        text_append(out, entry > 0 ? VIEW(",{\"ProposalId\":\"p") : VIEW("{\"ProposalId\":\"p"));
        ticket_name_append(out, number);
        text_append(out, VIEW("\",\"Members\":[{\"TicketId\":\""));
        ticket_name_append(out, 2 * number);
        text_append(out, VIEW("\",\"Version\":1},{\"TicketId\":\""));
        ticket_name_append(out, 2 * number + 1);
        text_append(out, VIEW("\",\"Version\":1}]}"));
    }
    request_end(out, body_at);
}

static void offer_ask(const void *state, struct connection *connection)
{
    offer_build(state, &connection->own);
    request_ready(connection);
}

static void propose_ask(const void *state, struct connection *connection)
{
    propose_build(state, &connection->own);
    request_ready(connection);
}

static size_t offer_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct pools *pools = state;
    (void)connection;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    unsigned matched = view_count(reply.body, VIEW("\"Status\":\"matched\""));
    if (matched + view_count(reply.body, VIEW("\"Status\":\"waiting\"")) != pools->plan->batch)
        fatal("not every ticket is waiting or matched in this reply:\n%.*s", (int)reply.body.size, reply.body.ptr);
    counters->sent += pools->plan->batch;
    counters->received += matched;
    return reply.size;
}

static size_t propose_answer(const void *state, struct connection *connection, struct view in,
                             struct counters *counters)
{
    const struct pools *pools = state;
    (void)connection;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    if (view_count(reply.body, VIEW("\"Status\":\"matched\"")) != pools->plan->batch)
        fatal("not every proposal was matched in this reply:\n%.*s", (int)reply.body.size, reply.body.ptr);
    counters->sent += pools->plan->batch;
    return reply.size;
}

/* Two that fit each other are offered, then their match is received: one operation, with one latency. With more than
 * one connection a match may come to another one than that which offered. Matches stay in flight. */

static void duel_ask(const void *state, struct connection *connection)
{
    const struct pools *pools = state;
    if (connection->step == DUEL_OFFER) {
        offer_ask(state, connection);
        return;
    }
    connection->out = text_view(&pools->receive);
    connection->replies_due = 1;
}

static size_t duel_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    if (connection->step == DUEL_OFFER) {
        size_t size = offer_answer(state, connection, in, counters);
        if (size > 0)
            connection->step = DUEL_RECEIVE;
        connection->is_part = size > 0;
        return size;
    }
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    if (view_count(reply.body, VIEW("\"MessageId\"")) != 1)
        fatal("expected one match, got this reply:\n%.*s", (int)reply.body.size, reply.body.ptr);
    counters->deleted++;
    connection->step = DUEL_OFFER;
    connection->is_part = false;
    return reply.size;
}

const struct workload WORKLOAD_POOL_OFFER = {
    .name = "pool-offer",
    .help = "OfferTickets of --batch tickets of --tickets KIND",
    .counted = COUNTED_SENT,
    .create = offer_create,
    .ask = offer_ask,
    .answer = offer_answer,
};

const struct workload WORKLOAD_POOL_PROPOSE = {
    .name = "pool-propose",
    .help = "ProposeMatches of --batch pairs, the n-th of the tickets 2n and 2n + 1",
    .counted = COUNTED_SENT,
    .create = propose_create,
    .ask = propose_ask,
    .answer = propose_answer,
};

const struct workload WORKLOAD_POOL_DUEL = {
    .name = "pool-duel",
    .help = "OfferTickets of a pair, then ReceiveMessage of its match; latency is that of both together",
    .counted = COUNTED_DELETED,
    .create = offer_create,
    .ask = duel_ask,
    .answer = duel_answer,
};
