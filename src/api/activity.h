/* Activity: what people and the server did with a namespace lately. FeedEvents tells it (feed_events.c).
 *
 * In memory only, and never a ground for a decision: with each start, and with each new owner, it begins anew. The
 * newest ACTIVITY_ITEMS_MAX items are kept, in at most ACTIVITY_SIZE_MAX bytes, which count as memory of the state.
 * While memory is full (memory-max), an item takes the room of older ones. A namespace of which nobody has noted or
 * read anything has none of this.
 *
 * Items have numbers that rise, also from one start to the next: a number is at least the log time in microseconds. */
#ifndef TALLY_API_ACTIVITY_H
#define TALLY_API_ACTIVITY_H

#include "api/api.h"

#define ACTIVITY_ITEMS_MAX 10000u
#define ACTIVITY_SIZE_MAX ((size_t)4 * 1024 * 1024)
#define ACTIVITY_TEXT_SIZE_MAX 1024u /* of one text; a longer one is cut */

enum activity_kind {
    ACTIVITY_AUDIT,  /* somebody asked for something that needs the right admin (audit.h) */
    ACTIVITY_SERVER, /* the server did, or met, something */
};

/* What there is to be told. Texts may be empty. */
struct activity_note {
    enum activity_kind kind;
    enum error result;       /* of what was asked */
    const char *action;      /* what was asked for, or what happened; static */
    struct bytes access_key; /* who asked, and from where */
    struct bytes address;
    struct bytes queue;  /* the name of the queue that it is about */
    struct bytes target; /* what it is about, if that is not the queue as a whole */
    bool is_of_queue;    /* the target belongs to the queue: whoever covers it may know it */
    struct bytes text;   /* what more there is to say */
};

struct activity_item {
    struct list_link link;
    uint64_t number;
    uint64_t at_ms;            /* log time */
    struct activity_note note; /* its texts stand behind it */
    size_t size;               /* of all that */
};

struct activity {
    struct list items; /* the oldest first */
    uint32_t count;
    size_t size;            /* bytes of the items */
    uint64_t last;          /* the number of the newest item that there ever was */
    uint64_t gone;          /* up to this number, what was is not here (any more) */
    uint64_t notices_taken; /* of the front's (front_notice()) */
};

/* Notes it, and lets those who wait for it know. */
void activity_add(struct api *api, uint64_t at_ms, const struct activity_note *note);

/* That of the namespace, with all that there is to tell. It is made if there is none. */
struct activity *activity_of(struct api *api);

/* What is counted for it of the memory of the state (base/accounted.h); 0: there is none. */
size_t activity_memory(const struct api *api);

void activity_deinit(struct api *api);

/* Has an item come for which somebody waits? */
bool activity_has_news(const struct api *api);

/* --- FeedEvents (feed_events.c) ----------------------------------------------------------------------------------- */

struct events_command {
    uint64_t after; /* items with higher numbers are asked for */
    int64_t results_max;
    bool must_be_newest; /* of more than results_max, the newest */
};

void events_init(struct api *api);

/* Answers those who wait for an item that came; a bounded number of them. */
void events_serve(struct api *api, uint64_t now_ms);

#endif
