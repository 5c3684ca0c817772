/* The survey. See survey.h. */
#include "log/survey.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "log/segment.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW_SIZE (1u << 20) /* bytes read at a time */
#define UNREADABLE_BYTE 0xeeu  /* stands for bytes that the disk can't read: no frame, and not zero */

/* A segment file as it is found. */
struct found_segment {
    uint64_t start;
    uint64_t size;
    struct segment_header header;
    bool has_header;
};

struct surveyor {
    struct disk *disk;
    const struct survey_visitor *visitor;
    uint64_t begin; /* survey_run() */
    struct survey *survey;
    struct found_segment *segments_owned; /* rising */
    size_t count;
    struct disk_file *file; /* the one that is read; NULL: it can't be opened */
    uint64_t start;         /* its position, likewise the next */
    uint64_t size;          /* of the file, at most the segment size */
    char name[SEGMENT_NAME_SIZE];
    struct buffer window; /* its bytes from window_offset on */
    uint64_t window_offset;
    uint64_t end;  /* the position behind the last frame that was read */
    uint32_t link; /* checksum of the frame that ended the segment before; 0: none was found */
    bool has_ended;
};

/* --- the folder --------------------------------------------------------------------------------------------------- */

static void name_visit(void *context, const char *name)
{
    struct surveyor *surveyor = context;
    uint64_t start;
    if (!segment_name_decode(name, &start))
        return;
    surveyor->segments_owned =
        memory_resize(surveyor->segments_owned, (surveyor->count + 1) * sizeof(*surveyor->segments_owned));
    surveyor->segments_owned[surveyor->count++] = (struct found_segment){.start = start};
}

static int start_compare(const void *a, const void *b)
{
    const struct found_segment *one = a, *other = b;
    return (one->start > other->start) - (one->start < other->start);
}

/* Reads size and header of a file; what can't be read stays 0. */
static void inspect_segment(struct disk *disk, struct found_segment *found)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(found->start, name);
    struct disk_file *file;
    if (disk->operations->open(disk, name, &file, NULL) != OK)
        return;
    uint8_t sector[SEGMENT_HEADER_SIZE];
    if (disk->operations->size(file, &found->size, NULL) != OK)
        found->size = 0;
    if (found->size >= sizeof(sector) && disk->operations->read(file, 0, sector, sizeof(sector), NULL) == OK)
        found->has_header = segment_header_decode(bytes_make(sector, sizeof(sector)), &found->header);
    disk->operations->close(file);
}

