/* RedrivePolicy and RedriveAllowPolicy: where messages go after their last attempt, and whose messages a queue accepts.
 * Source: reference, SQS, 2.1, 5.2 and 6.6. */
#include "api/access.h"
#include "api/queue_attributes.h"

#include "auth/json_tree.h"

#define SOURCES_MAX 10u
#define ARN_SIZE_MAX 256u

/* --- RedrivePolicy ------------------------------------------------------------------------------------------------ */

static enum error refuse_policy(struct call *call, struct bytes policy, const char *reason)
{
    return params_invalid(&call->params, "RedrivePolicy", policy, reason);
}

/* The two members of the policy, as texts; the count is checked. */
static enum error read_policy(struct call *call, struct bytes policy, struct bytes *arn, uint64_t *count)
{
    struct bytes count_text = {NULL, 0};
    yyjson_val *object = params_parse_text(policy, call->arena);
    if (object == NULL)
        return refuse_policy(call, policy, "Redrive policy is not a valid JSON map.");
    if (!params_scalar_text(yyjson_obj_get(object, "maxReceiveCount"), call->arena, &count_text))
        return refuse_policy(call, policy, "Redrive policy does not contain mandatory attribute: maxReceiveCount.");
    if (!params_scalar_text(yyjson_obj_get(object, "deadLetterTargetArn"), call->arena, arn))
        return refuse_policy(call, policy, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.");
    if (bytes_to_u64(count_text, count) && *count >= 1 && *count <= 1000)
        return OK;
    struct bytes reason = arena_format(
        call->arena, "Invalid value for maxReceiveCount: %.*s, valid values are from 1 to 1000 both inclusive.%c",
        BYTES_FORMAT(count_text), '\0');
    return refuse_policy(call, policy, (const char *)reason.ptr);
}

/* Does such a queue exist, with that type, and may the caller send it messages? */
static enum error check_target(struct call *call, struct bytes policy, struct bytes arn, bool is_fifo)
{
    struct bytes name = queue_name_of_arn(arn);
    if (!call_arn_names(call, arn, name))
        return refuse_policy(call, policy, "Dead letter target does not exist.");
    const struct queue *target = core_find_queue(call->core, name);
    enum error error = access_check_queue(call, name, target);
    if (error != OK)
        return error;
    if (target == NULL)
        return refuse_policy(call, policy, "Dead letter target does not exist.");
    if (target->settings.is_fifo != is_fifo)
        return refuse_policy(call, policy, "Dead-letter queue must be same type of queue as the source.");
    return OK;
}

/* "" removes the policy; else a JSON object {deadLetterTargetArn, maxReceiveCount}. */
static enum error read_redrive_policy(struct call *call, const struct queue_attribute *attribute, struct bytes policy,
                                      struct queue_settings *settings)
{
    (void)attribute;
    struct bytes arn = {NULL, 0};
    uint64_t count = 0;
    enum error error = policy.size == 0 ? OK : read_policy(call, policy, &arn, &count);
    if (error == OK && policy.size > 0)
        error = check_target(call, policy, arn, settings->is_fifo);
    if (error != OK)
        return error;
    settings->receive_count_max = (uint32_t)count;
    settings->dead_letter_arn = arn;
    return OK;
}

static struct bytes show_redrive_policy(struct arena *arena, const struct queue_attribute *attribute,
                                        const struct queue_settings *settings, bool is_named)
{
    (void)attribute;
    (void)is_named;
    if (settings->receive_count_max == 0)
        return bytes_make(NULL, 0);
    return arena_format(arena, "{\"deadLetterTargetArn\":\"%.*s\",\"maxReceiveCount\":%u}",
                        BYTES_FORMAT(settings->dead_letter_arn), settings->receive_count_max);
}

/* --- RedriveAllowPolicy ------------------------------------------------------------------------------------------- */

static bool is_arn(yyjson_val *value)
{
    return yyjson_is_str(value) && bytes_starts_with(params_bytes(value), BYTES("arn:")) &&
           yyjson_get_len(value) <= ARN_SIZE_MAX;
}

/* {redrivePermission: allowAll, denyAll or byQueue, sourceQueueArns: 1 to 10, only with byQueue}. */
static bool is_allow_policy(yyjson_val *object)
{
    yyjson_val *permission = yyjson_obj_get(object, "redrivePermission");
    yyjson_val *sources = yyjson_obj_get(object, "sourceQueueArns");
    bool is_by_queue = yyjson_equals_str(permission, "byQueue");
    if (!is_by_queue && !yyjson_equals_str(permission, "allowAll") && !yyjson_equals_str(permission, "denyAll"))
        return false;
    if (sources == NULL)
        return !is_by_queue;
    if (!yyjson_is_arr(sources))
        return false;
    size_t index, count;
    yyjson_val *source;
    yyjson_arr_foreach(sources, index, count, source)
    {
        if (!is_arn(source))
            return false;
    }
    return is_by_queue ? yyjson_arr_size(sources) >= 1 && yyjson_arr_size(sources) <= SOURCES_MAX
                       : yyjson_arr_size(sources) == 0;
}

/* Writes the same policy always as the same text. */
static struct bytes allow_policy_text(yyjson_val *object, struct arena *arena)
{
    yyjson_mut_doc *doc = json_tree_create(arena);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_val(doc, root, "redrivePermission",
                           yyjson_val_mut_copy(doc, yyjson_obj_get(object, "redrivePermission")));
    if (yyjson_arr_size(yyjson_obj_get(object, "sourceQueueArns")) > 0)
        yyjson_mut_obj_add_val(doc, root, "sourceQueueArns",
                               yyjson_val_mut_copy(doc, yyjson_obj_get(object, "sourceQueueArns")));
    return json_tree_write(doc, arena);
}

static enum error read_redrive_allow_policy(struct call *call, const struct queue_attribute *attribute,
                                            struct bytes policy, struct queue_settings *settings)
{
    yyjson_val *object = policy.size == 0 ? NULL : params_parse_text(policy, call->arena);
    if (policy.size > 0 && !is_allow_policy(object))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Invalid value for the parameter %s. Reason: Amazon SQS can't create the redrive allow "
                         "policy, as it's in an unsupported format.",
                         attribute->name);
    settings->redrive_allow_policy = object == NULL ? bytes_make(NULL, 0) : allow_policy_text(object, call->arena);
    return OK;
}

