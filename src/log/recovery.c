/* Recovery. See recovery.h, and docs/internals/formats/log.md for the rules that are applied here. */
#include "log/recovery.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/reserve.h"
#include "log/segment.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#define WINDOW_SIZE (1u << 20) /* bytes read at a time */

static const uint8_t zeros[FRAME_SECTOR_SIZE];

/* ERROR_LOG_DAMAGED at `offset` of the segment with this ordinal. */
static enum error damaged(const struct recovery *recovery, uint64_t ordinal, uint64_t offset, struct failure *failure,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

static enum error damaged(const struct recovery *recovery, uint64_t ordinal, uint64_t offset, struct failure *failure,
                          const char *format, ...)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    va_list arguments;
    va_start(arguments, format);
    const enum error error = segment_damaged_list(failure, recovery->disk, name, offset, format, arguments);
    va_end(arguments);
    return error;
}

/* --- The folder --------------------------------------------------------------------------------------------------- */

struct start_list {
    uint64_t *starts_owned; /* start positions of the segments there are */
    size_t count;
};

static void start_visit(void *context, const char *name)
{
    struct start_list *list = context;
    uint64_t start;
    if (!segment_name_decode(name, &start))
        return;
    list->starts_owned = memory_resize(list->starts_owned, (list->count + 1) * sizeof(*list->starts_owned));
    list->starts_owned[list->count++] = start;
}

static int start_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The last owner may have ended because a sync failed. What it wrote then can be read, but may never reach the disk.
 * Only the segment in use and the one behind it can hold such bytes. */
static enum error caches_drop(struct disk *disk, const struct start_list *list, struct failure *failure)
{
    for (size_t i = list->count < 2 ? 0 : list->count - 2; i < list->count; i++) {
        char name[SEGMENT_NAME_SIZE];
        segment_name(list->starts_owned[i], name);
        struct disk_file *file;
        const enum error error = disk->operations->open(disk, name, &file, failure);
        if (error != OK)
            return error;
        disk->operations->drop_cache(file);
        disk->operations->close(file);
    }
    return OK;
}

/* Reads a segment's header sector; *is_valid is false where there is none, or the file is too short for one. */
static enum error header_read(struct disk *disk, const char *name, struct segment_header *header, bool *is_valid,
                              uint64_t *file_size, struct failure *failure)
{
    struct disk_file *file;
    enum error error = disk->operations->open(disk, name, &file, failure);
    if (error != OK)
        return error;
    uint8_t sector[SEGMENT_HEADER_SIZE];
    *is_valid = false;
    error = disk->operations->size(file, file_size, failure);
    if (error == OK && *file_size >= sizeof(sector)) {
        error = disk->operations->read(file, 0, sector, sizeof(sector), failure);
        *is_valid = error == OK && segment_header_decode(bytes_make(sector, sizeof(sector)), header);
    }
    disk->operations->close(file);
    return error;
}

static enum error version_refuse(const struct recovery *recovery, const char *name, uint32_t version,
                                 struct failure *failure)
{
    return segment_damaged(failure, recovery->disk, name, 4,
                           "expected format version %u, found %" PRIu32 " (a newer program wrote it?)", SEGMENT_VERSION,
                           version);
}

/* All segments of a folder have one size: that of the first readable header. */
static enum error size_learn(struct recovery *recovery, const struct start_list *list, uint64_t segment_size,
                             struct failure *failure)
{
    recovery->segment_size = segment_size;
    for (size_t i = 0; i < list->count; i++) {
        struct segment_header header;
        bool is_valid;
        uint64_t file_size;
        char name[SEGMENT_NAME_SIZE];
        segment_name(list->starts_owned[i], name);
        const enum error error = header_read(recovery->disk, name, &header, &is_valid, &file_size, failure);
        if (error != OK)
            return error;
        if (!is_valid)
            continue;
        if (header.version != SEGMENT_VERSION)
            return version_refuse(recovery, name, header.version, failure);
        if (header.segment_size < SEGMENT_SIZE_MIN || header.segment_size > SEGMENT_SIZE_MAX ||
            header.segment_size % SEGMENT_SIZE_MIN != 0)
            return segment_damaged(failure, recovery->disk, name, 16, "a segment size of %" PRIu64 " is impossible",
                                   header.segment_size);
        recovery->segment_size = header.segment_size;
        return OK;
    }
    return OK;
}

