/* The disk: faults that come near, room that runs out, flushes that take seconds; what the server does for its sake. */
#include "world_parts.h"

#include "fail.h"
#include "log/log.h"
#include "support/memory_disk.h"
#include <inttypes.h>

void world_clear_disk(struct world *world)
{
    world->is_full = world->is_covered = false;
    memory_disk_set_capacity(world->disk, UINT64_MAX);
}

void world_arm_fault(struct world *world)
{
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FAIL_SYNC,
                                                    MEMORY_DISK_FULL,       MEMORY_DISK_STOP,
                                                    MEMORY_DISK_STOP,       MEMORY_DISK_FAIL_READ};
    enum memory_disk_fault fault = faults[random_below(&world->faults, 6)];
    world_trace(world, "fault %d is near", fault);
    world->is_stop_near = fault == MEMORY_DISK_STOP;
    world->is_read_near = fault == MEMORY_DISK_FAIL_READ;
    memory_disk_fail_after(world->disk, random_below(&world->faults, world->is_read_near ? 2 : 25), fault);
}

/* Did the disk just refuse to be read? It does so once. */
void world_notice_failed_read(struct world *world)
{
    world->oracle->has_read_failed = world->is_read_near && memory_disk_has_failed(world->disk);
    if (!world->oracle->has_read_failed)
        return;
    world_trace(world, "a read fails");
    world->is_read_near = false;
}

/* Somebody else's files leave so little room, until somebody clears up. */
void world_fill_disk(struct world *world, uint32_t room)
{
    world->is_full = world->was_full = true;
    world->is_covered |= world->options.keeps_reserve && namespace_usage(world->ns).missing_bytes == 0;
    memory_disk_set_capacity(world->disk, memory_disk_used(world->disk) + room);
    world_trace(world, "the disk is nearly full%s", world->is_covered ? ", and the server has its reserve" : "");
}

/* The flush that begins now takes seconds, and requests go on. */
void world_stall(struct world *world)
{
    world->stalled_until_ms = world->now_ms + random_between(&world->faults, 1000, 20000);
    world->report->stalls++;
    world_trace(world, "the disk stalls for %" PRIu64 " ms", world->stalled_until_ms - world->now_ms);
}

void world_take_snapshot_step(struct world *world)
{
    struct failure failure = {.error = OK};
    if (namespace_snapshot_step(world->ns, true, &failure) != OK)
        world_trace(world, "snapshot: %s", failure.text);
}

/* The cleaner moves contents; nothing that a client could see changes, so the model only learns the time. */
void world_take_clean_step(struct world *world)
{
    struct failure failure = {.error = OK};
    world_make_room_to_renew(world);
    (void)world_begin(world);
    uint64_t end = namespace_end(world->ns), moved = namespace_usage(world->ns).moved_bytes;
    if (namespace_disk_step(world->ns, world->now_ms, &failure) != OK)
        world_trace(world, "cleaning: %s", failure.text);
    world_notice_failed_read(world);
    world->oracle->has_read_failed = false;
    world_begin_oracle(world, namespace_time(world->ns), namespace_hold_sequence(world->ns));
    world->pending_bytes += namespace_end(world->ns) - end;
    moved = namespace_usage(world->ns).moved_bytes - moved;
    world->report->moved_bytes += moved;
    if (namespace_disk_level(world->ns) != DISK_AMPLE)
        world_hang_up(world, CONNECTION_WAITING); /* world_is_beyond_model() */
    world->has_cleaned |= moved > 0;
    if (moved > 0)
        world_trace(world, "%" PRIu64 " bytes of contents were moved", moved);
    world_check_core(world);
}

/* Lets the server do what it does for the disk's sake, until nothing more comes of it. */
void world_tend_disk(struct world *world)
{
    for (unsigned turn = 0; turn < 6 && world->options.keeps_reserve; turn++) {
        world_set_time(world, world->now_ms + 250);
        world_take_clean_step(world);
        world_server_flush(world);
        world_take_snapshot_step(world);
        if (namespace_disk_level(world->ns) == DISK_AMPLE)
            return;
    }
}
