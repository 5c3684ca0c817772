/* What is remembered against repeats: windows, producers, attempts; that it is gone when it is over, and what a
 * snapshot keeps. */
#include "core/apply.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY_MS UINT64_C(86400000)

/* --- tools -------------------------------------------------------------------------------------------------------- */

static void create_queue(struct core_rig *rig, struct bytes name, uint32_t window_s, bool has_window)
{
    struct queue_settings settings = core_rig_settings();
    settings.deduplication_window_s = window_s;
    settings.has_window = has_window;
    decide_create_queue(core_rig_begin(rig), name, &settings);
    core_rig_end(rig);
}

static void set_window(struct core_rig *rig, struct bytes name, uint32_t window_s)
{
    struct queue_settings settings = core_rig_settings();
    settings.deduplication_window_s = window_s;
    decide_set_queue(core_rig_begin(rig), core_find_queue(rig->core, name), &settings);
    core_rig_end(rig);
}

/* In the open frame. */
static struct send_result send_now(struct core *core, struct send_command command)
{
    struct send_result result;
    command.content.body = BYTES("body");
    command.content.sender = core_name(core);
    command.priority = PRIORITY_DEFAULT;
    assert_int_equal(decide_send(core, &command, &result), OK);
    return result;
}

static struct send_result send_id(struct core_rig *rig, struct bytes queue, struct bytes id)
{
    struct core *core = core_rig_begin(rig);
    struct send_result result =
        send_now(core, (struct send_command){.queue = core_find_queue(core, queue), .content = {.deduplication = id}});
    core_rig_end(rig);
    return result;
}

static struct send_result produce(struct core_rig *rig, struct bytes producer, uint64_t sequence)
{
    struct core *core = core_rig_begin(rig);
    struct send_result result = send_now(
        core,
        (struct send_command){.queue = core_find_queue(core, BYTES("q")), .producer = producer, .sequence = sequence});
    core_rig_end(rig);
    return result;
}

static void pass_time(struct core_rig *rig, uint64_t ms)
{
    rig->now_ms += ms;
    core_rig_begin(rig);
    core_rig_end(rig);
}

static void sweep_all(struct core_rig *rig)
{
    core_rig_begin(rig);
    while (deduplication_sweep(rig->core, 500)) {
    }
    core_rig_end(rig);
}

static uint32_t entry_count(const struct core_rig *rig)
{
    return rig->core->deduplication.entries.used;
}

static struct core *decode(struct bytes encoded)
{
    struct core *core = core_create();
    if (core_bytes_decode(core, encoded))
        return core;
    core_destroy(core);
    return NULL;
}

/* The live state, what a replay makes of the log, and what a snapshot makes of the state are one. */
static void expect_one_state(const struct core_rig *rig)
{
    struct buffer live, other;
    buffer_init(&live);
    buffer_init(&other);
    core_check(rig->core);
    core_rig_encode(rig->core, &live);
    struct core *cores[] = {core_rig_replay(rig), decode(buffer_bytes(&live))};
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(cores[i]);
        core_check(cores[i]);
        core_rig_encode(cores[i], &other);
        assert_true(bytes_equal(buffer_bytes(&live), buffer_bytes(&other)));
        core_destroy(cores[i]);
    }
    buffer_deinit(&live);
    buffer_deinit(&other);
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

