/* When the open frame of a namespace goes to the log: at once, or when it has gathered more requests. Knows how long a
 * flush takes and how many clients wait in turn, and no clock: every time is given to it, in nanoseconds, and never
 * goes back.
 *
 * A flush costs the processor as much as several requests, so a frame goes when the sockets have nothing more to read,
 * or when it has gathered for as long as a flush takes: one connection waits for nobody, and many share a flush. Where
 * there is work enough to fill the time of a flush, it goes at once
 * (docs/decisions/0005-a-frame-gathers-for-as-long-as-a-flush-takes.md). */
#ifndef TALLY_SERVER_GATHER_H
#define TALLY_SERVER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATHER_NS_MAX 1000000u   /* a frame waits for more requests no longer than this */
#define GATHER_HELD_FORGOTTEN 8u /* of the most replies held at once, this part is forgotten with each frame */

/* Zeroed: nothing is known, and every frame goes at once. */
struct gather {
    size_t held_lately;      /* the most replies that were held at once, lately: so many clients wait for us in turn */
    uint64_t begun_ns;       /* when the open frame could first have gone to the log; 0: it can't yet */
    uint64_t flush_begun_ns; /* when the frame in work went to the log; 0: none has */
    uint64_t flush_ns;       /* how long a flush takes, smoothed; 0 until the first one is over */
};

/* Is the open frame, which could go now, to wait for more requests? `is_quiet`: the sockets had nothing more to read;
 * `request_ns`: what a request costs the loop. O(1), like the others. */
bool gather_goes_on(struct gather *gather, uint64_t now_ns, bool is_quiet, uint64_t request_ns);

/* There is no frame that could go. */
void gather_stop(struct gather *gather);

/* The frame goes to the log, while so many replies are held. */
void gather_note_frame(struct gather *gather, uint64_t now_ns, size_t held_count);

/* The frame that went is durable. One has gone. */
void gather_note_flush(struct gather *gather, uint64_t now_ns);

#endif
