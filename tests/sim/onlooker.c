#include "onlooker.h"

#include "api/action.h"
#include "api/api.h"
#include "core/core.h"
#include "engine/namespace.h"
#include "fail.h"
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

/* What an onlooker asks: an action and its parameters, with ' for ". "@" and a letter stand for something that is drawn
 * each time; its kinds are:
 *   q a queue's name   u its URL   a its ARN   m a MessageId   g a MessageGroupId   b a BatchId
 *   p a pool   t a ticket   c MaxResults or nothing   n NextToken or nothing
 * No letter of q, m, g, b, p and t is known here (struct onlooker_names). */
struct row {
    const char *target;
    const char *parameters;
};

static const struct row rows[] = {
    {"AmazonSQS.GetQueueUrl", "'QueueName':'@q'"},
    {"AmazonSQS.ListQueues", "'QueueNamePrefix':'q'@c@n"},
    {"AmazonSQS.GetQueueAttributes", "'QueueUrl':'@u','AttributeNames':['All']"},
    {"AmazonSQS.ListQueueTags", "'QueueUrl':'@u'"},
    {"AmazonSQS.ListDeadLetterSourceQueues", "'QueueUrl':'@u'@c@n"},
    {"AmazonSQS.ListMessageMoveTasks", "'SourceArn':'@a','MaxResults':10"},
    {"Tally.DescribeBatch", "'BatchId':'@b'"},
    {"Tally.ListBatches", "'Prefix':'b'@c@n"},
    {"Tally.ListBatches", "'State':'open'@c@n"},
    {"Tally.ListUnits", "'BatchId':'@b'@c@n"},
    {"Tally.ListUnits", "'BatchId':'@b','State':'failed'@c@n"},
    {"Tally.ListTypeOrders", ""},
    {"Tally.DescribeSchedule", "'Name':'s'"},
    {"Tally.ListSchedules", ""},
    {"Tally.DescribeRelay", "'RelayName':'r'"},
    {"Tally.ListRelays", ""},
    {"Tally.ListDoubts", "'RelayName':'r'"},
    {"Tally.ListGroups", "'QueueUrl':'@u'@c@n"},
    {"Tally.ListGroups", "'QueueUrl':'@u','State':'held'@c@n"},
    {"Tally.ListGroups", "'QueueUrl':'@u','State':'paused'@c@n"},
    {"Tally.ListGroups", "'QueueUrl':'@u','State':'ready'@c@n"},
    {"Tally.ListGroups", "'QueueUrl':'@u','State':'busy'@c@n"},
    {"Tally.ExplainMessage", "'QueueUrl':'@u','MessageId':'@m'"},
    {"Tally.GetMessage", "'MessageId':'@m'"},
    {"Tally.ListMessages", "'QueueUrl':'@u','Body':'full'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','State':'ready','Body':'preview'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','State':'delayed'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','State':'in-flight','Body':'none'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','State':'blocked'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','State':'held'@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','MessageGroupId':'@g','OlderThan':1@c@n"},
    {"Tally.ListMessages", "'QueueUrl':'@u','BatchId':'@b','Reason':'reason'@c@n"},
    {"Tally.GetSeries", "'QueueUrl':'@u','Period':5,'Points':9"},
    {"Tally.GetSeries", "'Period':60"},
    {"Tally.ListInFlight", "'QueueUrl':'@u'@c@n"},
    {"Tally.ListInFlight", "'Worker':'one'@c@n"},
    {"Tally.ListDependents", "'MessageId':'@m'@c@n"},
    {"Tally.ListDependents", "'BatchId':'@b'@c@n"},
    {"Tally.ListQueueStats", "'QueueNamePrefix':'q'@c@n"},
    {"Tally.ListQueueStats", "'SortBy':'name'@c@n"},
    {"Tally.ListQueueStats", "'SortBy':'age'@c@n"},
    {"Tally.ListQueueStats", "'SortBy':'visible'@c@n"},
    {"Tally.FindMessage", "'MessageId':'@m'"},
    {"Tally.FindMessage", "'QueueUrl':'@u','MessageDeduplicationId':'d1'@n"},
    {"Tally.FindMessage", "'QueueUrl':'@u','Producer':'p1','Sequence':3@n"},
    {"Tally.FindMessage", "'OutboxId':'00000000-0000-0000-0000-000000000005'@n"},
    {"Tally.SummarizeFailures", "'QueueUrl':'@u'"},
    {"Tally.DescribeServer", ""},
    {"Tally.DescribeBackup", ""},
    {"Tally.FeedEvents", "'After':0,'WaitTimeSeconds':0"},
    {"Tally.DescribePool", "'PoolName':'@p'"},
    {"Tally.ListPools", ""},
    {"Tally.GetTicket", "'PoolName':'@p','TicketId':'@t'"},
    {"Tally.ListTickets", "'PoolName':'@p'@c@n"},
    {"Tally.CountTickets", "'PoolName':'@p'"},
    {"Tally.ExplainTicket", "'PoolName':'@p','TicketId':'@t'"},
    {"Tally.FeedTickets", "'PoolName':'@p','From':0,'MaxResults':3"},
    /* dry runs */
    {"AmazonSQS.StartMessageMoveTask", "'SourceArn':'@a','DryRun':true"},
    {"AmazonSQS.StartMessageMoveTask", "'SourceArn':'@a','MessageIds':['@m','@m'],'DryRun':true"},
    {"AmazonSQS.StartMessageMoveTask", "'SourceArn':'@a','DestinationArn':'@a','Reason':'reason','DryRun':true"},
    {"Tally.DeleteMessages", "'QueueUrl':'@u','MessageIds':['@m','@m'],'DryRun':true"},
    {"Tally.DeleteMessages", "'QueueUrl':'@u','MessageGroupId':'@g','MaxMessages':3,'DryRun':true"},
    {"Tally.DeleteMessages", "'QueueUrl':'@u','SentAfter':1,'DryRun':true"},
    {"AmazonSQS.PurgeQueue", "'QueueUrl':'@u','DryRun':true"},
    {"AmazonSQS.DeleteQueue", "'QueueUrl':'@u','DryRun':true"},
    {"Tally.ReleaseGroup", "'QueueUrl':'@u','MessageGroupId':'@g','Action':'retry','DryRun':true"},
    {"Tally.ReleaseGroup", "'QueueUrl':'@u','MessageGroupId':'@g','Action':'skip','DryRun':true"},
    {"Tally.ReleaseGroup", "'QueueUrl':'@u','MessageGroupId':'@g','Action':'cancel-rest','DryRun':true"},
    {"Tally.ReleaseMessage", "'MessageId':'@m','DryRun':true"},
    {"Tally.CancelBatch", "'BatchId':'@b','DryRun':true"},
};