static void a_repeat_inside_the_window_answers_with_the_first_message(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 300, false);
    struct send_result first = send_id(&rig, BYTES("q"), BYTES("id"));
    assert_false(first.is_duplicate);
    for (unsigned i = 0; i < 10; i++) {
        struct send_result again = send_id(&rig, BYTES("q"), BYTES("id"));
        assert_true(again.is_duplicate && again.number == first.number);
        assert_memory_equal(again.id, first.id, sizeof(first.id));
    }
    assert_false(send_id(&rig, BYTES("q"), BYTES("id2")).is_duplicate);
    assert_int_equal(core_metrics(rig.core).messages, 2);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void a_window_ends_at_its_end_and_a_repeat_does_not_prolong_it(void **state)
{
    (void)state;
    static const uint32_t windows_s[] = {1, 300, 3600, 8 * 86400};
    for (size_t i = 0; i < ARRAY_LENGTH(windows_s); i++) {
        struct core_rig rig;
        core_rig_init(&rig, 1);
        create_queue(&rig, BYTES("q"), windows_s[i], true);
        struct send_result first = send_id(&rig, BYTES("q"), BYTES("id"));
        pass_time(&rig, (uint64_t)windows_s[i] * 500);
        assert_true(send_id(&rig, BYTES("q"), BYTES("id")).is_duplicate);
        pass_time(&rig, (uint64_t)windows_s[i] * 500 - 1);
        assert_int_equal(send_id(&rig, BYTES("q"), BYTES("id")).number, first.number);
        pass_time(&rig, 1);
        assert_int_equal(entry_count(&rig), 1); /* over, though its memory is still there */
        struct send_result second = send_id(&rig, BYTES("q"), BYTES("id"));
        assert_true(!second.is_duplicate && second.number != first.number);
        assert_int_equal(entry_count(&rig), 1);
        expect_one_state(&rig);
        core_rig_deinit(&rig);
    }
}

static void a_window_of_zero_remembers_nothing_and_one_for_ever_never_ends(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("none"), 0, true);
    create_queue(&rig, BYTES("ever"), DEDUPLICATION_WINDOW_EVER, true);
    assert_false(send_id(&rig, BYTES("none"), BYTES("id")).is_duplicate);
    assert_false(send_id(&rig, BYTES("none"), BYTES("id")).is_duplicate);
    uint64_t number = send_id(&rig, BYTES("ever"), BYTES("id")).number;
    assert_int_equal(deduplication_due_ms(rig.core), UINT64_MAX);
    pass_time(&rig, 100 * 366 * DAY_MS);
    assert_int_equal(send_id(&rig, BYTES("ever"), BYTES("id")).number, number);
    assert_int_equal(entry_count(&rig), 1);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

