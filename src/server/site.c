#include "server/site.h"

#include "server/connection.h"

void site_init(struct site *site, struct api *api, const struct clock *clock)
{
    *site = (struct site){.api = api, .ns = api_namespace(api), .clock = clock};
    hold_init(&site->hold);
}

/* The turn's frame is durable: its reply may be written. */
static void let_go(struct site *site, struct turn *turn)
{
    turn->hold = &site->hold;
    turn->state = TURN_READY;
    connection_ready(turn);
}

void site_drain(struct site *site)
{
    uint64_t durable_sequence = namespace_durable(site->ns);
    struct exchange *exchange;
    while ((exchange = api_take_finished(site->api)) != NULL) {
        struct turn *turn = CONTAINER_OF(exchange, struct turn, exchange);
        connection_finish_turn(turn);
        if (exchange->hold_sequence > durable_sequence)
            hold_add(&site->hold, turn);
        else
            let_go(site, turn);
    }
}

void site_release(struct site *site)
{
    uint64_t durable_sequence = namespace_durable(site->ns);
    if (namespace_has_unseen(site->ns))
        namespace_note_durable(site->ns, clock_now_ms(site->clock));
    struct turn *turn;
    while ((turn = hold_take(&site->hold, durable_sequence)) != NULL)
        let_go(site, turn);
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
