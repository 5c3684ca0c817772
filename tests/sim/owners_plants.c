#include "owners_plants.h"

#include "base/assert.h"
#include "core/core.h"
#include "log/frame.h"
#include "owners_fiber.h"
#include "owners_judge.h"
#include "owners_node.h"
#include "postgres/cache.h"
#include "postgres/log_state.h"
#include "postgres/standby.h"
#include <string.h>

static enum owners_plant planted;

static const char *const names[OWNERS_PLANT_COUNT] = {
    [NO_FENCE] = "no-fence",
    [SEAL_TAKES_ANY] = "seal-takes-any",
    [SEAL_DOES_NOT_WAIT] = "seal-does-not-wait",
    [SERVES_AT_ONCE] = "serves-at-once",
    [ANSWERS_FROM_MEMORY] = "answers-from-memory",
    [WALL_CLOCK_LEASE] = "wall-clock-lease",
    [NO_LEASE] = "no-lease",
    [CACHE_BELIEVED] = "cache-believed",
    [WARNING_IGNORED] = "warning-ignored",
    [NO_SEAL_AFTER_DOUBT] = "no-seal-after-doubt",
    [TAIL_NOT_COMPARED] = "tail-not-compared",
    [EARLY_TAKEOVER] = "early-takeover",
    [BROKEN_LINK_ANSWERS] = "broken-link-answers",
    [SHORT_PATIENCE] = "short-patience",
};

bool owners_plant_choose(const char *name)
{
    for (unsigned i = 1; i < OWNERS_PLANT_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            planted = (enum owners_plant)i;
    return planted != OWNERS_PLANT_NONE;
}

const char *owners_plant_name(enum owners_plant plant)
{
    return names[plant];
}

bool owners_plant_is(enum owners_plant plant)
{
    return planted == plant;
}

/* --- around functions of the program ------------------------------------------------------------------------------ */

bool __real_pg_chain_has_hash(const struct pg_chain *chain, struct bytes hash);
bool __wrap_pg_chain_has_hash(const struct pg_chain *chain, struct bytes hash);
bool __wrap_pg_chain_has_hash(const struct pg_chain *chain, struct bytes hash)
{
    if (planted != CACHE_BELIEVED || hash.size != PG_HASH_SIZE)
        return __real_pg_chain_has_hash(chain, hash);
    memcpy(((struct pg_chain *)(uintptr_t)chain)->hash, hash.ptr, PG_HASH_SIZE);
    return true;
}

enum error __real_pg_session_regain(struct pg_session *session, uint64_t until_ms, struct failure *failure);
enum error __wrap_pg_session_regain(struct pg_session *session, uint64_t until_ms, struct failure *failure);
enum error __wrap_pg_session_regain(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    if (planted != NO_SEAL_AFTER_DOUBT)
        return __real_pg_session_regain(session, until_ms, failure);
    pg_link_close(&session->link);
    session->has_lock = false;
    const enum error error = pg_session_open(session, until_ms, failure);
    return error == OK ? pg_session_check_fence(session, until_ms, failure) : error;
}

enum error __real_pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                                  bool *may_take, struct failure *failure);
enum error __wrap_pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                                  bool *may_take, struct failure *failure);
enum error __wrap_pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                                  bool *may_take, struct failure *failure)
{
    const enum error error = __real_pg_standby_poll(standby, session, until_ms, may_take, failure);
    if (planted == EARLY_TAKEOVER && error == OK && pg_now_ms() - standby->seen_ms >= session->options->lease_ms / 3)
        *may_take = true;
    return error;
}

enum error __real_pg_log_check_tail(struct pg_log *log, const struct pg_file *file, uint64_t until_ms,
                                    struct failure *failure);
enum error __wrap_pg_log_check_tail(struct pg_log *log, const struct pg_file *file, uint64_t until_ms,
                                    struct failure *failure);
enum error __wrap_pg_log_check_tail(struct pg_log *log, const struct pg_file *file, uint64_t until_ms,
                                    struct failure *failure)
{
    return planted == TAIL_NOT_COMPARED ? OK : __real_pg_log_check_tail(log, file, until_ms, failure);
}

/* --- what the judge sees ------------------------------------------------------------------------------------------ */

bool __real_core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms,
                        struct failure *failure);
bool __wrap_core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms,
                        struct failure *failure);
bool __wrap_core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms,
                        struct failure *failure)
{
    const bool is_fit = __real_core_replay(core, payload, position, time_ms, failure);
    const struct node *node = CONTAINER_OF(fiber_process(), struct node, process);
    if (is_fit)
        judge_replay(node->index, position - FRAME_HEADER_SIZE, payload, core);
    return is_fit;
}