/* Checks a segment that holds, or may hold, frames: size and header. *header is untouched where there is none. */
static enum error segment_check(const struct recovery *recovery, uint64_t ordinal, struct segment_header *header,
                                struct failure *failure)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    bool is_valid;
    uint64_t file_size;
    const enum error error = header_read(recovery->disk, name, header, &is_valid, &file_size, failure);
    if (error != OK)
        return error;
    if (file_size != recovery->segment_size)
        return damaged(
            recovery, ordinal, file_size, failure, "the segment is %s: expected %" PRIu64 " bytes, found %" PRIu64,
            file_size < recovery->segment_size ? "truncated" : "too long", recovery->segment_size, file_size);
    if (!is_valid)
        return damaged(recovery, ordinal, 0, failure, "the segment's header has a wrong checksum");
    if (header->version != SEGMENT_VERSION)
        return version_refuse(recovery, name, header->version, failure);
    if (header->segment_size != recovery->segment_size || header->ordinal != ordinal)
        return damaged(recovery, ordinal, 0, failure,
                       "expected the header of segment %" PRIu64 " with %" PRIu64 " bytes, found segment %" PRIu64
                       " with %" PRIu64 ": a file of another folder?",
                       ordinal, recovery->segment_size, header->ordinal, header->segment_size);
    return OK;
}

static enum error segment_missing(const struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    return damaged(recovery, ordinal, 0, failure, "this segment is missing");
}

/* From the segment where the replay begins, none may be missing up to the newest; older ones must be as they were. */
static enum error table_fill(struct recovery *recovery, const struct start_list *list, uint64_t first,
                             struct failure *failure)
{
    uint64_t expected = first;
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t ordinal = list->starts_owned[i] / recovery->segment_size;
        if (list->starts_owned[i] % recovery->segment_size != 0) {
            char name[SEGMENT_NAME_SIZE];
            segment_name(list->starts_owned[i], name);
            return segment_damaged(failure, recovery->disk, name, 0,
                                   "its name is no multiple of the segment size %" PRIu64, recovery->segment_size);
        }
        if (ordinal < first) {
            struct segment_header header;
            const enum error error = segment_check(recovery, ordinal, &header, failure);
            if (error != OK)
                return error;
        } else {
            if (ordinal != expected)
                return segment_missing(recovery, expected, failure);
            expected++;
        }
        segment_table_add(recovery->table, ordinal);
    }
    return OK;
}

enum error recovery_init(struct recovery *recovery, struct disk *disk, struct segment_table *table,
                         const struct snapshot_point *point, uint64_t segment_size, struct failure *failure)
{
    ASSERT(segment_size >= SEGMENT_SIZE_MIN && segment_size % SEGMENT_SIZE_MIN == 0);
    ASSERT(table->count == 0);
    *recovery = (struct recovery){
        .disk = disk,
        .table = table,
        .epoch = point->epoch,
        .sequence = point->sequence,
        .time_ms = point->time_ms,
        .is_following = disk->operations->await != NULL,
    };
    buffer_init(&recovery->window);
    struct start_list list = {0};
    enum error error = disk->operations->list(disk, start_visit, &list, failure);
    if (error == OK && list.count > 1)
        qsort(list.starts_owned, list.count, sizeof(*list.starts_owned), start_compare);
    if (error == OK)
        error = caches_drop(disk, &list, failure);
    if (error == OK)
        error = size_learn(recovery, &list, segment_size, failure);
    if (error != OK)
        goto out;

    segment_table_set_size(table, recovery->segment_size);
    recovery->ordinal = point->position / recovery->segment_size;
    recovery->offset = point->position % recovery->segment_size;
    const bool has_snapshot = point->position != 0;
    if (recovery->offset == 0 && !has_snapshot)
        recovery->offset = SEGMENT_HEADER_SIZE;
    error = table_fill(recovery, &list, recovery->ordinal, failure);
    if (error == OK && !segment_table_has(table, recovery->ordinal) && (has_snapshot || table->count > 0))
        error = segment_missing(recovery, recovery->ordinal, failure);
    if (error == OK && recovery->offset < SEGMENT_HEADER_SIZE)
        error = damaged(recovery, recovery->ordinal, recovery->offset, failure,
                        "the snapshot's position %" PRIu64 " lies inside a header", point->position);
out:
    free(list.starts_owned);
    return error;
}

