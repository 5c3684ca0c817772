/* A namespace whose frames are made durable on log threads, as those of the daemon are; and what it says about a folder
 * that it can't begin with. */
#include "core/event.h"
#include "core/messages/decide_send.h"
#include "core/publishers/decide_relay.h"
#include "core/queues/decide_queue.h"
#include "engine/namespace.h"
#include "log/flusher.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* A disk in memory whose writes wait for the gate, and whose folder is lost when it says so. */
static struct disk_operations inner, operations;
static atomic_bool is_shut;
static atomic_int confirm_with, wakes, confirms;
static const struct disk *lost; /* the one whose folder is lost */

static void gate_pass(void)
{
    while (atomic_load(&is_shut))
        (void)poll(NULL, 0, 1);
}

static enum error gate_write(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    gate_pass();
    return inner.write(file, offset, data, failure);
}

static enum error gate_write_synced(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    gate_pass();
    return inner.write_synced(file, offset, data, failure);
}

static enum error gate_confirm(struct disk *disk, const struct disk_file *file, uint64_t age_ms,
                               struct failure *failure)
{
    (void)file;
    if (age_ms > 0 || disk != lost)
        return OK;
    (void)atomic_fetch_add(&confirms, 1);
    return atomic_load(&confirm_with) == OK
               ? OK
               : failure_set(failure, (enum error)atomic_load(&confirm_with), "the folder is lost");
}

static void gate_put(struct disk *disk)
{
    inner = *disk->operations;
    operations = inner;
    operations.write = gate_write;
    operations.write_synced = gate_write_synced;
    operations.confirm = gate_confirm;
    disk->operations = &operations;
    lost = disk;
    atomic_store(&is_shut, false);
    atomic_store(&confirm_with, OK);
    atomic_store(&confirms, 0);
}

static void on_wake(void *context)
{
    (void)context;
    (void)atomic_fetch_add(&wakes, 1);
}

static struct frame_backlog backlog;

static struct namespace_options options_of(struct flushers *flushers)
{
    backlog.held = 0;
    atomic_store(&wakes, 0);
    return (struct namespace_options){.name = "000000000000",
                                      .segment_size = 65536,
                                      .frame_size_max = 8192,
                                      .in_flight_max = 1,
                                      .backlog = &backlog,
                                      .flushers = flushers,
                                      .wake = on_wake};
}

#define NOW_MS 1700000000000

static enum error start(struct disk *disk, struct flushers *flushers, struct namespace **ns, struct failure *failure)
{
    static const uint8_t key[CORE_KEY_SIZE] = {1};
    const struct namespace_options options = options_of(flushers);
    return namespace_open(disk, &options, NOW_MS, key, ns, failure);
}

/* A decision whose event takes up this much. Each of them has its own millisecond. */
static void decide(struct namespace *ns, unsigned number, size_t size)
{
    struct buffer spec;
    char name[16];
    buffer_init(&spec);
    memset(buffer_extend(&spec, size), 'x', size);
    (void)snprintf(name, sizeof(name), "relay-%u", number);
    struct core *core = namespace_begin(ns, NOW_MS + number);
    const struct relay_record *record;
    assert_int_equal(decide_put_relay(core, bytes_from_string(name), buffer_bytes(&spec), &record), OK);
    buffer_deinit(&spec);
}

static void await_durable(const struct namespace *ns, uint64_t sequence)
{
    for (unsigned tries = 0; namespace_durable(ns) < sequence && tries < 10000; tries++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(namespace_durable(ns), sequence);
}

/* Until the thread has let the frame go. */
static void await_wakes(int count)
{
    for (unsigned tries = 0; atomic_load(&wakes) < count && tries < 10000; tries++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&wakes), count);
}

