/* Who has a message: known exactly as long as the lease, kept once, bounded, and no part of the state. */
#include "base/accounted.h"
#include "core/core.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define STEPS 4000u

static uint32_t use_worker(struct core *core, unsigned number)
{
    char text[32];
    const int size = snprintf(text, sizeof(text), "worker-%u", number);
    const struct holder_name name = {
        .access_key = BYTES("AKIAONE"), .address = BYTES("10.0.0.2"), .worker = bytes_make(text, (size_t)size)};
    return holder_use(core, &name, true);
}

/* Random decisions, and somebody has what is in flight: the state is that of a core which knows nobody. */
static void holders_are_no_part_of_the_state(void **state)
{
    (void)state;
    struct core_rig rig;
    struct buffer live, replayed;
    unsigned known = 0;
    core_rig_init(&rig, 51);
    for (unsigned step = 0; step < scaled(STEPS); step++) {
        core_rig_step(&rig);
        const struct handle *handle = &rig.handles[core_rig_draw(&rig, CORE_RIG_HANDLES)];
        const uint32_t holder = use_worker(rig.core, core_rig_draw(&rig, 40));
        const uint32_t slot = core_find_message(rig.core, handle->message);
        if (slot != 0 && core_message(rig.core, slot)->state == MESSAGE_IN_FLIGHT) {
            struct holder_name name;
            holder_note(rig.core, slot, holder);
            known += holder_find(rig.core, slot, &name);
        }
        holder_release(rig.core, holder);
        if (step % 64 == 0)
            core_check(rig.core);
    }
    assert_true(known > scaled(STEPS) / 200);
    struct core *replay = core_rig_replay(&rig);
    buffer_init(&live);
    buffer_init(&replayed);
    core_rig_encode(rig.core, &live);
    core_rig_encode(replay, &replayed);
    assert_true(bytes_equal(buffer_bytes(&live), buffer_bytes(&replayed)));
    assert_int_equal(replay->holders.items.used, 0);
    core_check(rig.core);
    buffer_deinit(&live);
    buffer_deinit(&replayed);
    core_destroy(replay);
    core_rig_deinit(&rig);
}

/* One message that is in flight, and its slot. */
static uint32_t receive_one(struct core_rig *rig)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    struct core *core = core_rig_begin(rig);
    struct queue *queue = core_find_queue(core, BYTES("q"));
    if (queue == NULL) {
        const struct queue_settings settings = core_rig_settings();
        queue = decide_create_queue(core, BYTES("q"), &settings);
        assert_int_equal(core_rig_send(core, queue, BYTES(""), BYTES("x"), 0), OK);
    }
    assert_int_equal(decide_receive(core, queue, 1, 5000, 10, messages, &count), OK);
    assert_int_equal(count, 1);
    core_rig_end(rig);
    assert_int_equal(messages[0].slot, core_find_message(core, messages[0].handle.message));
    return messages[0].slot;
}

static bool is_held_by(const struct core *core, uint32_t slot, struct bytes worker)
{
    struct holder_name name = {.worker = BYTES("nobody")};
    return holder_find(core, slot, &name) ? bytes_equal(name.worker, worker) : worker.size == 0;
}

static void a_holder_is_forgotten_when_the_lease_ends(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 52);
    uint32_t slot = receive_one(&rig);
    struct core *core = rig.core;
    const uint32_t holder = use_worker(core, 1), other = use_worker(core, 2);
    assert_true(is_held_by(core, slot, BYTES("")));
    holder_note(core, slot, holder);
    assert_true(is_held_by(core, slot, BYTES("worker-1")));
    holder_note(core, slot, other);
    assert_true(is_held_by(core, slot, BYTES("worker-2")));
    holder_note(core, slot, 0);
    assert_true(is_held_by(core, slot, BYTES("")));
    holder_note(core, slot, holder);
    core_check(core);
    rig.now_ms += 4999;
    (void)core_rig_begin(&rig);
    assert_true(is_held_by(core, slot, BYTES("worker-1")));
    core_rig_end(&rig);
    rig.now_ms += 1;
    (void)core_rig_begin(&rig);
    assert_true(is_held_by(core, slot, BYTES(""))); /* its time is over */
    core_rig_end(&rig);
    core_check(core);
    slot = receive_one(&rig);
    assert_true(is_held_by(core, slot, BYTES(""))); /* nothing is left of the delivery before */
    holder_release(core, holder);
    holder_release(core, other);
    core_check(core);
    core_rig_deinit(&rig);
}

