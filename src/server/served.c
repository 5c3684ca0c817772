#include "server/served.h"

#include "base/assert.h"

#include <uv.h>

void served_init(struct served *served, struct front *front, struct namespace *ns, const struct clock *clock,
                 struct list *busy)
{
    *served = (struct served){.ns = ns, .clock = clock, .busy = busy, .due_ms = UINT64_MAX};
    held_replies_init(&served->held);
    api_init(&served->api, front, ns);
    served_note(served);
}

void served_deinit(struct served *served)
{
    ASSERT(served->held.count == 0);
    if (list_is_linked(&served->busy_link))
        list_remove(&served->busy_link);
    api_deinit(&served->api);
}

void served_withdraw(struct served *served)
{
    api_withdraw(&served->api);
    served_note(served); /* held replies need the log */
}

bool served_is_over(const struct served *served)
{
    /* A match that waits for confirmations gets its time when others can see it, if the disk has room for that. */
    const bool is_unseen = namespace_has_unseen(served->ns) && namespace_disk_level(served->ns) != DISK_SPENT;
    return api_is_withdrawn(&served->api) && served->held.count == 0 && !is_unseen && namespace_is_written(served->ns);
}

struct served *served_of(const struct exchange *exchange)
{
    return exchange->api == NULL ? NULL : CONTAINER_OF(exchange->api, struct served, api);
}

/* --- busy or at rest ---------------------------------------------------------------------------------------------- */

void served_note(struct served *served)
{
    if (!list_is_linked(&served->busy_link))
        list_append(served->busy, &served->busy_link);
}

uint64_t served_next_ms(const struct served *served)
{
    if (api_is_withdrawn(&served->api))
        return UINT64_MAX;
    const uint64_t api_ms = api_due_ms(&served->api), disk_ms = namespace_disk_due_ms(served->ns);
    return api_ms < disk_ms ? api_ms : disk_ms;
}

bool served_rest(struct served *served)
{
    if (served->held.count > 0 || !namespace_is_at_rest(served->ns) || api_has_news(&served->api) ||
        api_is_settling(&served->api))
        return false;
    list_remove(&served->busy_link);
    served->due_ms = served_next_ms(served);
    return true;
}

bool served_is_idle(const struct served *served)
{
    return !list_is_linked(&served->busy_link) && served->held.count == 0 && !api_is_awaited(&served->api);
}

/* --- replies and the log ------------------------------------------------------------------------------------------ */

enum permission served_ask(struct served *served, const struct server_options *options, uint64_t turn,
                           struct failure *failure)
{
    if (options->may_answer == NULL)
        return PERMISSION_GIVEN;
    const enum permission permission = options->may_answer(options->namespaces_context, served, failure);
    served->asked_turn = turn;
    served->is_withheld = permission != PERMISSION_GIVEN;
    return permission;
}

bool served_hold(struct served *served, struct pending_request *pending)
{
    served_note(served);
    if (pending->exchange.hold_sequence <= namespace_durable(served->ns) && !served->is_withheld)
        return false;
    held_replies_add(&served->held, pending);
    return true;
}

uint64_t served_release(struct served *served)
{
    const uint64_t durable_sequence = namespace_durable(served->ns);
    if (namespace_has_unseen(served->ns))
        namespace_note_durable(served->ns, clock_now_ms(served->clock));
    return durable_sequence;
}

bool served_flush(struct served *served, bool is_quiet, uint64_t request_ns)
{
    if (!namespace_can_flush(served->ns)) {
        gather_stop(&served->gather);
        return false;
    }
    uint64_t now_ns = uv_hrtime();
    if (gather_goes_on(&served->gather, now_ns, is_quiet, request_ns))
        return true;
    gather_note_frame(&served->gather, now_ns, served->held.count);
    served->flushed_from = namespace_durable(served->ns);
    struct failure ignored; /* on_async() of the server asks namespace_failure() */
    (void)namespace_flush(served->ns, &ignored);
    return false;
}

uint64_t served_note_flush(struct served *served)
{
    namespace_reap(served->ns);
    if (served->gather.flush_begun_ns == 0 || namespace_durable(served->ns) == served->flushed_from)
        return 0;
    const uint64_t now_ns = uv_hrtime(), took_ns = now_ns - served->gather.flush_begun_ns;
    gather_note_flush(&served->gather, now_ns);
    return took_ns > 0 ? took_ns : 1;
}
