/* Policy and SQS's attributes of encryption. They are stored and shown. Source: reference, SQS, 2.1 and 5.2. */
#include "api/queue_attributes.h"

#include "api/growth.h"
#include "api/text.h"
#include "auth/policy.h"

#define KMS_KEY_SIZE_MAX 2048u

static enum error read_policy(struct call *call, const struct queue_attribute *attribute, struct bytes text,
                              struct queue_settings *settings)
{
    struct bytes compact = {NULL, 0};
    const char *fault;
    if (text.size > POLICY_SIZE_MAX)
        return queue_attribute_refuse(call, attribute, "The policy is longer than 32768 bytes.");
    if (text.size > 0 && !policy_parse(text, call->arena, &compact, &fault))
        return queue_attribute_refuse(call, attribute, fault);
    enum error error = compact.size > settings->policy.size ? growth_check(call, GROWTH_LITTLE) : OK;
    settings->policy = compact;
    return error;
}

static enum error read_kms_key(struct call *call, const struct queue_attribute *attribute, struct bytes text,
                               struct queue_settings *settings)
{
    if (text.size > KMS_KEY_SIZE_MAX || !text_is_printable(text))
        return queue_attribute_refuse(call, attribute, "Must be at most 2048 printable ASCII characters.");
    settings->kms_key = text;
    return OK;
}

static enum error read_sse(struct call *call, const struct queue_attribute *attribute, struct bytes text,
                           struct queue_settings *settings)
{
    return queue_attribute_read_boolean(call, attribute, text, &settings->is_sse_managed);
}

static struct bytes show_sse(struct arena *arena, const struct queue_attribute *attribute,
                             const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    (void)is_named;
    return queue_attribute_show_boolean(settings->is_sse_managed);
}

enum error queue_attributes_check_encryption(struct call *call, struct queue_settings *settings)
{
    if (settings->kms_key.size == 0 || !settings->is_sse_managed)
        return OK;
    if (yyjson_obj_get(yyjson_obj_get(call->params.object, "Attributes"), "SqsManagedSseEnabled") != NULL)
        return call_fail(call, ERROR_INVALID_ATTRIBUTE_NAME,
                         "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS "
                         "SSE or SQS SSE.");
    settings->is_sse_managed = false;
    return OK;
}

const struct queue_attribute access_attributes[] = {
    {.name = "Policy",
     .kind = ON_ANY_QUEUE,
     .read = read_policy,
     .show = queue_attribute_show_text,
     .offset = offsetof(struct queue_settings, policy)},
    {.name = "KmsMasterKeyId",
     .kind = ON_ANY_QUEUE,
     .read = read_kms_key,
     .show = queue_attribute_show_text,
     .offset = offsetof(struct queue_settings, kms_key)},
    {.name = "SqsManagedSseEnabled", .kind = ON_ANY_QUEUE, .read = read_sse, .show = show_sse},
};

const size_t access_attribute_count = ARRAY_LENGTH(access_attributes);
