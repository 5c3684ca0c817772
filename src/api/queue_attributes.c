#include "api/queue_attributes.h"

#include "api/text.h"
#include "core/messages/message_list.h"
#include <stdio.h>

/* --- attributes that are a number of struct queue_settings -------------------------------------------------------- */

static uint32_t *numeric_value(struct queue_settings *settings, const struct queue_attribute *attribute)
{
    return (uint32_t *)(void *)((char *)settings + attribute->offset);
}

static enum error read_numeric(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                               struct queue_settings *settings)
{
    uint64_t number;
    if (!bytes_to_u64(value, &number) || number < attribute->min || number > attribute->max)
        return call_fail(call, ERROR_INVALID_ATTRIBUTE_VALUE,
                         "Invalid value for the parameter %s. Reason: Must be an integer from %u to %u.",
                         attribute->name, attribute->min, attribute->max);
    *numeric_value(settings, attribute) = (uint32_t)number;
    return OK;
}

static struct bytes show_numeric(struct arena *arena, const struct queue_attribute *attribute,
                                 const struct queue_settings *settings, bool is_named)
{
    (void)is_named;
    struct queue_settings copy = *settings;
    return arena_format(arena, "%u", *numeric_value(&copy, attribute));
}

/* SQS does not show it while it has its first value, even if it is asked for by name. */
static struct bytes show_numeric_unless_initial(struct arena *arena, const struct queue_attribute *attribute,
                                                const struct queue_settings *settings, bool is_named)
{
    struct queue_settings copy = *settings;
    return *numeric_value(&copy, attribute) == attribute->initial ? bytes_make(NULL, 0)
                                                                  : show_numeric(arena, attribute, settings, is_named);
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

#define NUMERIC(name, member, min, max, initial)                                                                       \
    {                                                                                                                  \
        name, ON_ANY_QUEUE, read_numeric, show_numeric, min, max, initial, offsetof(struct queue_settings, member)     \
    }
static const struct queue_attribute standard_attributes[] = {
    NUMERIC("DelaySeconds", delay_s, 0, 900, 0),
    NUMERIC("MaximumMessageSize", message_size_max, 1024, 1048576, 1048576),
    NUMERIC("MessageRetentionPeriod", retention_s, 60, 1209600, 345600),
    NUMERIC("ReceiveMessageWaitTimeSeconds", wait_s, 0, 20, 0),
    NUMERIC("VisibilityTimeout", visibility_timeout_s, 0, 43200, 30),
    {"KmsDataKeyReusePeriodSeconds", ON_ANY_QUEUE, read_numeric, show_numeric_unless_initial, 60, 86400,
     KMS_REUSE_DEFAULT_S, offsetof(struct queue_settings, kms_reuse_s)},
};

static const struct {
    const struct queue_attribute *rows;
    const size_t *count;
} tables[] = {
    {standard_attributes, &(const size_t){ARRAY_LENGTH(standard_attributes)}},
    {redrive_attributes, &redrive_attribute_count},
    {access_attributes, &access_attribute_count},
    {fifo_attributes, &fifo_attribute_count},
    {tally_attributes, &tally_attribute_count},
};

static const struct queue_attribute *find_attribute(struct bytes name)
{
    for (size_t table = 0; table < ARRAY_LENGTH(tables); table++)
        for (size_t i = 0; i < *tables[table].count; i++)
            if (bytes_equal(name, bytes_from_string(tables[table].rows[i].name)))
                return &tables[table].rows[i];
    return NULL;
}

struct queue_settings queue_attributes_defaults(bool is_fifo)
{
    struct queue_settings settings = queue_settings_plain();
    settings.is_fifo = is_fifo;
    for (size_t i = 0; i < ARRAY_LENGTH(standard_attributes); i++)
        if (standard_attributes[i].read == read_numeric)
            *numeric_value(&settings, &standard_attributes[i]) = standard_attributes[i].initial;
    return settings;
}

/* --- reading all of them ------------------------------------------------------------------------------------------ */

static enum error refuse_unknown(struct call *call, struct bytes name)
{
    return call_fail(call, ERROR_INVALID_ATTRIBUTE_NAME, "Unknown Attribute %.*s.",
                     (int)(name.size < 80 ? name.size : 80), (const char *)name.ptr);
}

static enum error read_attribute(struct call *call, struct bytes name, struct bytes value,
                                 struct queue_settings *settings)
{
    const struct queue_attribute *attribute = find_attribute(name);
    if (attribute == NULL || (attribute->kind == ON_FIFO_UNKNOWN_ELSEWHERE && !settings->is_fifo))
        return refuse_unknown(call, name);
    if (attribute->kind == ON_FIFO_QUEUES && !settings->is_fifo)
        return call_fail(call, ERROR_INVALID_ATTRIBUTE_NAME,
                         "You can specify the %s only when FifoQueue is set to true.", attribute->name);
    if (attribute->kind == ON_STANDARD_QUEUES && settings->is_fifo)
        return call_fail(call, ERROR_INVALID_ATTRIBUTE_NAME,
                         "You can specify the %s only on a standard queue: a FIFO queue delivers one run of a group at "
                         "a time.",
                         attribute->name);
    return attribute->read(call, attribute, value, settings);
}

/* Checks that need more than one attribute. */
static enum error check_together(struct call *call, struct queue_settings *settings)
{
    if (settings->is_limit_per_group && settings->deduplication_scope != SCOPE_GROUP)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
                         "messageGroup");
    if (settings->is_fifo && settings->is_at_most_once && settings->group_failure == GROUP_FAILURE_HOLD)
        return call_fail(call, ERROR_INVALID_ATTRIBUTE_VALUE,
                         "Tally.DeliveryMode at-most-once and Tally.OnGroupFailure hold exclude each other: what ended "
                         "when it was received can't be held.");
    return queue_attributes_check_encryption(call, settings);
}