/* Invariant U7. The window of an entry is the queue's at the time of its send. */
static void no_entry_is_left_when_all_windows_have_passed(void **state)
{
    (void)state;
    static const uint32_t windows_s[] = {300, 20, 7000, 20, 300, 1, 86400};
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 300, true);
    create_queue(&rig, BYTES("r"), 300, true);
    for (uint32_t i = 0; i < 70; i++) {
        char id[16];
        snprintf(id, sizeof(id), "id%u", i);
        if (i % 10 == 0)
            set_window(&rig, BYTES("q"), windows_s[i / 10]);
        assert_false(send_id(&rig, BYTES("q"), bytes_from_string(id)).is_duplicate);
        assert_false(send_id(&rig, BYTES("r"), bytes_from_string(id)).is_duplicate);
        pass_time(&rig, 700);
        expect_one_state(&rig);
    }
    pass_time(&rig, 80000000);
    assert_true(send_id(&rig, BYTES("q"), BYTES("id69")).is_duplicate);
    assert_false(send_id(&rig, BYTES("q"), BYTES("id1")).is_duplicate);
    pass_time(&rig, 2 * DAY_MS);
    uint64_t due_ms = deduplication_due_ms(rig.core);
    assert_true(due_ms <= rig.now_ms);
    sweep_all(&rig);
    assert_int_equal(entry_count(&rig), 0);
    assert_int_equal(rig.core->deduplication.windows.used, 0);
    assert_int_equal(deduplication_due_ms(rig.core), UINT64_MAX);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void a_repeat_in_another_group_is_none_where_the_scope_is_the_group(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    settings.deduplication_window_s = 300;
    settings.deduplication_scope = SCOPE_GROUP;
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    struct send_command command = {.queue = queue, .content = {.group = BYTES("a"), .deduplication = BYTES("id")}};
    assert_false(send_now(core, command).is_duplicate);
    command.content.group = BYTES("b");
    assert_false(send_now(core, command).is_duplicate);
    assert_true(send_now(core, command).is_duplicate);
    /* Where a group ends and an id begins makes a difference. */
    command.content.group = BYTES("ai");
    command.content.deduplication = BYTES("d");
    assert_false(send_now(core, command).is_duplicate);
    core_rig_end(&rig);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void a_purge_forgets_ids_unless_the_window_was_set_and_a_deletion_forgets_all(void **state)
{
    (void)state;
    for (unsigned has_window = 0; has_window <= 1; has_window++) {
        struct core_rig rig;
        core_rig_init(&rig, 1);
        create_queue(&rig, BYTES("q"), 300, has_window);
        create_queue(&rig, BYTES("other"), 300, false);
        send_id(&rig, BYTES("q"), BYTES("id"));
        send_id(&rig, BYTES("other"), BYTES("id"));
        assert_false(produce(&rig, BYTES("p"), 5).is_duplicate);
        decide_purge_queue(core_rig_begin(&rig), core_find_queue(rig.core, BYTES("q")));
        core_rig_end(&rig);
        expect_one_state(&rig); /* before anything is swept */
        assert_int_equal(send_id(&rig, BYTES("q"), BYTES("id")).is_duplicate, has_window);
        assert_true(send_id(&rig, BYTES("other"), BYTES("id")).is_duplicate);
        assert_true(produce(&rig, BYTES("p"), 5).is_duplicate);
        expect_one_state(&rig);
        assert_int_equal(decide_delete_queue(core_rig_begin(&rig), core_find_queue(rig.core, BYTES("q"))), OK);
        core_rig_end(&rig);
        expect_one_state(&rig);
        assert_int_equal(deduplication_due_ms(rig.core), 0);
        sweep_all(&rig);
        assert_int_equal(entry_count(&rig), 1);
        assert_int_equal(rig.core->deduplication.producers.used, 0);
        create_queue(&rig, BYTES("q"), 300, has_window);
        assert_false(send_id(&rig, BYTES("q"), BYTES("id")).is_duplicate);
        assert_false(produce(&rig, BYTES("p"), 5).is_duplicate);
        expect_one_state(&rig);
        core_rig_deinit(&rig);
    }
}

static void a_hundred_thousand_ids_are_remembered_purged_and_swept(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    enum { COUNT = 100000 };
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 300, false);
    create_queue(&rig, BYTES("kept"), 300, true);
    static const struct bytes queues[] = {BYTES("q"), BYTES("kept")};
    char id[16];
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(id, sizeof(id), "id%u", i / 2);
        assert_false(send_id(&rig, queues[i % 2], bytes_from_string(id)).is_duplicate);
        if (i % 1000 == 0)
            pass_time(&rig, 1);
    }
    for (uint32_t i = 0; i < COUNT; i += 7) {
        snprintf(id, sizeof(id), "id%u", i / 2);
        assert_true(send_id(&rig, queues[i % 2], bytes_from_string(id)).is_duplicate);
    }
    expect_one_state(&rig);
    decide_purge_queue(core_rig_begin(&rig), core_find_queue(rig.core, BYTES("q")));
    core_rig_end(&rig);
    unsigned portions = 0;
    while (deduplication_sweep(rig.core, 500))
        portions++;
    assert_in_range(portions, COUNT / 2 / 500 - 1, COUNT / 2 / 500 + 1);
    assert_int_equal(entry_count(&rig), COUNT / 2);
    pass_time(&rig, 300000);
    sweep_all(&rig);
    assert_int_equal(entry_count(&rig), 0);
    core_rig_deinit(&rig);
}

/* However far the sweep has come: it is not of the state. */
static void the_sweep_changes_nothing_that_can_be_seen(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 10, false);
    for (unsigned i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof(id), "id%u", i);
        send_id(&rig, BYTES("q"), bytes_from_string(id));
        pass_time(&rig, 500);
    }
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    core_rig_encode(rig.core, &before);
    pass_time(&rig, 0);
    do {
        core_check(rig.core);
        core_rig_encode(rig.core, &after);
        assert_true(bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    } while (deduplication_sweep(rig.core, 1));
    buffer_deinit(&before);
    buffer_deinit(&after);
    core_rig_deinit(&rig);
}

