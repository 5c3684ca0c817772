/* The reserve. See reserve.h. */
#include "log/reserve.h"

#include "base/assert.h"
#include <inttypes.h>
#include <stdio.h>

#define NUMBER_DIGITS 16u
#define NUMBERS_MAX 64u /* far more than are ever kept */
#define NAME_SIZE 40u

static const char *const suffixes[RESERVE_KIND_COUNT] = {[RESERVE_SEGMENT] = ".spare", [RESERVE_SNAPSHOT] = ".reserve"};
static const char suffix_taken[] = ".segment.tmp";

static void name_make(enum reserve_kind kind, unsigned number, char name[NAME_SIZE])
{
    const int length = snprintf(name, NAME_SIZE, "%016x%s", number, suffixes[kind]);
    ASSERT(length > 0 && (size_t)length < NAME_SIZE);
}

static unsigned limit_of(const struct disk *disk, enum reserve_kind kind)
{
    return kind == RESERVE_SEGMENT ? disk->spare_segments : disk->spare_snapshots;
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

struct numbers {
    enum reserve_kind kind;
    bool is_there[NUMBERS_MAX];
    unsigned count;
};

static void number_visit(void *context, const char *name)
{
    struct numbers *numbers = context;
    const char *suffix = suffixes[numbers->kind];
    if (strlen(name) != NUMBER_DIGITS + strlen(suffix) || strcmp(name + NUMBER_DIGITS, suffix) != 0)
        return; /* quickly: a folder may have thousands of segments */
    for (unsigned number = 0; number < NUMBERS_MAX; number++) {
        char wanted[NAME_SIZE];
        name_make(numbers->kind, number, wanted);
        if (strcmp(name, wanted) != 0)
            continue;
        numbers->is_there[number] = true;
        numbers->count++;
    }
}

static enum error numbers_read(struct disk *disk, enum reserve_kind kind, struct numbers *numbers,
                               struct failure *failure)
{
    *numbers = (struct numbers){.kind = kind};
    return disk->operations->list(disk, number_visit, numbers, failure);
}

/* The lowest number that is in use, or that is free. NUMBERS_MAX: none. */
static unsigned number_find(const struct numbers *numbers, bool is_there)
{
    unsigned number = 0;
    while (number < NUMBERS_MAX && numbers->is_there[number] != is_there)
        number++;
    return number;
}

enum error reserve_count(struct disk *disk, enum reserve_kind kind, unsigned *count, struct failure *failure)
{
    struct numbers numbers;
    const enum error error = numbers_read(disk, kind, &numbers, failure);
    if (error == OK)
        *count = numbers.count;
    return error;
}

static bool is_shared(struct disk *disk, const char *name)
{
    return disk->operations->is_shared != NULL && disk->operations->is_shared(disk, name);
}

static enum error put(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_kept,
                      struct failure *failure)
{
    *is_kept = false;
    if (limit_of(disk, kind) == 0 || is_shared(disk, name))
        return OK;
    struct numbers numbers;
    enum error error = numbers_read(disk, kind, &numbers, failure);
    if (error != OK || numbers.count >= limit_of(disk, kind))
        return error;
    char spare[NAME_SIZE];
    name_make(kind, number_find(&numbers, false), spare);
    error = disk->operations->rename(disk, name, spare, failure);
    *is_kept = error == OK;
    return error;
}

static enum error take(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_taken,
                       struct failure *failure)
{
    *is_taken = false;
    struct numbers numbers;
    enum error error = numbers_read(disk, kind, &numbers, failure);
    if (error != OK || numbers.count == 0)
        return error;
    char spare[NAME_SIZE];
    name_make(kind, number_find(&numbers, true), spare);
    error = disk->operations->rename(disk, spare, name, failure);
    *is_taken = error == OK;
    return error;
}

/* Syncs a rename before the file is used under its new name: otherwise a crash could bring the old name back with
 * foreign content. */
static enum error settle(struct disk *disk, enum error error, bool is_renamed, struct failure *failure)
{
    return error == OK && is_renamed ? disk->operations->sync_folder(disk, failure) : error;
}

enum error reserve_put(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_kept,
                       struct failure *failure)
{
    const enum error error = put(disk, kind, name, is_kept, failure);
    return settle(disk, error, *is_kept, failure);
}

enum error reserve_put_or_remove(struct disk *disk, enum reserve_kind kind, const char *name, struct failure *failure)
{
    bool is_kept;
    const enum error error = reserve_put(disk, kind, name, &is_kept, failure);
    return is_kept ? error : disk->operations->remove(disk, name, failure);
}

enum error reserve_retire(struct disk *disk, enum reserve_kind kind, const char *name, struct failure *failure)
{
    const enum error error = disk->archive == NULL ? OK : disk->operations->archive(disk, name, failure);
    if (error == OK)
        return reserve_put_or_remove(disk, kind, name, failure);
    disk->is_unarchived = true;
    return error;
}

enum error reserve_take(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_taken,
                        struct failure *failure)
{
    const enum error error = take(disk, kind, name, is_taken, failure);
    return settle(disk, error, *is_taken, failure);
}

enum error reserve_fill_file(struct disk *disk, const char *name, uint64_t room, struct failure *failure)
{
    struct disk_file *file;
    enum error error = disk->operations->open(disk, name, &file, failure);
    if (error != OK)
        return error;
    error = disk->operations->reserve(file, room, failure);
    disk->operations->close(file);
    return error;
}

enum error reserve_make(struct disk *disk, enum reserve_kind kind, uint64_t room, struct failure *failure)
{
    struct numbers numbers;
    enum error error = numbers_read(disk, kind, &numbers, failure);
    if (error != OK)
        return error;
    char name[NAME_SIZE];
    name_make(kind, number_find(&numbers, false), name);
    struct disk_file *file;
    error = disk->operations->create(disk, name, &file, failure);
    if (error != OK)
        return error;
    error = disk->operations->reserve(file, room, failure);
    disk->operations->close(file);
    if (error != OK)
        (void)disk->operations->remove(disk, name, NULL);
    return error;
}

enum error reserve_fill(struct disk *disk, enum reserve_kind kind, uint64_t room, bool removes, struct failure *failure)
{
    struct numbers numbers;
    enum error first = numbers_read(disk, kind, &numbers, failure);
    if (first != OK)
        return first;
    for (unsigned number = 0; number < NUMBERS_MAX; number++) {
        if (!numbers.is_there[number])
            continue;
        char name[NAME_SIZE];
        name_make(kind, number, name);
        const enum error error = reserve_fill_file(disk, name, room, first == OK ? failure : NULL);
        if (error != OK && removes)
            (void)disk->operations->remove(disk, name, NULL);
        first = first == OK ? error : first;
    }
    return first;
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

struct taken {
    char name[NAME_SIZE]; /* of one such file; empty: there is none */
};

static void taken_visit(void *context, const char *name)
{
    struct taken *taken = context;
    if (strlen(name) == NUMBER_DIGITS + strlen(suffix_taken) && strcmp(name + NUMBER_DIGITS, suffix_taken) == 0)
        memcpy(taken->name, name, strlen(name) + 1);
}

enum error reserve_restore(struct disk *disk, struct failure *failure)
{
    for (;;) {
        struct taken taken = {.name = ""};
        enum error error = disk->operations->list(disk, taken_visit, &taken, failure);
        if (error != OK || taken.name[0] == '\0')
            return error;
        error = reserve_put_or_remove(disk, RESERVE_SEGMENT, taken.name, failure);
        if (error != OK)
            return error;
    }
}

/* --- the count ---------------------------------------------------------------------------------------------------- */

void reserve_init(struct reserve *reserve, struct disk *disk)
{
    *reserve = (struct reserve){.disk = disk};
    const int result = pthread_mutex_init(&reserve->mutex, NULL);
    ASSERT(result == 0);
}

void reserve_deinit(struct reserve *reserve)
{
    (void)pthread_mutex_destroy(&reserve->mutex);
}

enum error reserve_take_segment(struct reserve *reserve, const char *name, bool *is_taken, struct failure *failure)
{
    (void)pthread_mutex_lock(&reserve->mutex);
    const enum error error = take(reserve->disk, RESERVE_SEGMENT, name, is_taken, failure);
    if (*is_taken && atomic_load(&reserve->segments) > 0)
        atomic_fetch_sub(&reserve->segments, 1);
    (void)pthread_mutex_unlock(&reserve->mutex);
    return settle(reserve->disk, error, *is_taken, failure);
}

enum error reserve_put_segment(struct reserve *reserve, const char *name, bool *is_kept, struct failure *failure)
{
    (void)pthread_mutex_lock(&reserve->mutex);
    const enum error error = put(reserve->disk, RESERVE_SEGMENT, name, is_kept, failure);
    if (*is_kept)
        atomic_fetch_add(&reserve->segments, 1);
    (void)pthread_mutex_unlock(&reserve->mutex);
    return settle(reserve->disk, error, *is_kept, failure);
}

enum error reserve_make_segment(struct reserve *reserve, uint64_t room, bool *is_made, struct failure *failure)
{
    *is_made = false;
    if (pthread_mutex_trylock(&reserve->mutex) != 0)
        return OK;
    const enum error error = reserve_make(reserve->disk, RESERVE_SEGMENT, room, failure);
    *is_made = error == OK;
    if (*is_made)
        atomic_fetch_add(&reserve->segments, 1);
    (void)pthread_mutex_unlock(&reserve->mutex);
    return error;
}

bool reserve_recount(struct reserve *reserve)
{
    if (pthread_mutex_trylock(&reserve->mutex) != 0)
        return false;
    unsigned count;
    const enum error error = reserve_count(reserve->disk, RESERVE_SEGMENT, &count, NULL);
    if (error == OK)
        atomic_store(&reserve->segments, count);
    (void)pthread_mutex_unlock(&reserve->mutex);
    return error == OK;
}
