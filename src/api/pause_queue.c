/* PauseQueue and ResumeQueue: they stop and restart deliveries. Sends and leases go on. */
#include "api/action.h"
#include "core/order/decide_group.h"

static enum error pause(struct call *call, bool is_paused)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        decide_pause_queue(call->core, queue, is_paused);
    return error;
}

enum error action_pause_queue(struct call *call)
{
    return pause(call, true);
}

enum error action_resume_queue(struct call *call)
{
    return pause(call, false);
}
