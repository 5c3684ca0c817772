#include "pool_client.h"
#include "wire.h"

#include <stdlib.h>
#include <unistd.h>

enum { WINDOW_MAX = 100000, WAIT_S = 1 };

/* --- What all share ----------------------------------------------------------------------------------------------- */

uint32_t pool_campaign_now_ms(const struct pool_campaign *campaign)
{
    return (uint32_t)(clock_now_ms() - campaign->started_at_ms);
}

static uint32_t random_below(struct pool_campaign *campaign, uint32_t bound)
{
    campaign->random ^= campaign->random << 13;
    campaign->random ^= campaign->random >> 7;
    campaign->random ^= campaign->random << 17;
    return (uint32_t)((campaign->random >> 32) * bound >> 32);
}

/* FNV-1a. */
uint64_t pool_match_digest(struct view id)
{
    uint64_t digest = 14695981039346656037u;
    for (size_t at = 0; at < id.size; at++)
        digest = (digest ^ (uint8_t)id.ptr[at]) * 1099511628211u;
    digest ^= digest >> 32; /* the table takes the low bits */
    return digest == 0 ? 1 : digest;
}

/* What `key`, with its quotes and colon, is followed by: a number, or 0 where there is no such key. */
static uint64_t number_of(struct view part, struct view key)
{
    const char *at = view_find(part, key);
    uint64_t number = 0;
    for (at = at == NULL ? NULL : at + key.size; at != NULL && at < part.ptr + part.size && *at >= '0' && *at <= '9';
         at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* A name of ours is "t" and a number. */
static uint32_t ticket_of(struct view name)
{
    if (name.size < 2 || name.ptr[0] != 't')
        fatal("a ticket of somebody else: %.*s", (int)name.size, name.ptr);
    return wire_number((struct view){name.ptr + 1, name.size - 1});
}

/* Cuts off what stands up to the next `key`, from which on the rest begins; the whole rest where there is none. */
static struct view part_until(struct view *rest, struct view key)
{
    const char *end = view_find(*rest, key);
    struct view part = {rest->ptr, end == NULL ? rest->size : (size_t)(end - rest->ptr)};
    *rest = view_from(*rest, part.ptr + part.size);
    return part;
}

static void refuse(const char *what, const struct http_message *reply)
{
    fatal("%s was answered with %d: %.*s", what, reply->status,
          (int)(reply->body.size < 2000 ? reply->body.size : 2000), reply->body.ptr);
}

static void request_begin(struct pool_client *client)
{
    client->body.size = 0;
    text_append_format(&client->body, "{\"PoolName\":\"%s\"", client->campaign->pool);
}

static void request_end(struct pool_client *client, const char *target, enum pool_step step)
{
    text_append(&client->body, VIEW("}"));
    wire_request_write(&client->request, target, text_view(&client->body));
    client->step = step;
}

/* --- A producer --------------------------------------------------------------------------------------------------- */

void pool_offer_write(struct text *body, const struct pool_campaign *campaign, uint32_t first, uint32_t count)
{
    text_append(body, VIEW(",\"Tickets\":["));
    for (uint32_t at = 0; at < count; at++) {
        text_append_format(body, "%s{\"TicketId\":\"t%u\"", at > 0 ? "," : "", first + at);
        if (campaign->is_built_in)
            text_append_format(body, ",\"Attributes\":{\"v\":%u}", first + at);
        text_append(body, VIEW("}"));
    }
    text_append(body, VIEW("]"));
}

static void ask_offer(struct pool_client *client)
{
    struct pool_campaign *campaign = client->campaign;
    uint32_t left = campaign->tickets - campaign->next_ticket;
    if (left == 0 || campaign->next_ticket - campaign->record.ended_tickets >= campaign->backlog)
        return;
    client->count = left < campaign->offers ? left : campaign->offers;
    request_begin(client);
    pool_offer_write(&client->body, campaign, campaign->next_ticket, client->count);
    campaign->next_ticket += client->count;
    request_end(client, "Tally.OfferTickets", POOL_STEP_OFFER);
}

static void answer_offer(struct pool_client *client, const struct http_message *reply)
{
    if (reply->status != 200 || view_count(reply->body, VIEW("\"AlreadyOffered\":")) != client->count ||
        view_find(reply->body, VIEW("\"invalid\"")) != NULL || view_find(reply->body, VIEW("\"key-reused\"")) != NULL)
        refuse("an offer", reply);
    client->campaign->offered += client->count;
}

/* --- A matcher ---------------------------------------------------------------------------------------------------- */

/* Any of the oldest, each once; false if there are too few. */
static bool choose(struct pool_client *client, const uint32_t *waiting, unsigned count, uint32_t *chosen)
{
    for (unsigned at = 0, tries = 0; at < client->campaign->size; tries++) {
        if (tries == 100)
            return false;
        chosen[at] = waiting[random_below(client->campaign, count)];
        unsigned same = 0;
        while (chosen[same] != chosen[at])
            same++;
        at += same == at;
    }
    return true;
}

static void proposal_write(struct pool_client *client, const uint32_t *chosen, bool is_first)
{
    text_append_format(&client->body, "%s{\"ProposalId\":\"m%u-%llu\",\"Members\":[", is_first ? "" : ",",
                       client->number, (unsigned long long)client->sequence++);
    for (unsigned at = 0; at < client->campaign->size; at++)
        text_append_format(&client->body, "%s{\"TicketId\":\"t%u\",\"Version\":%u}", at > 0 ? "," : "", chosen[at],
                           pool_view_version(client->view, chosen[at]));
    text_append(&client->body, VIEW("]}"));
}

static void ask_propose(struct pool_client *client)
{
    static uint32_t waiting[WINDOW_MAX];
    unsigned count = pool_view_oldest(client->view, waiting, client->campaign->window);
    if (count < client->campaign->size)
        return;
    request_begin(client);
    text_append(&client->body, VIEW(",\"Proposals\":["));
    unsigned proposals = count / client->campaign->size;
    if (proposals > client->campaign->proposals)
        proposals = client->campaign->proposals;
    for (client->count = 0; client->count < proposals; client->count++) {
        if (!choose(client, waiting, count, client->proposed[client->count]))
            break;
        proposal_write(client, client->proposed[client->count], client->count == 0);
    }
    text_append(&client->body, VIEW("]"));
    if (client->count > 0)
        request_end(client, "Tally.ProposeMatches", POOL_STEP_PROPOSE);
}

static void answer_proposal(struct pool_client *client, struct view part, unsigned at)
{
    struct pool_campaign *campaign = client->campaign;
    struct view rest = part, status, match;
    if (!wire_value_next(&rest, VIEW("\"Status\":"), &status))
        fatal("a proposal without a status: %.*s", (int)part.size, part.ptr);
    campaign->asked++;
    if (view_starts_with(status, VIEW("matched"))) {
        rest = part;
        if (!wire_value_next(&rest, VIEW("\"MatchId\":"), &match))
            fatal("a match without an id: %.*s", (int)part.size, part.ptr);
        campaign->accepted++;
        pool_record_told(&campaign->record, pool_match_digest(match), client->proposed[at], campaign->size);
    } else if (view_starts_with(status, VIEW("conflict"))) {
        campaign->conflicts++;
    } else if (view_starts_with(status, VIEW("stale"))) {
        campaign->stale++;
    } else {
        fatal("a proposal was refused: %.*s", (int)part.size, part.ptr);
    }
}

static void answer_propose(struct pool_client *client, const struct http_message *reply)
{
    static const struct view KEY = {"\"ProposalId\":", 13};
    struct view rest = reply->body, id;
    unsigned at = 0;
    while (at < client->count && wire_value_next(&rest, KEY, &id))
        answer_proposal(client, part_until(&rest, KEY), at++);
    if (reply->status != 200 || at != client->count)
        refuse("proposing", reply);
}

/* --- A reader of the feed ----------------------------------------------------------------------------------------- */

static void ask_feed(struct pool_client *client)
{
    request_begin(client);
    text_append_format(&client->body, ",\"From\":%llu,\"WaitTimeSeconds\":%d", (unsigned long long)client->view->next,
                       WAIT_S);
    request_end(client, "Tally.FeedTickets", POOL_STEP_FEED);
}

static void ask_list(struct pool_client *client)
{
    request_begin(client);
    if (client->list_token.size > 0) {
        text_append(&client->body, VIEW(",\"NextToken\":\""));
        text_append(&client->body, text_view(&client->list_token));
        text_append(&client->body, VIEW("\""));
    }
    request_end(client, "Tally.ListTickets", POOL_STEP_LIST);
}

static void take_event(struct pool_client *client, struct view event)
{
    struct view rest = event, kind, name;
    if (!wire_value_next(&rest, VIEW("\"Type\":"), &kind))
        fatal("an event without a type: %.*s", (int)event.size, event.ptr);
    rest = event;
    if (!wire_value_next(&rest, VIEW("\"TicketId\":"), &name))
        return;
    if (view_starts_with(kind, VIEW("offer")))
        pool_view_offer(client->view, ticket_of(name), (uint32_t)number_of(event, VIEW("\"Version\":")));
    else if (view_starts_with(kind, VIEW("retire")))
        pool_view_retire(client->view, ticket_of(name));
}

static void answer_feed(struct pool_client *client, const struct http_message *reply)
{
    static const struct view KEY = {"\"Sequence\":", 11};
    uint64_t next = number_of(reply->body, VIEW("\"Next\":"));
    if (reply->status != 200 || next == 0)
        refuse("reading the feed", reply);
    if (view_find(reply->body, VIEW("\"Resync\":true")) != NULL) {
        client->campaign->resyncs++;
        client->list_token.size = 0;
        pool_view_clear(client->view);
        client->view->next = next;
        client->step = POOL_STEP_LIST;
        return;
    }
    struct view rest = reply->body;
    part_until(&rest, KEY);
    while (rest.size > 0) {
        uint64_t number = number_of(rest, KEY);
        if (client->view->next == 0)
            client->view->next = number; /* the first there was */
        if (number != client->view->next)
            fatal("the feed tells event %llu after %llu", (unsigned long long)number,
                  (unsigned long long)client->view->next - 1);
        client->view->next++;
        client->campaign->events++;
        rest = view_from(rest, rest.ptr + KEY.size);
        take_event(client, part_until(&rest, KEY));
    }
    if (client->view->next == 0)
        client->view->next = next; /* nothing has happened yet */
    if (client->view->next != next)
        fatal("the feed ends before %llu, and says %llu", (unsigned long long)client->view->next,
              (unsigned long long)next);
}

static void answer_list(struct pool_client *client, const struct http_message *reply)
{
    static const struct view KEY = {"\"TicketId\":", 11};
    if (reply->status != 200)
        refuse("a list", reply);
    struct view rest = reply->body, name, token;
    while (wire_value_next(&rest, KEY, &name)) {
        struct view part = part_until(&rest, KEY);
        pool_view_offer(client->view, ticket_of(name), (uint32_t)number_of(part, VIEW("\"Version\":")));
    }
    client->list_token.size = 0;
    rest = reply->body;
    if (wire_value_next(&rest, VIEW("\"NextToken\":"), &token))
        text_append(&client->list_token, token);
    client->step = client->list_token.size > 0 ? POOL_STEP_LIST : POOL_STEP_IDLE;
}

/* --- A consumer --------------------------------------------------------------------------------------------------- */

static void ask_receive(struct pool_client *client)
{
    client->body.size = 0;
    text_append_format(
        &client->body,
        "{\"QueueUrl\":\"%s\",\"MaxNumberOfMessages\":%d,\"WaitTimeSeconds\":%d,\"VisibilityTimeout\":%u",
        client->campaign->queue, RESULTS_MAX, WAIT_S, client->campaign->lease_ms / 1000);
    request_end(client, "AmazonSQS.ReceiveMessage", POOL_STEP_RECEIVE);
    client->held = 0;
    client->asked_at_ms = pool_campaign_now_ms(client->campaign);
}

/* Some are put back, when they are seen for the first time; and those that somebody wanted to put back, and perhaps did
 * not. */
static void take_result(struct pool_client *client, struct pool_result *result, struct view id, struct view body)
{
    struct pool_campaign *campaign = client->campaign;
    uint32_t tickets[GROUP_MAX];
    unsigned count = 0;
    struct view name, rest = body;
    static const struct view KEY = {"\\\"ticket\\\":\\", 12};
    while (count < GROUP_MAX && wire_value_next(&rest, KEY, &name))
        tickets[count++] = ticket_of(name);
    if (id.size >= MATCH_ID_MAX)
        fatal("a match id of %zu bytes", id.size);
    memcpy(result->match_id, id.ptr, id.size);
    result->match_id[id.size] = '\0';
    result->match = pool_match_digest(id);
    result->is_done = false;
    uint64_t before = campaign->record.redeliveries;
    pool_record_delivered(&campaign->record, result->match, tickets, count, client->asked_at_ms);
    bool is_new = campaign->record.redeliveries == before;
    result->is_put_back = is_new && random_below(campaign, 1000000) < (uint32_t)(campaign->put_back_share * 1e6);
    if (result->is_put_back || pool_record_is_put_back_asked(&campaign->record, result->match)) {
        result->is_put_back = true;
        pool_record_put_back_asked(&campaign->record, result->match);
    }
}

static void answer_receive(struct pool_client *client, const struct http_message *reply)
{
    static const struct view KEY = {"\"MessageId\":", 12};
    struct view rest = reply->body, id, handle;
    if (reply->status != 200)
        refuse("a receive", reply);
    while (client->held < RESULTS_MAX && wire_value_next(&rest, KEY, &id)) {
        struct view part = part_until(&rest, KEY), from = part;
        struct pool_result *result = &client->results[client->held];
        if (!wire_value_next(&from, VIEW("\"ReceiptHandle\":"), &handle))
            refuse("a receive", reply);
        result->handle.size = 0;
        text_append(&result->handle, handle);
        take_result(client, result, id, part);
        client->held++;
    }
}

/* The lease of what it holds had not ended when this was answered: nobody else can have had it. */
static bool is_certain(const struct pool_client *client)
{
    return pool_campaign_now_ms(client->campaign) - client->asked_at_ms < client->campaign->lease_ms;
}

static bool ask_put_back(struct pool_client *client)
{
    unsigned at = 0;
    while (at < client->held && (client->results[at].is_done || !client->results[at].is_put_back))
        at++;
    if (at == client->held)
        return false;
    client->count = at;
    request_begin(client);
    text_append_format(&client->body, ",\"MatchId\":\"%s\"", client->results[at].match_id);
    request_end(client, "Tally.PutBackMatch", POOL_STEP_PUT_BACK);
    return true;
}

static void answer_put_back(struct pool_client *client, const struct http_message *reply)
{
    struct pool_result *result = &client->results[client->count];
    if (reply->status != 200)
        refuse("a put back", reply);
    result->is_done = true;
    client->campaign->put_backs++;
    if (view_find(reply->body, VIEW("\"put-back\"")) != NULL)
        pool_record_put_back(&client->campaign->record, result->match, pool_campaign_now_ms(client->campaign));
    else if (is_certain(client) || view_find(reply->body, VIEW("\"acked\"")) == NULL)
        client->campaign->record.faults[POOL_FAULT_ANSWER]++;
    else
        pool_record_deleted(&client->campaign->record, result->match, pool_campaign_now_ms(client->campaign));
}

static bool ask_delete(struct pool_client *client)
{
    client->body.size = 0;
    text_append_format(&client->body, "{\"QueueUrl\":\"%s\",\"Entries\":[", client->campaign->queue);
    client->count = 0;
    for (unsigned at = 0; at < client->held; at++) {
        if (client->results[at].is_done)
            continue;
        text_append_format(&client->body, "%s{\"Id\":\"%u\",\"ReceiptHandle\":\"", client->count > 0 ? "," : "", at);
        text_append(&client->body, text_view(&client->results[at].handle));
        text_append(&client->body, VIEW("\"}"));
        client->count++;
    }
    text_append(&client->body, VIEW("]"));
    if (client->count > 0)
        request_end(client, "AmazonSQS.DeleteMessageBatch", POOL_STEP_DELETE);
    return client->count > 0;
}

static void answer_delete(struct pool_client *client, const struct http_message *reply)
{
    struct view rest = wire_part(reply->body, WIRE_SUCCESSFUL, WIRE_FAILED), index;
    unsigned answered = 0;
    while (wire_value_next(&rest, VIEW("\"Id\":"), &index)) {
        struct pool_result *result = &client->results[wire_number(index) % RESULTS_MAX];
        result->is_done = true;
        if (is_certain(client))
            pool_record_deleted(&client->campaign->record, result->match, pool_campaign_now_ms(client->campaign));
        answered++;
    }
    if (reply->status != 200 || answered != client->count)
        refuse("a delete", reply);
}

/* --- A client ----------------------------------------------------------------------------------------------------- */

void pool_client_init(struct pool_client *client, struct pool_campaign *campaign, enum pool_client_kind kind,
                      unsigned number, struct pool_view *view)
{
    *client = (struct pool_client){.campaign = campaign, .kind = kind, .number = number, .view = view, .fd = -1};
    text_init(&client->list_token);
    text_init(&client->body);
    text_init(&client->request);
    text_init(&client->in);
    for (unsigned at = 0; at < RESULTS_MAX; at++)
        text_init(&client->results[at].handle);
}

static void disconnect(struct pool_client *client)
{
    if (client->fd < 0)
        return;
    close(client->fd);
    client->fd = -1;
    client->campaign->lost_replies += client->step != POOL_STEP_IDLE;
}

void pool_client_deinit(struct pool_client *client)
{
    disconnect(client);
    text_deinit(&client->list_token);
    text_deinit(&client->body);
    text_deinit(&client->request);
    text_deinit(&client->in);
    for (unsigned at = 0; at < RESULTS_MAX; at++)
        text_deinit(&client->results[at].handle);
}

static void ask_next(struct pool_client *client)
{
    bool is_list = client->step == POOL_STEP_LIST;
    client->step = POOL_STEP_IDLE;
    switch (client->kind) {
    case PRODUCER:
        ask_offer(client);
        break;
    case MATCHER:
        ask_propose(client);
        break;
    case READER:
        is_list ? ask_list(client) : ask_feed(client);
        break;
    case CONSUMER:
        if (!ask_put_back(client) && !ask_delete(client))
            ask_receive(client);
        break;
    }
}

/* A connection that breaks under the write is found out by the next read. */
static void request_send(struct pool_client *client)
{
    if (client->step != POOL_STEP_IDLE)
        wire_write(client->fd, text_view(&client->request));
}

bool pool_client_connect(struct pool_client *client)
{
    client->fd = wire_connect(client->campaign->port);
    if (client->fd < 0)
        return false;
    client->in.size = 0;
    if (client->step == POOL_STEP_LIST) { /* from its beginning: a token need not outlive the daemon */
        client->list_token.size = 0;
        pool_view_clear(client->view);
    }
    if (client->kind == READER || client->step == POOL_STEP_IDLE || client->step == POOL_STEP_RECEIVE)
        ask_next(client);
    request_send(client);
    return true;
}

static void answer(struct pool_client *client, const struct http_message *reply)
{
    static void (*const ANSWERS[])(struct pool_client *, const struct http_message *) = {
        [POOL_STEP_OFFER] = answer_offer,     [POOL_STEP_PROPOSE] = answer_propose,
        [POOL_STEP_FEED] = answer_feed,       [POOL_STEP_LIST] = answer_list,
        [POOL_STEP_RECEIVE] = answer_receive, [POOL_STEP_PUT_BACK] = answer_put_back,
        [POOL_STEP_DELETE] = answer_delete,
    };
    if (ANSWERS[client->step] == NULL)
        fatal("an answer that nothing asked for");
    ANSWERS[client->step](client, reply);
}

void pool_client_read(struct pool_client *client)
{
    struct http_message reply;
    if (!wire_read(client->fd, &client->in)) {
        disconnect(client);
        return;
    }
    if (!http_message_find(text_view(&client->in), &reply))
        return;
    answer(client, &reply);
    client->in.size = 0;
    ask_next(client);
    request_send(client);
}

void pool_client_wake(struct pool_client *client)
{
    if (client->fd < 0 || client->step != POOL_STEP_IDLE)
        return;
    ask_next(client);
    request_send(client);
}