static_assert(ARRAY_LENGTH(rows) <= ONLOOKER_ROWS_MAX, "Each row has a place for its NextToken.");

const char *onlooker_find_forgotten(void)
{
    for (size_t i = 0; i < action_count; i++) {
        size_t row = 0;
        while (row < ARRAY_LENGTH(rows) && strcmp(rows[row].target, actions[i].target) != 0)
            row++;
        if (actions[i].growth == GROWTH_READS && row == ARRAY_LENGTH(rows))
            return actions[i].target;
    }
    return NULL;
}

void onlooker_init(struct onlooker *onlooker, struct random random, struct onlooker_names names)
{
    *onlooker = (struct onlooker){.random = random, .names = names};
    exchange_init(&onlooker->exchange);
    buffer_init(&onlooker->body);
    buffer_init(&onlooker->before);
    buffer_init(&onlooker->after);
}

void onlooker_deinit(struct onlooker *onlooker)
{
    exchange_deinit(&onlooker->exchange);
    buffer_deinit(&onlooker->body);
    buffer_deinit(&onlooker->before);
    buffer_deinit(&onlooker->after);
}

/* --- one request -------------------------------------------------------------------------------------------------- */

static void write_name(struct onlooker *onlooker, char kind)
{
    onlooker->names.write(onlooker->names.context, kind, &onlooker->random, &onlooker->body);
}

static void write_drawn(struct onlooker *onlooker, size_t row, char kind)
{
    struct buffer *body = &onlooker->body;
    const char *token = onlooker->tokens[row];
    switch (kind) {
    case 'u':
        buffer_append_format(body, "http://sim/000000000000/");
        write_name(onlooker, 'q');
        break;
    case 'a':
        buffer_append_format(body, "arn:aws:sqs:sim:000000000000:");
        write_name(onlooker, 'q');
        break;
    case 'c':
        if (random_chance(&onlooker->random, 70))
            buffer_append_format(body, ",\"MaxResults\":%u", random_between(&onlooker->random, 1, 4));
        break;
    case 'n':
        if (token[0] != '\0' && random_chance(&onlooker->random, 80))
            buffer_append_format(body, ",\"NextToken\":\"%s\"", token);
        break;
    default:
        write_name(onlooker, kind);
        break;
    }
}

