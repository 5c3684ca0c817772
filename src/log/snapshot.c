/* Snapshot files: writing, publishing, loading. The layout is in docs/internals/formats/log.md; the constants here are
 * it.
 *
 *     header 64 | block header 20, up to 1 MiB of payload | ... | trailer 32
 *
 * Promises that a published snapshot is whole and durable, and that any changed, missing or added byte is found on
 * load. Knows nothing of what the payload means. */
#include "log/snapshot.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/memory.h"
#include "log/reserve.h"
#include "log/segment.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define HEADER_MAGIC 0x504e5354u  /* "TSNP" */
#define BLOCK_MAGIC 0x4b4c4254u   /* "TBLK" */
#define TRAILER_MAGIC 0x4c525454u /* "TTRL" */
#define SNAPSHOT_VERSION 1u
#define SNAPSHOT_VERSION_LONG 2u /* the file is longer than the snapshot: its header says where that ends */
#define HEADER_SIZE 64u
#define BLOCK_HEADER_SIZE 20u
#define TRAILER_SIZE 32u
#define BLOCK_SIZE_MAX (1u << 20)

static const char suffix[] = ".snapshot";
static const char suffix_temporary[] = ".snapshot.tmp";
#define POSITION_DIGITS 16u
#define NAME_SIZE (POSITION_DIGITS + sizeof(suffix_temporary))

struct snapshot_writer {
    struct disk *disk;
    struct disk_file *file;
    struct snapshot_point point;
    uint64_t offset; /* of the block that is being filled */
    uint64_t total;  /* payload bytes in finished blocks */
    uint64_t block_count;
    size_t filled;          /* payload bytes in `block_owned` */
    uint8_t *block_owned;   /* BLOCK_HEADER_SIZE + BLOCK_SIZE_MAX bytes */
    struct failure failure; /* the first one; error OK: none */
};

static void name_make(uint64_t position, const char *ending, char name[NAME_SIZE])
{
    const int length = snprintf(name, NAME_SIZE, "%016" PRIx64 "%s", position, ending);
    ASSERT(length > 0 && (size_t)length < NAME_SIZE);
}

/* Is `name` what name_make() gives for some position and this ending? */
static bool name_decode(const char *name, const char *ending, uint64_t *position)
{
    uint8_t digits[POSITION_DIGITS / 2];
    if (strlen(name) != POSITION_DIGITS + strlen(ending) || strcmp(name + POSITION_DIGITS, ending) != 0)
        return false;
    if (!bytes_from_hex(bytes_make(name, POSITION_DIGITS), digits, sizeof(digits)))
        return false;
    uint64_t read = 0;
    for (size_t i = 0; i < sizeof(digits); i++)
        read = read << 8 | digits[i];
    char canonical[NAME_SIZE];
    name_make(read, ending, canonical);
    if (strcmp(name, canonical) != 0)
        return false;
    *position = read;
    return true;
}

void snapshot_name(uint64_t position, char name[SNAPSHOT_NAME_SIZE])
{
    char made[NAME_SIZE];
    name_make(position, suffix, made);
    memcpy(name, made, SNAPSHOT_NAME_SIZE);
}

bool snapshot_name_decode(const char *name, uint64_t *position)
{
    return name_decode(name, suffix, position);
}

/* `size`: of the whole snapshot where the file is longer, else 0. */
static void header_encode(const struct snapshot_point *point, uint64_t size, uint8_t header[HEADER_SIZE])
{
    memset(header, 0, HEADER_SIZE);
    bytes_put_u32(header, HEADER_MAGIC);
    bytes_put_u32(header + 4, size == 0 ? SNAPSHOT_VERSION : SNAPSHOT_VERSION_LONG);
    bytes_put_u64(header + 8, point->epoch);
    bytes_put_u64(header + 16, point->sequence);
    bytes_put_u64(header + 24, point->position);
    bytes_put_u64(header + 32, point->time_ms);
    bytes_put_u64(header + 40, size);
    bytes_put_u32(header + 60, crc32c(0, bytes_make(header, 60)));
}

