/* The client's side of messages and queues. */
#include "support/world.h"

#include "base/assert.h"
#include <stdio.h>
#include <stdlib.h>

static void expect_good(const struct world *world, struct answer answer, const char *what)
{
    if (answer.error == NULL)
        return;
    char text[160];
    fprintf(stderr, "world: %s failed (%s): %s: %s\n", what, world_describe(world, text), answer.error,
            answer_text(answer, "message"));
    abort();
}

void world_create_queue(struct world *world, const char *queue, const char *attributes)
{
    struct answer answer = world_call(world, "CreateQueue", "{'QueueName':'%s','Attributes':{%s}}", queue, attributes);
    expect_good(world, answer, "CreateQueue");
}

struct answer world_send(struct world *world, const char *queue, const char *batch, const char *body)
{
    char attributes[200] = "";
    if (batch != NULL)
        snprintf(attributes, sizeof(attributes),
                 ",'MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'%s'}}", batch);
    const uint64_t sent = core_metrics(world_core(world)).sent;
    struct answer answer = {0};
    while (
        !world_try(world, &answer, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%s'%s}", queue, body, attributes)) {
        if (core_metrics(world_core(world)).sent == sent)
            continue;
        ASSERT(core_metrics(world_core(world)).sent == sent + 1);
        return (struct answer){.status = 200, .is_repeat = true};
    }
    return answer;
}

static void copy_text(char *out, size_t size, const char *text)
{
    ASSERT(text == NULL || strlen(text) < size);
    snprintf(out, size, "%s", text == NULL ? "" : text);
}

static const char *attribute_text(yyjson_val *message, const char *name)
{
    yyjson_val *attributes = yyjson_obj_get(message, "MessageAttributes");
    return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(attributes, name), "StringValue"));
}

static void read_message(yyjson_val *message, struct taken *taken)
{
    *taken = (struct taken){0};
    copy_text(taken->id, sizeof(taken->id), yyjson_get_str(yyjson_obj_get(message, "MessageId")));
    copy_text(taken->handle, sizeof(taken->handle), yyjson_get_str(yyjson_obj_get(message, "ReceiptHandle")));
    copy_text(taken->event, sizeof(taken->event), attribute_text(message, "Tally.Batch.Event"));
    copy_text(taken->of_batch, sizeof(taken->of_batch), attribute_text(message, "Tally.Batch.Completed"));
    const char *body = yyjson_get_str(yyjson_obj_get(message, "Body"));
    snprintf(taken->body, sizeof(taken->body), "%s", body == NULL ? "" : body);
    yyjson_val *system = yyjson_obj_get(message, "Attributes");
    copy_text(taken->deduplication, sizeof(taken->deduplication),
              yyjson_get_str(yyjson_obj_get(system, "MessageDeduplicationId")));
    taken->receive_count = (unsigned)atoi(yyjson_get_str(yyjson_obj_get(system, "ApproximateReceiveCount")));
    taken->sent_at_ms = strtoull(yyjson_get_str(yyjson_obj_get(system, "SentTimestamp")), NULL, 10);
}

unsigned world_take(struct world *world, const char *queue, unsigned timeout_s, unsigned max, struct taken *taken)
{
    const uint64_t delivered = core_metrics(world_core(world)).delivered;
    struct answer answer = {0};
    while (!world_try(world, &answer, "ReceiveMessage",
                      "{'QueueUrl':'%s','MaxNumberOfMessages':%u,'VisibilityTimeout':%u,'WaitTimeSeconds':0,"
                      "'MessageAttributeNames':['All','Tally.*'],'MessageSystemAttributeNames':['All']}",
                      queue, max, timeout_s))
        if (core_metrics(world_core(world)).delivered > delivered)
            world_pass_time(world, (uint64_t)timeout_s * 1000);
    expect_good(world, answer, "ReceiveMessage");
    yyjson_val *messages = yyjson_obj_get(answer.root, "Messages");
    unsigned count = (unsigned)yyjson_arr_size(messages);
    ASSERT(count <= max);
    for (unsigned i = 0; i < count; i++)
        read_message(yyjson_arr_get(messages, i), &taken[i]);
    return count;
}

/* Puts a message among the held ones, in the place of an older delivery of it. True if it is another one. */
static bool hold_one(struct taken *held, unsigned count, const struct taken *taken)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(held[i].id, taken->id) != 0)
            continue;
        held[i] = *taken;
        return false;
    }
    held[count] = *taken;
    return true;
}

void world_hold(struct world *world, const char *queue, unsigned timeout_s, unsigned count, struct taken *held)
{
    unsigned held_count = 0;
    unsigned empty_count = 0;
    while (held_count < count) {
        struct taken taken[10];
        unsigned wanted = count - held_count < 10 ? count - held_count : 10;
        unsigned received = world_take(world, queue, timeout_s, wanted, taken);
        for (unsigned i = 0; i < received; i++)
            held_count += hold_one(held, held_count, &taken[i]);
        if (received == 0)
            world_pass_time(world, (uint64_t)timeout_s * 1000);
        empty_count += received == 0;
        if (empty_count > 100)
            world_give_up(world, "messages to hold don't come");
    }
}

void world_delete(struct world *world, const char *queue, const char *handle)
{
    expect_good(world, world_call(world, "DeleteMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s'}", queue, handle),
                "DeleteMessage");
}

uint64_t world_count_messages(struct world *world, const char *queue)
{
    static const char *const names[] = {"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                                        "ApproximateNumberOfMessagesDelayed"};
    struct answer answer = world_call(world, "GetQueueAttributes", "{'QueueUrl':'%s','AttributeNames':['All']}", queue);
    expect_good(world, answer, "GetQueueAttributes");
    yyjson_val *attributes = yyjson_obj_get(answer.root, "Attributes");
    uint64_t count = 0;
    for (size_t i = 0; i < 3; i++)
        count += strtoull(yyjson_get_str(yyjson_obj_get(attributes, names[i])), NULL, 10);
    return count;
}

static void count_completion(struct completions *completions, const struct taken *taken)
{
    size_t index = strlen(completions->order);
    char letter = '?';
    if (strcmp(taken->event, "complete") == 0) {
        completions->complete++;
        letter = 'c';
        copy_text(completions->id, sizeof(completions->id), taken->id);
        copy_text(completions->body, sizeof(completions->body), taken->body);
    } else if (strcmp(taken->event, "success") == 0) {
        completions->success++;
        letter = 's';
    } else if (strcmp(taken->event, "first-failure") == 0) {
        completions->first_failure++;
        letter = 'f';
    } else {
        completions->other++;
    }
    if (index + 1 < sizeof(completions->order))
        completions->order[index] = letter;
}

struct completions world_drain(struct world *world, const char *queue)
{
    struct completions completions = {0};
    unsigned rounds = 0;
    while (world_count_messages(world, queue) > 0) {
        struct taken taken;
        if (rounds++ > 10000)
            world_give_up(world, "a queue does not get empty");
        if (world_take(world, queue, 30, 1, &taken) == 0) {
            world_pass_time(world, 30000);
            continue;
        }
        count_completion(&completions, &taken);
        world_delete(world, queue, taken.handle);
    }
    return completions;
}
