/* What SQS has for FIFO queues. Source: reference, SQS, 2.1 and 5.2. */
#include "api/queue_attributes.h"

static enum error refuse_value(struct call *call, const struct queue_attribute *attribute, const char *reason)
{
    return call_fail(call, ERROR_INVALID_ATTRIBUTE_VALUE, "Invalid value for the parameter %s. Reason: %s",
                     attribute->name, reason);
}

bool queue_attribute_is_true(struct bytes text)
{
    return bytes_equal(text, BYTES("true")) || bytes_equal(text, BYTES("True"));
}

bool queue_attribute_is_false(struct bytes text)
{
    return bytes_equal(text, BYTES("false")) || bytes_equal(text, BYTES("False"));
}

static struct bytes show_boolean(bool value)
{
    return value ? BYTES("true") : BYTES("false");
}

/* A queue keeps the type that it was created with. */
static enum error read_fifo(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                            struct queue_settings *settings)
{
    (void)settings;
    if (queue_attribute_is_true(value))
        return OK;
    return refuse_value(call, attribute,
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
    if (!queue_attribute_is_true(value) && !queue_attribute_is_false(value))
        return refuse_value(call, attribute, "Must be true or false.");
    settings->is_content_deduplicated = queue_attribute_is_true(value);
    return OK;
}

static struct bytes show_content_based(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return show_boolean(settings->is_content_deduplicated);
}

static enum error read_scope(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                             struct queue_settings *settings)
{
    bool is_group = bytes_equal(value, BYTES("messageGroup"));
    if (!is_group && !bytes_equal(value, BYTES("queue")))
        return refuse_value(call, attribute, "Must be queue or messageGroup.");
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
        return refuse_value(call, attribute, "Must be perQueue or perMessageGroupId.");
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

#define ATTRIBUTE(name, kind, read, show)                                                                              \
    {                                                                                                                  \
        name, kind, read, show, 0, 0, 0, 0                                                                             \
    }
const struct queue_attribute fifo_attributes[] = {
    ATTRIBUTE("FifoQueue", ON_FIFO_UNKNOWN_ELSEWHERE, read_fifo, show_fifo),
    ATTRIBUTE("ContentBasedDeduplication", ON_FIFO_UNKNOWN_ELSEWHERE, read_content_based, show_content_based),
    ATTRIBUTE("DeduplicationScope", ON_FIFO_QUEUES, read_scope, show_scope),
    ATTRIBUTE("FifoThroughputLimit", ON_FIFO_QUEUES, read_limit, show_limit),
};

const size_t fifo_attribute_count = ARRAY_LENGTH(fifo_attributes);
