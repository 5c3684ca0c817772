#include "server/site.h"

#include "server/connection.h"

#define SITE_GATHER_NS_MAX 1000000u /* a frame waits for more requests no longer than this */
#define SITE_HELD_FORGOTTEN 8u      /* of the most replies held at once, this part is forgotten with each frame */

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

/* Do the clients give us clearly more work than a flush takes? Then some of them keep the loop busy while a frame with the others'
 * requests is on its way; gathered into one frame, all would wait for it, and so would the loop. With work of w and a flush of f, all
 * together take turns of w + f, two groups turns of w or 2 f, whichever is longer: from half as much again on it pays. */
static bool site_is_busy(const struct site *site, uint64_t request_ns)
{
    return 2 * site->held_lately * request_ns > 3 * site->flush_ns;
}

/* The most replies held at once: forgotten slowly, because between two frames few are held. */
static void site_note_held(struct site *site)
{
    site->held_lately -= site->held_lately / SITE_HELD_FORGOTTEN;
    if (site->hold.count > site->held_lately)
        site->held_lately = site->hold.count;
}

/* A flush costs the processor as much as several requests, so a frame goes when the sockets have nothing more to read, or when it has
 * gathered for as long as a flush takes: one connection waits for nobody, and many share a flush. Where there is work enough to fill
 * the time of a flush, it goes at once. */
bool site_flush(struct site *site, bool is_quiet, uint64_t request_ns)
{
    if (!api_can_flush(site->api)) {
        site->gather_begun_ns = 0;
        return false;
    }
    uint64_t now_ns = uv_hrtime();
    if (site->gather_begun_ns == 0)
        site->gather_begun_ns = now_ns;
    uint64_t gather_ns = site->flush_ns < SITE_GATHER_NS_MAX ? site->flush_ns : SITE_GATHER_NS_MAX;
    if (!is_quiet && !site_is_busy(site, request_ns) && now_ns - site->gather_begun_ns < gather_ns)
        return true;
    site_note_held(site);
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