static void a_name_is_kept_once_and_a_lease_takes_no_memory(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 53);
    const uint32_t slot = receive_one(&rig);
    const uint32_t holder = use_worker(rig.core, 7);
    const size_t before = accounted_in_use();
    holder_note(rig.core, slot, holder);
    assert_int_equal(accounted_in_use(), before);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(use_worker(rig.core, 7), holder);
    assert_int_equal(accounted_in_use(), before);
    assert_int_equal(rig.core->holders.items.used, 1);
    core_rig_deinit(&rig);
}

static void a_guess_is_taken_only_if_it_is_right(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 54);
    const uint32_t one = use_worker(rig.core, 1), two = use_worker(rig.core, 2);
    const struct holder_name name = {
        .access_key = BYTES("AKIAONE"), .address = BYTES("10.0.0.2"), .worker = BYTES("worker-1")};
    const uint32_t guesses[] = {0, one, two, two + 1, 70000, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(guesses); i++)
        assert_int_equal(holder_use_again(rig.core, &name, guesses[i]), guesses[i] == one ? one : 0);
    const struct holder_name shifted = {
        .access_key = BYTES("AKIAONE1"), .address = BYTES("0.0.0.2"), .worker = BYTES("worker-1")};
    assert_int_equal(holder_use_again(rig.core, &shifted, one), 0);
    assert_int_equal(holder_use(rig.core, &shifted, false), 0);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void names_that_nobody_uses_are_few(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 55);
    const uint32_t busy = use_worker(rig.core, 0);
    for (unsigned i = 1; i <= 2 * HOLDERS_IDLE_MAX; i++)
        holder_release(rig.core, use_worker(rig.core, i));
    assert_int_equal(rig.core->holders.items.used, HOLDERS_IDLE_MAX + 1);
    core_check(rig.core);
    /* The newest are kept, and used again. */
    const size_t before = accounted_in_use();
    const uint32_t again = use_worker(rig.core, 2 * HOLDERS_IDLE_MAX);
    assert_int_equal(accounted_in_use(), before);
    assert_int_equal(rig.core->holders.idle_count, HOLDERS_IDLE_MAX - 1);
    holder_release(rig.core, again);
    holder_release(rig.core, busy);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void there_are_at_most_so_many_names(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 56);
    for (unsigned i = 0; i < HOLDERS_MAX; i++)
        assert_int_not_equal(use_worker(rig.core, i), 0);
    assert_int_equal(use_worker(rig.core, HOLDERS_MAX), 0);
    assert_int_not_equal(use_worker(rig.core, 0), 0);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void a_word_that_is_none_is_left_out(void **state)
{
    (void)state;
    struct core_rig rig;
    char longest[HOLDER_WORD_SIZE_MAX + 1];
    core_rig_init(&rig, 57);
    const uint32_t slot = receive_one(&rig);
    memset(longest, 'w', sizeof(longest));
    const struct {
        struct bytes worker, kept;
    } rows[] = {
        {BYTES("a b~!"), BYTES("a b~!")},
        {bytes_make(longest, HOLDER_WORD_SIZE_MAX), bytes_make(longest, HOLDER_WORD_SIZE_MAX)},
        {bytes_make(longest, HOLDER_WORD_SIZE_MAX + 1), BYTES("")},
        {BYTES("a\tb"), BYTES("")},
        {BYTES("a\x7f"), BYTES("")},
        {BYTES("\xc3\xa9"), BYTES("")},
        {bytes_make("a\0b", 3), BYTES("")},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct holder_name found = {.worker = {NULL, 0}};
        const struct holder_name name = {.access_key = BYTES("KEY"), .worker = rows[i].worker};
        const uint32_t holder = holder_use(rig.core, &name, true);
        holder_note(rig.core, slot, holder);
        holder_release(rig.core, holder);
        assert_true(holder_find(rig.core, slot, &found));
        assert_true(bytes_equal(found.access_key, BYTES("KEY")) && bytes_equal(found.worker, rows[i].kept));
        assert_int_equal(found.address.size, 0);
    }
    assert_int_equal(holder_use(rig.core, &(struct holder_name){.worker = BYTES("\n")}, true), 0);
    assert_int_equal(holder_use(rig.core, &(struct holder_name){.worker = BYTES("new")}, false), 0);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_are_no_part_of_the_state),
        cmocka_unit_test(a_holder_is_forgotten_when_the_lease_ends),
        cmocka_unit_test(a_name_is_kept_once_and_a_lease_takes_no_memory),
        cmocka_unit_test(a_guess_is_taken_only_if_it_is_right),
        cmocka_unit_test(names_that_nobody_uses_are_few),
        cmocka_unit_test(there_are_at_most_so_many_names),
        cmocka_unit_test(a_word_that_is_none_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
