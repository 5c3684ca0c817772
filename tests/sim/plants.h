/* Bugs planted on purpose, to see that the simulator finds them. None of this is in the programs: the linker puts the
 * functions of plants.c around those of the core (-Wl,--wrap), in the simulator only, and they pass through unless told
 * otherwise at run time. */
#ifndef TALLY_TESTS_SIM_PLANTS_H
#define TALLY_TESTS_SIM_PLANTS_H

#include "api/api.h"
#include "log/disk.h"

enum plant {
    PLANT_NONE,
    PLANT_COMPLETION_IN_OWN_FRAME, /* the last unit ends in one frame, its batch completes in the next */
    PLANT_REPLY_BEFORE_DURABLE,    /* replies are shown as soon as they are made */
    PLANT_XOR_REPEAT_TOGGLES,      /* a repeated XorUnits is taken for a new one */
    PLANT_LOST_UNIT,               /* going to a dead-letter queue does not end the unit */
    PLANT_NO_FOLDER_SYNC,          /* new segments and snapshots are not synced into the folder */
    PLANT_NO_SYNC,                 /* nothing is synced */
    PLANT_NO_CACHE_DROP,           /* recovery believes what the system's cache shows after a failed sync */
    PLANT_TRIM_NEEDED_SEGMENTS,    /* segments go though messages have their bodies in them */
    PLANT_STALE_HANDLE_DELETES,    /* any handle of a message deletes it, whatever its queue refuses */
    PLANT_STALE_HANDLE_IGNORED,    /* a delete with an older handle is answered with success, and does nothing */
    PLANT_NO_GRACE,                /* a restart gives leases no grace */
    PLANT_FORGOTTEN_FENCE,         /* giving back one of a run leaves the later ones with their holder */
    PLANT_PROLONGED_WINDOW,        /* each duplicate makes its id's window begin anew */
    PLANT_LOST_IDS,                /* a restart forgets deduplication ids */
    PLANT_SLEEPING_GROUP,          /* a group that can deliver again is not put among those that can */
    PLANT_EDGE_TOLD_TWICE,         /* one antecedent counts for two */
    PLANT_NO_CYCLE_SEARCH,         /* a message may wait for itself */
    PLANT_HOLD_SKIPS,              /* a head that should hold its group up makes way */
    PLANT_COMMIT_BY_HALVES,        /* a Commit that is refused has sent its messages */
    PLANT_NO_TYPE_ORDERS,          /* messages do not wait for earlier types */
    PLANT_NO_RATE,                 /* queues and groups deliver at any rate */
    PLANT_TAGS_REPLACED,           /* a queue's new tags are its only ones */
    PLANT_REDRIVE_FORGETS_UNIT,    /* a unit that is redriven stays failed */
    PLANT_MOVE_NOT_COUNTED,        /* a move task does not count what it moves */
    PLANT_NO_LATE_SUCCESS,         /* redriven units that succeed do not make their batch a success */
    PLANT_NO_UID_CHECK,            /* a published row is known in its own batch only */
    PLANT_FENCE_LOST,              /* after a restart any owner of a publisher is heard */
    PLANT_OLD_FRAME_TIME,          /* a frame keeps the time at which it was opened */
    PLANT_SHORT_LEASE,             /* a lease counts from its decision, however late its reply leaves */
    PLANT_LEASE_NOT_KEPT,          /* a lease may end while its reply is held */
    PLANT_SPENT_UNIT_GROWS,        /* a unit that has ended lets others join its batch */
    PLANT_GROWTH_NOT_COUNTED,      /* a Total does not grow with its batch */
    PLANT_NO_RESERVE,              /* what is kept for a full disk has no room on it */
    PLANT_LOOK_COUNTS,             /* looking at a message counts a receive of it */
    PLANT_DELETE_IN_FLIGHT,        /* DeleteMessages ends what somebody works at */
    PLANT_REPLACE_KEEPS,           /* ReplaceMessage sends the copy, and leaves the message where it is */
    PLANT_COUNT
};

/* The name on the command line; PLANT_COUNT: there is no such plant. */
const char *plant_name(enum plant plant);
enum plant plant_find(const char *name);

/* Chooses what the wrapped functions do from here on. */
void plant_choose(enum plant plant);
enum plant plant_chosen(void);

/* Puts a disk that forgets to sync in front of `disk`, if that is the plant. */
void plant_disk(struct disk *disk);

/* After a request: does what the plant left for a frame of its own. */
void plant_after_request(struct namespace *ns);
/* core_check() would find it: it is not called, to see that the oracle does too. */
bool plant_spoils_state(void);

/* The server is gone, and with it what was left. */
void plant_forget(void);

#endif