/* --- producers ---------------------------------------------------------------------------------------------------- */

static void a_producer_sends_each_number_once_whatever_the_window(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 0, true);
    uint64_t zero = produce(&rig, BYTES("p"), 0).number;
    assert_true(produce(&rig, BYTES("p"), 0).is_duplicate);
    uint64_t seven = produce(&rig, BYTES("p"), 7).number;
    pass_time(&rig, 400 * DAY_MS);
    struct send_result again = produce(&rig, BYTES("p"), 7);
    assert_true(again.is_duplicate && again.number == seven);
    assert_int_equal(produce(&rig, BYTES("p"), 0).number, zero);
    /* A number that was left out can't come any more, and names no message. */
    struct send_result gap = produce(&rig, BYTES("p"), 3);
    assert_true(gap.is_duplicate && gap.number == 0);
    assert_false(produce(&rig, BYTES("other"), 3).is_duplicate);
    assert_false(produce(&rig, BYTES("p"), INT64_MAX).is_duplicate);
    assert_true(produce(&rig, BYTES("p"), INT64_MAX).is_duplicate);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void a_repeat_in_the_same_frame_is_a_duplicate(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 300, false);
    struct core *core = core_rig_begin(&rig);
    struct send_command command = {.queue = core_find_queue(core, BYTES("q")), .producer = BYTES("p"), .sequence = 1};
    uint64_t number = send_now(core, command).number;
    assert_int_equal(send_now(core, command).number, number);
    command.content.deduplication = BYTES("id");
    assert_int_equal(send_now(core, command).number, number);
    command.sequence = 2;
    number = send_now(core, command).number;
    command.sequence = 3; /* the id alone says it too */
    assert_int_equal(send_now(core, command).number, number);
    core_rig_end(&rig);
    assert_int_equal(core_metrics(rig.core).messages, 2);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void a_producer_remembers_its_last_256_messages(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 0, true);
    uint64_t numbers[700];
    for (uint64_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        numbers[i] = produce(&rig, BYTES("p"), i * 3).number;
        if (i % 37 == 0 || i == 256)
            expect_one_state(&rig);
    }
    for (uint64_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        struct send_result again = produce(&rig, BYTES("p"), i * 3);
        assert_true(again.is_duplicate);
        assert_int_equal(again.number, i + PRODUCER_PAIRS < ARRAY_LENGTH(numbers) ? 0 : numbers[i]);
        if (i + 1 < ARRAY_LENGTH(numbers))
            assert_int_equal(produce(&rig, BYTES("p"), i * 3 + 1).number, 0);
    }
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

/* --- attempts ----------------------------------------------------------------------------------------------------- */

static unsigned receive(struct core_rig *rig, struct received_message messages[RECEIVE_MAX])
{
    unsigned count = 0;
    struct queue *queue = core_find_queue(rig->core, BYTES("q"));
    assert_int_equal(decide_receive(rig->core, queue, 10, 30000, 120000, messages, &count), OK);
    return count;
}

static struct queue *create_fifo(struct core *core)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    return decide_create_queue(core, BYTES("q"), &settings);
}

