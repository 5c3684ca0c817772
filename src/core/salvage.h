/* Salvage: brings a core as far as a damaged log allows, and says what is missing.
 *
 * It is a replay that goes on behind a gap. There an event may not fit, because what it speaks of was made or ended in
 * the gap. First the state is bridged (salvage_bridge.c): numbers jump forward, a queue that must have been created
 * gets a name of its own, a unit of an unknown batch becomes a plain message. What then still does not fit changes
 * nothing and is counted. At the end (salvage_end.c) every number jumps, so that none is given out twice, and batches
 * that can't be trusted get a unit that never ends.
 *
 * At the end core_check() holds. Knows no disk: whoever calls it reads the frames. */
#ifndef TALLY_CORE_SALVAGE_H
#define TALLY_CORE_SALVAGE_H

#include "core/core.h"

enum core_loss {
    /* A message that was sent in a gap, or was moved in one out of a queue that was emptied then; it may have ended
     * there, too. Number 0: since that gap none was sent, so the numbers of those that were sent in it are not
     * known. */
    LOSS_SENT,
    LOSS_ENDED,     /* a live message that may have ended in a gap: it may come twice */
    LOSS_QUEUE,     /* a queue that was created in a gap: its name and settings are not known */
    LOSS_BATCH,     /* a batch that was open in a gap: it does not complete by itself */
    LOSS_UNIT,      /* a message that was a unit of a batch which is not known, or has no room for it */
    LOSS_POOL,      /* a pool that was there in a gap: its tickets may have been matched */
    LOSS_PUBLISHER, /* a publisher that was there in a gap: rows may be published twice */
    LOSS_EVENT,     /* an event that does not fit */
    CORE_LOSS_COUNT
};

struct core_finding {
    enum core_loss kind;
    uint64_t number;   /* of a message; else 0 */
    uint64_t last;     /* LOSS_SENT: it stands for all messages up to this one, or 0: for itself alone */
    struct bytes name; /* of a queue, batch, pool, kind of event; else empty. A publisher's 16 bytes */
    uint64_t position; /* of an event; else 0 */
};

/* Name of the queue for messages whose queue is not known. A queue without a name is called SALVAGE_QUEUE_NAME "-" and
 * its id. */
#define SALVAGE_QUEUE_NAME "salvaged"

/* Key of the unit that keeps a batch from completing; whoever knows that the batch's units are done completes it by
 * hand. If one of that name has ended, since an earlier salvage, the key is SALVAGE_UNIT_KEY "-2", and so on. */
#define SALVAGE_UNIT_KEY "tally-salvage"

struct core_salvage;

/* `core` is borrowed: fresh, or as a snapshot has it. `tell` hears of each finding; its views are borrowed until it
 * returns. */
struct core_salvage *core_salvage_create(struct core *core,
                                         void (*report)(void *context, const struct core_finding *finding),
                                         void *context);
void core_salvage_destroy(struct core_salvage *salvage);

/* Frames are missing here: whatever is alive may have ended since. */
void core_salvage_gap(struct core_salvage *salvage);
bool core_salvage_has_gap(const struct core_salvage *salvage);

/* The events of the next whole frame. False, with *position that of the event, if this version does not know it: a
 * newer one wrote it. */
bool core_salvage_frame(struct core_salvage *salvage, struct bytes payload, uint64_t position, uint64_t time_ms,
                        uint64_t *unknown_position);

/* What is left of a frame whose body is damaged: messages and contents in it that prove themselves by a checksum and by
 * an id that only this namespace can have given. Behind core_salvage_gap(). Returns how many. */
unsigned core_salvage_broken_frame(struct core_salvage *salvage, struct bytes payload, uint64_t position,
                                   uint64_t time_ms);

/* A namespace whose founding is lost gets a name and a key; those who hold receipt handles must receive again. */
void core_salvage_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size);

/* The newest numbers that were given out by the moment of a snapshot, and the time then. */
struct salvage_numbers {
    uint64_t message;
    uint64_t delivery;
    uint64_t batch;
    uint64_t now_ms;
};

/* Reads identity and queues from the start of an encoded state whose rest is lost, into a fresh core. False: not even
 * those can be had; the core must then be destroyed. What events before `position` say of these queues is older than
 * that: core_salvage_know_queues(), which also takes care that the numbers are not given out twice. */
bool core_salvage_decode(struct core *core, struct bytes start, struct salvage_numbers *newest);
void core_salvage_know_queues(struct core_salvage *salvage, uint64_t position, const struct salvage_numbers *newest);

/* Behind the last frame: tells what is doubtful, and makes the state one that can be served. */
void core_salvage_end(struct core_salvage *salvage);

/* Contents without an index entry: the messages they belong to were sent in a gap, and nothing says that they have
 * ended. By number. */
struct salvage_orphan {
    uint64_t number;
    uint64_t position;
    uint32_t size;
};
size_t core_salvage_orphans(const struct core_salvage *salvage, const struct salvage_orphan **orphans);

/* The slot's message; false if the slot is free. For walking over all: slots go from 1 to below
 * core_salvage_slot_end(). */
uint32_t core_salvage_slot_end(const struct core *core);
bool core_salvage_content(const struct core *core, uint32_t slot, struct live_content *content);

/* The live message of that number; false if there is none. */
bool core_salvage_find(const struct core *core, uint64_t number, struct live_content *content);

/* Ends a message whose content can't be read: as failed, with all that this makes due. A frame is open. */
void decide_lose_message(struct core *core, const struct live_content *content);

/* Sends an orphan, as a new message with the content that it has, into SALVAGE_QUEUE_NAME, which is made if there is
 * none. A frame is open. */
void decide_send_orphan(struct core *core, struct bytes content);

#endif
