/* FeedTickets: the numbered changes of a pool's tickets, and for whose seeds the caller is responsible. */
#include "api/wait.h"
#include "base/memory.h"

#define EVENTS_MAX 1000
#define WAIT_MAX_S 20

/* A reply with this many bytes takes no further event. */
#define EVENTS_SIZE_MAX ((size_t)1024 * 1024)

/* How long the caller of a part counts as present after its request. */
#define CALLER_LEASE_MS 10000u

/* --- whose seeds -------------------------------------------------------------------------------------------------- */

/* The callers who share the pool by `parts`. A new one replaces the one that was silent for longest. */
static struct part_callers *callers_of(struct pool_readers *readers, uint32_t parts)
{
    if (readers->callers_owned == NULL)
        readers->callers_owned = memory_allocate_zeroed(PART_CALLERS_MAX * sizeof(*readers->callers_owned));
    struct part_callers *callers = readers->callers_owned, *chosen = callers;
    for (size_t i = 0; i < PART_CALLERS_MAX; i++) {
        if (callers[i].parts == parts)
            return &callers[i];
        if (callers[i].used_at_ms < chosen->used_at_ms)
            chosen = &callers[i];
    }
    *chosen = (struct part_callers){.parts = parts};
    return chosen;
}

void feed_note_caller(struct api *api, const struct ticket_pool *pool, const struct feed_command *command,
                      uint64_t now_ms, uint64_t until_ms)
{
    if (!command->has_part)
        return;
    struct part_callers *callers = callers_of(pool_readers_of(api, pool), command->parts);
    callers->used_at_ms = now_ms;
    callers->until_ms[command->part] = until_ms + CALLER_LEASE_MS;
}

/* Its own part, and the parts after it up to the next one with a present caller. So each part has exactly one
 * caller. */