static void an_attempt_gives_its_messages_again_until_it_is_over(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = create_fifo(core);
    for (unsigned i = 0; i < 3; i++)
        send_now(core, (struct send_command){.queue = queue, .content = {.group = BYTES("g")}});
    struct received_message first[RECEIVE_MAX], again[RECEIVE_MAX];
    assert_int_equal(receive(&rig, first), 3);
    decide_remember_attempt(core, queue, BYTES("a"), first, 3);
    core_rig_end(&rig);
    expect_one_state(&rig);
    for (unsigned i = 0; i < 20; i++) { /* each time leased anew, and the attempt lives on from then */
        pass_time(&rig, 29000);
        unsigned count = 0;
        core_rig_begin(&rig);
        assert_int_equal(decide_receive_again(core, queue, BYTES("a"), 30000, again, &count), OK);
        core_rig_end(&rig);
        assert_int_equal(count, 3);
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(again[k].handle.delivery, first[k].handle.delivery);
        assert_int_equal(core->deduplication.attempts.used, 1);
        expect_one_state(&rig);
    }
    assert_int_equal(deduplication_find_attempt(core, queue, BYTES("b")).size, 0);
    pass_time(&rig, ATTEMPT_WINDOW_MS - 1);
    assert_int_equal(deduplication_find_attempt(core, queue, BYTES("a")).size, 48);
    pass_time(&rig, 1);
    assert_int_equal(deduplication_find_attempt(core, queue, BYTES("a")).size, 0);
    expect_one_state(&rig);
    sweep_all(&rig);
    assert_int_equal(core->deduplication.attempts.used, 0);
    core_rig_deinit(&rig);
}

static void the_more_attempts_there_are_the_shorter_they_are_remembered(void **state)
{
    (void)state;
    assert_int_equal(deduplication_attempt_window_ms(0), ATTEMPT_WINDOW_MS);
    assert_int_equal(deduplication_attempt_window_ms(ATTEMPTS_MAX / 2), ATTEMPT_WINDOW_MS);
    assert_int_equal(deduplication_attempt_window_ms(ATTEMPTS_MAX / 4 * 3), ATTEMPT_WINDOW_MS / 2);
    uint64_t former_ms = ATTEMPT_WINDOW_MS;
    for (uint64_t count = 0; count < ATTEMPTS_MAX; count += 999) {
        uint64_t window_ms = deduplication_attempt_window_ms(count);
        assert_true(window_ms >= 1000 && window_ms <= former_ms);
        former_ms = window_ms;
    }
    assert_int_equal(deduplication_attempt_window_ms(ATTEMPTS_MAX - 1), 1000);
    assert_int_equal(deduplication_attempt_window_ms(ATTEMPTS_MAX), 0);
    assert_int_equal(deduplication_attempt_window_ms(ATTEMPTS_MAX + 1), 0);
}

/* At the number that there may be, receives go on and are not remembered; one that is, can still be repeated. */
static void at_their_number_no_more_attempts_are_remembered(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = create_fifo(core);
    send_now(core, (struct send_command){.queue = queue, .content = {.group = BYTES("g")}});
    struct received_message messages[RECEIVE_MAX];
    assert_int_equal(receive(&rig, messages), 1);
    decide_remember_attempt(core, queue, BYTES("a"), messages, 1);
    uint32_t *used = &core->deduplication.attempts.used;
    *used += ATTEMPTS_MAX - 1; /* as if there were so many others */
    decide_remember_attempt(core, queue, BYTES("b"), messages, 1);
    assert_int_equal(deduplication_find_attempt(core, queue, BYTES("b")).size, 0);
    unsigned count = 0;
    assert_int_equal(decide_receive_again(core, queue, BYTES("a"), 30000, messages, &count), OK);
    assert_int_equal(count, 1);
    assert_int_equal(*used, ATTEMPTS_MAX);
    *used -= ATTEMPTS_MAX - 1;
    core_rig_end(&rig);
    expect_one_state(&rig);
    core_rig_deinit(&rig);
}

static void attempts_of_a_deleted_queue_are_not_kept(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 0, false);
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = core_find_queue(core, BYTES("q"));
    send_now(core, (struct send_command){.queue = queue, .content = {.group = BYTES("g")}});
    struct received_message messages[RECEIVE_MAX];
    assert_int_equal(receive(&rig, messages), 1);
    decide_remember_attempt(core, queue, BYTES("a"), messages, 1);
    decide_remember_attempt(core, queue, BYTES("b"), messages, 1);
    decide_remember_attempt(core, queue, BYTES("b"), messages, 0); /* nothing to repeat */
    assert_int_equal(deduplication_find_attempt(core, queue, BYTES("b")).size, 0);
    assert_int_equal(decide_delete_queue(core, queue), OK);
    core_rig_end(&rig);
    expect_one_state(&rig);
    pass_time(&rig, ATTEMPT_WINDOW_MS);
    sweep_all(&rig);
    assert_int_equal(core->deduplication.attempts.used, 0);
    core_rig_deinit(&rig);
}