static void write_request(struct onlooker *onlooker, size_t row)
{
    buffer_truncate(&onlooker->body, 0);
    buffer_append_u8(&onlooker->body, '{');
    for (const char *at = rows[row].parameters; *at != '\0'; at++)
        if (*at == '@')
            write_drawn(onlooker, row, *++at);
        else
            buffer_append_u8(&onlooker->body, *at == '\'' ? '"' : (uint8_t)*at);
    buffer_append_u8(&onlooker->body, '}');
}

/* The next page is looked at when this row's turn comes again. */
static void learn_token(struct onlooker *onlooker, size_t row)
{
    const struct buffer *body = &onlooker->exchange.reply.body;
    char *token = onlooker->tokens[row];
    token[0] = '\0';
    if (strstr(rows[row].parameters, "@n") == NULL || body->size == 0)
        return;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    const char *next = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "NextToken"));
    if (next != NULL && strlen(next) < ONLOOKER_TOKEN_SIZE)
        snprintf(token, ONLOOKER_TOKEN_SIZE, "%s", next);
    yyjson_doc_free(doc);
}

static void ask(struct onlooker *onlooker, struct front *front, size_t row, uint64_t now_ms)
{
    struct exchange *exchange = &onlooker->exchange;
    exchange_reset(exchange);
    write_request(onlooker, row);
    exchange->request = (struct request){
        .method = BYTES("POST"),
        .path = BYTES("/"),
        .host = BYTES("sim"),
        .target = bytes_from_string(rows[row].target),
        .body = buffer_bytes(&onlooker->body),
    };
    front_submit(front, exchange, now_ms);
    if (front_take_finished(front) != exchange)
        fail("%s %.*s was not answered at once, or another request was", rows[row].target,
             BYTES_FORMAT(buffer_bytes(&onlooker->body)));
    if (exchange->reply.error == ERROR_INTERNAL_FAILURE)
        fail("%s %.*s is answered with an internal error", rows[row].target,
             BYTES_FORMAT(buffer_bytes(&onlooker->body)));
    onlooker->looks++;
    onlooker->refused += exchange->reply.error != OK;
    learn_token(onlooker, row);
}

/* --- nothing has changed ------------------------------------------------------------------------------------------ */

static void append_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

/* The state; and what is counted for people, which is no part of it. */
static void encode(const struct core *core, struct buffer *out)
{
    buffer_truncate(out, 0);
    core_encode(core, append_piece, out);
    for (int counter = 0; counter < QUEUE_COUNTER_COUNT; counter++)
        buffer_append_u64(out, core_counted(core, (enum queue_counter)counter));
}

static void compare(const struct onlooker *onlooker, size_t row, const struct namespace *ns, uint64_t sequence,
                    uint64_t time_ms)
{
    const char *what = namespace_hold_sequence(ns) != sequence ? "has written into the log"
                       : namespace_time(ns) != time_ms         ? "has moved time"
                       : !bytes_equal(buffer_bytes(&onlooker->before), buffer_bytes(&onlooker->after))
                           ? "has changed the state"
                           : NULL;
    if (what != NULL)
        fail("looking %s: %s %.*s", what, rows[row].target, BYTES_FORMAT(buffer_bytes(&onlooker->body)));
}

static void look(struct onlooker *onlooker, struct front *front, struct namespace *ns, size_t row)
{
    const uint64_t time_ms = namespace_time(ns), sequence = namespace_hold_sequence(ns);
    ask(onlooker, front, row, time_ms);
    encode(namespace_core(ns), &onlooker->after);
    compare(onlooker, row, ns, sequence, time_ms);
}

void onlooker_look(struct onlooker *onlooker, struct front *front, struct namespace *ns, unsigned looks)
{
    encode(namespace_core(ns), &onlooker->before);
    for (unsigned i = 0; i < looks; i++)
        look(onlooker, front, ns, random_below(&onlooker->random, ARRAY_LENGTH(rows)));
}

void onlooker_look_at_all(struct onlooker *onlooker, struct front *front, struct namespace *ns)
{
    encode(namespace_core(ns), &onlooker->before);
    for (size_t row = 0; row < ARRAY_LENGTH(rows); row++)
        look(onlooker, front, ns, row);
}