bool queue_attributes_allow_source(const struct call *call, const struct queue *target, struct bytes name)
{
    if (target->settings.redrive_allow_policy.size == 0)
        return true;
    yyjson_val *policy = params_parse_text(target->settings.redrive_allow_policy, call->arena);
    if (!yyjson_equals_str(yyjson_obj_get(policy, "redrivePermission"), "byQueue"))
        return yyjson_equals_str(yyjson_obj_get(policy, "redrivePermission"), "allowAll");
    size_t index, count;
    yyjson_val *source;
    yyjson_arr_foreach(yyjson_obj_get(policy, "sourceQueueArns"), index, count, source)
    {
        if (call_arn_names(call, params_bytes(source), name))
            return true;
    }
    return false;
}

enum error queue_attributes_check_source(struct call *call, struct bytes name, const struct queue_settings *settings)
{
    yyjson_val *given = yyjson_obj_get(yyjson_obj_get(call->params.object, "Attributes"), "RedrivePolicy");
    if (given == NULL || settings->receive_count_max == 0)
        return OK;
    const struct queue *target = core_find_queue(call->core, queue_name_of_arn(settings->dead_letter_arn));
    ASSERT(target != NULL); /* the target was looked up when the policy was read */
    return queue_attributes_allow_source(call, target, name)
               ? OK
               : refuse_policy(
                     call, params_bytes(given),
                     "The RedriveAllowPolicy of the dead-letter queue does not allow this queue as a source.");
}

const struct queue_attribute redrive_attributes[] = {
    {.name = "RedrivePolicy", .kind = ON_ANY_QUEUE, .read = read_redrive_policy, .show = show_redrive_policy},
    {.name = "RedriveAllowPolicy",
     .kind = ON_ANY_QUEUE,
     .read = read_redrive_allow_policy,
     .show = queue_attribute_show_text,
     .offset = offsetof(struct queue_settings, redrive_allow_policy)},
};

const size_t redrive_attribute_count = ARRAY_LENGTH(redrive_attributes);