/* --- outside ------------------------------------------------------------------------------------------------------ */

/* Something of everything. */
static void fill(struct core_rig *rig)
{
    create_queue(rig, BYTES("q"), 300, false);
    create_queue(rig, BYTES("ever"), DEDUPLICATION_WINDOW_EVER, true);
    for (unsigned i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof(id), "id%u", i);
        send_id(rig, BYTES("q"), bytes_from_string(id));
        send_id(rig, BYTES("ever"), bytes_from_string(id));
        produce(rig, BYTES("p"), i);
        produce(rig, bytes_from_string(id), 9);
        if (i == 3)
            set_window(rig, BYTES("q"), 60);
        pass_time(rig, 2000);
    }
    struct core *core = core_rig_begin(rig);
    struct received_message messages[RECEIVE_MAX];
    unsigned count = receive(rig, messages);
    decide_remember_attempt(core, core_find_queue(core, BYTES("q")), BYTES("a"), messages, count);
    decide_remember_attempt(core, core_find_queue(core, BYTES("q")), BYTES("b"), messages, 2);
    core_rig_end(rig);
}

static void a_damaged_state_is_refused_or_sound(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    fill(&rig);
    expect_one_state(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct bytes part = core_rig_find_part(rig.core, &encoded, deduplication_encode);
    size_t first = (size_t)(part.ptr - encoded.data_owned);
    for (size_t at = first; at < first + part.size; at++) {
        uint8_t old = encoded.data_owned[at];
        for (unsigned bit = 0; bit < 9; bit++) {
            if (is_scaled_down() && (at + bit) % 5 != 0)
                continue;
            encoded.data_owned[at] = bit == 8 ? 0xff : old ^ (uint8_t)(1u << bit);
            struct core *core = decode(buffer_bytes(&encoded));
            if (core == NULL)
                continue;
            core_check(core);
            core_destroy(core);
        }
        encoded.data_owned[at] = old;
        assert_null(decode(bytes_make(encoded.data_owned, at)));
    }
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

static bool replay_event(struct core_rig *rig, const struct event *event)
{
    struct buffer payload;
    buffer_init(&payload);
    event_encode(event, &payload);
    struct core *core = core_rig_replay(rig);
    struct failure failure;
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    core_rig_encode(core, &before);
    bool is_good = core_replay(core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    core_check(core);
    core_rig_encode(core, &after);
    assert_int_equal(is_good, !bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    core_destroy(core);
    buffer_deinit(&payload);
    buffer_deinit(&before);
    buffer_deinit(&after);
    return is_good;
}

static void an_event_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    create_queue(&rig, BYTES("q"), 300, false);
    send_id(&rig, BYTES("q"), BYTES("id"));
    uint64_t number = produce(&rig, BYTES("p"), 5).number;
    struct event good = {
        .kind = EVENT_DEDUPLICATED,
        .deduplicated = {.queue = 1, .id = BYTES("new"), .number = number, .expires_at_ms = rig.now_ms + 1}};
    struct event event = good;
    assert_true(replay_event(&rig, &event));
    event.deduplicated.id = BYTES("id");
    assert_false(replay_event(&rig, &event)); /* one lives */
    event.deduplicated.id = BYTES("");
    assert_false(replay_event(&rig, &event));
    event = good;
    event.deduplicated.expires_at_ms = rig.now_ms;
    assert_false(replay_event(&rig, &event));
    event = good;
    event.deduplicated.queue = 2;
    assert_false(replay_event(&rig, &event));
    event = good;
    event.deduplicated.number = number - 1;
    assert_false(replay_event(&rig, &event));
    event = (struct event){.kind = EVENT_PRODUCED,
                           .produced = {.queue = 1, .producer = BYTES("new"), .sequence = 5, .number = number}};
    assert_true(replay_event(&rig, &event));
    event.produced.number++;
    assert_false(replay_event(&rig, &event));
    event.produced.number = number;
    event.produced.producer = BYTES("p");
    assert_false(replay_event(&rig, &event));
    event.produced.sequence = 6; /* it has this message already */
    assert_false(replay_event(&rig, &event));
    uint8_t deliveries[11 * ATTEMPT_DELIVERY_SIZE] = {1};
    event = (struct event){.kind = EVENT_ATTEMPTED,
                           .attempted = {.queue = 1,
                                         .attempt = BYTES("a"),
                                         .expires_at_ms = rig.now_ms + 1,
                                         .deliveries = bytes_make(deliveries, 10 * ATTEMPT_DELIVERY_SIZE)}};
    assert_true(replay_event(&rig, &event));
    event.attempted.deliveries.size = 11 * ATTEMPT_DELIVERY_SIZE;
    assert_false(replay_event(&rig, &event));
    event.attempted.deliveries.size = 17;
    assert_false(replay_event(&rig, &event));
    event.attempted.deliveries.size = 16;
    event.attempted.expires_at_ms = rig.now_ms;
    assert_false(replay_event(&rig, &event));
    core_rig_deinit(&rig);
}

static void a_wide_tag_depends_on_key_and_text_alone(void **state)
{
    (void)state;
    static const uint8_t keys[2][DIGEST_KEY_SIZE] = {"one", "two"};
    struct digest *digests[] = {digest_create(keys[0]), digest_create(keys[1])};
    const struct bytes whole[] = {BYTES("abcdef")}, cut[] = {BYTES("abc"), {NULL, 0}, BYTES("def")};
    struct digest_tag tag = digest_keyed_wide(digests[0], whole, 1);
    assert_true(digest_tag_equal(tag, digest_keyed_wide(digests[0], whole, 1)));
    assert_true(digest_tag_equal(tag, digest_keyed_wide(digests[0], cut, 3)));
    assert_false(digest_tag_equal(tag, digest_keyed_wide(digests[1], whole, 1)));
    struct digest_tag other = digest_keyed_wide(digests[0], cut, 1);
    assert_true(other.low != tag.low && other.high != tag.high && tag.low != tag.high);
    digest_destroy(digests[0]);
    digest_destroy(digests[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeat_inside_the_window_answers_with_the_first_message),
        cmocka_unit_test(a_window_ends_at_its_end_and_a_repeat_does_not_prolong_it),
        cmocka_unit_test(a_window_of_zero_remembers_nothing_and_one_for_ever_never_ends),
        cmocka_unit_test(no_entry_is_left_when_all_windows_have_passed),
        cmocka_unit_test(a_repeat_in_another_group_is_none_where_the_scope_is_the_group),
        cmocka_unit_test(a_purge_forgets_ids_unless_the_window_was_set_and_a_deletion_forgets_all),
        cmocka_unit_test(a_hundred_thousand_ids_are_remembered_purged_and_swept),
        cmocka_unit_test(the_sweep_changes_nothing_that_can_be_seen),
        cmocka_unit_test(a_producer_sends_each_number_once_whatever_the_window),
        cmocka_unit_test(a_repeat_in_the_same_frame_is_a_duplicate),
        cmocka_unit_test(a_producer_remembers_its_last_256_messages),
        cmocka_unit_test(an_attempt_gives_its_messages_again_until_it_is_over),
        cmocka_unit_test(the_more_attempts_there_are_the_shorter_they_are_remembered),
        cmocka_unit_test(at_their_number_no_more_attempts_are_remembered),
        cmocka_unit_test(attempts_of_a_deleted_queue_are_not_kept),
        cmocka_unit_test(a_damaged_state_is_refused_or_sound),
        cmocka_unit_test(an_event_that_does_not_fit_is_refused),
        cmocka_unit_test(a_wide_tag_depends_on_key_and_text_alone),
    };
    return cmocka_run_group_tests_name("core deduplication", tests, NULL, NULL);
}
