#include "server/site.h"

#include "server/connection.h"

#define SITE_GATHER_NS_MAX 1000000u /* a frame waits for more requests no longer than this */

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

/* A flush costs the processor as much as several requests, so a frame goes when the sockets have nothing more to read, or when it has
 * gathered for as long as a flush takes: one connection waits for nobody, and many share a flush. */
bool site_flush(struct site *site, bool is_quiet)
{
    if (!api_can_flush(site->api)) {
        site->gather_begun_ns = 0;
        return false;
    }
    uint64_t now_ns = uv_hrtime();
    if (site->gather_begun_ns == 0)
        site->gather_begun_ns = now_ns;
    uint64_t gather_ns = site->flush_ns < SITE_GATHER_NS_MAX ? site->flush_ns : SITE_GATHER_NS_MAX;
    if (!is_quiet && now_ns - site->gather_begun_ns < gather_ns)
        return true;
    site->flushed_from = namespace_durable(site->ns);
    api_flush(site->api);
    site->gather_begun_ns = 0;
    site->flush_begun_ns = now_ns;
    return false;
}

void site_note_flush(struct site *site)
{
    if (site->flush_begun_ns == 0 || namespace_durable(site->ns) == site->flushed_from)
        return;
    uint64_t took_ns = uv_hrtime() - site->flush_begun_ns;
    site->flush_ns = site->flush_ns == 0 ? took_ns : (site->flush_ns * 7 + took_ns) / 8;
    site->flush_begun_ns = 0;
}
