/* A namespace that the server serves: its api, its log, and the replies that wait for the log.
 *
 * Each turn of the loop goes through all sites; what they have in common (connections, requests, the clock) is the
 * hub's. */
#ifndef TALLY_SERVER_SITE_H
#define TALLY_SERVER_SITE_H

#include "server/clock.h"
#include "server/gather.h"
#include "server/hold.h"
#include "server/hub.h"

struct site {
    struct api *api; /* borrowed, as is its namespace */
    struct namespace *ns;
    const struct clock *clock; /* borrowed */
    struct hold hold;
    struct gather gather;
    uint64_t flushed_from; /* the newest durable frame when the frame in work went to the log */
};

void site_init(struct site *site, struct api *api, const struct clock *clock);

/* Takes what the api has finished: it may be written when its frame is durable. */
void site_drain(struct site *site);

/* Lets go what waited for frames that are durable now. */
void site_release(struct site *site);

/* Hands the open frame to the log, or lets it gather a little longer: then true. `is_quiet`: the sockets had nothing
 * more to read; `request_ns`: what a request costs the loop. */
bool site_flush(struct site *site, bool is_quiet, uint64_t request_ns);

/* The log has done something: if a flush is over, its frame goes, and it is remembered how long such a thing takes. */
void site_note_flush(struct site *site);

#endif
