/* tally_call(): one action, tried until it is answered or trying again would be wrong or useless. */
#include "base/assert.h"
#include "base/memory.h"
#include "client/client.h"
#include "client/outgoing.h"
#include <stdlib.h>
#include <time.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 2000

/* Actions for which doing it twice does what doing it once does, so that a lost answer may be asked for again. */
static const struct repeatable {
    const char *target;
    const char *member; /* only where the body has this member; NULL: always */
} repeatables[] = {
    {"AmazonSQS.CreateQueue", NULL},
    {"AmazonSQS.GetQueueUrl", NULL},
    {"AmazonSQS.ListQueues", NULL},
    {"AmazonSQS.DeleteQueue", NULL},
    {"AmazonSQS.GetQueueAttributes", NULL},
    {"AmazonSQS.SetQueueAttributes", NULL},
    {"AmazonSQS.ReceiveMessage", NULL}, /* what the lost answer held comes back by its visibility timeout */
    {"AmazonSQS.DeleteMessage", NULL},
    {"AmazonSQS.DeleteMessageBatch", NULL},
    {"AmazonSQS.ChangeMessageVisibility", NULL},
    {"AmazonSQS.ChangeMessageVisibilityBatch", NULL},
    {"AmazonSQS.ListDeadLetterSourceQueues", NULL},
    {"AmazonSQS.ListMessageMoveTasks", NULL},
    {"AmazonSQS.TagQueue", NULL},
    {"AmazonSQS.UntagQueue", NULL},
    {"AmazonSQS.ListQueueTags", NULL},
    {"Tally.CreateBatch", "BatchId"},
    {"Tally.AddUnits", NULL},
    {"Tally.CompleteUnits", NULL},
    {"Tally.XorUnits", "RequestToken"},
    {"Tally.SealBatch", NULL},
    {"Tally.CancelBatch", NULL},
    {"Tally.DescribeBatch", NULL},
    {"Tally.ListBatches", NULL},
    {"Tally.ListUnits", NULL},
    {"Tally.DeleteBatch", NULL},
    {"Tally.FailMessage", NULL}, /* a handle fails its message once */
    {"Tally.ExplainMessage", NULL},
    {"Tally.GetSeries", NULL},
    {"Tally.ListMessages", NULL},
    {"Tally.ListInFlight", NULL},
    {"Tally.ListDependents", NULL},
    {"Tally.GetMessage", NULL},
    {"Tally.FindMessage", NULL},
    {"Tally.SummarizeFailures", NULL},
    {"Tally.ListQueueStats", NULL},
    {"Tally.ListGroups", NULL},
    {"Tally.PauseGroup", NULL},
    {"Tally.ResumeGroup", NULL},
    {"Tally.PauseQueue", NULL},
    {"Tally.ResumeQueue", NULL},
    {"Tally.PutTypeOrder", NULL},
    {"Tally.ListTypeOrders", NULL},
    {"Tally.DeleteTypeOrder", NULL},
    {"Tally.PutSchedule", NULL},
    {"Tally.ListSchedules", NULL},
    {"Tally.DescribeSchedule", NULL},
    {"Tally.DeleteSchedule", NULL},
    {"Tally.CreateRelay", NULL},
    {"Tally.DescribeRelay", NULL},
    {"Tally.ListRelays", NULL},
    {"Tally.PauseRelay", NULL},
    {"Tally.ResumeRelay", NULL},
    {"Tally.DeleteRelay", NULL},
    {"Tally.ListDoubts", NULL},
    {"Tally.ResolveDoubt", NULL},
    {"Tally.CreatePool", NULL},
    {"Tally.UpdatePool", NULL},
    {"Tally.DescribePool", NULL},
    {"Tally.ListPools", NULL},
    {"Tally.OfferTickets", NULL}, /* a ticket is offered once */
    {"Tally.CancelTickets", NULL},
    {"Tally.GetTicket", NULL},
    {"Tally.ListTickets", NULL},
    {"Tally.CountTickets", NULL},
    {"Tally.OpenPublisher", NULL},
    {"Tally.Publish", NULL}, /* the last batch again is answered as it was */
    {"Tally.DescribeServer", NULL},
    {"Tally.DescribeBackup", NULL},
    {"Tally.FeedEvents", NULL},
    {"Tally.FeedTickets", NULL},
    {"Tally.ProposeMatches", NULL}, /* a proposal is accepted once, and what was refused may be by now */
    {"Tally.PutBackMatch", NULL},
    {"Tally.ExplainTicket", NULL},
};