static void frames_wait_in_order_while_the_disk_is_slow(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    gate_put(disk);
    struct flushers *flushers = flushers_create();
    struct namespace *ns;
    struct failure failure = {0};
    assert_int_equal(start(disk, flushers, &ns, &failure), OK);
    assert_int_equal(namespace_durable(ns), 1); /* it has taken over */
    assert_false(namespace_can_flush(ns));
    assert_true(namespace_is_at_rest(ns));
    assert_int_equal(namespace_flush(ns, &failure), OK); /* nothing */
    assert_false(namespace_has_unseen(ns));

    atomic_store(&is_shut, true);
    decide(ns, 1, 10);
    assert_true(namespace_can_flush(ns));
    assert_false(namespace_is_written(ns));
    assert_false(namespace_is_at_rest(ns));
    assert_int_equal(namespace_hold_sequence(ns), 2);
    assert_int_equal(backlog.held, 0); /* an open one does not wait yet */
    assert_int_equal(namespace_flush(ns, &failure), OK);
    const size_t first = backlog.held;
    assert_true(first > 0);
    assert_false(namespace_can_flush(ns));
    assert_false(namespace_is_written(ns));
    assert_int_equal(namespace_durable(ns), 1);

    /* The next one is open, and then closed by the one behind it, because it is full. */
    decide(ns, 2, 2000);
    assert_false(namespace_can_flush(ns));
    assert_int_equal(namespace_flush(ns, &failure), OK);
    assert_int_equal(backlog.held, first);
    decide(ns, 3, 10);
    const size_t second = backlog.held - first;
    assert_true(second >= 2000);
    assert_int_equal(namespace_hold_sequence(ns), 4);
    assert_int_equal(namespace_flush(ns, &failure), OK);
    assert_int_equal(backlog.held, first + second);

    atomic_store(&is_shut, false);
    await_wakes(1);
    assert_int_equal(namespace_durable(ns), 2);
    assert_true(namespace_can_flush(ns));
    namespace_reap(ns);
    assert_int_equal(backlog.held, second);
    namespace_reap(ns);
    assert_int_equal(backlog.held, second);
    assert_int_equal(namespace_flush(ns, &failure), OK); /* the one that is closed, not the open one */
    await_wakes(2);
    assert_int_equal(namespace_durable(ns), 3);
    assert_true(namespace_can_flush(ns)); /* the open one */
    assert_int_equal(namespace_flush(ns, &failure), OK);
    await_wakes(3);
    assert_int_equal(namespace_durable(ns), 4);
    assert_false(namespace_can_flush(ns));
    assert_false(namespace_is_written(ns)); /* as far as it knows */
    namespace_reap(ns);
    assert_true(namespace_is_written(ns));
    assert_true(namespace_is_at_rest(ns));
    assert_int_equal(backlog.held, 0);
    assert_int_equal(namespace_failure(ns, &failure), OK);

    /* The end waits for the frame in work, and writes what is behind it. */
    atomic_store(&is_shut, true);
    decide(ns, 5, 2000);
    assert_int_equal(namespace_flush(ns, &failure), OK);
    decide(ns, 6, 2000);
    decide(ns, 7, 10);
    atomic_store(&is_shut, false);
    namespace_close(ns);
    assert_int_equal(backlog.held, 0);
    assert_int_equal(start(disk, flushers, &ns, &failure), OK);
    assert_int_equal(namespace_durable(ns), 8);
    assert_int_equal(namespace_time(ns), NOW_MS + 7);
    namespace_close(ns);
    flushers_destroy(flushers);
    memory_disk_destroy(disk);
}

static void a_failure_of_the_thread_is_the_namespaces(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 2; turn++) {
        struct disk *disk = memory_disk_create(1);
        gate_put(disk);
        struct flushers *flushers = flushers_create();
        struct namespace *ns;
        struct failure failure = {0}, again = {0}, third = {0};
        assert_int_equal(start(disk, flushers, &ns, &failure), OK);
        for (unsigned tries = 0; tries < 20; tries++) /* the next segment is made meanwhile */
            (void)poll(NULL, 0, 1);
        memory_disk_fail_after(disk, 0, turn == 0 ? MEMORY_DISK_FAIL_WRITE : MEMORY_DISK_FULL);
        const enum error expected = turn == 0 ? ERROR_DISK_FAILED : ERROR_DISK_FULL;
        decide(ns, 1, 10);
        assert_int_equal(namespace_flush(ns, &failure), OK);
        await_wakes(1);
        if (namespace_failure(ns, &failure) == OK) { /* a piece of the next segment took it */
            memory_disk_fail_after(disk, 0, turn == 0 ? MEMORY_DISK_FAIL_WRITE : MEMORY_DISK_FULL);
            decide(ns, 2, 10);
            assert_int_equal(namespace_flush(ns, &failure), OK);
            await_wakes(2);
        }
        assert_int_equal(namespace_failure(ns, &failure), expected);
        decide(ns, 3, 10);
        assert_int_equal(namespace_flush(ns, &again), expected);
        assert_int_equal(namespace_flush(ns, &third), expected);
        assert_string_equal(failure.text, again.text);
        assert_string_equal(failure.text, third.text);
        assert_non_null(strstr(failure.text, "could not be made durable at offset "));
        namespace_close(ns);
        assert_int_equal(backlog.held, 0);
        flushers_destroy(flushers);
        memory_disk_destroy(disk);
    }
}

