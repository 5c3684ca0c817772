/* PauseGroup and ResumeGroup: like those of a queue, for one of its groups. The group need not have messages. */
#include "api/action.h"
#include "core/order/decide_group.h"

static enum error pause(struct call *call, bool is_paused)
{
    struct queue *queue;
    struct bytes group = {NULL, 0};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = call_group(call, &group);
    if (error == OK)
        decide_pause_group(call->core, queue, group, is_paused);
    return error;
}

enum error action_pause_group(struct call *call)
{
    return pause(call, true);
}

enum error action_resume_group(struct call *call)
{
    return pause(call, false);
}
