/* Typed calls for pools: offering tickets, following the feed, proposing matches. Everything else by tally_call(). */
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"
#include <stdlib.h>
#include <string.h>

#define TICKETS_PER_REQUEST 1000
#define PROPOSALS_PER_REQUEST 100

static void pool_body_init(struct json_body *body, const char *pool)
{
    json_body_init(body);
    json_add_text(body, body->root, "PoolName", pool);
}

/* Adds a JSON text as a value; false if it is none. NULL adds nothing. */
static bool add_json(struct json_body *body, yyjson_mut_val *object, const char *name, const char *text)
{
    if (text == NULL)
        return true;
    yyjson_doc *doc = json_read(text, strlen(text));
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (root != NULL)
        yyjson_mut_obj_add_val(body->doc_owned, object, name, yyjson_val_mut_copy(body->doc_owned, root));
    yyjson_doc_free(doc);
    return root != NULL;
}

static bool add_ticket(struct json_body *body, yyjson_mut_val *list, const struct tally_ticket *ticket)
{
    yyjson_mut_val *object = json_append_object(body, list);
    json_add_text(body, object, "TicketId", ticket->id);
    json_add_text(body, object, "ExclusiveSet", ticket->exclusive_set);
    json_add_text(body, object, "Body", ticket->body);
    if (ticket->weight > 0)
        json_add_number(body, object, "Weight", ticket->weight);
    if (ticket->priority > 0)
        json_add_number(body, object, "Priority", ticket->priority);
    if (ticket->has_ttl)
        json_add_number(body, object, "TtlSeconds", ticket->ttl_s);
    return add_json(body, object, "Attributes", ticket->attributes) && add_json(body, object, "Need", ticket->need);
}

/* Ends the body with the call and checks that there is a result for each of `count`. */
static enum tally_status call_for_results(struct json_body *body, struct tally_client *client, const char *target,
                                          size_t count, struct tally_reply *reply)
{
    enum tally_status status = json_body_call(body, client, target, reply);
    if (status != TALLY_OK || yyjson_arr_size(yyjson_obj_get(json_root(reply), "Results")) == count)
        return status;
    tally_reply_deinit(reply);
    return client_garbled(client, target);
}

static enum tally_status offer_some(struct tally_client *client, const char *pool, const struct tally_ticket *tickets,
                                    size_t count, struct tally_offered *offered)
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *result;
    pool_body_init(&body, pool);
    yyjson_mut_val *list = json_add_array(&body, body.root, "Tickets");
    for (i = 0; i < count; i++) {
        if (add_ticket(&body, list, &tickets[i]))
            continue;
        yyjson_mut_doc_free(body.doc_owned);
        return client_refuse(client, "attributes or need of a ticket are no JSON");
    }
    enum tally_status status = call_for_results(&body, client, "Tally.OfferTickets", count, &reply);
    if (status != TALLY_OK)
        return status;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Results"), i, max, result)
    {
        if (offered == NULL)
            break;
        offered[i].version = json_number(result, "Version");
        offered[i].was_offered = json_is_true(result, "AlreadyOffered");
        json_copy(result, "Status", offered[i].status, sizeof offered[i].status);
        json_copy(result, "MatchId", offered[i].match_id, sizeof offered[i].match_id);
        json_copy(result, "Why", offered[i].why, sizeof offered[i].why);
    }
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_pool_offer(struct tally_client *client, const char *pool, const struct tally_ticket *tickets,
                                   size_t count, struct tally_offered *offered)
{
    enum tally_status status = TALLY_OK;
    for (size_t start = 0; start < count && status == TALLY_OK; start += TICKETS_PER_REQUEST) {
        size_t some = count - start < TICKETS_PER_REQUEST ? count - start : TICKETS_PER_REQUEST;
        status = offer_some(client, pool, tickets + start, some, offered == NULL ? NULL : offered + start);
    }
    return status;
}

static void add_proposal(struct json_body *body, yyjson_mut_val *list, const struct tally_proposal *proposal)
{
    yyjson_mut_val *object = json_append_object(body, list);
    json_add_text(body, object, "ProposalId", proposal->id);
    json_add_text(body, object, "Body", proposal->body);
    if (proposal->rules_version > 0)
        json_add_number(body, object, "RulesVersion", proposal->rules_version);
    yyjson_mut_val *members = json_add_array(body, object, "Members");
    for (size_t i = 0; i < proposal->member_count; i++) {
        yyjson_mut_val *member = json_append_object(body, members);
        json_add_text(body, member, "TicketId", proposal->members[i].ticket);
        json_add_number(body, member, "Version", proposal->members[i].version);
    }
}

