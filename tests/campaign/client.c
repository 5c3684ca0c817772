#include "client.h"
#include "wire.h"

#include <unistd.h>

enum { WAIT_S = 1 };

/* --- What all share ----------------------------------------------------------------------------------------------- */

uint32_t campaign_now_ms(const struct campaign *campaign)
{
    return (uint32_t)(clock_now_ms() - campaign->started_at_ms);
}

uint32_t campaign_random(struct campaign *campaign, uint32_t bound)
{
    campaign->random ^= campaign->random << 13;
    campaign->random ^= campaign->random >> 7;
    campaign->random ^= campaign->random << 17;
    return (uint32_t)((campaign->random >> 32) * bound >> 32);
}

static bool is_unlucky(struct campaign *campaign)
{
    return campaign_random(campaign, 1000000) < (uint32_t)(campaign->failure_share * 1e6);
}

static void queue_url_write(struct text *body, const struct campaign *campaign)
{
    text_append_format(body, "{\"QueueUrl\":\"http://127.0.0.1:%u/000000000000/%s\"", campaign->port, campaign->queue);
}

/* --- A producer --------------------------------------------------------------------------------------------------- */

/* The n-th message of a producer: the first ones of all of its groups, then the second ones, and so on, so that every
 * group waits with its first while the others arrive. */
static uint32_t message_at(const struct client *client, uint32_t n)
{
    uint32_t groups = client->group_end - client->group_first;
    return (client->group_first + n % groups) * client->campaign->record.messages_of_group + n / groups;
}

static void ask_send(struct client *client)
{
    const struct record *record = &client->campaign->record;
    uint32_t total = (client->group_end - client->group_first) * record->messages_of_group;
    if (client->next == total) {
        client->step = STEP_DONE;
        return;
    }
    struct text body;
    text_init(&body);
    queue_url_write(&body, client->campaign);
    text_append(&body, VIEW(",\"Entries\":["));
    client->entry_count = 0;
    for (uint32_t n = client->next; n < total && client->entry_count < RECEIVE_MAX; n++) {
        uint32_t message = message_at(client, n), group = message / record->messages_of_group;
        text_append_format(&body,
                           "%s{\"Id\":\"%u\",\"MessageBody\":\"%u\",\"MessageGroupId\":\"g%u\","
                           "\"MessageDeduplicationId\":\"g%u-%u\"",
                           client->entry_count > 0 ? "," : "", client->entry_count, message, group, group,
                           message % record->messages_of_group);
        if (client->campaign->is_numbered)
            text_append_format(
                &body,
                ",\"MessageAttributes\":{\"Tally.Producer\":{\"DataType\":\"String\",\"StringValue\":\"p%u\"},"
                "\"Tally.Sequence\":{\"DataType\":\"Number\",\"StringValue\":\"%u\"}}",
                client->group_first, n);
        text_append(&body, VIEW("}"));
        client->entries[client->entry_count++] = message;
    }
    text_append(&body, VIEW("]}"));
    wire_request_write(&client->request, "AmazonSQS.SendMessageBatch", text_view(&body));
    text_deinit(&body);
    client->step = STEP_SEND;
}

static void answer_send(struct client *client, const struct http_message *reply)
{
    struct view rest = wire_part(reply->body, WIRE_SUCCESSFUL, WIRE_FAILED), index, id;
    unsigned accepted = 0;
    while (wire_value_next(&rest, VIEW("\"Id\":"), &index) && wire_value_next(&rest, VIEW("\"MessageId\":"), &id)) {
        uint32_t at = wire_number(index);
        if (at >= client->entry_count)
            fatal("an entry that was not sent: %.*s", (int)reply->body.size, reply->body.ptr);
        record_sent(&client->campaign->record, client->entries[at], wire_digest(id));
        accepted++;
    }
    if (reply->status != 200 || accepted != client->entry_count)
        fatal("a send was refused: %.*s", (int)reply->body.size, reply->body.ptr);
    client->next += client->entry_count;
}

/* --- A worker ----------------------------------------------------------------------------------------------------- */

static void ask_receive(struct client *client)
{
    struct text body;
    text_init(&body);
    queue_url_write(&body, client->campaign);
    text_append_format(
        &body, ",\"MaxNumberOfMessages\":%d,\"WaitTimeSeconds\":%d,\"AttributeNames\":[\"ApproximateReceiveCount\"]}",
        RECEIVE_MAX, WAIT_S);
    wire_request_write(&client->request, "AmazonSQS.ReceiveMessage", text_view(&body));
    text_deinit(&body);
    client->step = STEP_RECEIVE;
    client->held_count = 0;
}

/* Those of one group follow each other in a receive. Where one fails, nobody may go on with those behind it: they are
 * left alone, or deleted with handles that must be dead, to see that they are. */