/* Nobody writes, so nobody would notice. */
static void a_folder_that_is_lost_is_noticed_without_a_frame(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1), *other = memory_disk_create(2);
    gate_put(disk);
    struct flushers *flushers = flushers_create();
    flushers_check_often(flushers, 1);
    struct namespace *ns, *kept;
    struct failure failure = {0};
    assert_int_equal(start(other, flushers, &kept, &failure), OK);
    assert_int_equal(start(disk, flushers, &ns, &failure), OK);
    for (unsigned tries = 0; atomic_load(&confirms) < 30 && tries < 10000; tries++)
        (void)poll(NULL, 0, 1);
    assert_true(atomic_load(&confirms) >= 30); /* again and again, and not once a second */
    assert_int_equal(namespace_failure(ns, &failure), OK);
    assert_int_equal(atomic_load(&wakes), 0);

    atomic_store(&confirm_with, ERROR_DISK_FAILED);
    await_wakes(1);
    assert_int_equal(namespace_failure(ns, &failure), ERROR_DISK_FAILED);
    assert_string_equal(failure.text, "the folder is lost");
    const int asked = atomic_load(&confirms);
    for (unsigned tries = 0; tries < 20; tries++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&confirms), asked); /* once is enough */
    assert_int_equal(atomic_load(&wakes), 1);
    assert_int_equal(namespace_failure(kept, &failure), OK);
    decide(kept, 1, 10);
    assert_int_equal(namespace_flush(kept, &failure), OK);
    await_durable(kept, 2);
    decide(ns, 1, 10);
    assert_int_equal(namespace_flush(ns, &failure), ERROR_DISK_FAILED);
    namespace_close(ns);
    namespace_close(kept);
    flushers_destroy(flushers);
    memory_disk_destroy(disk);
    memory_disk_destroy(other);
}

/* --- what a start refuses ----------------------------------------------------------------------------------------- */

#define ADVICE                                                                                                         \
    "Restore the whole folder from a backup or a replica. Without one: \"tallyd --verify memory\" says what is "       \
    "affected, and \"tallyd --salvage memory --to NEW\" saves what can be read into a new data folder."

static void assert_refused(struct disk *disk, enum error error, const char *text)
{
    struct namespace *ns;
    struct failure failure = {0};
    assert_int_equal(start(disk, NULL, &ns, &failure), error);
    assert_string_equal(failure.text, text);
}

/* A log of whole frames with something in them that is no event. */
static struct disk *folder_make(unsigned frames, bool has_snapshot)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 0; i < frames; i++)
        assert_int_equal(log_rig_write(&rig, 1900), OK);
    if (has_snapshot)
        assert_int_equal(log_rig_snapshot(&rig, BYTES("state")), OK);
    log_rig_deinit(&rig);
    return disk;
}

static void what_can_be_read_but_not_understood_is_no_damage_of_the_disk(void **state)
{
    (void)state;
    struct namespace *ns;
    struct failure failure = {0};
    struct disk *disk = folder_make(1, false);
    assert_int_equal(start(disk, NULL, &ns, &failure), ERROR_LOG_DAMAGED);
    uint8_t first[1900];
    char text[1024];
    log_rig_payload(1, sizeof(first), first);
    const char *name = event_kind_name(first[0]);
    (void)snprintf(
        text, sizeof(text),
        "memory/0000000000000000.segment, offset 512: the event at log position %u (kind %u, %s) does not fit "
        "what the log said before. The frame's checksum is right, so either a newer version of tallyd wrote "
        "it (start that version) or the folder was changed by hand. " ADVICE,
        512 + FRAME_HEADER_SIZE, first[0], name == NULL ? "unknown to this version" : name);
    assert_string_equal(failure.text, text);
    memory_disk_destroy(disk);
    disk = folder_make(4, true);
    assert_refused(disk, ERROR_LOG_DAMAGED,
                   "memory: the snapshot's checksums are right but this version can't read it; start the newer version "
                   "of tallyd that wrote it.");
    memory_disk_destroy(disk);
}