static bool has_member(const char *body, const char *name)
{
    yyjson_doc *doc = json_read(body, strlen(body));
    bool has = yyjson_obj_get(yyjson_doc_get_root(doc), name) != NULL;
    yyjson_doc_free(doc);
    return has;
}

static bool is_send(const char *target)
{
    return strcmp(target, "AmazonSQS.SendMessage") == 0 || strcmp(target, "AmazonSQS.SendMessageBatch") == 0;
}

/* Will the server tell a repeat of each message in this request from a second one? */
static bool is_recognised_send(const char *body)
{
    yyjson_doc *doc = json_read(body, strlen(body));
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *entries = yyjson_obj_get(root, "Entries");
    bool is_recognised = entries != NULL || outgoing_is_recognised(root);
    size_t i, max;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, i, max, entry)
    {
        is_recognised = is_recognised && outgoing_is_recognised(entry);
    }
    yyjson_doc_free(doc);
    return is_recognised;
}

static bool is_repeatable(const struct tally_client *client, const char *target, const char *body)
{
    if (is_send(target))
        return client->repeats_sends || is_recognised_send(body);
    for (size_t i = 0; i < ARRAY_LENGTH(repeatables); i++) {
        const struct repeatable *row = &repeatables[i];
        if (strcmp(row->target, target) == 0)
            return row->member == NULL || has_member(body, row->member);
    }
    return false;
}

/* Whether another try may come to another end, and may be made. */
static bool should_repeat(enum transport_result result, const struct transport_answer *answer, bool repeatable)
{
    switch (result) {
    case TRANSPORT_NOT_SENT:
        return !answer->is_not_tls;
    case TRANSPORT_LOST:
        return repeatable;
    case TRANSPORT_ANSWERED:
        return answer->status == 503 || (answer->status >= 500 && repeatable);
    case TRANSPORT_INTERRUPTED:
        return false;
    }
    return false;
}

/* The pause before try number `attempt` (from 1): doubling, shortened by up to a half at random, so that many clients
 * of a server that comes back do not come all at once. */
static unsigned pause_before(struct tally_client *client, unsigned attempt)
{
    unsigned pause_ms = PAUSE_MAX_MS;
    if (attempt < 7 && (PAUSE_FIRST_MS << (attempt - 1)) < PAUSE_MAX_MS)
        pause_ms = PAUSE_FIRST_MS << (attempt - 1);
    return pause_ms - (unsigned)(client_random(client) % (pause_ms / 2 + 1));
}

/* Was the request refused for the time of its signature? Amazon's servers say it in the same words, as an error that a
 * wrong secret has, too. They look at the time first. */