/* The file to write into: a spare one, which has room, or a new one. */
static enum error file_get(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    bool is_taken;
    const enum error error = reserve_take(disk, RESERVE_SNAPSHOT, name, &is_taken, failure);
    if (error != OK)
        return error;
    return is_taken ? disk->operations->open(disk, name, file, failure)
                    : disk->operations->create(disk, name, file, failure);
}

enum error snapshot_begin(struct disk *disk, const struct snapshot_point *point, struct snapshot_writer **writer,
                          struct failure *failure)
{
    ASSERT(point->position % FRAME_SECTOR_SIZE == 0);
    char name[NAME_SIZE];
    name_make(point->position, suffix_temporary, name);
    snapshot_discard(disk);
    struct disk_file *file;
    enum error error = file_get(disk, name, &file, failure);
    if (error != OK)
        return error;
    uint8_t header[HEADER_SIZE];
    header_encode(point, 0, header);
    error = disk->operations->write(file, 0, bytes_make(header, sizeof(header)), failure);
    if (error != OK) {
        disk->operations->close(file);
        snapshot_discard(disk);
        return error;
    }
    struct snapshot_writer *begun = memory_allocate_zeroed(sizeof(*begun));
    begun->disk = disk;
    begun->file = file;
    begun->point = *point;
    begun->offset = HEADER_SIZE;
    begun->block_owned = memory_allocate(BLOCK_HEADER_SIZE + BLOCK_SIZE_MAX);
    *writer = begun;
    return OK;
}

/* Reports the first failure of the writer. */
static enum error writer_error(const struct snapshot_writer *writer, struct failure *failure)
{
    ASSERT(writer->failure.error != OK);
    return failure_set(failure, writer->failure.error, "%s", writer->failure.text);
}

static enum error block_write(struct snapshot_writer *writer)
{
    ASSERT(writer->filled > 0 && writer->filled <= BLOCK_SIZE_MAX);
    ASSERT(writer->block_count < UINT32_MAX);
    uint8_t *header = writer->block_owned;
    const struct bytes payload = bytes_make(header + BLOCK_HEADER_SIZE, writer->filled);
    bytes_put_u32(header, BLOCK_MAGIC);
    bytes_put_u32(header + 4, (uint32_t)writer->block_count);
    bytes_put_u32(header + 8, (uint32_t)writer->filled);
    bytes_put_u32(header + 12, crc32c(0, payload));
    bytes_put_u32(header + 16, crc32c(0, bytes_make(header, 16)));
    const struct disk_operations *operations = writer->disk->operations;
    const size_t size = BLOCK_HEADER_SIZE + writer->filled;
    /* If the last sync, or the system, had to write everything, every other sync on this disk would wait behind
     * hundreds of megabytes. */
    const enum error error =
        operations->write_aside(writer->file, writer->offset, bytes_make(header, size), &writer->failure);
    if (error != OK)
        return error;
    writer->offset += size;
    writer->total += writer->filled;
    writer->block_count++;
    writer->filled = 0;
    return OK;
}

enum error snapshot_append(struct snapshot_writer *writer, struct bytes data, struct failure *failure)
{
    ASSERT(writer->file != NULL);
    while (data.size > 0 && writer->failure.error == OK) {
        const size_t room = BLOCK_SIZE_MAX - writer->filled;
        const size_t piece = data.size < room ? data.size : room;
        memcpy(writer->block_owned + BLOCK_HEADER_SIZE + writer->filled, data.ptr, piece);
        writer->filled += piece;
        data = bytes_skip(data, piece);
        if (writer->filled == BLOCK_SIZE_MAX)
            (void)block_write(writer);
    }
    return writer->failure.error == OK ? OK : writer_error(writer, failure);
}

static enum error trailer_write(struct snapshot_writer *writer)
{
    ASSERT(writer->filled == 0);
    uint8_t trailer[TRAILER_SIZE] = {0};
    bytes_put_u32(trailer, TRAILER_MAGIC);
    bytes_put_u64(trailer + 8, writer->total);
    bytes_put_u64(trailer + 16, writer->block_count);
    bytes_put_u32(trailer + 28, crc32c(0, bytes_make(trailer, 28)));
    return writer->disk->operations->write(writer->file, writer->offset, bytes_make(trailer, sizeof(trailer)),
                                           &writer->failure);
}

