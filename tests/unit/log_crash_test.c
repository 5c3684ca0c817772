/* Crashes at every place, drawn from seeds: whatever was acknowledged is there after the restart, nothing was made up,
 * and the folder is never refused. */
#include "support/log_rig.h"
#include "support/memory_disk.h"
#include "support/scale.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct history {
    uint64_t seed;
    struct random random;
    struct disk *disk;
    struct log_rig rig;
    uint64_t acknowledged; /* newest frame that was durable */
    uint64_t attempted;    /* newest frame whose write began */
    uint64_t published;    /* newest snapshot that was published, by sequence */
};

static bool is_needed(void *context, uint64_t ordinal)
{
    (void)context;
    return ordinal % 3 == 0;
}

/* Opens the folder and compares what it says with the history. False if the disk failed meanwhile. */
static bool history_open(struct history *history)
{
    struct log_rig *rig = &history->rig;
    const enum error error = log_rig_open(rig);
    if (error != OK) {
        if (error == ERROR_LOG_DAMAGED || !memory_disk_has_failed(history->disk))
            fail_msg("seed %u: %s", (unsigned)history->seed, rig->failure.text);
        return false;
    }
    if (rig->sequence < history->acknowledged || rig->sequence > history->attempted)
        fail_msg("seed %u: frames up to %u, acknowledged %u, attempted %u", (unsigned)history->seed,
                 (unsigned)rig->sequence, (unsigned)history->acknowledged, (unsigned)history->attempted);
    uint64_t base = 0;
    if (rig->snapshot.size > 0)
        assert_true(bytes_to_u64(buffer_bytes(&rig->snapshot), &base));
    assert_true(base >= history->published && base <= rig->sequence);
    assert_int_equal(rig->replayed, rig->sequence - base);
    assert_int_equal(rig->is_new, rig->sequence == 0);
    /* Whoever reads it may act on it, so it must stay. */
    history->acknowledged = history->attempted = rig->sequence;
    history->published = base;
    return true;
}

static bool history_snapshot(struct history *history)
{
    struct log_rig *rig = &history->rig;
    char text[24];
    const int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)rig->sequence);
    if (log_rig_snapshot(rig, bytes_make(text, (size_t)length)) != OK)
        return false;
    history->published = rig->sequence;
    const struct log_cut cut = {.replay_position = rig->point.position, .is_needed = is_needed};
    return log_trim(rig->log, &cut, &rig->failure) == OK;
}

/* Writes until the disk fails or the draw says that the process is killed. */
static void history_write(struct history *history)
{
    struct log_rig *rig = &history->rig;
    for (;;) {
        const uint32_t choice = random_below(&history->random, 40);
        if (choice == 0)
            return;
        if (choice <= 3 && rig->frame.size > 0 &&
            rig->position == log_next_point(rig->log).position - rig->frame.size) {
            if (!history_snapshot(history))
                return;
            continue;
        }
        if (choice <= 20)
            (void)log_prepare(rig->log);
        history->attempted = log_next_point(rig->log).sequence;
        if (log_rig_write(rig, random_below(&history->random, 3000)) != OK) {
            struct failure again;
            assert_true(log_write(rig->log, buffer_bytes(&rig->frame), &again) != OK);
            assert_string_equal(again.text, rig->failure.text);
            return;
        }
        history->acknowledged = rig->sequence;
        const struct bytes payload = bytes_skip(buffer_bytes(&rig->frame), FRAME_HEADER_SIZE);
        const uint8_t *read = log_read(rig->log, rig->position + FRAME_HEADER_SIZE, payload.size);
        assert_non_null(read);
        assert_memory_equal(read, payload.ptr, payload.size);
    }
}

static void history_run(uint64_t seed)
{
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_STOP, MEMORY_DISK_STOP, MEMORY_DISK_FAIL_WRITE,
                                                    MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL};
    struct history history = {.seed = seed, .random = {.state = seed}, .disk = memory_disk_create(seed)};
    log_rig_init(&history.rig, history.disk);
    for (int life = 0; life < 20; life++) {
        const enum memory_disk_fault fault = faults[random_below(&history.random, 5)];
        memory_disk_fail_after(history.disk, random_below(&history.random, 120), fault);
        buffer_truncate(&history.rig.frame, 0);
        if (history_open(&history))
            history_write(&history);
        log_rig_close(&history.rig);
        if (random_below(&history.random, 3) == 0)
            memory_disk_kill(history.disk);
        else
            memory_disk_crash(history.disk);
    }
    assert_true(history_open(&history));
    log_rig_deinit(&history.rig);
    memory_disk_destroy(history.disk);
}

static void nothing_acknowledged_is_lost_over_many_crashes(void **state)
{
    (void)state;
    const char *seeds = getenv("LOG_CRASH_SEEDS");
    const uint64_t count = seeds == NULL ? scaled(300) : strtoull(seeds, NULL, 10);
    for (uint64_t seed = 1; seed <= count; seed++)
        history_run(seed);
}

/* The first life of a folder, stopped after each single operation. */
static void a_new_folder_survives_a_crash_after_each_operation(void **state)
{
    (void)state;
    for (uint64_t operations = 0;; operations++) {
        struct disk *disk = memory_disk_create(operations);
        struct log_rig rig;
        log_rig_init(&rig, disk);
        memory_disk_fail_after(disk, operations, MEMORY_DISK_STOP);
        uint64_t acknowledged = 0;
        if (log_rig_open(&rig) == OK)
            while (acknowledged < 8 && log_rig_write(&rig, 1900) == OK)
                acknowledged++;
        const bool has_failed = memory_disk_has_failed(disk);
        log_rig_close(&rig);
        memory_disk_crash(disk);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_true(rig.sequence == acknowledged || (acknowledged < 8 && rig.sequence == acknowledged + 1));
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
        if (!has_failed)
            break;
    }
}

/* Recovery changes the folder itself (it cuts, removes, makes segments): it too may be stopped after each operation. */
static void a_recovery_survives_a_crash_after_each_operation(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < scaled(20); seed++) {
        for (uint64_t operations = 0;; operations++) {
            struct disk *disk = memory_disk_create(seed);
            struct log_rig rig;
            log_rig_init(&rig, disk);
            assert_int_equal(log_rig_open(&rig), OK);
            for (int i = 0; i < 6; i++) {
                assert_int_equal(log_rig_write(&rig, 1400), OK);
                while (log_prepare(rig.log)) {
                }
            }
            memory_disk_fail_after(disk, 1, MEMORY_DISK_STOP); /* in the sync */
            assert_true(log_rig_write(&rig, 2900) != OK);
            log_rig_close(&rig);
            memory_disk_crash(disk);
            memory_disk_fail_after(disk, operations, MEMORY_DISK_STOP);
            (void)log_rig_open(&rig);
            const bool has_failed = memory_disk_has_failed(disk);
            log_rig_close(&rig);
            memory_disk_crash(disk);
            assert_int_equal(log_rig_open(&rig), OK);
            assert_true(rig.sequence == 6 || rig.sequence == 7);
            log_rig_deinit(&rig);
            memory_disk_destroy(disk);
            if (!has_failed)
                break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_folder_survives_a_crash_after_each_operation),
        cmocka_unit_test(a_recovery_survives_a_crash_after_each_operation),
        cmocka_unit_test(nothing_acknowledged_is_lost_over_many_crashes),
    };
    return cmocka_run_group_tests_name("log crash", tests, NULL, NULL);
}
