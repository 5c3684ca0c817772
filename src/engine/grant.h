/* A grant: the leases that one reply gives its reader, from their decision until the reply leaves.
 *
 * A reply is held until its frame is durable, which takes seconds on a disk that stalls; without care a lease could end
 * before its worker sees it. So no lease ends while its reply is held, and a lease of which more than a tenth is over
 * when the reply may leave is renewed (docs/internals/decisions/0015). Knows no request and no server: who sends a
 * reply owns its grant, and calls grant_may_leave() first. One thread. */
#ifndef TALLY_ENGINE_GRANT_H
#define TALLY_ENGINE_GRANT_H

#include "base/list.h"
#include "core/core.h"

/* Leases that one reply can give: of ten messages, or of ten entries. */
#define GRANT_LEASES_MAX 10u

/* The share of a lease that may be over when its reply leaves. */
#define GRANT_SHARE 10u

struct namespace;

struct grant {
    struct list_link link; /* among those of its namespace, until the reply leaves */
    uint64_t due_ms;       /* when the first of its leases would end; UINT64_MAX: it has none any more */
    uint64_t stale_ms;     /* from then on a lease of it is shorter than promised */
    uint64_t renewed_in;   /* frame of the newest renewal; 0: none */
    bool is_held_again;    /* the reply has waited for a renewal */
    bool is_unrepeatable;  /* no repeat of the request gets its leases: without the reply nobody ever has them */
    unsigned count;
    uint32_t timeouts_ms[GRANT_LEASES_MAX];
    struct granted_lease leases[GRANT_LEASES_MAX];
};

/* A match that waits for confirmations, and its frame: nobody can see the match before that frame is durable. */
struct unseen_match {
    uint64_t match;
    uint64_t sequence;
};

/* The grants of a namespace whose replies have not left, and the matches that nobody can have seen yet, in the order of
 * their frames. */
struct grants {
    struct list list;
    uint64_t due_ms; /* no lease of them ends before */
    struct unseen_match *holds_owned;
    size_t hold_count;
    size_t hold_capacity;
};

void grants_init(struct grants *grants);

/* Forgets all of them; their owners keep the memory. */
void grants_deinit(struct grants *grants);

/* Adds `count` leases to a reply, decided at now_ms for timeout_ms. *grant is the grant of the reply; if it is NULL,
 * makes one, which belongs to the caller. Returns the new leases; the caller fills in their deliveries. */
struct granted_lease *grants_add(struct grants *grants, struct grant **grant, unsigned count, uint32_t timeout_ms,
                                 uint64_t now_ms);

/* Call it before time passes to now_ms: renews each lease that would end by then. O(grants), at most twice in the
 * shortest lease. */
void grants_keep(struct grants *grants, struct namespace *ns, uint64_t now_ms);

/* Call it before time passes, and before the open frame, number `sequence`, is closed: notes its matches that wait for
 * confirmations. */
void grants_note_holds(struct grants *grants, struct core *core, uint64_t sequence);

/* Frames up to `durable` are durable: if they are late, the time for confirming their matches begins at now_ms. */
void grants_show_holds(struct grants *grants, struct namespace *ns, uint64_t durable, uint64_t now_ms);

/* The frame of the reply is durable. True: the reply leaves, with leases as long as promised; shorter only if the disk
 * has no room for a frame (DISK_SPENT). False: the reply must wait for another frame, *hold_sequence, because a crash
 * must not undo a renewal that is longer than what a restart grants again. */
bool grant_may_leave(struct grant *grant, struct namespace *ns, uint64_t now_ms, uint64_t *hold_sequence);

/* Does a reply that has not left give leases by this grant? NULL: it does not. */
static inline bool grant_is_held(const struct grant *grant)
{
    return grant != NULL && list_is_linked(&grant->link);
}

/* The reply will never leave: leases that nobody can have end, so that others get the messages. In the open frame. The
 * owner keeps the memory for its next reply. */
void grant_give_back(struct grant *grant, struct namespace *ns);

/* The reply has left, or never will. The owner keeps the memory for its next reply. */
void grant_forget(struct grant *grant);

/* Forgets it and frees its memory. NULL is allowed. */
void grant_destroy(struct grant *grant);

#endif