void recovery_deinit(struct recovery *recovery)
{
    if (recovery->file != NULL)
        recovery->disk->operations->close(recovery->file);
    recovery->file = NULL;
    buffer_deinit(&recovery->window);
}

/* --- Reading ------------------------------------------------------------------------------------------------------ */

/* The bytes of the present segment at [offset, offset + size), borrowed until the next call. */
static enum error bytes_read(struct recovery *recovery, uint64_t offset, uint64_t size, struct bytes *bytes,
                             struct failure *failure)
{
    ASSERT(offset + size <= recovery->segment_size);
    struct buffer *window = &recovery->window;
    if (offset < recovery->window_offset || offset + size > recovery->window_offset + window->size) {
        uint64_t wanted = size > WINDOW_SIZE ? size : WINDOW_SIZE;
        if (wanted > recovery->segment_size - offset)
            wanted = recovery->segment_size - offset;
        buffer_truncate(window, 0);
        recovery->window_offset = offset;
        uint8_t *into = buffer_reserve(window, (size_t)wanted);
        const enum error error =
            recovery->disk->operations->read(recovery->file, offset, into, (size_t)wanted, failure);
        if (error != OK)
            return error;
        (void)buffer_extend(window, (size_t)wanted);
    }
    *bytes = bytes_make(window->data_owned + (offset - recovery->window_offset), (size_t)size);
    return OK;
}

static enum error segment_open(struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    if (recovery->file != NULL)
        recovery->disk->operations->close(recovery->file);
    recovery->file = NULL;
    buffer_truncate(&recovery->window, 0);
    recovery->ordinal = ordinal;
    return recovery->disk->operations->open(recovery->disk, name, &recovery->file, failure);
}

/* Reads everything from `offset` to the end of the present segment and finds the end of the last sector that is not
 * zero, or `offset`. A valid frame there means damage, because it proves that the bytes before it were durable. */