static void write_seed_parts(struct call *call, struct ticket_pool *pool, const struct feed_command *command)
{
    const struct part_callers *callers = callers_of(pool_readers_of(call->api, pool), command->parts);
    const uint64_t now_ms = core_now_ms(call->core);
    uint64_t mine = UINT64_C(1) << command->part;
    for (uint32_t i = 1; i < command->parts; i++) {
        uint32_t part = (command->part + i) % command->parts;
        if (callers->until_ms[part] > now_ms)
            break;
        mine |= UINT64_C(1) << part;
    }
    writer_list_begin(call->reply, "SeedParts");
    for (uint32_t part = 0; part < command->parts; part++)
        if ((mine >> part & 1) != 0)
            writer_number(call->reply, NULL, part);
    writer_list_end(call->reply);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void begin_event(struct call *call, uint64_t number, const char *type)
{
    writer_object_begin(call->reply, NULL);
    writer_number(call->reply, "Sequence", number);
    writer_string(call->reply, "Type", type);
}

static void write_retire(struct call *call, const struct ticket *ticket, unsigned reason, uint64_t match)
{
    static const char *const reasons[] = {
        [FEED_BY_MATCH] = "match",
        [FEED_BY_CANCEL] = "cancel",
        [FEED_BY_TTL] = "ttl",
        [FEED_BY_HOLD] = "hold",
    };
    writer_text(call->reply, "TicketId", ticket->key_owned);
    writer_string(call->reply, "Reason", reasons[reason]);
    if ((reason == FEED_BY_MATCH || reason == FEED_BY_HOLD) && match != 0)
        pool_write_match_id(call, match);
}

/* A ticket that no longer waits is reported as retired at once, because its attributes may be forgotten. */
static void write_offer(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket, uint64_t number,
                        uint32_t parts)
{
    static const uint8_t reasons[] = {
        [TICKET_HELD] = FEED_BY_HOLD,
        [TICKET_MATCHED] = FEED_BY_MATCH,
        [TICKET_CANCELLED] = FEED_BY_CANCEL,
        [TICKET_EXPIRED] = FEED_BY_TTL,
    };
    bool is_waiting = ticket->state == TICKET_WAITING;
    begin_event(call, number, is_waiting ? "offer" : "retire");
    if (is_waiting)
        pool_write_ticket(call, pool, ticket, parts);
    else
        write_retire(call, ticket, reasons[ticket->state], ticket->match);
}

/* False, with nothing written, if the event's ticket is forgotten. */
static bool write_event(struct call *call, const struct ticket_pool *pool, const struct feed_event *event,
                        uint64_t number, uint32_t parts)
{
    uint32_t slot = event->kind == FEED_RULES ? 0 : ticket_find_by_number(pool, event->ticket);
    if (event->kind != FEED_RULES && slot == 0)
        return false;
    const struct ticket *ticket = slot == 0 ? NULL : ticket_at(&pool->tickets, slot);
    switch ((enum feed_kind)event->kind) {
    case FEED_OFFER:
        write_offer(call, pool, ticket, number, parts);
        break;
    case FEED_RETIRE:
        begin_event(call, number, "retire");
        write_retire(call, ticket, event->reason, event->match);
        break;
    case FEED_WIDEN:
        begin_event(call, number, "widen");
        writer_text(call->reply, "TicketId", ticket->key_owned);
        writer_number(call->reply, "Level", event->level);
        break;
    case FEED_RULES:
        begin_event(call, number, "rules");
        writer_number(call->reply, "RulesVersion", pool->rules_version);
        pool_write_rules(call, pool);
        break;
    }
    writer_object_end(call->reply);
    return true;
}

/* Can the feed go on at this number? */
static bool is_available(const struct ticket_pool *pool, uint64_t from)
{
    if (from == pool->feed.last + 1)
        return true;
    const struct feed_event *event = feed_at(&pool->feed, from);
    return event != NULL && (event->kind == FEED_RULES || ticket_find_by_number(pool, event->ticket) != 0);
}

bool feed_has_answer(const struct ticket_pool *pool, const struct feed_command *command)
{
    return command->from != pool->feed.last + 1;
}

void feed_write(struct call *call, struct ticket_pool *pool, const struct feed_command *command)
{
    const struct buffer *reply = &call->exchange->reply.body;
    const bool is_good = is_available(pool, command->from);
    uint64_t next = is_good ? command->from : pool->feed.last + 1;
    writer_list_begin(call->reply, "Events");
    for (int64_t left = command->results_max; left > 0 && reply->size < EVENTS_SIZE_MAX; left--) {
        const struct feed_event *event = feed_at(&pool->feed, next);
        if (event == NULL || !write_event(call, pool, event, next, command->parts))
            break;
        next++;
    }
    writer_list_end(call->reply);
    writer_number(call->reply, "Next", next);
    if (!is_good)
        writer_boolean(call->reply, "Resync", true);
    const uint64_t now_ms = core_now_ms(call->core);
    feed_note_caller(call->api, pool, command, now_ms, now_ms);
    if (command->has_part)
        write_seed_parts(call, pool, command);
}

/* --- the action --------------------------------------------------------------------------------------------------- */

/* The request names the number of parts itself. */
static enum error read_part(struct call *call, struct feed_command *command)
{
    int64_t part = 0;
    enum error error = pool_call_parts(call, &command->parts);
    if (error == OK)
        error = params_integer(&call->params, "Part", &part, &command->has_part);
    if (error != OK || !command->has_part)
        return error;
    if (part < 0 || part >= (int64_t)command->parts || yyjson_obj_get(call->params.object, "Parts") == NULL)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Part must be from 0 to Parts - 1, and Parts must be given with it.");
    command->part = (uint32_t)part;
    return OK;
}

static enum error read_command(struct call *call, struct feed_command *command, int64_t *wait_s)
{
    int64_t from = 0;
    bool is_given;
    enum error error = params_integer(&call->params, "From", &from, &is_given);
    if (error == OK && !is_given)
        error = call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter From.");
    if (error == OK && from < 0)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "From must be 0 or the number of an event.");
    command->from = (uint64_t)from;
    command->results_max = EVENTS_MAX;
    if (error == OK)
        error = params_integer_in(&call->params, "MaxResults", 1, EVENTS_MAX, "It must be from 1 to 1000.",
                                  &command->results_max);
    if (error == OK)
        error = params_integer_in(&call->params, "WaitTimeSeconds", 0, WAIT_MAX_S, "It must be from 0 to 20.", wait_s);
    return error == OK ? read_part(call, command) : error;
}

enum error action_feed_tickets(struct call *call)
{
    struct ticket_pool *pool;
    struct feed_command command = {0};
    int64_t wait_s = 0;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = read_command(call, &command, &wait_s);
    if (error != OK)
        return error;
    feed_begin(&pool->feed);
    if (command.from == 0 && pool->feed.is_whole)
        command.from = pool->feed.first;
    if (wait_s == 0 || feed_has_answer(pool, &command)) {
        feed_write(call, pool, &command);
        return OK;
    }
    uint64_t now_ms = core_now_ms(call->core);
    uint64_t deadline_ms = call->now_ms + (uint64_t)wait_s * 1000;
    feed_note_caller(call->api, pool, &command, now_ms, deadline_ms);
    wait_pool_feed(call, pool, &command, deadline_ms);
    return OK;
}
