#include "engine/grant.h"

#include "base/memory.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_message.h"
#include "core/pools/decide_match.h"
#include "engine/namespace.h"
#include <stdlib.h>

void grants_init(struct grants *grants)
{
    *grants = (struct grants){.due_ms = UINT64_MAX};
    list_init(&grants->list);
}

void grants_deinit(struct grants *grants)
{
    while (!list_is_empty(&grants->list))
        grant_forget(CONTAINER_OF(list_first(&grants->list), struct grant, link));
    free(grants->holds_owned);
}

/* Takes lease `index` into account for when the grant is next due. */
static inline void grant_measure(struct grant *grant, unsigned index)
{
    uint64_t end_ms = grant->leases[index].visible_at_ms;
    uint32_t timeout_ms = grant->timeouts_ms[index];
    uint64_t stale_ms = end_ms - timeout_ms + timeout_ms / GRANT_SHARE + 1;
    grant->due_ms = end_ms < grant->due_ms ? end_ms : grant->due_ms;
    grant->stale_ms = stale_ms < grant->stale_ms ? stale_ms : grant->stale_ms;
}

/* Begins the grant of a reply that gives no lease yet. */
static void grant_begin(struct grants *grants, struct grant *grant)
{
    grant->due_ms = grant->stale_ms = UINT64_MAX;
    grant->renewed_in = 0;
    grant->is_held_again = grant->is_unrepeatable = false;
    list_append(&grants->list, &grant->link);
}

struct granted_lease *grants_add(struct grants *grants, struct grant **of_reply, unsigned count, uint32_t timeout_ms,
                                 uint64_t now_ms)
{
    ASSERT(count > 0 && timeout_ms > 0);
    if (*of_reply == NULL)
        *of_reply = memory_allocate_zeroed(sizeof(**of_reply));
    struct grant *grant = *of_reply;
    if (!grant_is_held(grant))
        grant_begin(grants, grant);
    unsigned first = grant->count;
    grant->count += count;
    ASSERT(grant->count <= GRANT_LEASES_MAX);
    for (unsigned i = first; i < grant->count; i++) {
        grant->leases[i].visible_at_ms = now_ms + timeout_ms;
        grant->timeouts_ms[i] = timeout_ms;
    }
    grant_measure(grant, first);
    grants->due_ms = grant->due_ms < grants->due_ms ? grant->due_ms : grants->due_ms;
    return &grant->leases[first];
}

/* Renews all its leases from now_ms on; drops those that somebody has ended or shortened since. */
static void grant_renew(struct grant *grant, struct namespace *ns, uint64_t now_ms)
{
    struct core *core = namespace_begin(ns, namespace_time(ns)); /* while they last: time passes afterwards */
    unsigned count = 0;
    grant->due_ms = grant->stale_ms = UINT64_MAX;
    for (unsigned i = 0; i < grant->count; i++) {
        if (!decide_renew_lease(core, &grant->leases[i], now_ms + grant->timeouts_ms[i]))
            continue;
        grant->leases[count] = grant->leases[i];
        grant->timeouts_ms[count] = grant->timeouts_ms[i];
        grant_measure(grant, count++);
    }
    grant->count = count;
    grant->renewed_in = namespace_hold_sequence(ns);
}

void grants_keep(struct grants *grants, struct namespace *ns, uint64_t now_ms)
{
    grants->due_ms = UINT64_MAX; /* so that namespace_begin() does not come back here */
    uint64_t due_ms = UINT64_MAX;
    for (struct list_link *link = list_first(&grants->list); link != NULL; link = list_next(&grants->list, link)) {
        struct grant *grant = CONTAINER_OF(link, struct grant, link);
        /* Leases that are half over are renewed as well; otherwise thousands would be visited again each
         * millisecond. */
        if (grant->count > 0 && grant->due_ms <= now_ms + grant->timeouts_ms[0] / 2)
            grant_renew(grant, ns, now_ms);
        due_ms = grant->due_ms < due_ms ? grant->due_ms : due_ms;
    }
    grants->due_ms = due_ms;
}

/* Could a crash undo more of a renewal than a restart grants again? */
static bool grant_is_long(const struct grant *grant)
{
    for (unsigned i = 0; i < grant->count; i++)
        if (grant->timeouts_ms[i] > RESTART_GRACE_MS)
            return true;
    return false;
}

bool grant_may_leave(struct grant *grant, struct namespace *ns, uint64_t now_ms, uint64_t *hold_sequence)
{
    /* Without room on the disk no lease can be renewed: a short lease is better than a reply that never leaves. */
    if (grant->stale_ms <= now_ms && namespace_disk_level(ns) != DISK_SPENT)
        grant_renew(grant, ns, now_ms);
    /* Once is enough: only a disk that stalls at each flush makes the reply late again, and then it would never
     * leave. */
    if (grant->renewed_in > *hold_sequence && grant_is_long(grant) && !grant->is_held_again) {
        grant->is_held_again = true;
        *hold_sequence = grant->renewed_in;
        return false;
    }
    grant_forget(grant);
    return true;
}

void grant_give_back(struct grant *grant, struct namespace *ns)
{
    if (grant->is_unrepeatable && grant->count > 0) {
        struct core *core = namespace_begin(ns, namespace_time(ns));
        for (unsigned i = 0; i < grant->count; i++)
            decide_end_lease(core, &grant->leases[i]);
    }
    grant_forget(grant);
}

void grant_forget(struct grant *grant)
{
    if (list_is_linked(&grant->link))
        list_remove(&grant->link);
    grant->count = 0;
}

void grant_destroy(struct grant *grant)
{
    if (grant != NULL)
        grant_forget(grant);
    free(grant);
}

/* --- matches ------------------------------------------------------------------------------------------------------ */

void grants_note_holds(struct grants *grants, struct core *core, uint64_t sequence)
{
    size_t next = 0;
    for (uint64_t match; (match = core_take_new_hold(core, &next)) != 0;) {
        ARRAY_GROW(grants->holds_owned, grants->hold_count, grants->hold_capacity);
        grants->holds_owned[grants->hold_count++] = (struct unseen_match){.match = match, .sequence = sequence};
    }
}

void grants_show_holds(struct grants *grants, struct namespace *ns, uint64_t durable, uint64_t now_ms)
{
    size_t count = 0;
    while (count < grants->hold_count && grants->holds_owned[count].sequence <= durable)
        count++;
    for (size_t i = 0; i < count; i++) /* decide_show_hold() may add others meanwhile */
        decide_show_hold(namespace_begin(ns, namespace_time(ns)), grants->holds_owned[i].match, now_ms);
    grants->hold_count -= count;
    memmove(grants->holds_owned, grants->holds_owned + count, grants->hold_count * sizeof(*grants->holds_owned));
}
