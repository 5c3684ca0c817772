/* PutBackMatch and ConfirmMatch. */
#include "api/pool_call.h"
#include "core/pools/decide_match.h"

static enum error read_match(struct call *call, struct ticket_pool **pool, uint64_t *match)
{
    enum error error = pool_call_find(call, pool);
    return error == OK ? pool_call_match(call, match) : error;
}

/* The id as the request gives it, because it may name nothing. */
static void write_status(struct call *call, const char *status)
{
    writer_text(call->reply, "MatchId", params_bytes(yyjson_obj_get(call->params.object, "MatchId")));
    writer_string(call->reply, "Status", status);
}

enum error action_put_back_match(struct call *call)
{
    struct ticket_pool *pool;
    uint64_t match;
    enum error error = read_match(call, &pool, &match);
    if (error != OK)
        return error;
    enum match_outcome outcome = match == 0 ? MATCH_IS_UNKNOWN : decide_put_back(call->core, pool, match);
    write_status(call, outcome == MATCH_DONE ? "put-back" : outcome == MATCH_IS_ACKED ? "acked" : "unknown");
    return OK;
}

enum error action_confirm_match(struct call *call)
{
    static const char *const names[] = {
        [MATCH_DONE] = "too-late",     [MATCH_WAITS] = "held",        [MATCH_WAS_MADE] = "matched",
        [MATCH_IS_UNDONE] = "refused", [MATCH_IS_ACKED] = "too-late", [MATCH_IS_UNKNOWN] = "unknown",
    };
    struct ticket_pool *pool;
    uint64_t match;
    struct bytes ticket;
    bool accepts = true;
    enum error error = read_match(call, &pool, &match);
    if (error == OK)
        error = params_required_text(&call->params, "TicketId", &ticket);
    if (error == OK)
        error = params_boolean(&call->params, "Accept", &accepts);
    if (error != OK)
        return error;
    enum match_outcome outcome =
        match == 0 ? MATCH_IS_UNKNOWN : decide_confirm(call->core, pool, match, ticket, accepts);
    write_status(call, names[outcome]);
    return OK;
}
