/* What the tests of the actions of pools share: a world with the pool "duel", calls that must go well, what their
 * answers say, and requests that wait for theirs. */
#ifndef TALLY_TESTS_UNIT_POOLS_H
#define TALLY_TESTS_UNIT_POOLS_H

#include "sqs.h"

#include "core/pools/ticket_pool.h"

#define DUEL                                                                                                           \
    "'Attributes':{'mode':'str','mmr':'num','maps':'set'},'Rules':[{'type':'equal','attr':'mode'},{'type':'near',"     \
    "'attr':'mmr','max':50,'expand':[{'after':'10s','max':100}]}]"

static inline struct world *open_world(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "results", "");
    world_create_queue(world, "expired", "");
    world_create_queue(world, "order.fifo", "'FifoQueue':'true'");
    return world;
}

/* A world with the pool "duel", whose matcher is `matcher`; `more`: further arguments, each with a comma before it. */
static inline struct world *open_pool(void **state, const char *matcher, const char *more)
{
    struct world *world = open_world(state);
    struct answer answer =
        world_call(world, "Tally.CreatePool",
                   "{'PoolName':'duel','ResultQueueUrl':'results','Matcher':'%s'," DUEL "%s}", matcher, more);
    if (answer.error != NULL)
        fail_msg("CreatePool: %s (%s)", answer.error, answer_text(answer, "message"));
    return world;
}

/* Calls that must go well; `body` stands behind the PoolName. */
static inline struct answer call(struct world *world, const char *action, const char *body)
{
    char target[60];
    snprintf(target, sizeof(target), "Tally.%s", action);
    struct answer answer = world_call(world, target, "{'PoolName':'duel'%s}", body);
    if (answer.error != NULL)
        fail_msg("%s %s: %s (%s)", action, body, answer.error, answer_text(answer, "message"));
    return answer;
}

static inline yyjson_val *member(struct answer answer, const char *name)
{
    return yyjson_obj_get(answer.root, name);
}

static inline yyjson_val *item(struct answer answer, const char *list, size_t index)
{
    return yyjson_arr_get(member(answer, list), index);
}

static inline bool says(yyjson_val *object, const char *name, const char *text)
{
    return strcmp(sqs_text(object, name), text) == 0;
}

static inline uint64_t number(yyjson_val *object, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(object, name));
}

static inline uint64_t pool_number(struct world *world, const char *name)
{
    return answer_number(call(world, "DescribePool", ""), name);
}

static inline uint64_t tickets_in(struct world *world, const char *state)
{
    return number(member(call(world, "DescribePool", ""), "Tickets"), state);
}

/* Offers tickets by their ids, all alike. */
static inline void offer(struct world *world, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char body[200];
        snprintf(body, sizeof(body), ",'Tickets':[{'TicketId':'%s','Attributes':{'mode':'x','mmr':1000}}]", ids[i]);
        EXPECT(world, says(item(call(world, "OfferTickets", body), "Results", 0), "TicketId", ids[i]));
    }
}

#define OFFER(world, ...)                                                                                              \
    offer(world, (const char *const[]){__VA_ARGS__}, ARRAY_LENGTH(((const char *const[]){__VA_ARGS__})))

/* --- requests on their way ---------------------------------------------------------------------------------------- */

struct poll {
    struct exchange exchange;
    char target[40];
    char body[300];
};

static inline void begin(struct world *world, struct poll *poll, const char *action, const char *body)
{
    exchange_init(&poll->exchange);
    snprintf(poll->target, sizeof(poll->target), "Tally.%s", action);
    snprintf(poll->body, sizeof(poll->body), "{'PoolName':'duel'%s}", body);
    for (char *at = poll->body; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    poll->exchange.request =
        (struct request){.target = bytes_from_string(poll->target), .body = bytes_from_string(poll->body)};
    front_submit(world->front, &poll->exchange, world->now_ms);
}

static inline bool is_waiting(const struct poll *poll)
{
    return poll->exchange.state == EXCHANGE_WAITING;
}

/* Takes it off the api; the document is the caller's to free. */
static inline yyjson_doc *end(struct world *world, struct poll *poll)
{
    EXPECT(world, poll->exchange.state == EXCHANGE_FINISHED);
    EXPECT(world, front_take_finished(world->front) == &poll->exchange);
    const struct buffer *body = &poll->exchange.reply.body;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    assert_non_null(doc);
    exchange_deinit(&poll->exchange);
    return doc;
}

/* Does something while others wait: their answers stay on the api's list behind its own. */
static inline void act(struct world *world, const char *action, const char *body)
{
    struct poll poll;
    begin(world, &poll, action, body);
    yyjson_doc_free(end(world, &poll));
}

#endif
