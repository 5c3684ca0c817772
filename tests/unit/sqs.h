/* What the tests of SQS's actions share: a world with the queue "q", calls that must fail, and texts of answers. */
#ifndef TALLY_TESTS_UNIT_SQS_H
#define TALLY_TESTS_UNIT_SQS_H

#include "scenario.h"

static inline struct world *sqs_open(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 1, .segment_size = 8u << 20, .frame_size_max = 3u << 20});
    world_create_queue(world, "q", "");
    return world;
}

static inline void sqs_close(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

/* `body` as world_call() takes it; `text` stands somewhere in the message. */
static inline void sqs_expect_error(struct world *world, const char *action, const char *body, const char *error,
                                    const char *text)
{
    struct answer answer = world_call(world, action, "%s", body);
    const char *message = answer_text(answer, "message");
    if (!answer_fails(answer, error) || strstr(message, text) == NULL)
        fail_msg("%s %s: expected %s (%s), got %s (%s)", action, body, error, text,
                 answer.error == NULL ? "OK" : answer.error, message);
}

/* Must go well. */
static inline struct answer sqs_call(struct world *world, const char *action, const char *body)
{
    struct answer answer = world_call(world, action, "%s", body);
    if (answer.error != NULL)
        fail_msg("%s %s: %s (%s)", action, body, answer.error, answer_text(answer, "message"));
    return answer;
}

static inline const char *sqs_text(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

/* The value of an attribute of a queue that GetQueueAttributes shows to who asks for `asked`; NULL: it shows none. */
static inline const char *sqs_attribute(struct world *world, const char *queue, const char *asked, const char *name)
{
    struct answer answer =
        world_call(world, "GetQueueAttributes", "{'QueueUrl':'%s','AttributeNames':['%s']}", queue, asked);
    EXPECT(world, answer.error == NULL);
    return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(answer.root, "Attributes"), name));
}

/* The attribute has this value, also among all of them; NULL: none. */
static inline void sqs_expect_attribute(struct world *world, const char *queue, const char *name, const char *value)
{
    const char *const asked[] = {name, "All"};
    const char *expected = value == NULL ? "nothing" : value;
    for (size_t i = 0; i < ARRAY_LENGTH(asked); i++) {
        const char *shown = sqs_attribute(world, queue, asked[i], name);
        shown = shown == NULL ? "nothing" : shown;
        if (strcmp(shown, expected) != 0)
            fail_msg("%s of %s, asked for %s: expected %s, got %s", name, queue, asked[i], expected, shown);
    }
}

static inline struct answer sqs_set(struct world *world, const char *queue, const char *attributes)
{
    return world_call(world, "SetQueueAttributes", "{'QueueUrl':'%s','Attributes':{%s}}", queue, attributes);
}

#endif
