/* GetQueueAttributes. */
#include "api/queue_attributes.h"

enum error action_get_queue_attributes(struct call *call)
{
    struct queue *queue;
    yyjson_val *names;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_names(&call->params, "AttributeNames", &names);
    return error == OK ? queue_attributes_write(call, queue, names) : error;
}