/* A spare file may be longer than the snapshot. It is cut; while the disk is short it keeps its room, and the header
 * says where the snapshot ends. */
static enum error length_settle(struct snapshot_writer *writer)
{
    const struct disk_operations *operations = writer->disk->operations;
    const uint64_t size = writer->offset + TRAILER_SIZE;
    uint64_t file_size;
    const enum error error = operations->size(writer->file, &file_size, &writer->failure);
    if (error != OK || file_size == size)
        return error;
    ASSERT(file_size > size);
    if (!disk_is_short(writer->disk))
        return operations->allocate(writer->file, size, 0, &writer->failure);
    uint8_t header[HEADER_SIZE];
    header_encode(&writer->point, size, header);
    return operations->write(writer->file, 0, bytes_make(header, sizeof(header)), &writer->failure);
}

enum error snapshot_finish(struct snapshot_writer *writer, struct failure *failure)
{
    ASSERT(writer->file != NULL);
    const struct disk_operations *operations = writer->disk->operations;
    if (writer->failure.error == OK && writer->filled > 0)
        (void)block_write(writer);
    if (writer->failure.error == OK)
        (void)trailer_write(writer);
    if (writer->failure.error == OK)
        (void)length_settle(writer);
    if (writer->failure.error == OK)
        (void)operations->sync(writer->file, &writer->failure);
    operations->close(writer->file);
    enum error error = OK;
    if (writer->failure.error != OK) {
        error = writer_error(writer, failure);
        snapshot_discard(writer->disk);
    }
    free(writer->block_owned);
    free(writer);
    return error;
}

/* The snapshot files of a folder. */
struct name_list {
    uint64_t *published_owned; /* positions */
    size_t published_count;
    uint64_t *temporary_owned;
    size_t temporary_count;
};

static void position_append(uint64_t **positions, size_t *count, uint64_t position)
{
    *positions = memory_resize(*positions, (*count + 1) * sizeof(**positions));
    (*positions)[(*count)++] = position;
}

static void name_visit(void *context, const char *name)
{
    struct name_list *names = context;
    uint64_t position;
    if (name_decode(name, suffix, &position))
        position_append(&names->published_owned, &names->published_count, position);
    else if (name_decode(name, suffix_temporary, &position))
        position_append(&names->temporary_owned, &names->temporary_count, position);
}

static void name_list_deinit(struct name_list *names)
{
    free(names->published_owned);
    free(names->temporary_owned);
    *names = (struct name_list){0};
}

static enum error temporary_remove(struct disk *disk, const struct name_list *names, struct failure *failure)
{
    for (size_t i = 0; i < names->temporary_count; i++) {
        char name[NAME_SIZE];
        name_make(names->temporary_owned[i], suffix_temporary, name);
        const enum error error = reserve_put_or_remove(disk, RESERVE_SNAPSHOT, name, failure);
        if (error != OK)
            return error;
    }
    return OK;
}

void snapshot_discard(struct disk *disk)
{
    struct name_list names = {0};
    if (disk->operations->list(disk, name_visit, &names, NULL) == OK)
        (void)temporary_remove(disk, &names, NULL);
    name_list_deinit(&names);
}

/* Removes every published snapshot but the one at `position`; one that can't be removed is passed over, and the first
 * such failure returned. */
static enum error older_remove(struct disk *disk, const struct name_list *names, uint64_t position,
                               struct failure *failure)
{
    enum error first = OK;
    for (size_t i = 0; i < names->published_count; i++) {
        if (names->published_owned[i] == position)
            continue;
        ASSERT(names->published_owned[i] < position);
        char name[NAME_SIZE];
        name_make(names->published_owned[i], suffix, name);
        const enum error error = reserve_retire(disk, RESERVE_SNAPSHOT, name, first == OK ? failure : NULL);
        first = first == OK ? error : first;
    }
    return first;
}

