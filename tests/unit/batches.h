/* What the scenarios of batches share: their queues, batches whose targets are all in "done", the ways in which units
 * end, and what must be told of a batch. */
#ifndef TALLY_TESTS_UNIT_BATCHES_H
#define TALLY_TESTS_UNIT_BATCHES_H

#include "scenario.h"

/* Queues "jobs", "frail" (to "dead" after 3 attempts), "dead" and "done". */
static inline void make_queues(struct world *world)
{
    world_create_queue(world, "done", "");
    world_create_queue(world, "dead", "");
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "frail",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':3}'");
}

/* A batch with all three targets in "done". */
static inline void make_batch(struct world *world, const char *batch, const char *more)
{
    struct answer answer =
        world_call(world, "Tally.CreateBatch",
                   "{'BatchId':'%s','OnComplete':{'QueueUrl':'done'},'OnSuccess':{'QueueUrl':'done'},"
                   "'OnFirstFailure':{'QueueUrl':'done'}%s}",
                   batch, more);
    EXPECT(world, answer.error == NULL);
}

static inline struct answer seal(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static inline struct answer describe(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static inline void expect_counts(struct world *world, const char *batch, uint64_t succeeded, uint64_t failed,
                                 uint64_t cancelled, uint64_t remaining)
{
    struct answer answer = describe(world, batch);
    EXPECT(world, answer_number(answer, "Total") == succeeded + failed + cancelled + remaining);
    EXPECT(world, answer_number(answer, "Succeeded") == succeeded);
    EXPECT(world, answer_number(answer, "Failed") == failed);
    EXPECT(world, answer_number(answer, "Cancelled") == cancelled);
    EXPECT(world, answer_number(answer, "Remaining") == remaining);
}

static inline void expect_status(struct world *world, const char *batch, const char *status)
{
    struct answer answer = describe(world, batch);
    EXPECT(world,
           strcmp(answer_text(answer, "State"), status[0] == '\0' ? answer_text(answer, "State") : "completed") == 0);
    EXPECT(world, strcmp(answer_text(answer, "Status"), status) == 0);
}

/* One complete and, if `is_success`, one success behind it; the id is the one DescribeBatch tells. */
static inline void expect_completion(struct world *world, const char *batch, bool is_success)
{
    struct answer answer = describe(world, batch);
    char id[WORLD_ID_SIZE];
    snprintf(id, sizeof(id), "%s", answer_text(answer, "CompletionMessageId"));
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == is_success && completions.other == 0);
    EXPECT(world, strcmp(completions.id, id) == 0);
    const char *complete = strchr(completions.order, 'c');
    EXPECT(world, !is_success || strcmp(complete, "cs") == 0); /* invariant B12 */
    EXPECT(world, world_count_messages(world, "done") == 0);
}

/* Sends `count` messages of a batch. */
static inline void send_units_to(struct world *world, const char *queue, const char *batch, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char body[32];
        snprintf(body, sizeof(body), "unit %u", i);
        struct answer answer = world_send(world, queue, batch, body);
        EXPECT(world, answer.error == NULL);
    }
}

static inline void send_units(struct world *world, const char *batch, unsigned count)
{
    send_units_to(world, "jobs", batch, count);
}

/* Ends an attempt: the message is visible again at once. */
static inline void give_back(struct world *world, const char *queue, const char *handle)
{
    struct answer answer = world_call(world, "ChangeMessageVisibility",
                                      "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':0}", queue, handle);
    EXPECT(world, answer.error == NULL);
}

/* Receives and gives back what "frail" holds until all of it is in the dead-letter queue. */
static inline void fail_all(struct world *world)
{
    for (unsigned i = 0; i < 100; i++) {
        struct taken taken[10];
        unsigned count = world_take(world, "frail", 1, 10, taken);
        for (unsigned k = 0; k < count; k++)
            give_back(world, "frail", taken[k].handle);
        if (count == 0 && world_count_messages(world, "frail") == 0)
            return;
        if (count == 0)
            world_pass_time(world, 1000);
    }
    EXPECT(world, false);
}

static inline struct answer complete_unit(struct world *world, const char *batch, const char *unit, const char *status)
{
    return world_call(world, "Tally.CompleteUnits", "{'BatchId':'%s','Units':[{'Unit':'%s','Status':'%s'}]}", batch,
                      unit, status);
}

#endif