static enum error remains_find(struct recovery *recovery, uint64_t offset, uint64_t *remains_end,
                               struct failure *failure)
{
    ASSERT(offset % FRAME_SECTOR_SIZE == 0);
    uint64_t end = offset;
    for (uint64_t at = offset; at < recovery->segment_size; at += FRAME_SECTOR_SIZE) {
        struct bytes sector;
        const enum error error = bytes_read(recovery, at, FRAME_SECTOR_SIZE, &sector, failure);
        if (error != OK)
            return error;
        if (frame_bytes_are_zero(sector))
            continue;
        end = at + FRAME_SECTOR_SIZE;
        struct frame_header header;
        if (!frame_header_decode(sector, &header) || header.position != recovery->ordinal * recovery->segment_size + at)
            continue;
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected frame %" PRIu64 ", found none, though frame %" PRIu64
                       " stands behind it at offset %" PRIu64,
                       recovery->sequence + 1, header.sequence, at);
    }
    *remains_end = end;
    return OK;
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* Does this segment look as if a crash left it unused: zeros of any length, or a header and zeros? */
static enum error unused_check(struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    struct disk_file *file;
    enum error error = recovery->disk->operations->open(recovery->disk, name, &file, failure);
    if (error != OK)
        return error;
    uint64_t size;
    error = recovery->disk->operations->size(file, &size, failure);
    if (error == OK && size > recovery->segment_size)
        error = damaged(recovery, ordinal, size, failure, "the segment is too long: expected %" PRIu64,
                        recovery->segment_size);
    buffer_truncate(&recovery->window, 0);
    for (uint64_t at = 0; error == OK && at < size;) {
        const size_t piece = at == 0 ? SEGMENT_HEADER_SIZE : WINDOW_SIZE;
        const size_t count = size - at < piece ? (size_t)(size - at) : piece;
        uint8_t *into = buffer_reserve(&recovery->window, count);
        error = recovery->disk->operations->read(file, at, into, count, failure);
        struct segment_header header;
        const struct bytes bytes = bytes_make(into, count);
        if (error == OK && !frame_bytes_are_zero(bytes) &&
            !(at == 0 && count == SEGMENT_HEADER_SIZE && segment_header_decode(bytes, &header)))
            error = damaged(recovery, ordinal, at, failure,
                            "expected an unused segment, because the one before it has not ended after frame "
                            "%" PRIu64 "; found something written",
                            recovery->sequence);
        at += count;
    }
    recovery->disk->operations->close(file);
    return error;
}

/* Removes the segment behind the last one, or puts it into the reserve: it was made ahead of time and never used.
 * Making it again is simpler than finding out how far it got. */
static enum error unused_remove(struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    if (!segment_table_has(recovery->table, ordinal))
        return OK;
    if (recovery->table->entries_owned[recovery->table->count - 1].ordinal != ordinal)
        return damaged(recovery, ordinal, 0, failure,
                       "expected no segment behind it, because frame %" PRIu64 " is the last; found one",
                       recovery->sequence);
    enum error error = unused_check(recovery, ordinal, failure);
    if (error != OK)
        return error;
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    error = reserve_put_or_remove(recovery->disk, RESERVE_SEGMENT, name, failure);
    if (error != OK)
        return error;
    segment_table_remove_newest(recovery->table);
    return OK;
}

/* Overwrites the rest of a torn frame with zeros, so that nothing takes it for a frame. Bytes that are zero already are
 * not written: they may have no room, and a full disk has none. They stay zero: the next sync writes what is not on the
 * disk yet, and caches_drop() has dropped what a failed sync left in the cache. */
static enum error remains_cut(struct recovery *recovery, uint64_t end, struct failure *failure)
{
    ASSERT(end <= recovery->segment_size);
    for (uint64_t at = recovery->offset; at < end; at += FRAME_SECTOR_SIZE) {
        struct bytes sector;
        enum error error = bytes_read(recovery, at, FRAME_SECTOR_SIZE, &sector, failure);
        if (error == OK && !frame_bytes_are_zero(sector))
            error = recovery->disk->operations->write(recovery->file, at, bytes_make(zeros, sizeof(zeros)), failure);
        if (error != OK)
            return error;
    }
    return OK;
}

/* The log ends at recovery->offset; [offset, remains_end) is left of a torn frame. */
static enum error end_reach(struct recovery *recovery, uint64_t remains_end, struct failure *failure)
{
    /* Check everything before the first change: a refusal leaves the folder as it was. */
    enum error error = unused_remove(recovery, recovery->ordinal + 1, failure);
    if (error != OK)
        return error;
    error = remains_cut(recovery, remains_end, failure);
    if (error != OK)
        return error;
    /* A killed process may have left frames that are readable but not durable yet: they count from now on. */
    error = recovery->disk->operations->sync(recovery->file, failure);
    if (error != OK)
        return error;
    error = recovery->disk->operations->sync_folder(recovery->disk, failure);
    if (error != OK)
        return error;
    recovery->is_done = true;
    return OK;
}

