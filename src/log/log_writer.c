/* The writing end of a log. See log_writer.h.
 *
 * Going over to the next segment takes three steps, each durable before the next begins: the next segment with its
 * header exists; the present one carries the frame that ends it; the first frame stands in the next. So a segment that
 * has ended has a successor, and a successor with frames has a predecessor that has ended. */
#include "log/log_writer.h"

#include "base/assert.h"
#include "log/segment.h"
#include <inttypes.h>

/* Bytes of the next segment that are made for each byte that is written to the present one. */
#define PREPARE_RATE 2u

/* How old a check of the folder's names may be when a frame is written. With a frame every 300 us, a check behind each
 * one took a twentieth of the time. */
#define CONFIRM_AGE_MS 10u

/* Reserves room for segment `ordinal`. Meanwhile the sum of made segments and reserve may be one too low, never too
 * high. */
static enum error draft_begin(struct log_writer *writer, uint64_t ordinal, struct failure *failure)
{
    const enum error error = segment_draft_begin(&writer->draft, ordinal * writer->segment_size, writer->segment_size,
                                                 writer->room, failure);
    if (error == OK)
        atomic_store_explicit(&writer->made, ordinal, memory_order_release);
    return error;
}

/* Makes segment `ordinal`, or what is left of making it, and writes its header. The file is the caller's on success. */
static enum error segment_make(struct log_writer *writer, uint64_t ordinal, uint32_t link, struct disk_file **file,
                               struct failure *failure)
{
    struct segment_draft *draft = &writer->draft;
    enum error error = OK;
    if (draft->file == NULL)
        error = draft_begin(writer, ordinal, failure);
    if (error == OK)
        error = segment_draft_finish(draft, failure);
    if (error != OK)
        return error;
    ASSERT(draft->start_position == ordinal * writer->segment_size);
    const struct segment_header header = {
        .version = SEGMENT_VERSION,
        .link = link,
        .ordinal = ordinal,
        .segment_size = writer->segment_size,
        .sequence = writer->sequence + 1,
        .epoch = writer->epoch,
    };
    uint8_t sector[SEGMENT_HEADER_SIZE];
    segment_header_encode(&header, sector);
    error = disk_write_synced(writer->disk, draft->file, 0, bytes_make(sector, sizeof(sector)), failure);
    if (error == OK)
        *file = segment_draft_take(draft);
    return error;
}

/* Where preparing the next segment begins. It then ends halfway to the first offset at which a frame may have to go to
 * that segment: not in a burst, and not early for a log that hardly grows. */
static uint64_t prepare_begin_at(const struct log_writer_start *start)
{
    const uint64_t needed = segment_room(start->segment_size, start->frame_size_max) / PREPARE_RATE;
    const uint64_t left_at = start->segment_size - start->frame_size_max - FRAME_SECTOR_SIZE;
    ASSERT(left_at >= needed);
    return (left_at - needed) / 2;
}

enum error log_writer_init(struct log_writer *writer, struct disk *disk, const struct log_writer_start *start,
                           struct failure *failure)
{
    ASSERT(start->offset >= SEGMENT_HEADER_SIZE && start->offset < start->segment_size);
    ASSERT(start->file != NULL || (start->ordinal == 0 && start->offset == SEGMENT_HEADER_SIZE));
    *writer = (struct log_writer){
        .disk = disk,
        .file = start->file,
        .segment_size = start->segment_size,
        .room = segment_room(start->segment_size, start->frame_size_max),
        .ordinal = start->ordinal,
        .offset = start->offset,
        .epoch = start->epoch,
        .sequence = start->sequence,
        .time_ms = start->time_ms,
        .prepare_begin = prepare_begin_at(start),
    };
    segment_draft_init(&writer->draft, disk, start->reserve);
    atomic_init(&writer->made, start->ordinal);
    if (writer->file != NULL)
        return OK;
    const enum error error = segment_make(writer, 0, 0, &writer->file, failure);
    if (error != OK)
        log_writer_deinit(writer);
    return error;
}

void log_writer_deinit(struct log_writer *writer)
{
    segment_draft_deinit(&writer->draft);
    if (writer->file != NULL)
        writer->disk->operations->close(writer->file);
    writer->file = NULL;
}

static enum error segment_end(struct log_writer *writer, struct failure *failure)
{
    ASSERT(writer->offset + FRAME_SECTOR_SIZE <= writer->segment_size);
    struct buffer end;
    buffer_init(&end);
    frame_begin(&end);
    frame_seal(&end, FRAME_SEGMENT_END, writer->epoch, writer->sequence,
               writer->ordinal * writer->segment_size + writer->offset, writer->time_ms);
    struct frame_header header;
    const bool is_header = frame_header_decode(buffer_bytes(&end), &header);
    ASSERT(is_header);

