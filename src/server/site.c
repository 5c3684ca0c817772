#include "server/site.h"

#include "server/connection.h"

void site_init(struct site *site, struct api *api)
{
    *site = (struct site){.api = api, .ns = api_namespace(api)};
    hold_init(&site->hold);
}

void site_drain(struct site *site)
{
    uint64_t durable_sequence = namespace_durable(site->ns);
    struct exchange *exchange;
    while ((exchange = api_take_finished(site->api)) != NULL) {
        struct turn *turn = CONTAINER_OF(exchange, struct turn, exchange);
        connection_finish_turn(turn);
        if (exchange->hold_sequence > durable_sequence) {
            hold_add(&site->hold, turn);
        } else {
            turn->state = TURN_READY;
            connection_ready(turn);
        }
    }
}

void site_release(struct site *site)
{
    uint64_t durable_sequence = namespace_durable(site->ns);
    struct turn *turn;
    while ((turn = hold_take(&site->hold, durable_sequence)) != NULL)
        connection_ready(turn);
}

bool site_flush(struct site *site, bool is_quiet, uint64_t request_ns)
{
    if (!api_can_flush(site->api)) {
        gather_stop(&site->gather);
        return false;
    }
    uint64_t now_ns = uv_hrtime();
    if (gather_goes_on(&site->gather, now_ns, is_quiet, request_ns))
        return true;
    gather_note_frame(&site->gather, now_ns, site->hold.count);
    site->flushed_from = namespace_durable(site->ns);
    api_flush(site->api);
    return false;
}

void site_note_flush(struct site *site)
{
    namespace_reap(site->ns);
    if (site->gather.flush_begun_ns != 0 && namespace_durable(site->ns) != site->flushed_from)
        gather_note_flush(&site->gather, uv_hrtime());
}
