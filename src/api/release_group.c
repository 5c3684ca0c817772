/* ReleaseGroup: an operator lets a held group go on. */
#include "api/selection.h"
#include "core/order/decide_group.h"

static enum error read_action(struct call *call, enum group_release *action)
{
    static const char *const names[] = {
        [RELEASE_RETRY] = "retry", [RELEASE_SKIP] = "skip", [RELEASE_CANCEL_REST] = "cancel-rest"};
    struct bytes text = {NULL, 0};
    enum error error = params_required_text(&call->params, "Action", &text);
    if (error != OK)
        return error;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (bytes_equal(text, bytes_from_string(names[i]))) {
            *action = (enum group_release)i;
            return OK;
        }
    }
    return params_invalid(&call->params, "Action", text, "It must be retry, skip or cancel-rest.");
}

static enum error write_preview(struct call *call, const struct queue *queue, struct bytes group,
                                enum group_release action)
{
    struct preview preview;
    preview_init(&preview, call->core);
    const enum error error = preview_release(&preview, queue, group, action);
    if (error == OK)
        selection_write_ends(call, &preview);
    preview_deinit(&preview);
    return error;
}

enum error action_release_group(struct call *call)
{
    struct queue *queue;
    bool is_dry_run = false;
    struct bytes group = {NULL, 0};
    enum group_release action = RELEASE_RETRY;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = call_group(call, &group);
    if (error == OK)
        error = read_action(call, &action);
    if (error == OK)
        error = selection_read_dry_run(call, &is_dry_run);
    if (error == OK)
        error = is_dry_run ? write_preview(call, queue, group, action)
                           : decide_release_group(call->core, queue, group, action);
    if (error == ERROR_GROUP_NOT_HELD)
        return call_fail(call, error, "Group '%.*s' of queue %.*s is not held; ListGroups says what keeps it.",
                         BYTES_FORMAT(group), BYTES_FORMAT(queue->name_owned));
    return error;
}
