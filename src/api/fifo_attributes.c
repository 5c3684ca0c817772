/* SQS's attributes of FIFO queues. Source: reference, SQS, 2.1 and 5.2. */
#include "api/queue_attributes.h"

/* A queue keeps the type with which it was created. */
static enum error read_fifo(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                            struct queue_settings *settings)
{
    (void)settings;
    if (queue_attribute_is_true(value))
        return OK;
    return queue_attribute_refuse(call, attribute,
                                  queue_attribute_is_false(value) ? "Modifying queue type is not supported."
                                                                  : "Must be true or false.");
}

static struct bytes show_fifo(struct arena *arena, const struct queue_attribute *attribute,
                              const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return settings->is_fifo ? BYTES("true") : bytes_make(NULL, 0);
}

static enum error read_content_based(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                     struct queue_settings *settings)
{
    return queue_attribute_read_boolean(call, attribute, value, &settings->is_content_deduplicated);
}

static struct bytes show_content_based(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return queue_attribute_show_boolean(settings->is_content_deduplicated);
}

static enum error read_scope(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                             struct queue_settings *settings)
{
    bool is_group = bytes_equal(value, BYTES("messageGroup"));
    if (!is_group && !bytes_equal(value, BYTES("queue")))
        return queue_attribute_refuse(call, attribute, "Must be queue or messageGroup.");
    settings->deduplication_scope = is_group ? SCOPE_GROUP : SCOPE_QUEUE;
    return OK;
}

static struct bytes show_scope(struct arena *arena, const struct queue_attribute *attribute,
                               const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return settings->deduplication_scope == SCOPE_GROUP ? BYTES("messageGroup") : BYTES("queue");
}

static enum error read_limit(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                             struct queue_settings *settings)
{
    bool is_per_group = bytes_equal(value, BYTES("perMessageGroupId"));
    if (!is_per_group && !bytes_equal(value, BYTES("perQueue")))
        return queue_attribute_refuse(call, attribute, "Must be perQueue or perMessageGroupId.");
    settings->is_limit_per_group = is_per_group;
    return OK;
}

static struct bytes show_limit(struct arena *arena, const struct queue_attribute *attribute,
                               const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return settings->is_limit_per_group ? BYTES("perMessageGroupId") : BYTES("perQueue");
}

const struct queue_attribute fifo_attributes[] = {
    {.name = "FifoQueue", .kind = ON_FIFO_UNKNOWN_ELSEWHERE, .read = read_fifo, .show = show_fifo},
    {.name = "ContentBasedDeduplication",
     .kind = ON_FIFO_UNKNOWN_ELSEWHERE,
     .read = read_content_based,
     .show = show_content_based},
    {.name = "DeduplicationScope", .kind = ON_FIFO_QUEUES, .read = read_scope, .show = show_scope},
    {.name = "FifoThroughputLimit", .kind = ON_FIFO_QUEUES, .read = read_limit, .show = show_limit},
};

const size_t fifo_attribute_count = ARRAY_LENGTH(fifo_attributes);
