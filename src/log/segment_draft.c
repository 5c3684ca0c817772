/* The segment to come. See segment_draft.h. */
#include "log/segment_draft.h"

#include "base/assert.h"
#include "log/segment.h"
#include <stdio.h>

#define STEP_SIZE (128u * 1024) /* bytes: small enough that a flush waits for it unnoticed */

static const uint8_t zeros[STEP_SIZE];

void segment_draft_init(struct segment_draft *draft, struct disk *disk, struct reserve *reserve)
{
    ASSERT(disk != NULL);
    *draft = (struct segment_draft){.disk = disk, .reserve = reserve};
}

void segment_draft_deinit(struct segment_draft *draft)
{
    if (draft->file != NULL)
        draft->disk->operations->close(draft->file);
    segment_draft_init(draft, draft->disk, draft->reserve);
}

#define NAME_SIZE 32u

/* The file's name until it is filled. The name of a spare says that its content means nothing (reserve_restore()). */
static void name_make(const struct segment_draft *draft, bool is_taken, char name[NAME_SIZE])
{
    char final[SEGMENT_NAME_SIZE];
    segment_name(draft->start_position, final);
    const int length = snprintf(name, NAME_SIZE, "%s%s", final, is_taken ? ".tmp" : "");
    ASSERT(length > 0 && (size_t)length < NAME_SIZE);
}

static enum error begin_new(struct segment_draft *draft, struct failure *failure)
{
    const struct disk_operations *operations = draft->disk->operations;
    char name[NAME_SIZE];
    name_make(draft, false, name);
    enum error error = operations->create(draft->disk, name, &draft->file, failure);
    if (error != OK)
        return error;
    error = operations->allocate(draft->file, draft->size, draft->room, failure);
    if (error == OK)
        return OK;
    /* Its room at once, not in portions as remove() gives it back: frames wait for this. */
    (void)operations->allocate(draft->file, 0, 0, NULL);
    operations->close(draft->file);
    draft->file = NULL;
    (void)operations->remove(draft->disk, name, NULL);
    return error;
}

/* Cuts off what the spare holds behind its room. *is_begun is false where there is no spare. */
static enum error begin_spare(struct segment_draft *draft, bool *is_begun, struct failure *failure)
{
    *is_begun = false;
    if (draft->reserve == NULL)
        return OK;
    const struct disk_operations *operations = draft->disk->operations;
    char name[NAME_SIZE];
    name_make(draft, true, name);
    bool is_taken;
    enum error error = reserve_take_segment(draft->reserve, name, &is_taken, failure);
    if (error != OK || !is_taken)
        return error;
    error = operations->open(draft->disk, name, &draft->file, failure);
    if (error != OK)
        return error;
    error = operations->allocate(draft->file, draft->room, draft->room, failure);
    if (error == OK)
        error = operations->allocate(draft->file, draft->size, draft->room, failure);
    draft->is_spare = *is_begun = error == OK;
    if (error != OK) {
        operations->close(draft->file);
        draft->file = NULL;
    }
    return error;
}

enum error segment_draft_begin(struct segment_draft *draft, uint64_t start_position, uint64_t size, uint64_t room,
                               struct failure *failure)
{
    ASSERT(draft->file == NULL && room > 0 && room <= size);
    ASSERT(size >= SEGMENT_SIZE_MIN && start_position % size == 0);
    draft->start_position = start_position;
    draft->size = size;
    draft->room = room;
    bool is_begun = false;
    if (disk_is_short(draft->disk)) {
        const enum error error = begin_spare(draft, &is_begun, failure);
        if (error != OK || is_begun)
            return error;
    }
    struct failure own;
    failure_init(&own);
    enum error error = begin_new(draft, &own);
    if (error == ERROR_DISK_FULL) {
        const enum error spare_error = begin_spare(draft, &is_begun, failure);
        if (spare_error != OK || is_begun)
            return spare_error;
    }
    return error == OK ? OK : failure_set(failure, error, "%s", own.text);
}

/* The spare is now all zeros, durably, so it is an unused segment like any other. */
static enum error name_finally(struct segment_draft *draft, struct failure *failure)
{
    char from[NAME_SIZE], to[NAME_SIZE];
    name_make(draft, true, from);
    name_make(draft, false, to);
    const enum error error = draft->disk->operations->rename(draft->disk, from, to, failure);
    draft->is_spare = error != OK;
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
    if (error == OK && draft->is_spare)
        error = name_finally(draft, failure);
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
    segment_draft_init(draft, draft->disk, draft->reserve);
    return file;
}

void segment_draft_abandon(struct segment_draft *draft)
{
    ASSERT(draft->file != NULL);
    char name[NAME_SIZE];
    name_make(draft, draft->is_spare, name);
    bool is_kept = false;
    if (draft->is_spare)
        (void)reserve_put_segment(draft->reserve, name, &is_kept, NULL);
    /* Frees the room at once, not in portions like remove(): frames wait for this. A shortened segment is still an
     * unused one. */
    if (!is_kept)
        (void)draft->disk->operations->allocate(draft->file, 0, 0, NULL);
    struct disk *disk = draft->disk;
    segment_draft_deinit(draft);
    if (!is_kept)
        (void)disk->operations->remove(disk, name, NULL);
}