/* The sector where a frame should begin is all zeros. */
static enum error zero_sector_meet(struct recovery *recovery, struct failure *failure)
{
    uint64_t remains_end;
    const enum error error = remains_find(recovery, recovery->offset, &remains_end, failure);
    if (error != OK)
        return error;
    /* One frame is on its way at a time, and none is larger than half a segment. */
    if (remains_end > recovery->offset + recovery->segment_size / 2)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "more is written behind the last frame than one torn frame explains");
    return end_reach(recovery, remains_end, failure);
}

/* The header is good, the body is not. */
static enum error broken_body_meet(struct recovery *recovery, const struct frame_header *header, struct bytes frame,
                                   struct failure *failure)
{
    if (!frame_is_torn(header, frame))
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "frame %" PRIu64 ", %" PRIu64
                       " bytes, has a wrong checksum though it was written whole: something changed it",
                       header->sequence, header->size);
    const uint64_t frame_end = recovery->offset + header->size;
    uint64_t remains_end;
    const enum error error = remains_find(recovery, frame_end, &remains_end, failure);
    if (error != OK)
        return error;
    if (remains_end > frame_end)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "frame %" PRIu64 " has lost sectors, and behind it at offset %" PRIu64 " something is written",
                       header->sequence, remains_end - FRAME_SECTOR_SIZE);
    return end_reach(recovery, frame_end, failure);
}

/* --- Following ---------------------------------------------------------------------------------------------------- */

/* What the last owner has removed leaves the table, and what it made and never used comes in. */
static enum error table_renew(struct recovery *recovery, struct failure *failure)
{
    struct start_list list = {0};
    const enum error error = recovery->disk->operations->list(recovery->disk, start_visit, &list, failure);
    if (list.count > 1)
        qsort(list.starts_owned, list.count, sizeof(*list.starts_owned), start_compare);
    struct segment_table *table = recovery->table;
    for (size_t i = 0; error == OK && i < table->count; i++) {
        const uint64_t start = table->entries_owned[i].ordinal * recovery->segment_size;
        if (list.count == 0 || bsearch(&start, list.starts_owned, list.count, sizeof(start), start_compare) == NULL)
            segment_table_drop(table, i);
    }
    segment_table_pack(table);
    for (size_t i = 0; error == OK && i < list.count; i++) {
        const uint64_t ordinal = list.starts_owned[i] / recovery->segment_size;
        if (ordinal > recovery->ordinal && !segment_table_has(table, ordinal))
            segment_table_add(table, ordinal);
    }
    free(list.starts_owned);
    return error;
}

/* Which segments there are, from one on. */
struct segment_span {
    uint64_t size, first; /* bytes of a segment; an ordinal */
    uint64_t last;        /* the newest ordinal */
    uint64_t count;
};

static void span_visit(void *context, const char *name)
{
    struct segment_span *span = context;
    uint64_t start;
    if (!segment_name_decode(name, &start) || start / span->size < span->first)
        return;
    span->count++;
    if (start / span->size > span->last)
        span->last = start / span->size;
}

/* Is what this process reads next, from segment `ordinal` on, still there? An owner removes what its newest snapshot
 * holds, and keeps older segments that messages need. So the segment before may be there, and the next one gone. */
static enum error rest_check(const struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    struct segment_span span = {.size = recovery->segment_size, .first = ordinal};
    const enum error error = recovery->disk->operations->list(recovery->disk, span_visit, &span, failure);
    if (error != OK || span.count == 0 || span.count == span.last - ordinal + 1)
        return error;
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       "%s/%s: this node was too slow to follow: what it had not read yet was removed. It begins "
                       "again, from the newest snapshot.",
                       recovery->disk->folder, name);
}

/* Waits for the owner at the end of what it has written; the rest stands in segment `ordinal` and behind it. What was
 * read of the segment may have changed. */