static enum tally_status propose_some(struct tally_client *client, const char *pool,
                                      const struct tally_proposal *proposals, size_t count,
                                      struct tally_proposed *proposed)
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *result;
    pool_body_init(&body, pool);
    yyjson_mut_val *list = json_add_array(&body, body.root, "Proposals");
    for (i = 0; i < count; i++)
        add_proposal(&body, list, &proposals[i]);
    enum tally_status status = call_for_results(&body, client, "Tally.ProposeMatches", count, &reply);
    if (status != TALLY_OK)
        return status;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Results"), i, max, result)
    {
        json_copy(result, "Status", proposed[i].status, sizeof proposed[i].status);
        json_copy(result, "MatchId", proposed[i].match_id, sizeof proposed[i].match_id);
        json_copy(result, "Why", proposed[i].why, sizeof proposed[i].why);
    }
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_pool_propose(struct tally_client *client, const char *pool,
                                     const struct tally_proposal *proposals, size_t count,
                                     struct tally_proposed *proposed)
{
    enum tally_status status = TALLY_OK;
    for (size_t start = 0; start < count && status == TALLY_OK; start += PROPOSALS_PER_REQUEST) {
        size_t some = count - start < PROPOSALS_PER_REQUEST ? count - start : PROPOSALS_PER_REQUEST;
        status = propose_some(client, pool, proposals + start, some, proposed + start);
    }
    return status;
}

static void read_events(yyjson_val *list, struct tally_feed *feed)
{
    size_t i, max;
    yyjson_val *event;
    feed->count = yyjson_arr_size(list);
    feed->items_owned = memory_allocate_zeroed((feed->count + 1) * sizeof *feed->items_owned);
    yyjson_arr_foreach(list, i, max, event)
    {
        feed->items_owned[i] = (struct tally_feed_event){
            .sequence = json_number(event, "Sequence"),
            .type = json_text(event, "Type") == NULL ? "offer" : json_text(event, "Type"),
            .ticket = json_text(event, "TicketId"),
            .version = json_number(event, "Version"),
            .level = (unsigned)json_number(event, "Level"),
            .reason = json_text(event, "Reason"),
            .match_id = json_text(event, "MatchId"),
            .json = event,
        };
    }
}

enum tally_status tally_pool_feed(struct tally_client *client, const char *pool, uint64_t from, unsigned wait_s,
                                  struct tally_feed *feed)
{
    struct json_body body;
    struct tally_reply reply;
    pool_body_init(&body, pool);
    json_add_number(&body, body.root, "From", from);
    json_add_number(&body, body.root, "WaitTimeSeconds", wait_s);
    enum tally_status status = json_body_call(&body, client, "Tally.FeedTickets", &reply);
    if (status != TALLY_OK)
        return status;
    *feed = (struct tally_feed){.next = json_number(json_root(&reply), "Next"),
                                .must_read_tickets = json_is_true(json_root(&reply), "Resync"),
                                .reply_owned = reply};
    read_events(yyjson_obj_get(json_root(&reply), "Events"), feed);
    return TALLY_OK;
}

enum tally_status tally_pool_tickets(struct tally_client *client, const char *pool, const char *token,
                                     struct tally_feed *tickets)
{
    struct json_body body;
    struct tally_reply reply;
    pool_body_init(&body, pool);
    json_add_text(&body, body.root, "NextToken", token);
    enum tally_status status = json_body_call(&body, client, "Tally.ListTickets", &reply);
    if (status != TALLY_OK)
        return status;
    *tickets = (struct tally_feed){.next_token = json_text(json_root(&reply), "NextToken"), .reply_owned = reply};
    read_events(yyjson_obj_get(json_root(&reply), "Tickets"), tickets);
    return TALLY_OK;
}

void tally_feed_deinit(struct tally_feed *feed)
{
    free(feed->items_owned);
    tally_reply_deinit(&feed->reply_owned);
    *feed = (struct tally_feed){.count = 0};
}