/* Has the attribute another value in `after` than in `before`? */
static bool differs(struct call *call, struct bytes name, const struct queue_settings *before,
                    const struct queue_settings *after)
{
    const struct queue_attribute *attribute = find_attribute(name);
    return !bytes_equal(attribute->show(call->arena, attribute, before, true),
                        attribute->show(call->arena, attribute, after, true));
}

enum error queue_attributes_read(struct call *call, struct queue_settings *settings, const char **differing)
{
    yyjson_val *map;
    enum error error = params_object(&call->params, "Attributes", &map);
    if (differing != NULL)
        *differing = NULL;
    if (error != OK || map == NULL)
        return error;
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        struct bytes text = {NULL, 0};
        if (!params_scalar_text(value, call->arena, &text))
            return call_fail(call, ERROR_SERIALIZATION, "The value of attribute %s must be a String.",
                             yyjson_get_str(key));
        struct queue_settings before = *settings;
        error = read_attribute(call, params_bytes(key), text, settings);
        if (error != OK)
            return error;
        if (differing != NULL && *differing == NULL && differs(call, params_bytes(key), &before, settings))
            *differing = yyjson_get_str(key);
    }
    return check_together(call, settings);
}

enum error queue_attributes_read_kind(struct call *call, bool *is_fifo, bool *names_tally)
{
    yyjson_val *map;
    *is_fifo = *names_tally = false;
    enum error error = params_object(&call->params, "Attributes", &map);
    if (error != OK || map == NULL)
        return error;
    struct bytes text = {NULL, 0};
    bool is_known = params_scalar_text(yyjson_obj_get(map, "FifoQueue"), call->arena, &text);
    *is_fifo = is_known && queue_attribute_is_true(text);
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        (void)value;
        *names_tally = *names_tally || bytes_starts_with(params_bytes(key), BYTES("Tally."));
    }
    return OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Writes a number as text, as SQS does. */
static void write_decimal(struct call *call, const char *name, uint64_t value)
{
    char text[24];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    writer_text(call->reply, name, bytes_make(text, (size_t)size));
}

/* An attribute that is not just a stored value. `write` does nothing if the queue has none. */
struct computed_attribute {
    const char *name;
    void (*write)(struct call *call, const char *name, const struct queue *queue);
};

static void write_arn(struct call *call, const char *name, const struct queue *queue)
{
    writer_text(call->reply, name, call_queue_arn(call, queue->name_owned));
}

static void write_created(struct call *call, const char *name, const struct queue *queue)
{
    write_decimal(call, name, queue->created_at_ms / 1000);
}

static void write_modified(struct call *call, const char *name, const struct queue *queue)
{
    write_decimal(call, name, queue->modified_at_ms / 1000);
}