static void the_segment_that_holds_a_waiting_message_is_missed(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct namespace *ns;
    struct failure failure = {0};
    struct namespace_options options = options_of(NULL);
    static const uint8_t key[CORE_KEY_SIZE] = {1};
    options.snapshot_bytes = 1;
    assert_int_equal(namespace_open(disk, &options, NOW_MS, key, &ns, &failure), OK);
    struct queue_settings settings = queue_settings_plain();
    settings.message_size_max = 1048576;
    settings.retention_s = 345600;
    settings.visibility_timeout_s = 30;
    uint8_t body[6000];
    memset(body, 'x', sizeof(body));
    struct core *core = namespace_begin(ns, NOW_MS + 1);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    for (unsigned i = 0; i < 30; i++) {
        core = namespace_begin(ns, NOW_MS + 2 + i);
        const struct send_command command = {
            .queue = queue,
            .content = {.body = bytes_make(body, sizeof(body)), .sender = core_name(core)},
            .priority = PRIORITY_DEFAULT};
        struct send_result result;
        assert_int_equal(decide_send(core, &command, &result), OK);
        assert_int_equal(namespace_flush(ns, &failure), OK);
    }
    assert_int_equal(namespace_snapshot_step(ns, true, &failure), OK);
    assert_int_equal(namespace_snapshot_step(ns, true, &failure), OK);
    namespace_close(ns);
    assert_int_equal(start(disk, NULL, &ns, &failure), OK);
    namespace_close(ns);
    memory_disk_remove(disk, "0000000000010000.segment");
    assert_refused(disk, ERROR_LOG_DAMAGED,
                   "memory/0000000000010000.segment, offset 0: this segment is missing although waiting messages have "
                   "their bodies in it; put the file back. " ADVICE);
    memory_disk_remove(disk, "0000000000000000.segment");
    assert_refused(disk, ERROR_LOG_DAMAGED,
                   "memory/0000000000000000.segment, offset 0: this segment is missing although waiting messages have "
                   "their bodies in it; put the file back. " ADVICE);
    memory_disk_destroy(disk);
}

static enum error no_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    (void)disk;
    (void)room;
    return failure_set(failure, ERROR_DISK_FAILED, "nobody knows");
}

static void a_start_on_a_full_disk_says_how_much_is_missing(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    gate_put(disk);
    memory_disk_set_capacity(disk, 20000);
    struct namespace *ns;
    struct failure plain = {0}, failure = {0};
    operations.room = no_room;
    assert_int_equal(start(disk, NULL, &ns, &plain), ERROR_DISK_FULL);
    assert_null(strstr(plain.text, "nobody knows"));
    operations.room = inner.room;
    assert_int_equal(start(disk, NULL, &ns, &failure), ERROR_DISK_FULL);
    char text[sizeof(failure.text) + 256];
    (void)snprintf(text, sizeof(text),
                   "%s The log needs a segment to go on with, about 65536 bytes, and 20000 are free: make room for "
                   "45536 more.",
                   plain.text);
    assert_string_equal(failure.text, text);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_wait_in_order_while_the_disk_is_slow),
        cmocka_unit_test(a_failure_of_the_thread_is_the_namespaces),
        cmocka_unit_test(a_folder_that_is_lost_is_noticed_without_a_frame),
        cmocka_unit_test(what_can_be_read_but_not_understood_is_no_damage_of_the_disk),
        cmocka_unit_test(the_segment_that_holds_a_waiting_message_is_missed),
        cmocka_unit_test(a_start_on_a_full_disk_says_how_much_is_missing),
    };
    return cmocka_run_group_tests_name("namespace with log threads", tests, NULL, NULL);
}
