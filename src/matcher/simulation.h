/* A simulation: offers recorded tickets to a matcher again, with a clock that follows their recorded times. It shows
 * who is matched with whom, and how long tickets wait under given rules. `tally pool simulate` uses it, and so does the
 * comparison with a slow evaluator (tests/match).
 *
 * What happens at one instant happens in the order of the rule language: arrivals, then steps, then expiries, each in
 * the order of the tickets' numbers, and after each the matcher looks until no seed is left. A match also ends the
 * others of its members' exclusive sets. Pure: the tickets carry the time. */
#ifndef TALLY_MATCHER_SIMULATION_H
#define TALLY_MATCHER_SIMULATION_H

#include "base/list.h"
#include "base/table.h"
#include "match/matcher.h"

struct simulation;

/* Why a ticket ended without a match. */
enum simulation_end { SIMULATION_EXPIRED, SIMULATION_CANCELLED /* another of its exclusive set was matched */ };

/* Callbacks for what happens, as it happens. The tickets are valid until the call returns. */
struct simulation_watcher {
    void *context;
    void (*matched)(void *context, const struct simulation *simulation, const struct matcher_group *group);
    void (*ended)(void *context, const struct simulation *simulation, uint32_t slot, enum simulation_end end);
};

/* A ticket that waits. */
struct simulation_ticket {
    uint32_t slot;      /* its own */
    struct entry entry; /* its number counts the offers, from 1; 0: a free record */
    struct facts *facts_owned;
    struct list_link set_link; /* in its exclusive set */
    uint32_t set;              /* slot in `sets`; 0: none */
    uint32_t expiry_index;
};

struct simulation {
    const struct rules *rules; /* borrowed */
    struct simulation_watcher watcher;
    uint64_t ttl_ms; /* for tickets without a ttl; 0: none */
    uint32_t budget; /* steps of one call of the matcher */
    uint64_t now_ms;
    uint64_t offered;
    struct slab tickets; /* struct simulation_ticket */
    struct heap expiries;
    struct slab sets; /* exclusive sets; they stay */
    struct table set_by_name;
    struct matcher matcher;
};

/* A recorded ticket. */
struct simulation_offer {
    uint64_t at_ms;
    yyjson_val *attributes; /* objects, or NULL; borrowed */
    yyjson_val *need;
    uint32_t weight;
    uint8_t priority;
    bool has_ttl;
    uint64_t ttl_ms;
    struct bytes set; /* name of the exclusive set; empty: none */
};

void simulation_init(struct simulation *simulation, const struct rules *rules, uint64_t window_ms, uint64_t ttl_ms,
                     uint32_t budget, const struct simulation_watcher *watcher);
void simulation_deinit(struct simulation *simulation);

/* Reads {"t": seconds, "attrs", "need", "n", "prio", "ttl": "30s" or seconds, "xid"}, all but t optional, or an offer
 * of a feed: {"OfferedAt", "Attributes", "Need", "Weight", "Priority", "ExpiresAt", "ExclusiveSet"}; other members are
 * passed over. False with `failure` filled if it is none. */
bool simulation_read(yyjson_val *line, struct simulation_offer *offer, struct failure *failure);

/* "500ms", "10s", "5m", "1h". False, with *ms untouched, if the text is none. */
bool simulation_duration(struct bytes text, uint64_t *ms);

/* Does everything that falls due before `until_ms`, and then offers the ticket at its time, which is not before those
 * of the tickets offered so far. False, with `failure` filled and nothing done, if the rules don't take such a
 * ticket. */
bool simulation_offer(struct simulation *simulation, const struct simulation_offer *offer, struct failure *failure);

/* When something next falls due by itself; UINT64_MAX: never. O(1). */
uint64_t simulation_due_ms(const struct simulation *simulation);

/* Does everything that falls due before `until_ms`. */
void simulation_advance(struct simulation *simulation, uint64_t until_ms);

const struct simulation_ticket *simulation_ticket(const struct simulation *simulation, uint32_t slot);

#endif