static void write_visible(struct call *call, const char *name, const struct queue *queue)
{
    write_decimal(call, name, message_list_visible_count(core_message_list(call->core, queue)));
}

static void write_in_flight(struct call *call, const char *name, const struct queue *queue)
{
    write_decimal(call, name, core_message_list(call->core, queue)->in_flight_count);
}

static void write_delayed(struct call *call, const char *name, const struct queue *queue)
{
    write_decimal(call, name, core_message_list(call->core, queue)->delayed_count);
}

/* Of all messages that have not ended, also those in flight or delayed: whole seconds since the retention began to
 * count. */
static void write_oldest_age(struct call *call, const char *name, const struct queue *queue)
{
    uint64_t since_ms = core_oldest_since_ms(call->core, queue), now_ms = core_now_ms(call->core);
    if (since_ms != UINT64_MAX)
        write_decimal(call, name, since_ms > now_ms ? 0 : (now_ms - since_ms) / 1000);
}

static void write_paused(struct call *call, const char *name, const struct queue *queue)
{
    if (queue->is_paused)
        writer_string(call->reply, name, "true");
}

static const struct computed_attribute computed_attributes[] = {
    {"QueueArn", write_arn},
    {"CreatedTimestamp", write_created},
    {"LastModifiedTimestamp", write_modified},
    {"ApproximateNumberOfMessages", write_visible},
    {"ApproximateNumberOfMessagesNotVisible", write_in_flight},
    {"ApproximateNumberOfMessagesDelayed", write_delayed},
    {"Tally.OldestMessageAge", write_oldest_age},
    {"Tally.Paused", write_paused},
};

/* The attributes for which the list of names asks. */
struct asked_names {
    yyjson_val *names;
    bool is_all;
};

static bool is_named(const struct asked_names *asked, const char *name)
{
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(asked->names, index, count, item)
    {
        if (yyjson_equals_str(item, name))
            return true;
    }
    return false;
}

static bool is_known(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(computed_attributes); i++)
        if (bytes_equal(name, bytes_from_string(computed_attributes[i].name)))
            return true;
    return find_attribute(name) != NULL;
}

static enum error check_names(struct call *call, yyjson_val *names, struct asked_names *asked)
{
    *asked = (struct asked_names){.names = names};
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(names, index, count, item)
    {
        struct bytes name = params_bytes(item);
        if (bytes_equal(name, BYTES("All")))
            asked->is_all = true;
        else if (!is_known(name))
            return refuse_unknown(call, name);
    }
    return OK;
}

static bool applies(const struct queue_attribute *attribute, const struct queue_settings *settings)
{
    switch (attribute->kind) {
    case ON_ANY_QUEUE:
        return true;
    case ON_STANDARD_QUEUES:
        return !settings->is_fifo;
    case ON_FIFO_QUEUES:
    case ON_FIFO_UNKNOWN_ELSEWHERE:
        break;
    }
    return settings->is_fifo;
}

static void write_row(struct call *call, const struct queue_attribute *attribute, const struct queue_settings *settings,
                      const struct asked_names *asked)
{
    bool is_by_name = is_named(asked, attribute->name);
    if (!applies(attribute, settings) || !(asked->is_all || is_by_name))
        return;
    struct bytes text = attribute->show(call->arena, attribute, settings, is_by_name);
    if (text.size > 0)
        writer_text(call->reply, attribute->name, text);
}

enum error queue_attributes_write(struct call *call, const struct queue *queue, yyjson_val *names)
{
    struct asked_names asked;
    enum error error = check_names(call, names, &asked);
    if (error != OK || yyjson_arr_size(names) == 0)
        return error;
    struct writer_mark before = writer_mark(call->reply);
    writer_object_begin(call->reply, "Attributes");
    size_t size_empty = call->reply->out->size;
    for (size_t table = 0; table < ARRAY_LENGTH(tables); table++)
        for (size_t i = 0; i < *tables[table].count; i++)
            write_row(call, &tables[table].rows[i], &queue->settings, &asked);
    for (size_t i = 0; i < ARRAY_LENGTH(computed_attributes); i++)
        if (asked.is_all || is_named(&asked, computed_attributes[i].name))
            computed_attributes[i].write(call, computed_attributes[i].name, queue);
    if (call->reply->out->size == size_empty) {
        writer_take_back(call->reply, before);
        return OK;
    }
    writer_object_end(call->reply);
    return OK;
}