static bool is_clock_error(const struct tally_error *error)
{
    static const char *const beginnings[] = {"Signature expired: ", "Signature not yet current: "};
    if (strcmp(error->code, "InvalidSignatureException") != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(beginnings); i++)
        if (strncmp(error->message, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* Says by how much the clock here is off, if the answer has a Date. */
static void tell_clock(struct tally_error *error, const struct transport_answer *answer)
{
    const int64_t ahead_s = (int64_t)time(NULL) - answer->date_s;
    if (answer->date_s >= 0)
        snprintf(error->message, sizeof error->message,
                 "the clock here is %lld minutes %s that of the server, which allows 15: set it right",
                 (long long)((ahead_s < 0 ? -ahead_s : ahead_s) + 30) / 60, ahead_s > 0 ? "ahead of" : "behind");
}

/* An error of the protocol: {"__type": "prefix#Code", "message": "…"}. */
static enum tally_status fail_refused(struct tally_client *client, const char *target,
                                      const struct transport_answer *answer, struct bytes text)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *type = json_text(root, "__type");
    const char *message = json_text(root, "message");

    if (message == NULL)
        message = json_text(root, "Message");
    if (type == NULL) {
        client_fail_stranger(client, target, answer->status, text);
    } else {
        const char *code = strrchr(type, '#');
        client_fail(client, TALLY_REFUSED, code == NULL ? type : code + 1, "%s",
                    message == NULL ? "(the server gave no text)" : message);
        client->is_clock_off = is_clock_error(&client->error);
        if (client->is_clock_off)
            tell_clock(&client->error, answer);
    }
    client->error.http_status = answer->status;
    yyjson_doc_free(doc);
    return client->error.status;
}

/* Hands the body of a good answer over to `reply`, which may be NULL. */
static enum tally_status take_reply(struct tally_client *client, const char *target,
                                    const struct transport_answer *answer, struct buffer *text,
                                    struct tally_reply *reply)
{
    yyjson_doc *doc = NULL;
    size_t size = text->size;
    const int http_status = answer->status;

    if (size > 0) {
        doc = json_read(text->data_owned, size);
        if (!yyjson_is_obj(yyjson_doc_get_root(doc))) {
            yyjson_doc_free(doc);
            if (!answer->has_request_id)
                return client_fail_stranger(client, target, http_status, buffer_bytes(text));
            /* The server's own answers have messages in them. */
            client_fail(client, TALLY_GARBLED, "Garbled", "%s answered %s with something that is no JSON object",
                        client->endpoint_owned, target);
            client->error.http_status = http_status;
            return TALLY_GARBLED;
        }
    }
    client->error = (struct tally_error){.status = TALLY_OK, .http_status = http_status};
    if (reply == NULL) {
        yyjson_doc_free(doc);
        return TALLY_OK;
    }
    buffer_append_u8(text, 0);
    *reply = (struct tally_reply){
        .http_status = http_status,
        .body_owned = (char *)text->data_owned,
        .body_size = size,
        .json_owned = doc,
    };
    buffer_init(text); /* its memory is the reply's now */
    return TALLY_OK;
}

static enum tally_status fail_transport(struct tally_client *client, enum transport_result result, const char *target,
                                        const struct transport_answer *answer)
{
    const char *reason = answer->reason;
    if (result == TRANSPORT_INTERRUPTED)
        client_fail(client, TALLY_INTERRUPTED, "Interrupted", "%s was interrupted", target);
    else if (answer->is_not_tls)
        client_fail(client, TALLY_UNREACHABLE, "Unreachable",
                    "the server at %s does not answer in TLS. It seems to speak plain HTTP: try http://%s",
                    client->endpoint_owned, client->endpoint_owned + strlen("https://"));
    else if (result == TRANSPORT_NOT_SENT)
        client_fail(client, TALLY_UNREACHABLE, "Unreachable", "can't reach %s: %s. Is tallyd running there?",
                    client->endpoint_owned, reason);
    else
        client_fail(client, TALLY_UNREACHABLE, "Unreachable",
                    "%s took %s but did not answer: %s. It may have been carried out or not", client->endpoint_owned,
                    target, reason);
    return client->error.status;
}

enum tally_status tally_call(struct tally_client *client, const char *target, const char *body,
                             struct tally_reply *reply)
{
    const char *sent_body = body == NULL ? "{}" : body;
    bool repeatable = is_repeatable(client, target, sent_body);
    struct transport_answer answer = {.status = 0};
    enum transport_result result;
    enum tally_status status;
    struct buffer text;
    bool was_lost = false;

    client->has_lost = client->is_clock_off = false;
    buffer_init(&text);
    for (unsigned attempt = 1;; attempt++) {
        buffer_truncate(&text, 0);
        result =
            transport_post(client->transport_owned, target, sent_body, strlen(sent_body), !repeatable, &text, &answer);
        was_lost = was_lost || result == TRANSPORT_LOST || result == TRANSPORT_INTERRUPTED;
        if (result == TRANSPORT_ANSWERED && (answer.status >= 500 || answer.was_sent_again))
            client->has_lost = true;
        client->has_lost = client->has_lost || was_lost;
        if (attempt >= client->attempts_max || !should_repeat(result, &answer, repeatable))
            break;
        if (!transport_sleep(client->transport_owned, pause_before(client, attempt))) {
            result = TRANSPORT_INTERRUPTED;
            break;
        }
    }
    if (result != TRANSPORT_ANSWERED) {
        status = fail_transport(client, result, target, &answer);
        client->error.is_outcome_unknown = was_lost;
    } else if (client->numbers_answers && !answer.has_request_id) {
        status = client_fail_stranger(client, target, answer.status, buffer_bytes(&text));
    } else if (answer.status / 100 == 2) {
        status = take_reply(client, target, &answer, &text, reply);
    } else {
        status = fail_refused(client, target, &answer, buffer_bytes(&text));
    }
    client->numbers_answers = client->numbers_answers || (result == TRANSPORT_ANSWERED && answer.has_request_id);
    buffer_deinit(&text);
    return status;
}

enum tally_status client_get(struct tally_client *client, const char *path, int *http_status, struct buffer *text)
{
    struct transport_answer answer = {.status = 0};
    const enum transport_result result = transport_get(client->transport_owned, path, text, &answer);
    if (result != TRANSPORT_ANSWERED)
        return fail_transport(client, result, path, &answer);
    client->error = (struct tally_error){.status = TALLY_OK, .http_status = answer.status};
    *http_status = answer.status;
    return TALLY_OK;
}

void tally_reply_deinit(struct tally_reply *reply)
{
    yyjson_doc_free(reply->json_owned);
    free(reply->body_owned);
    *reply = (struct tally_reply){.http_status = 0};
}
