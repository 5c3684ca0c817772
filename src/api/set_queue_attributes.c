/* SetQueueAttributes. */
#include "api/queue_attributes.h"
#include "api/state.h"
#include "api/wait.h"
#include "core/queues/decide_queue.h"

enum error action_set_queue_attributes(struct call *call)
{
    struct queue *queue;
    yyjson_val *map;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_object(&call->params, "Attributes", &map);
    if (error != OK)
        return error;
    if (yyjson_obj_size(map) == 0)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Attribute.Name.");
    struct queue_settings settings = queue->settings;
    error = queue_attributes_read(call, &settings, NULL);
    if (error == OK)
        error = queue_attributes_check_source(call, queue->name_owned, &settings);
    if (error != OK)
        return error;
    decide_set_queue(call->core, queue, &settings);
    wait_receive_check_again(call->api, queue);
    return OK;
}
