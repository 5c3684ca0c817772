/* Contents that are moved in the log: the message stays what it is, the segment it stood in gets free, and a replay or
 * a snapshot knows the new place. */
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/queues/decide_queue.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEGMENT_SIZE (64u << 10)

static struct queue *work(const struct core_rig *rig)
{
    return core_find_queue(rig->core, BYTES("work"));
}

static void send_some(struct core_rig *rig, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char body[200];
        int size = snprintf(body, sizeof(body), "%-*u", 180, i);
        (void)core_rig_begin(rig);
        assert_int_equal(core_rig_send(rig->core, work(rig), BYTES(""), bytes_make(body, (size_t)size), 0), OK);
        core_rig_end(rig);
    }
}

static void open_rig(struct core_rig *rig, unsigned count)
{
    core_rig_init(rig, 3);
    struct queue_settings settings = core_rig_settings();
    decide_create_queue(core_rig_begin(rig), BYTES("work"), &settings);
    core_rig_end(rig);
    send_some(rig, 0, count);
}

/* Takes so many messages, at most ten. */
static void take(struct core_rig *rig, unsigned count, struct received_message taken[RECEIVE_MAX])
{
    unsigned got;
    (void)core_rig_begin(rig);
    assert_int_equal(decide_receive(rig->core, work(rig), count, 60000, count, taken, &got), OK);
    core_rig_end(rig);
    assert_int_equal(got, count);
}

static void delete_taken(struct core_rig *rig, const struct received_message *taken, unsigned count)
{
    (void)core_rig_begin(rig);
    for (unsigned i = 0; i < count; i++) {
        char text[HANDLE_TEXT_SIZE];
        handle_to_text(core_digest(rig->core), &taken[i].handle, text);
        assert_int_equal(decide_delete(rig->core, work(rig), bytes_make(text, sizeof(text)), NULL), OK);
    }
    core_rig_end(rig);
}

static void move_all_of_oldest(struct core_rig *rig)
{
    uint64_t oldest = core_next_needed_segment(rig->core, 0);
    core_rig_begin(rig);
    assert_true(core_rig_clean(rig, UINT32_MAX) > 0);
    core_rig_end(rig);
    assert_true(core_next_needed_segment(rig->core, 0) > oldest);
    core_check(rig->core);
}

/* Takes all that is there; each has its body, in order of number. */
static void expect_bodies(struct core_rig *rig, unsigned count)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned taken, next = 0;
    do {
        (void)core_rig_begin(rig);
        assert_int_equal(decide_receive(rig->core, work(rig), RECEIVE_MAX, 60000, count + 1, messages, &taken), OK);
        core_rig_end(rig);
        for (unsigned i = 0; i < taken; i++, next++) {
            struct content content;
            struct bytes bytes = core_rig_read(rig, messages[i].position, messages[i].content_size);
            assert_true(bytes.size > 0 && content_decode(bytes, &content));
            assert_int_equal(strtoul((const char *)content.body.ptr, NULL, 10), next);
        }
    } while (taken > 0);
    assert_int_equal(next, count);
}

static void expect_equal_states(const struct core *one, const struct core *other)
{
    struct buffer first, second;
    buffer_init(&first);
    buffer_init(&second);
    core_rig_encode(one, &first);
    core_rig_encode(other, &second);
    assert_true(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    core_check(other);
    buffer_deinit(&first);
    buffer_deinit(&second);
}

static void a_moved_content_frees_its_segment_and_keeps_order_and_body(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 1000);
    assert_int_equal(core_next_needed_segment(rig.core, 0), 0);
    uint64_t live_bytes = core_extents(rig.core)->live_bytes;
    move_all_of_oldest(&rig);
    move_all_of_oldest(&rig);
    assert_int_equal(core_extents(rig.core)->live_bytes, live_bytes);
    send_some(&rig, 1000, 10);
    expect_bodies(&rig, 1010);
    core_rig_deinit(&rig);
}

static void a_replay_and_a_snapshot_know_the_new_place(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 700);
    move_all_of_oldest(&rig);
    struct core *replayed = core_rig_replay(&rig);
    expect_equal_states(rig.core, replayed);
    core_destroy(replayed);

    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct core *read = core_create();
    assert_true(core_bytes_decode(read, buffer_bytes(&encoded)));
    assert_true(core_next_needed_segment(read, 0) == core_next_needed_segment(rig.core, 0));
    expect_equal_states(rig.core, read);
    core_destroy(read);
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

/* The fencing token and the lease of a delivery belong to the message, not to the place of its content. */
static void a_message_in_flight_keeps_its_lease_and_handle(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 3);
    struct received_message taken[RECEIVE_MAX];
    take(&rig, 3, taken);
    rig.position = 3 * SEGMENT_SIZE + 4096;
    move_all_of_oldest(&rig);
    assert_int_equal(core_metrics(rig.core).in_flight, 3);
    assert_int_equal(core_metrics(rig.core).delivered, 3);
    delete_taken(&rig, taken, 3);
    assert_int_equal(core_metrics(rig.core).messages, 0);
    assert_int_equal(core_extents(rig.core)->count, 0);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void the_walk_goes_in_portions_and_passes_over_freed_slots(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 100);
    struct received_message taken[RECEIVE_MAX];
    take(&rig, 10, taken);
    delete_taken(&rig, taken, 10);
    const uint64_t ordinal = 0;
    uint32_t slot = 1;
    unsigned found_count = 0, portions = 0;
    while (slot != 0) {
        unsigned visits = 7;
        struct live_content found;
        while (core_find_content(rig.core, &ordinal, 1, &slot, &visits, &found)) {
            assert_true(core_has_content(rig.core, &found));
            found.position++; /* it has been moved since */
            assert_false(core_has_content(rig.core, &found));
            found_count++;
        }
        assert_true(visits == 0 || slot == 0);
        portions++;
    }
    assert_int_equal(found_count, 90);
    assert_in_range(portions, 14, 16);
    core_rig_deinit(&rig);
}

static void an_event_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 1);
    const struct event_content_moved events[] = {
        {.number = 7, .content = BYTES("no such message")},
        {.number = 1, .content = BYTES("of another size")},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++) {
        struct buffer payload;
        buffer_init(&payload);
        event_encode(&(struct event){.kind = EVENT_CONTENT_MOVED, .content_moved = events[i]}, &payload);
        struct failure failure = {.error = OK};
        assert_false(core_replay(rig.core, buffer_bytes(&payload), rig.position, rig.now_ms, &failure));
        assert_int_equal(failure.error, ERROR_LOG_DAMAGED);
        core_check(rig.core);
        buffer_deinit(&payload);
    }
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moved_content_frees_its_segment_and_keeps_order_and_body),
        cmocka_unit_test(a_replay_and_a_snapshot_know_the_new_place),
        cmocka_unit_test(a_message_in_flight_keeps_its_lease_and_handle),
        cmocka_unit_test(the_walk_goes_in_portions_and_passes_over_freed_slots),
        cmocka_unit_test(an_event_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests_name("contents that are moved", tests, NULL, NULL);
}