static bool size_is_possible(const struct surveyor *surveyor, uint64_t size)
{
    if (size < SEGMENT_SIZE_MIN || size > SEGMENT_SIZE_MAX || size % SEGMENT_SIZE_MIN != 0)
        return false;
    for (size_t i = 0; i < surveyor->count; i++)
        if (surveyor->segments_owned[i].start % size != 0)
            return false;
    return true;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Guesses the segment size without headers: the size of a file that fits the files' names, or, if all are truncated,
 * the greatest common divisor of the names. That may be several segments, which does no harm: the frames in each file
 * are found anyway. 0: unknown. */
static uint64_t size_guess(const struct surveyor *surveyor)
{
    uint64_t common = 0, largest = SEGMENT_SIZE_MIN;
    for (size_t i = 0; i < surveyor->count; i++) {
        const struct found_segment *found = &surveyor->segments_owned[i];
        if (size_is_possible(surveyor, found->size))
            return found->size;
        common = greatest_divisor(common, found->start);
        largest = found->size > largest ? found->size : largest;
    }
    if (common == 0) /* the first segment alone */
        common = (largest + SEGMENT_SIZE_MIN - 1) / SEGMENT_SIZE_MIN * SEGMENT_SIZE_MIN;
    return common >= largest && size_is_possible(surveyor, common) ? common : 0;
}

/* The size that the headers name, or that can be told without them. */
static enum error size_learn(struct surveyor *surveyor, struct failure *failure)
{
    uint64_t learnt = 0;
    for (size_t i = 0; i < surveyor->count && learnt == 0; i++) {
        const struct found_segment *found = &surveyor->segments_owned[i];
        if (!found->has_header)
            continue;
        if (found->header.version != SEGMENT_VERSION)
            return failure_set(failure, ERROR_LOG_DAMAGED,
                               "%s was written by a newer tallyd (format version %" PRIu32 "); use that version.",
                               surveyor->disk->folder, found->header.version);
        if (size_is_possible(surveyor, found->header.segment_size))
            learnt = found->header.segment_size;
    }
    learnt = learnt == 0 && surveyor->count > 0 ? size_guess(surveyor) : learnt;
    if (learnt == 0 && surveyor->count > 0)
        return failure_set(failure, ERROR_LOG_DAMAGED,
                           "%s: no segment says how large segments are, and no file's size fits the files' names: "
                           "nothing can be read.",
                           surveyor->disk->folder);
    surveyor->survey->segment_size = learnt;
    return OK;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Reads sector by sector what could not be read in one go. */
static void sectors_read(const struct surveyor *surveyor, uint64_t offset, uint8_t *into, size_t size)
{
    for (size_t at = 0; at < size; at += FRAME_SECTOR_SIZE)
        if (surveyor->file == NULL ||
            surveyor->disk->operations->read(surveyor->file, offset + at, into + at, FRAME_SECTOR_SIZE, NULL) != OK)
            memset(into + at, UNREADABLE_BYTE, FRAME_SECTOR_SIZE);
}

/* The bytes of the present segment at [offset, offset + size), which lie inside the file; borrowed until the next
 * call. */
static struct bytes bytes_read(struct surveyor *surveyor, uint64_t offset, uint64_t size)
{
    ASSERT(offset + size <= surveyor->size && offset % FRAME_SECTOR_SIZE == 0);
    struct buffer *window = &surveyor->window;
    if (offset < surveyor->window_offset || offset + size > surveyor->window_offset + window->size) {
        uint64_t wanted = size > WINDOW_SIZE ? size : WINDOW_SIZE;
        if (wanted > surveyor->size - offset)
            wanted = surveyor->size - offset;
        buffer_truncate(window, 0);
        surveyor->window_offset = offset;
        uint8_t *into = buffer_extend(window, (size_t)wanted);
        if (surveyor->file == NULL ||
            surveyor->disk->operations->read(surveyor->file, offset, into, (size_t)wanted, NULL) != OK)
            sectors_read(surveyor, offset, into, (size_t)wanted);
    }
    return bytes_make(window->data_owned + (offset - surveyor->window_offset), (size_t)size);
}

static void report_damage(const struct surveyor *surveyor, struct survey_damage damage, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void report_damage(const struct surveyor *surveyor, struct survey_damage damage, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    damage.file = surveyor->name;
    damage.position = surveyor->start + damage.offset;
    damage.text = text;
    surveyor->visitor->damage(surveyor->visitor->context, &damage);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* Does a header at this offset belong there, behind everything read so far? A frame takes at least a sector, which
 * limits how many frames can be missing since the last one or since the segment began. So bytes that a client wrote
 * into a body can't pass for a frame of the far future. */
static bool header_fits(const struct surveyor *surveyor, uint64_t offset, const struct frame_header *header)
{
    const struct survey *survey = surveyor->survey;
    const uint64_t position = surveyor->start + offset;
    const uint64_t missing_most = (position - surveyor->end) / FRAME_SECTOR_SIZE;
    const uint64_t least = survey->sequence + (header->kind == FRAME_SEGMENT_END ? 0 : 1);
    return header->position == position && header->size <= surveyor->size - offset && header->epoch >= survey->epoch &&
           header->time_ms >= survey->time_ms && header->sequence >= least &&
           (header->sequence - least <= missing_most || survey->sequence == 0);
}

static bool header_find(struct surveyor *surveyor, uint64_t offset, struct frame_header *header)
{
    return frame_header_decode(bytes_read(surveyor, offset, FRAME_SECTOR_SIZE), header) &&
           header_fits(surveyor, offset, header);
}

/* What lies between an offset and the next whole frame. */
struct remains {
    uint64_t end;    /* of the last sector that is not all zeros, or the offset */
    bool has_header; /* the header of a frame stands there, in its place, though the frame is not whole */
};

/* The next offset from this one on where a whole frame stands that fits; the end of the file if there is none. */
static uint64_t next_frame(struct surveyor *surveyor, uint64_t offset, struct remains *remains)
{
    *remains = (struct remains){.end = offset};
    for (; offset + FRAME_SECTOR_SIZE <= surveyor->size; offset += FRAME_SECTOR_SIZE) {
        const struct bytes sector = bytes_read(surveyor, offset, FRAME_SECTOR_SIZE);
        if (frame_bytes_are_zero(sector))
            continue;
        struct frame_header header;
        if (frame_header_decode(sector, &header) && header.position == surveyor->start + offset) {
            if (header_fits(surveyor, offset, &header) &&
                frame_is_whole(&header, bytes_read(surveyor, offset, header.size)))
                return offset;
            remains->has_header = true;
        }
        remains->end = offset + FRAME_SECTOR_SIZE;
    }
    return surveyor->size;
}

/* Is everything from this offset to the end of the file zero? */
static bool rest_is_zero(struct surveyor *surveyor, uint64_t offset)
{
    for (; offset + FRAME_SECTOR_SIZE <= surveyor->size; offset += FRAME_SECTOR_SIZE)
        if (!frame_bytes_are_zero(bytes_read(surveyor, offset, FRAME_SECTOR_SIZE)))
            return false;
    return true;
}

/* Frames that follow must lie behind this one. */
static void point_take(struct surveyor *surveyor, const struct frame_header *header)
{
    struct survey *survey = surveyor->survey;
    survey->epoch = header->epoch;
    survey->time_ms = header->time_ms;
    survey->sequence = header->sequence;
    surveyor->end = header->position + header->size;
    if (header->kind == FRAME_SEGMENT_END) {
        surveyor->has_ended = true;
        surveyor->link = header->checksum;
    }
}

/* A whole frame. */
static void frame_take(struct surveyor *surveyor, const struct frame_header *header, struct bytes frame)
{
    struct survey *survey = surveyor->survey;
    point_take(surveyor, header);
    if (header->kind == FRAME_SEGMENT_END)
        return;
    survey->frame_count++;
    const struct frame_view view = {
        .epoch = header->epoch,
        .sequence = header->sequence,
        .position = header->position,
        .time_ms = header->time_ms,
        .payload = bytes_make(frame.ptr + FRAME_HEADER_SIZE, header->payload_size),
    };
    surveyor->visitor->frame(surveyor->visitor->context, &view);
}

/* A frame with a good header and a bad body. Returns where to go on. Nothing inside it counts as a frame, because
 * clients choose the content of bodies. */
static uint64_t broken_frame_meet(struct surveyor *surveyor, uint64_t offset, const struct frame_header *header,
                                  bool is_newest)
{
    const uint64_t end = offset + header->size;
    if (is_newest && frame_is_torn(header, bytes_read(surveyor, offset, header->size)) && rest_is_zero(surveyor, end))
        return surveyor->size; /* the end of the log, where a crash cut the last frame off: no damage */
    const struct bytes frame = bytes_read(surveyor, offset, header->size);
    point_take(surveyor, header);
    report_damage(surveyor,
                  (struct survey_damage){.offset = offset,
                                         .size = header->size,
                                         .payload = bytes_make(frame.ptr + FRAME_HEADER_SIZE, header->payload_size),
                                         .sequence = header->kind == FRAME_SEGMENT_END ? 0 : header->sequence,
                                         .time_ms = header->time_ms},
                  "frame %" PRIu64 " of %" PRIu64 " bytes has a wrong checksum", header->sequence, header->size);
    return end;
}

/* No frame stands here. Returns where the next one does. */
static uint64_t hole_meet(struct surveyor *surveyor, uint64_t offset, bool is_newest)
{
    struct remains remains;
    const uint64_t next = next_frame(surveyor, offset, &remains);
    const bool is_first_zero = frame_bytes_are_zero(bytes_read(surveyor, offset, FRAME_SECTOR_SIZE));
    /* A header behind it proves that what stood here was durable (recovery.c, remains_find()). */
    const bool is_torn = is_first_zero && remains.end <= offset + surveyor->survey->segment_size / 2 &&
                         next == surveyor->size && !remains.has_header;
    if (is_newest && is_torn)
        return next; /* the end of the log, or a torn frame without its first sector */
    const char *expected = next == surveyor->size && !is_newest ? "a frame, or that which ends the segment" : "a frame";
    const char *found = is_first_zero ? "zeros" : "bytes that are none";
    if (next < surveyor->size)
        report_damage(surveyor, (struct survey_damage){.offset = offset, .size = next - offset},
                      "expected %s, found %s; the next frame stands at offset %" PRIu64, expected, found, next);
    else /* to the end of the segment: of a truncated one the rest is as lost as this */
        report_damage(surveyor,
                      (struct survey_damage){.offset = offset, .size = surveyor->survey->segment_size - offset},
                      "expected %s, found %s, and no frame behind it", expected, found);
    return next;
}

/* Reports that a segment has lost its end: nobody knows what stood behind its last frame. */
static void report_lost_end(struct surveyor *surveyor, const struct found_segment *found, uint64_t frames_before)
{
    const uint64_t segment_size = surveyor->survey->segment_size;
    const bool has_frame = surveyor->survey->frame_count > frames_before;
    const uint64_t offset = surveyor->end > surveyor->start ? surveyor->end - surveyor->start : SEGMENT_HEADER_SIZE;
    if (surveyor->has_ended)
        return;
    if (offset + FRAME_SECTOR_SIZE > surveyor->size && surveyor->size < segment_size)
        report_damage(surveyor, (struct survey_damage){.offset = surveyor->size, .size = segment_size - surveyor->size},
                      "the file ends here, behind the last frame that could be read");
    else if (!found->has_header && !has_frame)
        report_damage(surveyor,
                      (struct survey_damage){.offset = SEGMENT_HEADER_SIZE, .size = segment_size - SEGMENT_HEADER_SIZE},
                      "%s, but no frame stands here",
                      surveyor->end > 0 ? "the segment before this one has ended" : "the log has begun");
}

static void frames_read(struct surveyor *surveyor, bool is_newest)
{
    surveyor->has_ended = false;
    uint64_t offset = SEGMENT_HEADER_SIZE;
    while (!surveyor->has_ended && offset + FRAME_SECTOR_SIZE <= surveyor->size) {
        struct frame_header header;
        if (!header_find(surveyor, offset, &header)) {
            offset = hole_meet(surveyor, offset, is_newest);
            continue;
        }
        const struct bytes frame = bytes_read(surveyor, offset, header.size);
        if (frame_is_whole(&header, frame)) {
            frame_take(surveyor, &header, frame);
            offset += header.size;
        } else {
            offset = broken_frame_meet(surveyor, offset, &header, is_newest);
        }
    }
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

/* Is what the file has behind its last whole sector zero, too? */
static bool tail_is_zero(const struct surveyor *surveyor, const struct found_segment *found)
{
    uint8_t tail[FRAME_SECTOR_SIZE];
    const size_t size = (size_t)(found->size - surveyor->size);
    return size == 0 || (surveyor->file != NULL &&
                         surveyor->disk->operations->read(surveyor->file, surveyor->size, tail, size, NULL) == OK &&
                         frame_bytes_are_zero(bytes_make(tail, size)));
}

/* Is this segment as a crash leaves one that was made ahead of time: zeros of any length, perhaps with a header? */
static bool segment_is_unused(struct surveyor *surveyor, const struct found_segment *found)
{
    return found->size <= surveyor->survey->segment_size &&
           rest_is_zero(surveyor, found->has_header ? SEGMENT_HEADER_SIZE : 0) && tail_is_zero(surveyor, found);
}

static void header_check(const struct surveyor *surveyor, const struct found_segment *found)
{
    const struct survey *survey = surveyor->survey;
    const struct survey_damage damage = {.offset = 0};
    if (found->size != survey->segment_size)
        report_damage(
            surveyor,
            (struct survey_damage){.offset = found->size < survey->segment_size ? found->size : survey->segment_size},
            "the segment is %s: expected %" PRIu64 " bytes, found %" PRIu64,
            found->size < survey->segment_size ? "truncated" : "too long", survey->segment_size, found->size);
    if (!found->has_header)
        report_damage(surveyor, damage, "the segment's header has a wrong checksum");
    else if (found->header.segment_size != survey->segment_size ||
             found->header.ordinal != found->start / survey->segment_size)
        report_damage(surveyor, damage,
                      "the header is that of segment %" PRIu64 " with %" PRIu64 " bytes: another folder's?",
                      found->header.ordinal, found->header.segment_size);
    else if (surveyor->link != 0 && found->header.link != surveyor->link)
        report_damage(surveyor, (struct survey_damage){.is_other_log = true},
                      "it does not continue the segment before it: expected link %08" PRIx32 ", found %08" PRIx32,
                      surveyor->link, found->header.link);
}

/* The header says which frame comes first, so all earlier ones have been passed. */
static void sequence_take(const struct surveyor *surveyor, const struct found_segment *found)
{
    struct survey *survey = surveyor->survey;
    if (found->has_header && found->header.segment_size == survey->segment_size &&
        found->header.ordinal == found->start / survey->segment_size && found->header.sequence > survey->sequence + 1)
        survey->sequence = found->header.sequence - 1;
}

static void segment_open(struct surveyor *surveyor, const struct found_segment *found)
{
    segment_name(found->start, surveyor->name);
    surveyor->start = found->start;
    surveyor->size = found->size < surveyor->survey->segment_size ? found->size : surveyor->survey->segment_size;
    surveyor->size -= surveyor->size % FRAME_SECTOR_SIZE;
    buffer_truncate(&surveyor->window, 0);
    (void)surveyor->disk->operations->open(surveyor->disk, surveyor->name, &surveyor->file, NULL); /* NULL: it can't */
}

static void segment_close(struct surveyor *surveyor)
{
    if (surveyor->file != NULL)
        surveyor->disk->operations->close(surveyor->file);
    surveyor->file = NULL;
}

/* Reports that a segment is missing, between two others or behind the last one. */
static void report_missing(struct surveyor *surveyor, uint64_t start)
{
    surveyor->start = start;
    surveyor->link = 0;
    segment_name(start, surveyor->name);
    report_damage(surveyor, (struct survey_damage){.size = surveyor->survey->segment_size}, "this segment is missing");
}

/* Is it the newest segment in use? One that was made ahead of time may follow it. */
static bool is_newest(struct surveyor *surveyor, size_t index)
{
    if (index + 1 == surveyor->count)
        return true;
    if (index + 2 < surveyor->count)
        return false;
    segment_open(surveyor, &surveyor->segments_owned[index + 1]);
    const bool is_unused = segment_is_unused(surveyor, &surveyor->segments_owned[index + 1]);
    segment_close(surveyor);
    return is_unused;
}

/* Returns whether there may be more behind it. */
static bool segment_survey(struct surveyor *surveyor, size_t index)
{
    const struct found_segment *found = &surveyor->segments_owned[index];
    const uint64_t segment_size = surveyor->survey->segment_size;
    const bool is_last_used = is_newest(surveyor, index);
    /* Before that, segments that nothing needs have been removed, also some between others. */
    const uint64_t begin_start = surveyor->begin - surveyor->begin % segment_size;
    const uint64_t next_start = index > 0 ? found[-1].start + segment_size : begin_start;
    const uint64_t expected = next_start > begin_start ? next_start : begin_start;
    if (found->start > next_start)
        surveyor->link = 0;
    if (found->start > expected)
        report_missing(surveyor, expected);
    segment_open(surveyor, found);
    /* Segment 0 is unused, too, where a crash came before the first frame: it is the only file then. */
    const bool is_unused =
        surveyor->count == 1 && found->start == 0 && surveyor->begin == 0 && segment_is_unused(surveyor, found);
    if (!is_unused) {
        const uint64_t frames_before = surveyor->survey->frame_count;
        header_check(surveyor, found);
        sequence_take(surveyor, found);
        frames_read(surveyor, is_last_used);
        if (is_last_used)
            report_lost_end(surveyor, found, frames_before);
    }
    segment_close(surveyor);
    surveyor->link = surveyor->has_ended ? surveyor->link : 0;
    if (is_last_used && surveyor->has_ended && index + 1 == surveyor->count)
        report_missing(surveyor, found->start + segment_size);
    return !is_last_used || surveyor->has_ended;
}

enum error survey_run(struct disk *disk, uint64_t begin, const struct survey_visitor *visitor, struct survey *survey,
                      struct failure *failure)
{
    ASSERT(visitor->frame != NULL && visitor->damage != NULL);
    *survey = (struct survey){0};
    struct surveyor surveyor = {.disk = disk, .visitor = visitor, .begin = begin, .survey = survey};
    buffer_init(&surveyor.window);
    enum error error = disk->operations->list(disk, name_visit, &surveyor, failure);
    if (error == OK && surveyor.count > 1)
        qsort(surveyor.segments_owned, surveyor.count, sizeof(*surveyor.segments_owned), start_compare);
    for (size_t i = 0; error == OK && i < surveyor.count; i++) {
        inspect_segment(disk, &surveyor.segments_owned[i]);
        survey->bytes += surveyor.segments_owned[i].size;
    }
    if (error == OK)
        error = size_learn(&surveyor, failure);
    if (error == OK && surveyor.count > 0) {
        survey->segment_count = surveyor.count;
        survey->newest_ordinal = surveyor.segments_owned[surveyor.count - 1].start / survey->segment_size;
        for (size_t i = 0; i < surveyor.count && segment_survey(&surveyor, i); i++) {
        }
    }
    free(surveyor.segments_owned);
    buffer_deinit(&surveyor.window);
    return error;
}
