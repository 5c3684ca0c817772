/* Salvage of a namespace: reads what can be read of its folder, whatever is damaged, and writes it into a new folder
 * that a tallyd starts on.
 *
 * The folder is only read. What was read becomes a normal state; each thing that is lost or doubtful becomes a note.
 * The new folder is a snapshot of that state, behind which its log begins with the contents of all messages
 * (docs/internals/decisions/0017). core/salvage.h says what becomes of a state when some of its log is lost,
 * log/survey.h how frames are found behind damage. */
#ifndef TALLY_ENGINE_SALVAGE_H
#define TALLY_ENGINE_SALVAGE_H

#include "core/core.h"
#include "log/disk.h"

/* X(KIND, name, is_loss): the name stands in reports. */
#define SALVAGE_NOTES(X)                                                                                               \
    X(DAMAGE, "damage", false)        /* file, offset and size, and what is wrong there */                             \
    X(GAP, "gap", true)               /* frames `first` to `last` are lost; last 0: how many is not known */           \
    X(RESCUED, "rescued", false)      /* `first` messages of a damaged frame that could be read all the same */        \
    X(FOUNDING, "founding", true)     /* the key is lost: receipt handles that clients hold are refused */             \
    X(MESSAGE, "message", true)       /* was sent in a gap, and may have ended there */                                \
    X(CONTENT, "content", true)       /* a message whose content can't be read: it has failed */                       \
    X(MAY_REPEAT, "may-repeat", true) /* a message that may have ended in a gap: it may be delivered again */          \
    X(REQUEUED, "requeued", true)     /* a message whose queue is not known */                                         \
    X(UNNAMED_QUEUE, "queue", true)   /* a queue whose name and settings are not known */                              \
    X(BATCH, "batch", true)           /* a batch that does not complete by itself */                                   \
    X(UNIT, "unit", true)             /* a message that no longer is a unit of its batch */                            \
    X(POOL, "pool", true)             /* a pool whose tickets may have been matched in a gap */                        \
    X(PUBLISHER, "publisher", true)   /* rows of this publisher may be published twice */                              \
    X(EVENT, "event", true)           /* an event behind a gap that could not be applied */

enum salvage_note_kind {
#define SALVAGE_ENUM(KIND, name, is_loss) SALVAGE_##KIND,
    SALVAGE_NOTES(SALVAGE_ENUM)
#undef SALVAGE_ENUM
        SALVAGE_NOTE_COUNT
};

struct salvage_note {
    enum salvage_note_kind kind;
    const char *file; /* name inside the folder; NULL: none */
    uint64_t offset;  /* in that file, bytes; likewise the size */
    uint64_t size;
    uint64_t first; /* frames, by sequence, or a count; 0: none */
    uint64_t last;
    uint64_t from_ms; /* of a gap: times of the frames around it; 0: not known */
    uint64_t until_ms;
    struct bytes name; /* MessageId, or name of a queue, batch, pool, publisher or event; empty: none */
    const char *text;  /* NULL: none */
};

const char *salvage_note_name(enum salvage_note_kind kind);
bool salvage_note_is_loss(enum salvage_note_kind kind);

struct salvage_options {
    const char *name;           /* 12 digits, for a namespace whose founding is lost; borrowed */
    uint8_t key[CORE_KEY_SIZE]; /* random, for the same */
    uint64_t segment_size;      /* for the same, where no segment is left either */
    /* Told each note; its views are borrowed until it returns. */
    void (*report)(void *context, const struct salvage_note *note);
    void *context;
};

struct salvage;

struct salvage_facts {
    uint64_t segments;
    uint64_t frames; /* whole ones, with events */
    uint64_t bytes;  /* of segments */
    uint64_t newest; /* sequence of the newest frame that is in the state */
    uint64_t notes[SALVAGE_NOTE_COUNT];
    bool is_empty; /* there is neither a segment with a frame nor a snapshot */
    bool has_loss;
};

/* Reads the folder and every content in it. Errors: ERROR_LOG_LOCKED; ERROR_DISK_FAILED where the folder can't be
 * listed; ERROR_LOG_DAMAGED where nothing can be read, or where a newer version wrote it. */
enum error salvage_read(struct disk *from, const struct salvage_options *options, struct salvage **salvage,
                        struct failure *failure);
void salvage_destroy(struct salvage *salvage);

/* What was read, for counting; NULL where the folder is empty. */
const struct core *salvage_core(const struct salvage *salvage);
struct salvage_facts salvage_facts(const struct salvage *salvage);

/* Writes all of it into an empty folder, durably. Once; the state is spent then. Errors as log_open() and
 * log_write(). */
enum error salvage_write(struct salvage *salvage, struct disk *to, struct failure *failure);

#endif
