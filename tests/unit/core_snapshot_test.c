/* The whole state as bytes: equal states give equal bytes, a replay and a snapshot give the state that was live, and no
 * bytes whatever crash the decoder. */
#include "core/batches/decide_batch.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_move.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "core/snapshot.h"
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

static void expect_same(const struct core *core, const struct core *live, uint64_t seed)
{
    struct buffer a, b;
    buffer_init(&a);
    buffer_init(&b);
    core_rig_encode(core, &a);
    core_rig_encode(live, &b);
    if (!bytes_equal(buffer_bytes(&a), buffer_bytes(&b)))
        fail_msg("seed %llu: the states differ", (unsigned long long)seed);
    buffer_deinit(&a);
    buffer_deinit(&b);
}

static struct core *decode(struct bytes encoded)
{
    struct core *core = core_create();
    if (core_bytes_decode(core, encoded))
        return core;
    core_destroy(core);
    return NULL;
}

static void a_replay_gives_the_live_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(80); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned step = 0; step < 400; step++) {
            core_rig_step(&rig);
            core_check(rig.core);
        }
        struct core *replayed = core_rig_replay(&rig);
        core_check(replayed);
        expect_same(replayed, rig.core, seed);
        core_destroy(replayed);
        core_rig_deinit(&rig);
    }
}

static void a_decoded_state_encodes_to_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(30); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned step = 0; step < 300; step++) {
            core_rig_step(&rig);
            if (step % 10 != 0)
                continue;
            struct buffer encoded;
            buffer_init(&encoded);
            core_rig_encode(rig.core, &encoded);
            struct core *decoded = decode(buffer_bytes(&encoded));
            assert_non_null(decoded);
            core_check(decoded);
            expect_same(decoded, rig.core, seed);
            core_destroy(decoded);
            buffer_deinit(&encoded);
        }
        core_rig_deinit(&rig);
    }
}

/* A core that goes on from a snapshot decides as the one that wrote it: the log may be trimmed behind it. */
static void a_decoded_core_goes_on_as_the_live_one(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 100 + scaled(80); seed++) {
        struct core_rig live, other;
        core_rig_init(&live, seed);
        live.knows_zones = true;
        for (unsigned step = 0; step < 200; step++)
            core_rig_step(&live);
        struct buffer encoded;
        buffer_init(&encoded);
        core_rig_encode(live.core, &encoded);
        core_rig_init(&other, seed);
        core_destroy(other.core);
        struct buffer log = other.log, frame = other.frame;
        struct core_rig_frame *frames = other.frames_owned;
        other = live;
        other.core = decode(buffer_bytes(&encoded));
        other.log = log;
        other.frame = frame;
        other.frames_owned = frames;
        other.frame_count = other.frame_capacity = 0;
        free(frames);
        other.frames_owned = NULL;
        assert_non_null(other.core);
        for (unsigned step = 0; step < 200; step++) {
            core_rig_step(&live);
            core_rig_step(&other);
            if (!bytes_equal(buffer_bytes(&live.frame), buffer_bytes(&other.frame)))
                fail_msg("seed %llu: step %u was decided otherwise", (unsigned long long)seed, step);
        }
        expect_same(other.core, live.core, seed);
        buffer_deinit(&encoded);
        core_rig_deinit(&other);
        core_rig_deinit(&live);
    }
}

#define DEAD_LETTERS 100000u

static void fail_for_good(struct core_rig *rig, struct queue *queue, const struct handle *handle)
{
    char text[HANDLE_TEXT_SIZE];
    struct failure_result result;
    handle_to_text(core_digest(rig->core), handle, text);
    assert_int_equal(decide_fail(rig->core, queue, bytes_make(text, sizeof(text)),
                                 &(struct failed_attempt){.is_final = true}, &result),
                     OK);
}

/* They stand by age in the snapshot, and in their group in the order in which they came, which may be any other one. A
 * search for the place of each would take this test minutes. */
static void many_dead_letters_of_one_group_are_read_soon(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    core_rig_init(&rig, 1);
    core_rig_begin(&rig);
    struct queue_settings settings = core_rig_settings();
    decide_create_queue(rig.core, BYTES("dead"), &settings);
    settings.receive_count_max = 5;
    settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:dead");
    struct queue *queue = decide_create_queue(rig.core, BYTES("q"), &settings);
    struct handle *handles = calloc(DEAD_LETTERS, sizeof(*handles));
    for (unsigned i = 0; i < DEAD_LETTERS; i++) {
        const struct send_command command = {
            .queue = queue,
            .content = {.body = BYTES("body"), .sender = core_name(rig.core), .group = BYTES("g")},
            .priority = PRIORITY_DEFAULT};
        struct send_result result;
        struct received_message messages[RECEIVE_MAX];
        unsigned count;
        assert_int_equal(decide_send(rig.core, &command, &result), OK);
        assert_int_equal(decide_receive(rig.core, queue, 1, 600000, UINT32_MAX, messages, &count), OK);
        handles[i] = messages[0].handle;
        rig.frame.size = 0; /* nobody reads it */
    }
    for (unsigned i = 0; i < DEAD_LETTERS; i++) {
        fail_for_good(&rig, queue, &handles[(uint64_t)i * 31337 % DEAD_LETTERS]);
        rig.frame.size = 0;
    }
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct core *decoded = decode(buffer_bytes(&encoded));
    assert_non_null(decoded);
    core_check(decoded);
    expect_same(decoded, rig.core, 1);
    core_destroy(decoded);
    buffer_deinit(&encoded);
    free(handles);
    core_rig_deinit(&rig);
}

