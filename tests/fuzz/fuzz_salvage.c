/* A folder of the real log with bytes overwritten: whatever they are, a salvage ends, and what it writes is a folder
 * that recovery takes.
 *
 * The input is a run of patches: u8 which file, u16 where, u8 how many bytes, the bytes. */
#include "base/assert.h"
#include "base/cursor.h"
#include "engine/salvage.h"
#include "support/history.h"
#include "support/world.h"

#include <stdlib.h>

#define FILES_MAX 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Queues, groups, a batch, a pool, a snapshot and a log behind it. */
static struct disk *folder_make(void)
{
    const struct world_options options = {.segment_size = 16384, .frame_size_max = 4096, .snapshot_bytes = 1};
    struct world *world = world_create(&options);
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    (void)world_call(world, "Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'done'}}");
    for (unsigned i = 0; i < 40; i++) {
        struct taken taken[4];
        (void)world_send(world, "jobs", i % 3 == 0 ? "b" : NULL, "a body");
        if (i % 4 == 3 && world_take(world, "jobs", 30, 1, taken) == 1)
            world_delete(world, "jobs", taken[0].handle);
        if (i == 20)
            world_snapshot(world);
    }
    (void)world_call(world, "Tally.SealBatch", "{'BatchId':'b'}");
    world_stop(world, true);
    struct disk *disk = memory_disk_clone(world->disk, 1);
    world_start(world);
    world_destroy(world);
    return disk;
}

struct names {
    char items[FILES_MAX][64];
    size_t count;
};

static void name_visit(void *context, const char *name)
{
    struct names *names = context;
    if (names->count < FILES_MAX)
        (void)snprintf(names->items[names->count++], sizeof(names->items[0]), "%s", name);
}

static void patch(struct disk *disk, const struct names *names, struct cursor *cursor)
{
    const char *name = names->items[cursor_u8(cursor) % names->count];
    const size_t offset = cursor_u16(cursor);
    const struct bytes bytes = cursor_bytes(cursor, cursor_u8(cursor) % 64u);
    const struct bytes content = memory_disk_content(disk, name);
    if (cursor->is_failed || offset + bytes.size > content.size)
        return;
    uint8_t *copy = malloc(content.size);
    ASSERT(copy != NULL);
    memcpy(copy, content.ptr, content.size);
    if (bytes.size > 0)
        memcpy(copy + offset, bytes.ptr, bytes.size);
    memory_disk_put(disk, name, bytes_make(copy, content.size));
    free(copy);
}

static void on_note(void *context, const struct salvage_note *note)
{
    (void)context;
    history_note_salvage(note);
    ASSERT(salvage_note_name(note->kind) != NULL);
}

static void write_and_open(struct salvage *salvage)
{
    static const struct namespace_options options = {
        .name = "000000000000", .segment_size = 16384, .frame_size_max = 4096, .in_flight_max = 100};
    struct disk *to = memory_disk_create(1);
    struct failure failure = {.error = OK};
    enum error error = salvage_write(salvage, to, &failure);
    ASSERT(error == OK);
    memory_disk_kill(to);
    struct namespace *ns;
    error = namespace_recover(to, &options, &ns, &failure);
    ASSERT(error == OK);
    core_check(namespace_core(ns));
    namespace_close(ns);
    memory_disk_destroy(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct disk *whole;
    if (whole == NULL)
        whole = folder_make();
    struct disk *disk = memory_disk_clone(whole, 1);
    struct names names = {.count = 0};
    (void)disk->operations->lock(disk, NULL);
    (void)disk->operations->list(disk, name_visit, &names, NULL);
    for (struct cursor cursor = cursor_make(bytes_make(data, size)); cursor.rest.size > 0 && !cursor.is_failed;)
        patch(disk, &names, &cursor);
    const struct salvage_options options = {.name = "000000000000", .segment_size = 16384, .report = on_note};
    struct salvage *salvage;
    struct failure failure = {.error = OK};
    const bool is_read = salvage_read(disk, &options, &salvage, &failure) == OK;
    history_note(bytes_from_string(failure.text));
    if (is_read) {
        if (salvage_core(salvage) != NULL)
            write_and_open(salvage);
        salvage_destroy(salvage);
    }
    memory_disk_destroy(disk);
    return 0;
}
