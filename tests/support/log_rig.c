/* A log with known content. See log_rig.h. */
#include "support/log_rig.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/memory.h"
#include "support/history.h"
#include "support/memory_disk.h"

#include <stdlib.h>

void log_rig_init(struct log_rig *rig, struct disk *disk)
{
    *rig = (struct log_rig){.disk = disk, .options = {.segment_size = 8192, .frame_size_max = 3072}};
    buffer_init(&rig->frame);
    buffer_init(&rig->snapshot);
}

void log_rig_deinit(struct log_rig *rig)
{
    log_rig_close(rig);
    buffer_deinit(&rig->frame);
    buffer_deinit(&rig->snapshot);
}

void log_rig_payload(uint64_t sequence, size_t size, uint8_t *payload)
{
    uint64_t state = sequence * UINT64_C(0x9e3779b97f4a7c15) + size;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        payload[i] = (uint8_t)(1 + (state >> 33) % 255);
    }
}

static void frame_check(const struct frame_view *frame, uint64_t sequence)
{
    ASSERT(frame->sequence == sequence);
    ASSERT(frame->time_ms == 1000 + sequence);
    uint8_t *expected = memory_allocate(frame->payload.size);
    log_rig_payload(sequence, frame->payload.size, expected);
    ASSERT(bytes_equal(frame->payload, bytes_make(expected, frame->payload.size)));
    free(expected);
}

enum error log_rig_open(struct log_rig *rig)
{
    ASSERT(rig->log == NULL);
    buffer_truncate(&rig->snapshot, 0);
    rig->failure = (struct failure){.error = OK};
    rig->replayed = 0;
    struct log *log;
    enum error error = log_open(rig->disk, &rig->options, &log, &rig->snapshot, &rig->is_new, &rig->failure);
    history_note(bytes_from_string(rig->failure.text));
    if (error != OK)
        return error;
    struct frame_view frame;
    for (bool is_end = false;;) {
        error = log_replay_next(log, &frame, &is_end, &rig->failure);
        history_note(bytes_from_string(rig->failure.text));
        if (error != OK) {
            log_close(log);
            return error;
        }
        if (is_end)
            break;
        frame_check(&frame, rig->replayed == 0 ? frame.sequence : rig->sequence + 1);
        rig->sequence = frame.sequence;
        rig->position = frame.position;
        rig->replayed++;
    }
    rig->log = log;
    const struct log_point point = log_next_point(log);
    ASSERT(rig->replayed == 0 || point.sequence == rig->sequence + 1);
    rig->sequence = point.sequence - 1;
    return OK;
}

void log_rig_close(struct log_rig *rig)
{
    if (rig->log != NULL)
        log_close(rig->log);
    rig->log = NULL;
}

void log_rig_seal(struct log_rig *rig, size_t payload_size)
{
    ASSERT(rig->log != NULL);
    const struct log_point point = log_next_point(rig->log);
    buffer_truncate(&rig->frame, 0);
    frame_begin(&rig->frame);
    if (payload_size > 0)
        log_rig_payload(point.sequence, payload_size, buffer_extend(&rig->frame, payload_size));
    frame_seal(&rig->frame, FRAME_EVENTS, log_epoch(rig->log), point.sequence, point.position, 1000 + point.sequence);
    log_point_taken(rig->log, rig->frame.size);
    rig->sequence = point.sequence;
    rig->position = point.position;
}

enum error log_rig_write(struct log_rig *rig, size_t payload_size)
{
    log_rig_seal(rig, payload_size);
    return log_write(rig->log, buffer_bytes(&rig->frame), &rig->failure);
}

enum error log_rig_snapshot(struct log_rig *rig, struct bytes payload)
{
    ASSERT(rig->frame.size > 0);
    rig->point = (struct snapshot_point){
        .epoch = log_epoch(rig->log),
        .sequence = rig->sequence,
        .position = rig->position + rig->frame.size,
        .time_ms = 1000 + rig->sequence,
    };
    struct snapshot_writer *writer;
    enum error error = snapshot_begin(rig->disk, &rig->point, &writer, &rig->failure);
    if (error != OK)
        return error;
    (void)snapshot_append(writer, payload, &rig->failure);
    error = snapshot_finish(writer, &rig->failure);
    error = error == OK ? snapshot_publish(rig->disk, &rig->point, &rig->failure) : error;
    return error == OK ? snapshot_remove_older(rig->disk, &rig->point, &rig->failure) : error;
}

void log_rig_overwrite(struct disk *disk, const char *name, uint64_t offset, const void *with, size_t size)
{
    const struct bytes content = memory_disk_content(disk, name);
    uint8_t *copy = memory_allocate(content.size);
    ASSERT(offset + size <= content.size);
    memcpy(copy, content.ptr, content.size);
    if (with == NULL)
        memset(copy + offset, 0, size);
    else
        memcpy(copy + offset, with, size);
    memory_disk_put(disk, name, bytes_make(copy, content.size));
    free(copy);
}

void log_rig_change_header(struct disk *disk, const char *name, const struct segment_header *change)
{
    struct segment_header header;
    uint8_t sector[SEGMENT_HEADER_SIZE];
    memcpy(sector, memory_disk_content(disk, name).ptr, sizeof(sector));
    ASSERT(segment_header_decode(bytes_make(sector, sizeof(sector)), &header));
    bytes_put_u32(sector + 4, header.version + change->version);
    bytes_put_u64(sector + 8, header.ordinal + change->ordinal);
    bytes_put_u64(sector + 16, header.segment_size + change->segment_size);
    bytes_put_u64(sector + 24, header.sequence + change->sequence);
    bytes_put_u32(sector + 40, header.link + change->link);
    bytes_put_u32(sector + 508, crc32c(0, bytes_make(sector, 508)));
    log_rig_overwrite(disk, name, 0, sector, sizeof(sector));
}