static enum error owner_await(struct recovery *recovery, uint64_t ordinal, struct failure *failure)
{
    bool is_owner = false;
    enum error error = recovery->disk->operations->await(recovery->disk, &is_owner, failure);
    buffer_truncate(&recovery->window, 0);
    if (error == OK)
        error = rest_check(recovery, ordinal, failure);
    if (error == OK && is_owner) {
        recovery->is_following = false;
        error = table_renew(recovery, failure);
    }
    return error;
}

/* --- Frames ------------------------------------------------------------------------------------------------------- */

/* Compares a valid header with its position and with the frame before it. */
static enum error header_check(const struct recovery *recovery, const struct frame_header *header,
                               struct failure *failure)
{
    const uint64_t position = recovery->ordinal * recovery->segment_size + recovery->offset;
    const bool is_end = header->kind == FRAME_SEGMENT_END;
    const uint64_t sequence = is_end ? recovery->sequence : recovery->sequence + 1;
    if (header->position != position)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected a frame for position %" PRIu64 ", found one for %" PRIu64, position, header->position);
    if (header->sequence != sequence)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected frame %" PRIu64 ", found frame %" PRIu64, sequence, header->sequence);
    if (header->epoch < recovery->epoch || header->time_ms < recovery->time_ms)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected epoch %" PRIu64 " and time %" PRIu64 " or later, found %" PRIu64 " and %" PRIu64,
                       recovery->epoch, recovery->time_ms, header->epoch, header->time_ms);
    /* Behind a frame with events there is room for the one that ends the segment. */
    const uint64_t room = recovery->segment_size - recovery->offset - (is_end ? 0 : FRAME_SECTOR_SIZE);
    if (header->size > room)
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "frame %" PRIu64 " of %" PRIu64 " bytes does not fit into the segment", header->sequence,
                       header->size);
    return OK;
}

/* Has the owner that is followed made this segment since the folder was listed? */
static bool segment_appeared(struct recovery *recovery, uint64_t ordinal)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * recovery->segment_size, name);
    struct disk_file *file;
    if (!recovery->is_following || recovery->disk->operations->open(recovery->disk, name, &file, NULL) != OK)
        return false;
    recovery->disk->operations->close(file);
    segment_table_add(recovery->table, ordinal);
    return true;
}

/* Goes over to the segment behind a frame that ended the present one. */
static enum error successor_enter(struct recovery *recovery, const struct frame_header *end, struct failure *failure)
{
    ASSERT(end->kind == FRAME_SEGMENT_END);
    const uint64_t ordinal = recovery->ordinal + 1;
    if (!segment_table_has(recovery->table, ordinal) && !segment_appeared(recovery, ordinal))
        return recovery->is_following ? owner_await(recovery, ordinal, failure)
                                      : segment_missing(recovery, ordinal, failure);
    struct segment_header header = {.version = SEGMENT_VERSION};
    enum error error = segment_check(recovery, ordinal, &header, failure);
    const bool is_next = error == OK && header.link == end->checksum && header.sequence == end->sequence + 1;
    const bool is_newer = error != OK && header.version != SEGMENT_VERSION;
    /* What was read of it may be older than what was read of the one before it: also one that an owner before the
     * present one made and did not use. Not so a header of a newer version. */
    if (!is_next && recovery->is_following && (error == OK || (error == ERROR_LOG_DAMAGED && !is_newer)))
        return owner_await(recovery, ordinal, failure);
    if (error != OK)
        return error;
    if (!is_next)
        return damaged(recovery, ordinal, 0, failure,
                       "it does not continue the segment before it: expected frame %" PRIu64 " and link %08" PRIx32
                       ", found %" PRIu64 " and %08" PRIx32,
                       end->sequence + 1, end->checksum, header.sequence, header.link);
    /* The frame that ends the segment may be readable only, if the last owner was killed before it was synced. */
    error = recovery->disk->operations->sync(recovery->file, failure);
    if (error == OK)
        error = segment_open(recovery, ordinal, failure);
    if (error != OK)
        return error;
    recovery->offset = SEGMENT_HEADER_SIZE;
    recovery->epoch = end->epoch;
    return OK;
}