enum error snapshot_publish(struct disk *disk, const struct snapshot_point *point, struct failure *failure)
{
    const struct disk_operations *operations = disk->operations;
    char from[NAME_SIZE], to[NAME_SIZE];
    name_make(point->position, suffix_temporary, from);
    name_make(point->position, suffix, to);
    const enum error error = operations->rename(disk, from, to, failure);
    /* From here on two snapshots may exist; the newest counts. The old one goes only when the new name is durable. */
    return error == OK ? operations->sync_folder(disk, failure) : error;
}

enum error snapshot_remove_older(struct disk *disk, const struct snapshot_point *point, struct failure *failure)
{
    struct name_list names = {0};
    enum error error = disk->operations->list(disk, name_visit, &names, failure);
    if (error == OK)
        error = older_remove(disk, &names, point->position, failure);
    name_list_deinit(&names);
    return error;
}

/* How far a load has read its file. */
struct snapshot_reader {
    struct disk *disk;
    struct disk_file *file;
    char name[NAME_SIZE];
    uint64_t size; /* of the file */
    uint64_t offset;
    uint64_t block_count;
};

/* Reads the header, and from it where the snapshot ends. */
static enum error header_load(struct snapshot_reader *reader, uint8_t header[HEADER_SIZE], struct failure *failure)
{
    enum error error = reader->disk->operations->size(reader->file, &reader->size, failure);
    if (error != OK)
        return error;
    if (reader->size < HEADER_SIZE + TRAILER_SIZE)
        return segment_damaged(failure, reader->disk, reader->name, reader->size, "the snapshot is truncated");
    error = reader->disk->operations->read(reader->file, 0, header, HEADER_SIZE, failure);
    if (error != OK)
        return error;
    if (bytes_get_u32(header) != HEADER_MAGIC || bytes_get_u32(header + 60) != crc32c(0, bytes_make(header, 60)))
        return segment_damaged(failure, reader->disk, reader->name, 0, "the snapshot's header has a wrong checksum");
    const uint32_t version = bytes_get_u32(header + 4);
    if (version != SNAPSHOT_VERSION && version != SNAPSHOT_VERSION_LONG)
        return segment_damaged(failure, reader->disk, reader->name, 4,
                               "expected format version %u, found %" PRIu32 " (a newer program wrote it?)",
                               SNAPSHOT_VERSION_LONG, version);
    if (version == SNAPSHOT_VERSION)
        return OK;
    const uint64_t size = bytes_get_u64(header + 40);
    if (size < HEADER_SIZE + TRAILER_SIZE || size > reader->size)
        return segment_damaged(failure, reader->disk, reader->name, reader->size,
                               "the snapshot is truncated: its header speaks of %" PRIu64 " bytes", size);
    reader->size = size;
    return OK;
}

static enum error header_read(struct snapshot_reader *reader, uint64_t position, struct snapshot_point *point,
                              struct failure *failure)
{
    uint8_t header[HEADER_SIZE];
    const enum error error = header_load(reader, header, failure);
    if (error != OK)
        return error;
    const struct snapshot_point read = {
        .epoch = bytes_get_u64(header + 8),
        .sequence = bytes_get_u64(header + 16),
        .position = bytes_get_u64(header + 24),
        .time_ms = bytes_get_u64(header + 32),
    };
    if (read.position != position || position % FRAME_SECTOR_SIZE != 0)
        return segment_damaged(failure, reader->disk, reader->name, 24,
                               "the header speaks of position %" PRIu64 ", the file's name of %" PRIu64, read.position,
                               position);
    *point = read;
    reader->offset = HEADER_SIZE;
    return OK;
}