    const struct disk_operations *operations = writer->disk->operations;
    struct disk_file *next;
    enum error error = segment_make(writer, writer->ordinal + 1, header.checksum, &next, failure);
    if (error != OK)
        goto out;
    error = disk_write_synced(writer->disk, writer->file, writer->offset, buffer_bytes(&end), failure);
    operations->close(error == OK ? writer->file : next);
    if (error == OK) {
        writer->file = next;
        writer->ordinal++;
        writer->offset = SEGMENT_HEADER_SIZE;
        writer->is_draft_refused = false;
    }
out:
    buffer_deinit(&end);
    return error;
}

static enum error frame_put(struct log_writer *writer, const struct frame_header *header, struct bytes frame,
                            struct failure *failure)
{
    if (header->position / writer->segment_size != writer->ordinal) {
        const enum error error = segment_end(writer, failure);
        if (error != OK)
            return error;
    }
    ASSERT(header->position == writer->ordinal * writer->segment_size + writer->offset);
    ASSERT(writer->offset + header->size + FRAME_SECTOR_SIZE <= writer->segment_size);
    return disk_write_synced(writer->disk, writer->file, writer->offset, frame, failure);
}

/* This error is final: nobody knows whether the frame is on the disk until the disk is read again. */
static enum error fail(struct log_writer *writer, const struct frame_header *header, const struct failure *cause,
                       struct failure *failure)
{
    ASSERT(writer->failure.error == OK && cause->error != OK);
    /* Where somebody else has the log, or it is damaged, that is not known. */
    const bool is_sure = cause->error != ERROR_LOG_LOCKED && cause->error != ERROR_LOG_DAMAGED;
    const char *comfort = is_sure ? " Nothing that was acknowledged is lost." : "";
    char name[SEGMENT_NAME_SIZE];
    segment_name(header->position / writer->segment_size * writer->segment_size, name);
    (void)failure_set(&writer->failure, cause->error,
                      "Frame %" PRIu64 " could not be made durable at offset %" PRIu64 " of %s: %s%s", header->sequence,
                      header->position % writer->segment_size, name, cause->text, comfort);
    return failure_set(failure, cause->error, "%s", writer->failure.text);
}

enum error log_writer_confirm(struct log_writer *writer, uint64_t age_ms, struct failure *failure)
{
    if (writer->failure.error == OK)
        (void)disk_confirm(writer->disk, writer->file, age_ms, &writer->failure);
    if (writer->failure.error == OK)
        return OK;
    return failure_set(failure, writer->failure.error, "%s", writer->failure.text);
}

enum error log_writer_write(struct log_writer *writer, struct bytes frame, struct failure *failure)
{
    struct frame_header header;
    const bool is_header = frame.size >= FRAME_HEADER_SIZE && frame_header_decode(frame, &header);
    ASSERT(is_header && header.size == frame.size && header.kind == FRAME_EVENTS);
    ASSERT(header.epoch == writer->epoch && header.time_ms >= writer->time_ms);
    if (writer->failure.error != OK)
        return failure_set(failure, writer->failure.error, "%s", writer->failure.text);
    ASSERT(header.sequence == writer->sequence + 1);

    struct failure cause;
    failure_init(&cause);
    const enum error error = frame_put(writer, &header, frame, &cause);
    /* The check comes after the write, so an acknowledged frame was written while its folder was still there, give or
     * take some milliseconds. If the folder is gone, that explains a failed write. */
    if (log_writer_confirm(writer, error == OK ? CONFIRM_AGE_MS : 0, failure) != OK)
        return writer->failure.error;
    if (error != OK)
        return fail(writer, &header, &cause, failure);
    writer->offset += header.size;
    writer->sequence = header.sequence;
    writer->time_ms = header.time_ms;
    return OK;
}

bool log_writer_prepare(struct log_writer *writer)
{
    struct segment_draft *draft = &writer->draft;
    if (writer->failure.error != OK || writer->is_draft_refused || draft->is_ready)
        return false;
    if (writer->offset <= writer->prepare_begin)
        return false;
    const uint64_t due = PREPARE_RATE * (writer->offset - writer->prepare_begin);
    enum error error;
    if (draft->file == NULL)
        error = draft_begin(writer, writer->ordinal + 1, NULL);
    else if (draft->filled < due)
        error = segment_draft_step(draft, NULL);
    else
        return false;
    if (error != OK) {
        /* Perhaps there is room when it is needed; if not, log_write() says so then. */
        if (draft->file != NULL) {
            atomic_store_explicit(&writer->made, writer->ordinal, memory_order_release);
            segment_draft_abandon(draft);
        }
        writer->is_draft_refused = true;
    }
    return error == OK && !draft->is_ready && draft->filled < due;
}