/* Reads the next thing at recovery->offset. *is_frame is true for a frame with events. Otherwise this was the end of a
 * segment, or the end of the log. */
static enum error step(struct recovery *recovery, struct frame_view *view, bool *is_frame, struct failure *failure)
{
    *is_frame = false;
    ASSERT(recovery->offset < recovery->segment_size);
    struct bytes frame;
    enum error error = bytes_read(recovery, recovery->offset, FRAME_SECTOR_SIZE, &frame, failure);
    if (error != OK)
        return error;
    if (frame_bytes_are_zero(frame))
        return recovery->is_following ? owner_await(recovery, recovery->ordinal, failure)
                                      : zero_sector_meet(recovery, failure);
    struct frame_header header;
    unsigned version;
    if (frame_is_of_other_version(frame, &version))
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected a frame of a version that this program knows, found version %u (a newer program wrote "
                       "it?)",
                       version);
    if (!frame_header_decode(frame, &header))
        return damaged(recovery, recovery->ordinal, recovery->offset, failure,
                       "expected a frame, found bytes that are none");
    error = header_check(recovery, &header, failure);
    if (error != OK)
        return error;
    error = bytes_read(recovery, recovery->offset, header.size, &frame, failure);
    if (error != OK)
        return error;
    if (!frame_is_whole(&header, frame))
        return broken_body_meet(recovery, &header, frame, failure);
    if (header.kind == FRAME_SEGMENT_END)
        return successor_enter(recovery, &header, failure);

    recovery->offset += header.size;
    recovery->epoch = header.epoch;
    recovery->sequence = header.sequence;
    recovery->time_ms = header.time_ms;
    *view = (struct frame_view){
        .epoch = header.epoch,
        .sequence = header.sequence,
        .position = header.position,
        .time_ms = header.time_ms,
        .payload = bytes_make(frame.ptr + FRAME_HEADER_SIZE, header.payload_size),
    };
    *is_frame = true;
    return OK;
}

/* Opens the segment where the replay begins, or waits for it. Where the log is new, a crash may have left the first
 * segment unfinished. */
static enum error first_enter(struct recovery *recovery, struct failure *failure)
{
    ASSERT(recovery->file == NULL);
    if (recovery->table->count == 0) {
        recovery->is_done = true;
        return OK;
    }
    struct segment_header header;
    enum error error = segment_check(recovery, recovery->ordinal, &header, failure);
    if (error == OK)
        return segment_open(recovery, recovery->ordinal, failure);
    const bool may_be_unfinished =
        error == ERROR_LOG_DAMAGED && recovery->sequence == 0 && recovery->ordinal == 0 && recovery->table->count == 1;
    /* What was read of its size may be older than what was read of its frames. */
    if (may_be_unfinished && recovery->is_following)
        return owner_await(recovery, recovery->ordinal, failure);
    if (!may_be_unfinished || unused_check(recovery, 0, NULL) != OK)
        return error;
    error = unused_remove(recovery, 0, failure);
    if (error != OK)
        return error;
    recovery->is_done = true;
    return OK;
}

enum error recovery_next(struct recovery *recovery, struct frame_view *frame, bool *is_end, struct failure *failure)
{
    ASSERT(frame != NULL && is_end != NULL);
    while (recovery->file == NULL && !recovery->is_done) {
        const enum error error = first_enter(recovery, failure);
        if (error != OK)
            return error;
    }
    bool is_frame = false;
    while (!recovery->is_done && !is_frame) {
        const enum error error = step(recovery, frame, &is_frame, failure);
        if (error != OK)
            return error;
    }
    if (!is_frame)
        buffer_deinit(&recovery->window);
    *is_end = !is_frame;
    return OK;
}