/* Reads one block. The least that must follow its header is the trailer. */
static enum error block_read(struct snapshot_reader *reader, struct buffer *payload, struct failure *failure)
{
    uint8_t header[BLOCK_HEADER_SIZE];
    const struct disk_operations *operations = reader->disk->operations;
    const uint64_t at = reader->offset;
    enum error error = operations->read(reader->file, at, header, sizeof(header), failure);
    if (error != OK)
        return error;
    const uint32_t size = bytes_get_u32(header + 8);
    if (bytes_get_u32(header) != BLOCK_MAGIC || bytes_get_u32(header + 16) != crc32c(0, bytes_make(header, 16)) ||
        size == 0 || size > BLOCK_SIZE_MAX)
        return segment_damaged(failure, reader->disk, reader->name, at,
                               "block %" PRIu64 " of the snapshot has a damaged header", reader->block_count);
    if (bytes_get_u32(header + 4) != reader->block_count)
        return segment_damaged(failure, reader->disk, reader->name, at + 4,
                               "expected block %" PRIu64 " of the snapshot, found block %" PRIu32, reader->block_count,
                               bytes_get_u32(header + 4));
    const size_t before = payload->size;
    error = operations->read(reader->file, at + BLOCK_HEADER_SIZE, buffer_extend(payload, size), size, failure);
    if (error == OK && crc32c(0, bytes_make(payload->data_owned + before, size)) != bytes_get_u32(header + 12))
        error = segment_damaged(failure, reader->disk, reader->name, at + BLOCK_HEADER_SIZE,
                                "block %" PRIu64 " of the snapshot, %" PRIu32 " bytes, has a wrong checksum",
                                reader->block_count, size);
    if (error != OK) {
        buffer_truncate(payload, before);
        return error;
    }
    reader->offset = at + BLOCK_HEADER_SIZE + size;
    reader->block_count++;
    return OK;
}

static enum error trailer_read(struct snapshot_reader *reader, uint64_t total, struct failure *failure)
{
    uint8_t trailer[TRAILER_SIZE];
    const uint64_t at = reader->offset;
    ASSERT(at + TRAILER_SIZE == reader->size);
    enum error error = reader->disk->operations->read(reader->file, at, trailer, sizeof(trailer), failure);
    if (error != OK)
        return error;
    if (bytes_get_u32(trailer) != TRAILER_MAGIC || bytes_get_u32(trailer + 28) != crc32c(0, bytes_make(trailer, 28)))
        return segment_damaged(failure, reader->disk, reader->name, at,
                               "the snapshot's trailer is missing or has a wrong checksum");
    if (bytes_get_u64(trailer + 8) != total || bytes_get_u64(trailer + 16) != reader->block_count)
        return segment_damaged(failure, reader->disk, reader->name, at,
                               "expected %" PRIu64 " bytes in %" PRIu64 " blocks, found %" PRIu64 " in %" PRIu64,
                               bytes_get_u64(trailer + 8), bytes_get_u64(trailer + 16), total, reader->block_count);
    return OK;
}

static enum error content_read(struct snapshot_reader *reader, uint64_t position, struct snapshot_point *point,
                               struct buffer *payload, struct failure *failure)
{
    struct snapshot_point read;
    enum error error = header_read(reader, position, &read, failure);
    if (error != OK)
        return error;
    const size_t before = payload->size;
    (void)buffer_reserve(payload, (size_t)reader->size); /* once, instead of doubling up to it */
    while (reader->offset + TRAILER_SIZE < reader->size) {
        error = block_read(reader, payload, failure);
        if (error != OK)
            return error;
    }
    if (reader->offset + TRAILER_SIZE > reader->size)
        return segment_damaged(failure, reader->disk, reader->name, reader->size,
                               "the snapshot is truncated: its trailer is missing");
    error = trailer_read(reader, payload->size - before, failure);
    if (error == OK)
        *point = read;
    return error;
}

/* Opens the published snapshot of that position; the caller closes reader->file. */
static enum error reader_open(struct snapshot_reader *reader, struct disk *disk, uint64_t position,
                              struct failure *failure)
{
    *reader = (struct snapshot_reader){.disk = disk};
    name_make(position, suffix, reader->name);
    return disk->operations->open(disk, reader->name, &reader->file, failure);
}

