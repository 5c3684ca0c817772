#include "log/disk_copy.h"

#include "base/memory.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE 64u
#define PIECE_SIZE (1u << 20)
#define UNFINISHED ".copy"

static const struct disk_copy_end no_end = {.position = UINT64_MAX, .segment_size = UINT64_MAX};

struct names {
    const struct disk_copy_end *end;
    char (*owned)[NAME_SIZE];
    size_t count;
    size_t capacity;
};

static bool is_of_log(struct bytes name)
{
    return bytes_ends_with(name, BYTES(".segment")) || bytes_ends_with(name, BYTES(".snapshot"));
}

static void on_name(void *context, const char *name)
{
    struct names *names = context;
    uint64_t start;
    if (!is_of_log(bytes_from_string(name)) || strlen(name) + sizeof(UNFINISHED) > NAME_SIZE)
        return;
    if ((segment_name_decode(name, &start) && start >= names->end->position) ||
        (snapshot_name_decode(name, &start) && start > names->end->position))
        return;
    ARRAY_GROW(names->owned, names->count, names->capacity);
    (void)snprintf(names->owned[names->count++], NAME_SIZE, "%s", name);
}

static void unfinished_name(const char *name, char unfinished[NAME_SIZE + sizeof(UNFINISHED)])
{
    (void)snprintf(unfinished, NAME_SIZE + sizeof(UNFINISHED), "%s" UNFINISHED, name);
}

/* How many bytes of the file lie before the end. */
static uint64_t size_before(const struct disk_copy_end *end, const char *name, uint64_t size)
{
    uint64_t start;
    if (!segment_name_decode(name, &start) || end->position - start >= size)
        return size;
    return end->position - start;
}

/* The first `used` bytes; zeros behind them. */
static enum error copy_bytes(struct disk *from, struct disk *to, struct disk_file *source, struct disk_file *target,
                             uint64_t size, uint64_t used, struct failure *failure)
{
    uint8_t *piece = memory_allocate(PIECE_SIZE);
    enum error error = to->operations->allocate(target, size, size, failure);
    for (uint64_t at = 0; at < used && error == OK; at += PIECE_SIZE) {
        const size_t count = used - at < PIECE_SIZE ? (size_t)(used - at) : PIECE_SIZE;
        error = from->operations->read(source, at, piece, count, failure);
        if (error == OK)
            error = to->operations->write(target, at, bytes_make(piece, count), failure);
    }
    free(piece);
    return error == OK ? to->operations->sync(target, failure) : error;
}

/* Under a name that is none of a log. */
static enum error copy_file(struct disk *from, struct disk *to, const struct disk_copy_end *end, const char *name,
                            struct disk_copied *copied, struct failure *failure)
{
    char unfinished[NAME_SIZE + sizeof(UNFINISHED)];
    unfinished_name(name, unfinished);
    struct disk_file *source, *target;
    enum error error = from->operations->open(from, name, &source, failure);
    if (error != OK)
        return error;
    uint64_t size = 0;
    error = from->operations->size(source, &size, failure);
    if (error == OK)
        error = to->operations->remove(to, unfinished, failure);
    if (error == OK)
        error = to->operations->create(to, unfinished, &target, failure);
    if (error == OK) {
        error = copy_bytes(from, to, source, target, size, size_before(end, name, size), failure);
        to->operations->close(target);
    }
    from->operations->close(source);
    copied->files++;
    copied->bytes += size;
    return error;
}

static int compare_falling(const void *a, const void *b)
{
    return -strcmp(a, b);
}

/* The newest first: as long as an older one lacks its name, the log is refused. */
static enum error name_all(struct disk *to, const struct names *names, struct failure *failure)
{
    enum error error = to->operations->sync_folder(to, failure);
    for (size_t i = 0; i < names->count && error == OK; i++) {
        char unfinished[NAME_SIZE + sizeof(UNFINISHED)];
        unfinished_name(names->owned[i], unfinished);
        error = to->operations->rename(to, unfinished, names->owned[i], failure);
    }
    return error == OK ? to->operations->sync_folder(to, failure) : error;
}

enum error disk_copy(struct disk *from, struct disk *to, struct disk_copied *copied, struct failure *failure)
{
    return disk_copy_until(from, to, &no_end, copied, failure);
}

enum error disk_copy_until(struct disk *from, struct disk *to, const struct disk_copy_end *end,
                           struct disk_copied *copied, struct failure *failure)
{
    struct names names = {.end = end}, there = {.end = &no_end};
    *copied = (struct disk_copied){0};
    enum error error = from->operations->lock(from, failure);
    if (error == OK)
        error = to->operations->lock(to, failure);
    if (error == OK)
        error = to->operations->list(to, on_name, &there, failure);
    if (error == OK && there.count > 0)
        error = failure_set(failure, ERROR_DISK_FAILED,
                            "what it is copied to holds a log already: copy into an empty one.");
    if (error == OK)
        error = from->operations->list(from, on_name, &names, failure);
    if (names.count > 1)
        qsort(names.owned, names.count, sizeof(names.owned[0]), compare_falling);
    for (size_t i = 0; i < names.count && error == OK; i++)
        error = copy_file(from, to, end, names.owned[i], copied, failure);
    if (error == OK)
        error = name_all(to, &names, failure);
    free(names.owned);
    free(there.owned);
    return error;
}
