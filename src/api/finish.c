/* A request is over: its reply is complete, and waits until front_take_finished() takes it. */
#include "api/state.h"

void front_finish(struct front *front, struct exchange *exchange, uint64_t hold_sequence)
{
    exchange->state = EXCHANGE_FINISHED;
    exchange->hold_sequence = hold_sequence;
    front_trim_scratch(front);
    /* The tree of a large request takes many times its size. It need not stay until a slow client has taken its
     * reply. */
    arena_reset(&exchange->arena);
    if (front->replies != NULL)
        exchange_count_reply(exchange, front->replies);
    list_append(&front->finished, &exchange->api_link);
}

void api_finish(struct api *api, struct exchange *exchange)
{
    front_finish(api->front, exchange, namespace_hold_sequence(api->ns));
}