static void decide_fates(struct client *client)
{
    struct campaign *campaign = client->campaign;
    client->is_give_back_unsure = false;
    client->is_delete_first = campaign_random(campaign, 2) == 0;
    for (unsigned at = 0; at < client->held_count; at++) {
        struct held *held = &client->held[at];
        uint32_t group = held->delivery.message / campaign->record.messages_of_group;
        const struct held *before = at == 0 ? NULL : &client->held[at - 1];
        bool is_behind = before != NULL && before->fate != FATE_DELETE &&
                         before->delivery.message / campaign->record.messages_of_group == group;
        held->is_done = false;
        if (is_behind) {
            bool is_probe = before->fate != FATE_LAPSE && !client->is_delete_first && campaign_random(campaign, 2) == 0;
            held->fate = is_probe || before->fate == FATE_PROBE ? FATE_PROBE : FATE_LAPSE;
            continue;
        }
        campaign->attempts++;
        held->fate = FATE_DELETE;
        if (is_unlucky(campaign)) {
            campaign->failed_attempts++;
            held->fate = FATE_FAIL + campaign_random(campaign, 3);
        }
    }
}

static void answer_receive(struct client *client, const struct http_message *reply)
{
    struct view rest = reply->body, id, handle, body, receives;
    struct delivery deliveries[RECEIVE_MAX];
    uint32_t ids[RECEIVE_MAX];
    unsigned count = 0;
    if (reply->status != 200)
        fatal("a receive was refused: %.*s", (int)reply->body.size, reply->body.ptr);
    while (count < RECEIVE_MAX && wire_value_next(&rest, VIEW("\"MessageId\":"), &id) &&
           wire_value_next(&rest, VIEW("\"ReceiptHandle\":"), &handle) &&
           wire_value_next(&rest, VIEW("\"Body\":"), &body) &&
           wire_value_next(&rest, VIEW("\"ApproximateReceiveCount\":"), &receives)) {
        ids[count] = wire_digest(id);
        deliveries[count] = (struct delivery){.message = wire_number(body), .receive_count = wire_number(receives)};
        client->held[count].handle.size = 0;
        text_append(&client->held[count].handle, handle);
        count++;
    }
    record_delivered(&client->campaign->record, deliveries, ids, count, client->asked_at_ms,
                     campaign_now_ms(client->campaign));
    for (unsigned at = 0; at < count; at++)
        client->held[at].delivery = deliveries[at];
    client->held_count = count;
    decide_fates(client);
}

/* From a message that is given back on, its group's messages of this receive are nobody's. */
static void let_go_behind(struct client *client, unsigned from)
{
    const struct record *record = &client->campaign->record;
    uint32_t group = client->held[from].delivery.message / record->messages_of_group;
    for (unsigned at = from; at < client->held_count; at++)
        if (client->held[at].delivery.message / record->messages_of_group == group)
            record_given_back(&client->campaign->record, client->held[at].delivery);
}

/* Gives back the next that is to be; false if there is none. */
static bool ask_give_back(struct client *client)
{
    unsigned at = 0;
    while (at < client->held_count &&
           (client->held[at].is_done || (client->held[at].fate != FATE_FAIL && client->held[at].fate != FATE_RELEASE)))
        at++;
    if (at == client->held_count)
        return false;
    struct held *held = &client->held[at];
    struct text body;
    text_init(&body);
    queue_url_write(&body, client->campaign);
    text_append(&body, VIEW(",\"ReceiptHandle\":\""));
    text_append(&body, text_view(&held->handle));
    text_append(&body, held->fate == FATE_FAIL ? VIEW("\"}") : VIEW("\",\"VisibilityTimeout\":0}"));
    wire_request_write(&client->request,
                       held->fate == FATE_FAIL ? "Tally.FailMessage" : "AmazonSQS.ChangeMessageVisibility",
                       text_view(&body));
    text_deinit(&body);
    let_go_behind(client, at);
    held->is_done = true;
    client->step = STEP_GIVE_BACK;
    return true;
}

/* A refusal is in order: the lease may have ended, or this is a repeat. Then nothing is known of those behind. */
static void answer_give_back(struct client *client, const struct http_message *reply)
{
    const bool is_refused = reply->status == 400 || view_find(reply->body, VIEW("ReceiptHandleIsInvalid")) != NULL;
    if (reply->status != 200 && !is_refused)
        fatal("giving a message back was answered with %d: %.*s", reply->status, (int)reply->body.size,
              reply->body.ptr);
    if (reply->status != 200 && view_find(reply->body, VIEW("InvalidAction")) != NULL)
        fatal("no such action: %.*s", (int)reply->body.size, reply->body.ptr);
    if (reply->status != 200 || client->is_repeat)
        client->is_give_back_unsure = true;
}

static bool is_to_be_deleted(const struct client *client, const struct held *held)
{
    return !held->is_done && (held->fate == FATE_DELETE || (held->fate == FATE_PROBE && !client->is_give_back_unsure));
}

