/* CreateQueue: makes the queue, or answers with the existing one that has these attributes. */
#include "api/access.h"
#include "api/growth.h"
#include "api/queue_attributes.h"
#include "api/queue_tags.h"
#include "api/state.h"
#include "api/text.h"
#include "core/queues/decide_queue.h"

#define DELETED_INTERVAL_MS 60000u

static enum error check_name(struct call *call, struct bytes name, bool is_fifo)
{
    if (name.size == 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value for parameter QueueName is invalid. Reason: Must specify a queue name.");
    struct bytes suffix = BYTES(".fifo");
    if (is_fifo && (!bytes_ends_with(name, suffix) || name.size > QUEUE_NAME_SIZE_MAX ||
                    !text_is_word(bytes_make(name.ptr, name.size - suffix.size), QUEUE_NAME_SIZE_MAX)))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
                         "must end with .fifo suffix and be 1 to 80 in length.");
    if (!is_fifo && !text_is_word(name, QUEUE_NAME_SIZE_MAX))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length");
    return OK;
}

/* AWS's rule: a name stays taken for 60 seconds after its queue was deleted. */
static bool was_deleted_recently(const struct call *call, struct bytes name)
{
    const struct api *api = call->api;
    for (size_t i = 0; i < api->deleted_count; i++)
        if (bytes_equal(name, bytes_make(api->deleted_owned[i].name, api->deleted_owned[i].size)) &&
            call->now_ms < api->deleted_owned[i].at_ms + DELETED_INTERVAL_MS)
            return true;
    return false;
}

static enum error make_queue(struct call *call, struct bytes name, const struct queue_settings *settings,
                             struct queue **queue)
{
    struct bytes tags;
    enum error error = queue_attributes_check_source(call, name, settings);
    if (error == OK)
        error = queue_tags_read(call, "tags", name, &tags);
    if (error != OK)
        return error;
    error = growth_check(call, GROWTH_NEW);
    if (error != OK)
        return error;
    if (was_deleted_recently(call, name))
        return call_fail(call, ERROR_QUEUE_DELETED_RECENTLY, "%s", error_row(ERROR_QUEUE_DELETED_RECENTLY)->text);
    *queue = decide_create_queue(call->core, name, settings);
    return tags.size == 0 ? OK : decide_tag_queue(call->core, *queue, tags);
}

enum error action_create_queue(struct call *call)
{
    struct bytes name = {NULL, 0};
    bool is_fifo, names_tally;
    enum error error = params_text(&call->params, "QueueName", &name);
    if (error == OK)
        error = access_check_queue(call, name, NULL);
    if (error == OK)
        error = queue_attributes_read_kind(call, &is_fifo, &names_tally);
    if (error != OK)
        return error;
    struct queue *queue = core_find_queue(call->core, name);
    /* An existing queue is found by its name alone, even if it is a FIFO queue. */
    if (queue == NULL || is_fifo)
        error = check_name(call, name, is_fifo);
    if (error != OK)
        return error;
    struct queue_settings settings = queue == NULL ? queue_attributes_defaults(is_fifo) : queue->settings;
    if (queue == NULL)
        settings.is_strict = is_fifo && names_tally;
    const char *differing;
    error = queue_attributes_read(call, &settings, &differing);
    if (error == OK && queue != NULL && differing != NULL)
        return call_fail(call, ERROR_QUEUE_NAME_EXISTS,
                         "A queue already exists with the same name and a different value for attribute %s", differing);
    if (error == OK && queue == NULL)
        error = make_queue(call, name, &settings, &queue);
    if (error == OK)
        writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    return error;
}