/* The second version knew no tags and ends before them, the third no relays and no publishers, the fourth no pools of
 * tickets, the fifth no numbers of feeds that are gone. */
static void states_of_earlier_versions_are_read(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    decide_create_queue(core_rig_begin(&rig), BYTES("q"), &settings);
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    /* of what the version knew not: the number of feeds; pools, matches; relays, publishers; tags, move tasks */
    static const unsigned sizes[] = {[5] = 8, [4] = 16 + 8, [3] = 12 + 12, [2] = 4 + 12};
    for (uint32_t version = 5; version >= 2; version--) {
        bytes_put_u32(encoded.data_owned, version);
        assert_null(decode(buffer_bytes(&encoded)));
        buffer_truncate(&encoded, encoded.size - sizes[version]);
        struct core *decoded = decode(buffer_bytes(&encoded));
        assert_non_null(decoded);
        expect_same(decoded, rig.core, 1);
        core_destroy(decoded);
    }
    bytes_put_u32(encoded.data_owned, 1);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

/* The seventh version did not say how many units joined from inside: there were none. */
static void a_batch_of_the_seventh_version_has_not_grown(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    const struct batch *batch;
    const struct create_batch_command create = {
        .id = BYTES("b"), .spec = {.has_total = true, .total = 5, .expires_after_s = 9, .retention_s = 9}};
    const struct add_units_command add = {.count = 3};
    uint32_t added;
    assert_int_equal(decide_create_batch(core, &create, &batch), OK);
    assert_int_equal(decide_add_units(core, batch, &add, &added), OK);
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    bytes_put_u32(encoded.data_owned, 7);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_truncate(&encoded, encoded.size - 4);
    struct core *decoded = decode(buffer_bytes(&encoded));
    assert_non_null(decoded);
    expect_same(decoded, rig.core, 1);
    core_destroy(decoded);
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

/* The eighth version knew no selections: its tasks are for all. */
static void a_task_of_the_eighth_version_has_no_selection(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    const struct queue_settings settings = core_rig_settings();
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    decide_start_move(core, queue, &(struct move_command){.messages_max = UINT64_MAX});
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    bytes_put_u32(encoded.data_owned, 8);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_truncate(&encoded, encoded.size - 1);
    struct core *decoded = decode(buffer_bytes(&encoded));
    assert_non_null(decoded);
    expect_same(decoded, rig.core, 1);
    core_destroy(decoded);
    bytes_put_u32(encoded.data_owned, 10);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

/* More units than its Total and those that joined from inside: no batch has that. */
static void a_batch_has_no_more_units_than_it_has_grown_by(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    const struct batch *batch;
    const struct create_batch_command create = {
        .id = BYTES("b"), .spec = {.has_total = true, .total = 1, .expires_after_s = 9, .retention_s = 9}};
    struct add_units_command add = {.count = 1};
    uint32_t added;
    assert_int_equal(decide_create_batch(core, &create, &batch), OK);
    assert_int_equal(decide_add_units(core, batch, &add, &added), OK);
    struct bytes key = BYTES("x");
    add = (struct add_units_command){.keys = &key, .key_count = 1};
    assert_int_equal(decide_add_units(core, batch, &add, &added), ERROR_BATCH_SEALED);
    add.is_growth = true;
    assert_int_equal(decide_add_units(core, batch, &add, &added), OK);
    assert_int_equal(batch->grown, 1);
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct core *decoded = decode(buffer_bytes(&encoded));
    assert_non_null(decoded);
    expect_same(decoded, rig.core, 1);
    core_destroy(decoded);
    bytes_put_u32(encoded.data_owned + encoded.size - 4, 0);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

static void a_truncated_state_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 5);
    for (unsigned step = 0; step < 250; step++)
        core_rig_step(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    for (size_t size = 0; size < encoded.size; size += is_scaled_down() ? 7 : 1)
        assert_null(decode(bytes_make(encoded.data_owned, size)));
    buffer_append_u8(&encoded, 0);
    assert_null(decode(buffer_bytes(&encoded)));
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

/* A flipped state is refused, or is some other state that stands every check. */
static void a_damaged_state_is_refused_or_sound(void **state)
{
    (void)state;
    struct random random = {.state = 6};
    for (uint64_t seed = 1; seed <= scaled(8); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned step = 0; step < 150; step++)
            core_rig_step(&rig);
        struct buffer encoded;
        buffer_init(&encoded);
        core_rig_encode(rig.core, &encoded);
        for (unsigned round = 0; round < (is_scaled_down() ? 600 : 3000); round++) {
            size_t at = random_below(&random, (uint32_t)encoded.size);
            uint8_t old = encoded.data_owned[at];
            encoded.data_owned[at] =
                round % 2 == 0 ? old ^ (uint8_t)(1u << random_below(&random, 8)) : (uint8_t)random_u64(&random);
            struct core *core = decode(buffer_bytes(&encoded));
            if (core != NULL) {
                core_check(core);
                core_destroy(core);
            }
            encoded.data_owned[at] = old;
        }
        buffer_deinit(&encoded);
        core_rig_deinit(&rig);
    }
}

/* The same for the events of a frame. */
static void a_damaged_frame_never_crashes_the_replay(void **state)
{
    (void)state;
    struct random random = {.state = 7};
    for (uint64_t seed = 1; seed <= scaled(300); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed % 20);
        for (unsigned step = 0; step < 60 + seed % 50 || rig.log.size < 1000; step++)
            core_rig_step(&rig);
        for (unsigned i = 0; i < 6; i++)
            rig.log.data_owned[100 + random_below(&random, (uint32_t)rig.log.size - 100)] ^=
                (uint8_t)(1u << random_below(&random, 8));
        struct core *core = core_create();
        bool is_good = true;
        for (size_t i = 0; i < rig.frame_count && is_good; i++) {
            const struct core_rig_frame *frame = &rig.frames_owned[i];
            struct failure failure;
            is_good = core_replay(core, bytes_make(rig.log.data_owned + frame->offset, frame->size), frame->position,
                                  frame->time_ms, &failure);
            if (!is_good)
                assert_true(strstr(failure.text, "event at log position") != NULL ||
                            strstr(failure.text, "lies before that of the frame before it") != NULL);
        }
        core_destroy(core);
        core_rig_deinit(&rig);
    }
}

struct pieces {
    unsigned count;
    size_t newest_size;
};

static void note_piece(void *context, struct bytes piece)
{
    struct pieces *pieces = context;
    pieces->count++;
    pieces->newest_size = piece.size;
}

/* Appends so many bytes, and has handed on `count` pieces behind it, the newest of `size` bytes. */
static void expect_pieces(struct core_writer *writer, size_t more, unsigned count, size_t size)
{
    static const uint8_t zeros[256u << 10];
    const struct pieces *pieces = writer->context;
    buffer_append(&writer->piece, zeros, more);
    core_writer_pass_on(writer);
    assert_int_equal(pieces->count, count);
    assert_int_equal(pieces->newest_size, size);
}

static void pieces_of_a_snapshot_are_passed_on_once_they_are_large_and_none_is_empty(void **state)
{
    (void)state;
    const size_t most = 256u << 10;
    struct pieces pieces = {0};
    struct core_writer writer = {.sink = note_piece, .context = &pieces};
    buffer_init(&writer.piece);
    core_writer_hand_on(&writer);
    expect_pieces(&writer, 0, 0, 0);
    expect_pieces(&writer, most, 0, 0);
    expect_pieces(&writer, 1, 1, most + 1);
    core_writer_hand_on(&writer);
    assert_int_equal(pieces.count, 1);
    expect_pieces(&writer, 7, 1, most + 1);
    core_writer_hand_on(&writer);
    core_writer_hand_on(&writer);
    assert_true(pieces.count == 2 && pieces.newest_size == 7);
    buffer_deinit(&writer.piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_gives_the_live_state),
        cmocka_unit_test(a_decoded_state_encodes_to_the_same_bytes),
        cmocka_unit_test(a_decoded_core_goes_on_as_the_live_one),
        cmocka_unit_test(many_dead_letters_of_one_group_are_read_soon),
        cmocka_unit_test(states_of_earlier_versions_are_read),
        cmocka_unit_test(a_batch_of_the_seventh_version_has_not_grown),
        cmocka_unit_test(a_task_of_the_eighth_version_has_no_selection),
        cmocka_unit_test(a_batch_has_no_more_units_than_it_has_grown_by),
        cmocka_unit_test(a_truncated_state_is_refused),
        cmocka_unit_test(a_damaged_state_is_refused_or_sound),
        cmocka_unit_test(a_damaged_frame_never_crashes_the_replay),
        cmocka_unit_test(pieces_of_a_snapshot_are_passed_on_once_they_are_large_and_none_is_empty),
    };
    return cmocka_run_group_tests_name("core snapshot", tests, NULL, NULL);
}