/* Deletes all that are to be; false if there is none. */
static bool ask_delete(struct client *client)
{
    struct text body;
    text_init(&body);
    queue_url_write(&body, client->campaign);
    text_append(&body, VIEW(",\"Entries\":["));
    client->entry_count = 0;
    for (unsigned at = 0; at < client->held_count; at++) {
        struct held *held = &client->held[at];
        if (!is_to_be_deleted(client, held))
            continue;
        text_append_format(&body, "%s{\"Id\":\"%u\",\"ReceiptHandle\":\"", client->entry_count > 0 ? "," : "",
                           client->entry_count);
        text_append(&body, text_view(&held->handle));
        text_append(&body, VIEW("\"}"));
        if (held->fate == FATE_DELETE)
            record_end_asked(&client->campaign->record, held->delivery);
        else
            client->campaign->fence_probes++;
        held->is_done = true;
        client->entries[client->entry_count++] = at;
    }
    text_append(&body, VIEW("]}"));
    wire_request_write(&client->request, "AmazonSQS.DeleteMessageBatch", text_view(&body));
    text_deinit(&body);
    client->step = STEP_DELETE;
    return client->entry_count > 0;
}

static const struct held *deleted_at(const struct client *client, struct view index)
{
    uint32_t at = wire_number(index);
    if (at >= client->entry_count)
        fatal("an entry that was not asked for: %.*s", (int)index.size, index.ptr);
    return &client->held[client->entries[at]];
}

static void answer_delete(struct client *client, const struct http_message *reply)
{
    struct record *record = &client->campaign->record;
    struct view rest = wire_part(reply->body, WIRE_SUCCESSFUL, WIRE_FAILED), index;
    unsigned answered = 0;
    while (wire_value_next(&rest, VIEW("\"Id\":"), &index)) {
        const struct held *held = deleted_at(client, index);
        record_end_acknowledged(record, held->delivery, held->fate == FATE_PROBE);
        answered++;
    }
    rest = wire_part(reply->body, WIRE_FAILED, WIRE_SUCCESSFUL);
    while (wire_value_next(&rest, VIEW("\"Id\":"), &index)) {
        const struct held *held = deleted_at(client, index);
        if (held->fate == FATE_DELETE)
            client->campaign->refused_deletes++;
        if (held->fate == FATE_DELETE && !client->is_repeat)
            record_end_refused(record, held->delivery);
        answered++;
    }
    if (reply->status != 200 || answered != client->entry_count)
        fatal("a delete was answered with %d: %.*s", reply->status, (int)reply->body.size, reply->body.ptr);
}

static void ask_worker(struct client *client)
{
    bool is_asked = client->is_delete_first ? ask_delete(client) || ask_give_back(client)
                                            : ask_give_back(client) || ask_delete(client);
    if (!is_asked)
        ask_receive(client);
}

/* --- A client ----------------------------------------------------------------------------------------------------- */

void client_init(struct client *client, struct campaign *campaign, bool is_producer, uint32_t group_first,
                 uint32_t group_end)
{
    *client = (struct client){
        .campaign = campaign,
        .fd = -1,
        .is_producer = is_producer,
        .group_first = group_first,
        .group_end = group_end,
    };
    text_init(&client->request);
    text_init(&client->in);
    for (unsigned at = 0; at < RECEIVE_MAX; at++)
        text_init(&client->held[at].handle);
}

void client_deinit(struct client *client)
{
    client_disconnect(client);
    text_deinit(&client->request);
    text_deinit(&client->in);
    for (unsigned at = 0; at < RECEIVE_MAX; at++)
        text_deinit(&client->held[at].handle);
}

static void ask_next(struct client *client)
{
    client->is_repeat = false;
    client->campaign->requests++;
    if (client->is_producer)
        ask_send(client);
    else
        ask_worker(client);
}

/* A connection that breaks under the write is found out by the next read. */
static void request_send(struct client *client)
{
    client->asked_at_ms = campaign_now_ms(client->campaign);
    if (client->step != STEP_DONE)
        wire_write(client->fd, text_view(&client->request));
}

bool client_connect(struct client *client)
{
    client->fd = wire_connect(client->campaign->port);
    if (client->fd < 0)
        return false;
    client->in.size = 0;
    if (client->step == STEP_IDLE || client->step == STEP_RECEIVE)
        ask_next(client);
    request_send(client);
    return true;
}

void client_disconnect(struct client *client)
{
    if (client->fd < 0)
        return;
    close(client->fd);
    client->fd = -1;
    if (client->step == STEP_IDLE || client->step == STEP_DONE)
        return;
    client->is_repeat = true;
    client->campaign->lost_replies++;
    if (client->step == STEP_RECEIVE)
        record_receive_lost(&client->campaign->record);
}

static void answer(struct client *client, const struct http_message *reply)
{
    switch (client->step) {
    case STEP_SEND:
        answer_send(client, reply);
        break;
    case STEP_RECEIVE:
        answer_receive(client, reply);
        break;
    case STEP_GIVE_BACK:
        answer_give_back(client, reply);
        break;
    case STEP_DELETE:
        answer_delete(client, reply);
        break;
    case STEP_IDLE:
    case STEP_DONE:
        fatal("an answer that nothing asked for");
    }
}

void client_read(struct client *client)
{
    struct http_message reply;
    if (!wire_read(client->fd, &client->in)) {
        client_disconnect(client);
        return;
    }
    if (!http_message_find(text_view(&client->in), &reply))
        return;
    answer(client, &reply);
    client->in.size = 0;
    client->step = STEP_IDLE;
    ask_next(client);
    request_send(client);
}
