#include "client.h"
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_SIZE_MIN = 16 * 1024, WAIT_S = 1, CALL_ATTEMPTS_MAX = 12000 };

/* --- What all share ------------------------------------------------------------------------------------------------- */

uint32_t campaign_now_ms(const struct campaign *campaign)
{
    return (uint32_t)(clock_now_ns() / 1000000 - campaign->started_at_ms);
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

/* The request, whole; `target` with its prefix. */
static void request_write(struct text *request, const char *target, struct view body)
{
    request->size = 0;
    text_append_format(request,
                       "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\n"
                       "X-Amz-Target: %s\r\nContent-Length: %zu\r\n\r\n",
                       target, body.size);
    text_append(request, body);
}

static void queue_url_write(struct text *body, const struct campaign *campaign)
{
    text_append_format(body, "{\"QueueUrl\":\"http://127.0.0.1:%u/000000000000/%s\"", campaign->port, campaign->queue);
}

/* A connected socket, or -1 while nobody listens. */
static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fatal("can't make a socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static bool write_all(int fd, struct view bytes)
{
    while (bytes.size > 0) {
        ssize_t size = send(fd, bytes.ptr, bytes.size, MSG_NOSIGNAL);
        if (size < 0)
            return false;
        bytes = (struct view){bytes.ptr + size, bytes.size - (size_t)size};
    }
    return true;
}

/* Adds what has come to `in`; false when the connection is over. */
static bool read_more(int fd, struct text *in)
{
    text_reserve(in, IN_SIZE_MIN);
    ssize_t size = recv(fd, in->ptr_owned + in->size, in->capacity - in->size, 0);
    if (size <= 0)
        return false;
    in->size += (size_t)size;
    return true;
}

static bool call_once(const struct text *request, uint16_t port, struct text *in, struct http_message *answer)
{
    int fd = connect_to(port);
    if (fd < 0)
        return false;
    in->size = 0;
    bool is_there = write_all(fd, text_view(request));
    while (is_there && !http_message_find(text_view(in), answer))
        is_there = read_more(fd, in);
    close(fd);
    return is_there;
}

int campaign_call(struct campaign *campaign, const char *target, struct view body, struct text *reply)
{
    struct text request, in;
    text_init(&request);
    text_init(&in);
    request_write(&request, target, body);
    struct http_message answer = {0};
    unsigned attempts = 0;
    while (!call_once(&request, campaign->port, &in, &answer)) {
        if (++attempts >= CALL_ATTEMPTS_MAX)
            fatal("nobody answers %s on port %u", target, campaign->port);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    reply->size = 0;
    text_append(reply, answer.body);
    text_deinit(&request);
    text_deinit(&in);
    return answer.status;
}

/* --- Reading replies ------------------------------------------------------------------------------------------------ */

/* The text value of the next `key` (with its quotes and colon) in *rest, which moves behind it; false where there is none. */
static bool value_next(struct view *rest, struct view key, struct view *value)
{
    const char *at = view_find(*rest, key);
    if (at == NULL)
        return false;
    struct view from = view_from(*rest, at + key.size);
    const char *end = from.size == 0 || *from.ptr != '"' ? NULL : memchr(from.ptr + 1, '"', from.size - 1);
    if (end == NULL)
        fatal("no text behind %.*s: %.*s", (int)key.size, key.ptr, (int)from.size, from.ptr);
    *value = (struct view){from.ptr + 1, (size_t)(end - from.ptr) - 1};
    *rest = view_from(*rest, end + 1);
    return true;
}

/* FNV-1a: a digest of a MessageId; never 0. */
static uint32_t digest_of(struct view text)
{
    uint32_t digest = 2166136261u;
    for (size_t at = 0; at < text.size; at++)
        digest = (digest ^ (uint8_t)text.ptr[at]) * 16777619u;
    return digest == 0 ? 1 : digest;
}

static uint32_t number_of(struct view text)
{
    uint32_t number = 0;
    for (size_t at = 0; at < text.size && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
        number = number * 10 + (uint32_t)(text.ptr[at] - '0');
    return number;
}

/* The parts of a reply to a request of many entries. */
static struct view part_of(struct view body, struct view key, struct view other)
{
    const char *begin = view_find(body, key);
    if (begin == NULL)
        return (struct view){body.ptr, 0};
    struct view part = view_from(body, begin);
    const char *end = view_find(part, other);
    return end == NULL ? part : (struct view){begin, (size_t)(end - begin)};
}

static const struct view SUCCESSFUL = {"\"Successful\":[", 14};
static const struct view FAILED = {"\"Failed\":[", 10};

/* --- A producer ----------------------------------------------------------------------------------------------------- */

/* The n-th message of a producer: the first ones of all of its groups, then the second ones, and so on, so that every group
 * waits with its first while the others arrive. */
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
                           "\"MessageDeduplicationId\":\"g%u-%u\"}",
                           client->entry_count > 0 ? "," : "", client->entry_count, message, group, group,
                           message % record->messages_of_group);
        client->entries[client->entry_count++] = message;
    }
    text_append(&body, VIEW("]}"));
    request_write(&client->request, "AmazonSQS.SendMessageBatch", text_view(&body));
    text_deinit(&body);
    client->step = STEP_SEND;
}

static void answer_send(struct client *client, const struct http_message *reply)
{
    struct view rest = part_of(reply->body, SUCCESSFUL, FAILED), index, id;
    unsigned accepted = 0;
    while (value_next(&rest, VIEW("\"Id\":"), &index) && value_next(&rest, VIEW("\"MessageId\":"), &id)) {
        uint32_t at = number_of(index);
        if (at >= client->entry_count)
            fatal("an entry that was not sent: %.*s", (int)reply->body.size, reply->body.ptr);
        record_sent(&client->campaign->record, client->entries[at], digest_of(id));
        accepted++;
    }
    if (reply->status != 200 || accepted != client->entry_count)
        fatal("a send was refused: %.*s", (int)reply->body.size, reply->body.ptr);
    client->next += client->entry_count;
}

/* --- A worker ------------------------------------------------------------------------------------------------------- */

static void ask_receive(struct client *client)
{
    struct text body;
    text_init(&body);
    queue_url_write(&body, client->campaign);
    text_append_format(&body, ",\"MaxNumberOfMessages\":%d,\"WaitTimeSeconds\":%d}", RECEIVE_MAX, WAIT_S);
    request_write(&client->request, "AmazonSQS.ReceiveMessage", text_view(&body));
    text_deinit(&body);
    client->step = STEP_RECEIVE;
    client->held_count = 0;
}

/* Those of one group follow each other in a receive. Where one fails, nobody may go on with those behind it: they are left
 * alone, or deleted with handles that must be dead, to see that they are. */
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
    struct view rest = reply->body, id, handle, body;
    struct delivery deliveries[RECEIVE_MAX];
    uint32_t ids[RECEIVE_MAX];
    unsigned count = 0;
    if (reply->status != 200)
        fatal("a receive was refused: %.*s", (int)reply->body.size, reply->body.ptr);
    while (count < RECEIVE_MAX && value_next(&rest, VIEW("\"MessageId\":"), &id) &&
           value_next(&rest, VIEW("\"ReceiptHandle\":"), &handle) && value_next(&rest, VIEW("\"Body\":"), &body)) {
        ids[count] = digest_of(id);
        deliveries[count] = (struct delivery){.message = number_of(body)};
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
    request_write(&client->request, held->fate == FATE_FAIL ? "Tally.FailMessage" : "AmazonSQS.ChangeMessageVisibility",
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
    if (reply->status != 200 && reply->status != 400)
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
    request_write(&client->request, "AmazonSQS.DeleteMessageBatch", text_view(&body));
    text_deinit(&body);
    client->step = STEP_DELETE;
    return client->entry_count > 0;
}

static const struct held *deleted_at(const struct client *client, struct view index)
{
    uint32_t at = number_of(index);
    if (at >= client->entry_count)
        fatal("an entry that was not asked for: %.*s", (int)index.size, index.ptr);
    return &client->held[client->entries[at]];
}

static void answer_delete(struct client *client, const struct http_message *reply)
{
    struct record *record = &client->campaign->record;
    struct view rest = part_of(reply->body, SUCCESSFUL, FAILED), index;
    unsigned answered = 0;
    while (value_next(&rest, VIEW("\"Id\":"), &index)) {
        const struct held *held = deleted_at(client, index);
        record_end_acknowledged(record, held->delivery, held->fate == FATE_PROBE);
        answered++;
    }
    rest = part_of(reply->body, FAILED, SUCCESSFUL);
    while (value_next(&rest, VIEW("\"Id\":"), &index)) {
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

/* --- A client ------------------------------------------------------------------------------------------------------- */

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
        write_all(client->fd, text_view(&client->request));
}

bool client_connect(struct client *client)
{
    client->fd = connect_to(client->campaign->port);
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
    if (!read_more(client->fd, &client->in)) {
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