enum error snapshot_size(struct disk *disk, const struct snapshot_point *point, uint64_t *size, struct failure *failure)
{
    struct snapshot_reader reader;
    enum error error = reader_open(&reader, disk, point->position, failure);
    if (error != OK)
        return error;
    uint8_t header[HEADER_SIZE];
    error = header_load(&reader, header, failure);
    if (error == OK)
        *size = reader.size;
    disk->operations->close(reader.file);
    return error;
}

enum error snapshot_read_point(struct disk *disk, uint64_t position, struct snapshot_point *point,
                               struct failure *failure)
{
    struct snapshot_reader reader;
    enum error error = reader_open(&reader, disk, position, failure);
    if (error != OK)
        return error;
    error = header_read(&reader, position, point, failure);
    disk->operations->close(reader.file);
    return error;
}

enum error snapshot_reserve(struct disk *disk, uint64_t position, uint64_t room, struct failure *failure)
{
    char name[NAME_SIZE];
    name_make(position, suffix, name);
    return reserve_fill_file(disk, name, room, failure);
}

/* After an error `payload` has what stands before the damage. */
static enum error one_read(struct disk *disk, uint64_t position, struct snapshot_point *point, struct buffer *payload,
                           struct failure *failure)
{
    struct snapshot_reader reader;
    enum error error = reader_open(&reader, disk, position, failure);
    if (error != OK)
        return error;
    error = content_read(&reader, position, point, payload, failure);
    disk->operations->close(reader.file);
    return error;
}

static enum error newest_read(struct disk *disk, uint64_t position, struct snapshot_point *point,
                              struct buffer *payload, struct failure *failure)
{
    const size_t before = payload->size;
    const enum error error = one_read(disk, position, point, payload, failure);
    if (error != OK)
        buffer_truncate(payload, before);
    return error;
}

enum error snapshot_load(struct disk *disk, struct snapshot_point *point, struct buffer *payload, bool *is_found,
                         struct failure *failure)
{
    ASSERT(point != NULL && is_found != NULL);
    struct name_list names = {0};
    enum error error = disk->operations->list(disk, name_visit, &names, failure);
    if (error != OK)
        goto out;
    error = temporary_remove(disk, &names, failure);
    if (error != OK)
        goto out;
    if (names.published_count == 0) {
        *is_found = false;
        goto out;
    }
    uint64_t newest = 0;
    for (size_t i = 0; i < names.published_count; i++)
        newest = names.published_owned[i] > newest ? names.published_owned[i] : newest;
    error = newest_read(disk, newest, point, payload, failure);
    /* Removes an older snapshot only after the newest has proved whole, so that a person can still inspect both. The
     * newest name must be durable first: a process may have been killed right after the rename. */
    if (error == OK && names.published_count > 1)
        error = disk->operations->sync_folder(disk, failure);
    if (error == OK) {
        /* A file that can't be removed only takes up room; the next snapshot tries again and reports it. */
        (void)older_remove(disk, &names, newest, NULL);
        *is_found = true;
    }
out:
    name_list_deinit(&names);
    return error;
}

static int position_compare_falling(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

enum error
snapshot_load_readable(struct disk *disk, struct snapshot_point *point, struct buffer *payload, bool *is_found,
                       void (*damaged)(void *context, uint64_t position, const char *text, struct bytes payload),
                       void *context, struct failure *failure)
{
    ASSERT(payload->size == 0 && damaged != NULL);
    struct name_list names = {0};
    enum error error = disk->operations->list(disk, name_visit, &names, failure);
    *is_found = false;
    if (names.published_count > 1)
        qsort(names.published_owned, names.published_count, sizeof(uint64_t), position_compare_falling);
    for (size_t i = 0; error == OK && !*is_found && i < names.published_count; i++) {
        struct failure found;
        failure_init(&found);
        *is_found = one_read(disk, names.published_owned[i], point, payload, &found) == OK;
        if (!*is_found) {
            damaged(context, names.published_owned[i], found.text, buffer_bytes(payload));
            buffer_truncate(payload, 0);
        }
    }
    name_list_deinit(&names);
    return error;
}
