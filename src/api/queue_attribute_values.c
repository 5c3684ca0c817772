/* Values of queue attributes: reading and showing, shared by all tables of attributes. */
#include "api/queue_attributes.h"

enum error queue_attribute_refuse(struct call *call, const struct queue_attribute *attribute, const char *reason)
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

enum error queue_attribute_read_boolean(struct call *call, const struct queue_attribute *attribute, struct bytes text,
                                        bool *value)
{
    if (!queue_attribute_is_true(text) && !queue_attribute_is_false(text))
        return queue_attribute_refuse(call, attribute, "Must be true or false.");
    *value = queue_attribute_is_true(text);
    return OK;
}

struct bytes queue_attribute_show_boolean(bool value)
{
    return value ? BYTES("true") : BYTES("false");
}

struct bytes queue_attribute_show_text(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)is_named;
    return *(const struct bytes *)(const void *)((const char *)settings + attribute->offset);
}
