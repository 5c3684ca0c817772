/* Decides when the open frame of a namespace goes to the log: at once, or after it has gathered more requests. Knows
 * how long a flush takes and how many clients wait at a time. Knows no clock: every time is passed in, in nanoseconds,
 * and never goes back.
 *
 * A flush costs the processor as much as several requests. So a frame goes when the sockets have nothing more to read,
 * or when it has gathered for as long as a flush takes. A single connection waits for nobody; many connections share a
 * flush. If there is enough work to fill the time of a flush, the frame goes at once
 * (docs/internals/decisions/0005-a-frame-gathers-for-as-long-as-a-flush-takes.md). */
#ifndef TALLY_SERVER_GATHER_H
#define TALLY_SERVER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATHER_NS_MAX 1000000u   /* a frame waits for more requests no longer than this */
#define GATHER_HELD_FORGOTTEN 8u /* with each frame, the maximum of held replies loses this fraction */

/* Zeroed: nothing is known, and every frame goes at once. */
struct gather {
    size_t held_lately;      /* the recent maximum of replies held at once: how many clients wait for us at a time */
    uint64_t begun_ns;       /* when the open frame could first have gone to the log; 0: it can't yet */
    uint64_t flush_begun_ns; /* when the frame in work went to the log; 0: there is none */
    uint64_t flush_ns;       /* how long a flush takes, smoothed; 0 until the first one is over */
};

/* The open frame could go now. Should it wait for more requests? `is_quiet`: the sockets had nothing more to read;
 * `request_ns`: what a request costs the loop. O(1), like the others. */
bool gather_goes_on(struct gather *gather, uint64_t now_ns, bool is_quiet, uint64_t request_ns);

/* There is no frame that could go. */
void gather_stop(struct gather *gather);

/* The frame goes to the log, while this many replies are held. */
void gather_note_frame(struct gather *gather, uint64_t now_ns, size_t held_count);

/* The frame that went to the log is durable. A frame must have gone before. */
void gather_note_flush(struct gather *gather, uint64_t now_ns);

#endif
