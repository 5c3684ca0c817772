/* The other nodes, as this one reaches them: where the name in an advertised address leads, and when one that could not
 * be reached is tried again.
 *
 * A name is looked up when a request needs it. What was found is used for PEER_FOUND_MS. Then the name is looked up
 * again; until the answer is there, what was found before is used on, but no longer than for PEER_STALE_MS. Requests
 * share a look-up. A name's addresses are tried in order.
 *
 * Once all addresses of a node have failed, requests for it wait, and one of them tries, behind PEER_PAUSE_MS, and then
 * behind a pause that doubles up to PEER_PAUSE_MAX_MS. The others go when one has reached the node. So a node that is
 * gone is asked a few times a second, however many requests wait for it. One thread: the loop's. */
#ifndef TALLY_SERVER_PEER_H
#define TALLY_SERVER_PEER_H

#include "base/buffer.h"
#include "base/list.h"
#include "server/lookup.h"

#define PEER_FOUND_MS 5000u
#define PEER_STALE_MS 60000u
#define PEER_MISSED_MS 1000u /* from a look-up that failed to the next */
#define PEER_PAUSE_MS 20u
#define PEER_PAUSE_MAX_MS 160u
#define PEER_UNUSED_MS 60000u /* one that nobody needed for so long may be forgotten */
#define PEER_HOST_SIZE 256u   /* of a name, with its end */
#define PEER_ADDRESS_SIZE (PEER_HOST_SIZE + 8u)
#define PEER_TROUBLE_SIZE 320u

/* "10.0.0.1:9324", "[fd00::1]:9324" or "one.example:9324". */
struct peer_address {
    char host[PEER_HOST_SIZE]; /* without brackets */
    uint16_t port;
    bool is_name;                   /* it has to be looked up */
    struct sockaddr_storage socket; /* where it is no name */
};

struct peers {
    uv_loop_t *loop;
    struct list all;
    void (*changed)(void *context); /* a look-up is over */
    void *context;
    uint64_t lookups, lookups_failed;
    uint64_t connects_failed; /* noted with peer_note_failure() */
};

struct peer {
    struct peers *peers;
    struct list_link link;
    size_t users; /* those who have a pointer to it: it is not forgotten */
    char text[PEER_ADDRESS_SIZE];
    struct peer_address address;
    uint64_t used_ms; /* loop time, like all times here */

    struct lookup *lookup;                                   /* NULL: none is under way */
    uint64_t looked_ms;                                      /* when the newest one ended; 0: none yet */
    uint64_t found_ms;                                       /* when `addresses` were found */
    struct sockaddr_storage addresses[LOOKUP_ADDRESSES_MAX]; /* with the port */
    size_t count, next;

    size_t failed_count;             /* addresses that failed in a row */
    uint64_t failed_ms;              /* when the newest of them did */
    uint64_t pause_ms;               /* 0: it is reached, or not all addresses have failed */
    uint64_t next_try_ms;            /* while there is a pause */
    uint64_t reported_ms;            /* report.h */
    char trouble[PEER_TROUBLE_SIZE]; /* why it was not reached the last time; empty: it was */
};

/* False: it is no address with a port, or the name has characters that host names don't have. */
bool peer_address_parse(const char *text, struct peer_address *address);

/* In zeroed memory. */
void peers_init(struct peers *peers, uv_loop_t *loop, void (*changed)(void *context), void *context);

/* Ends the look-ups. The loop must run once more; behind that, where nobody uses one any more, peers_deinit(). */
void peers_close(struct peers *peers);
void peers_deinit(struct peers *peers);

/* The node at this address, which peer_address_parse() takes. */
struct peer *peers_get(struct peers *peers, const char *text);

/* May a request be sent to it now? Begins a look-up if one is needed. Each yes is one try. */
bool peer_may_try(struct peer *peer);

/* Where to try it; after a yes. */
const struct sockaddr_storage *peer_socket(const struct peer *peer);

/* Is that one of its addresses? */
bool peer_has_socket(const struct peer *peer, const struct sockaddr_storage *socket);

/* A connection to it was made, or one that was begun at `tried_ms` could not be. `why` is a clause, for people:
 * "connection refused". */
void peer_note_reached(struct peer *peer);
void peer_note_failure(struct peer *peer, uint64_t tried_ms, const char *why);

/* The longest pause between two tries that is in force; 0: none. */
uint64_t peers_pause_ms(const struct peers *peers);

#endif
