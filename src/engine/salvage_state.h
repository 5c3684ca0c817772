/* The state of a salvage of a namespace. Private to engine/salvage*.c. */
#ifndef TALLY_ENGINE_SALVAGE_STATE_H
#define TALLY_ENGINE_SALVAGE_STATE_H

#include "base/buffer.h"
#include "core/salvage.h"
#include "engine/salvage.h"
#include "log/frame.h"
#include "log/snapshot.h"
#include "log/survey.h"

/* Reads contents of the damaged folder; most of them follow each other. */
struct content_reader {
    struct disk *disk;
    uint64_t segment_size;
    uint64_t ordinal;       /* of the open segment */
    struct disk_file *file; /* NULL: none is open */
    uint64_t file_size;
    struct buffer window; /* its bytes from window_offset on */
    uint64_t window_offset;
};

void content_reader_init(struct content_reader *reader, struct disk *disk, uint64_t segment_size);
void content_reader_deinit(struct content_reader *reader);

/* The content at that position of the log, if its checksum is right; borrowed until the next call. False if it can't be
 * read. */
bool content_reader_read(struct content_reader *reader, uint64_t position, uint32_t size, struct bytes *encoded);

struct salvage {
    struct salvage_options options;
    struct disk *from;
    struct core *core;          /* NULL: the folder is empty */
    struct core_salvage *loose; /* what the core knows of gaps */
    struct survey survey;
    struct snapshot_point point; /* of the snapshot; zeros: none could be read */
    uint64_t sequence;           /* of the newest frame in the state */
    uint64_t end_ms;             /* the time of that frame */
    bool is_end_lost;            /* behind that frame there is damage, and no frame so far */
    bool is_foreign;             /* a newer version wrote this */
    bool has_lost_key;
    bool has_unknown_messages; /* and that was noted */
    uint64_t foreign_position;
    struct buffer prefix; /* payload of a damaged snapshot, up to the damage */
    uint64_t prefix_position;
    struct live_content *lost_owned; /* messages whose contents can't be read */
    size_t lost_count;
    struct content_reader reader;
    struct salvage_facts facts;
};

void salvage_note(struct salvage *salvage, const struct salvage_note *note);

#endif
