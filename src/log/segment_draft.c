/* The segment to come. See segment_draft.h. */
#include "log/segment_draft.h"

#include "base/assert.h"
#include "log/segment.h"

#define STEP_SIZE (128u * 1024) /* bytes: small enough that a flush waits for it unnoticed */

static const uint8_t zeros[STEP_SIZE];

void segment_draft_init(struct segment_draft *draft, struct disk *disk)
{
    ASSERT(disk != NULL);
    *draft = (struct segment_draft){.disk = disk};
}

void segment_draft_deinit(struct segment_draft *draft)
{
    if (draft->file != NULL)
        draft->disk->operations->close(draft->file);
    segment_draft_init(draft, draft->disk);
}

enum error segment_draft_begin(struct segment_draft *draft, uint64_t start_position, uint64_t size, uint64_t room,
                               struct failure *failure)
{
    ASSERT(draft->file == NULL && room > 0 && room <= size);
    ASSERT(size >= SEGMENT_SIZE_MIN && start_position % size == 0);
    const struct disk_operations *operations = draft->disk->operations;
    char name[SEGMENT_NAME_SIZE];
    segment_name(start_position, name);
    enum error error = operations->create(draft->disk, name, &draft->file, failure);
    if (error != OK)
        return error;
    draft->start_position = start_position;
    draft->room = room;
    error = operations->allocate(draft->file, size, room, failure);
    if (error != OK)
        segment_draft_abandon(draft);
    return error;
}

enum error segment_draft_step(struct segment_draft *draft, struct failure *failure)
{
    ASSERT(draft->file != NULL && !draft->is_ready);
    ASSERT(draft->filled <= draft->room);
    const struct disk_operations *operations = draft->disk->operations;
    const uint64_t left = draft->room - draft->filled;
    if (left > 0) {
        const size_t piece = left < STEP_SIZE ? (size_t)left : STEP_SIZE;
        const enum error error = operations->write(draft->file, draft->filled, bytes_make(zeros, piece), failure);
        if (error != OK)
            return error;
        operations->start_sync(draft->file, draft->filled, piece);
        draft->filled += piece;
        return OK;
    }
    enum error error = operations->sync(draft->file, failure);
    if (error != OK)
        return error;
    error = operations->sync_folder(draft->disk, failure);
    if (error != OK)
        return error;
    draft->is_ready = true;
    return OK;
}

enum error segment_draft_finish(struct segment_draft *draft, struct failure *failure)
{
    ASSERT(draft->file != NULL);
    while (!draft->is_ready) {
        const enum error error = segment_draft_step(draft, failure);
        if (error != OK)
            return error;
    }
    return OK;
}

struct disk_file *segment_draft_take(struct segment_draft *draft)
{
    ASSERT(draft->file != NULL && draft->is_ready);
    struct disk_file *file = draft->file;
    segment_draft_init(draft, draft->disk);
    return file;
}

void segment_draft_abandon(struct segment_draft *draft)
{
    ASSERT(draft->file != NULL);
    char name[SEGMENT_NAME_SIZE];
    segment_name(draft->start_position, name);
    /* Its room at once, not in portions as remove() gives it back: frames wait for this. Shorter than it was, it is unused as before. */
    (void)draft->disk->operations->allocate(draft->file, 0, 0, NULL);
    segment_draft_deinit(draft);
    (void)draft->disk->operations->remove(draft->disk, name, NULL);
}
