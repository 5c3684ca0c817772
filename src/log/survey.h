/* A survey: reads every whole frame of a folder, skips damage, and reports where the damage is. It changes nothing.
 *
 * Recovery (recovery.h) decides whether a daemon may start, and stops at the first thing that is wrong. A survey goes
 * on behind it: frames begin on sectors and carry their position, so it can find the next whole one.
 * docs/internals/formats/log.md has the rules. */
#ifndef TALLY_LOG_SURVEY_H
#define TALLY_LOG_SURVEY_H

#include "log/disk.h"
#include "log/frame.h"

struct survey_damage {
    const char *file; /* name of the segment */
    uint64_t offset;  /* where it begins, in bytes of the file */
    uint64_t size;    /* bytes that could not be read as frames; 0: of the header only, or unknown */
    uint64_t position;
    struct bytes payload; /* of a frame whose header is right and whose body is not; else empty */
    uint64_t sequence;    /* of that frame; 0: it is none. Likewise the next */
    uint64_t time_ms;
    bool is_other_log; /* what follows does not continue what came before: nobody knows what lies between */
    const char *text;  /* what was expected and what was found */
};

/* What is found, in the order of the log. Views are borrowed until the function returns. */
struct survey_visitor {
    void *context;
    void (*frame)(void *context, const struct frame_view *frame);
    void (*damage)(void *context, const struct survey_damage *damage);
};

struct survey {
    uint64_t segment_size;   /* 0: there is no segment */
    uint64_t segment_count;  /* files */
    uint64_t newest_ordinal; /* of those */
    uint64_t bytes;          /* of all segments */
    uint64_t frame_count;    /* whole ones with events */
    uint64_t epoch;          /* of the newest; likewise the next two */
    uint64_t sequence;       /* or, if a segment's header speaks of a later one, that */
    uint64_t time_ms;
};

/* Surveys the folder. `begin`: the position where the log goes on behind the newest snapshot, 0: there is none, so a
 * first segment of zeros may be what a start leaves that never came to its first frame. Damage goes to the visitor and
 * is no error.
 * Errors: ERROR_LOG_DAMAGED where not even the size of the segments can be told or a newer program wrote them;
 * ERROR_DISK_FAILED where the folder can't be listed. */
enum error survey_run(struct disk *disk, uint64_t begin, const struct survey_visitor *visitor, struct survey *survey,
                      struct failure *failure);

#endif
