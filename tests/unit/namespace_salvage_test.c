/* A salvage of a namespace: what is not in its notes is as it was, and what it says of the rest is right. */
#include "scenario.h"

#include "core/identity.h"
#include "engine/salvage.h"
#include "log/segment.h"
#include "support/history.h"
#include "support/salvage_rig.h"

#define SEGMENT "0000000000000000.segment"
#define SEGMENT_SIZE (UINT64_C(512) << 10)

struct notes {
    uint64_t counts[SALVAGE_NOTE_COUNT];
    char names[SALVAGE_NOTE_COUNT][64]; /* of the last of each kind */
};

static void on_note(void *context, const struct salvage_note *note)
{
    struct notes *notes = context;
    history_note_salvage(note);
    notes->counts[note->kind]++;
    (void)snprintf(notes->names[note->kind], sizeof(notes->names[0]), "%.*s", BYTES_FORMAT(note->name));
}

struct file_list {
    const char *suffix;
    char names[16][64];
    size_t count;
};

static void on_name(void *context, const char *name)
{
    struct file_list *list = context;
    const size_t size = strlen(name), suffix = strlen(list->suffix);
    if (size >= suffix && strcmp(name + size - suffix, list->suffix) == 0 && list->count < 16)
        (void)snprintf(list->names[list->count++], sizeof(list->names[0]), "%s", name);
}

static struct file_list list_files(struct world *world, const char *suffix)
{
    struct file_list list = {.suffix = suffix};
    (void)world->disk->operations->lock(world->disk, NULL);
    assert_int_equal(world->disk->operations->list(world->disk, on_name, &list, NULL), OK);
    return list;
}

/* Breaks one byte of the first place where `text` stands. */
static void break_text(struct world *world, const char *text)
{
    const struct file_list segments = list_files(world, ".segment");
    for (size_t i = 0; i < segments.count; i++) {
        const struct bytes content = memory_disk_content(world->disk, segments.names[i]);
        const uint8_t *at = memmem(content.ptr, content.size, text, strlen(text));
        if (at == NULL)
            continue;
        memory_disk_flip_bit(world->disk, segments.names[i], (uint64_t)(at - content.ptr + 2) * 8);
        return;
    }
    fail_msg("nowhere stands \"%s\"", text);
}

static void fill_with_zeros(struct world *world, const char *name)
{
    const size_t size = memory_disk_content(world->disk, name).size;
    uint8_t *zeros = calloc(1, size + 1);
    assert_non_null(zeros);
    memory_disk_put(world->disk, name, bytes_make(zeros, size));
    free(zeros);
}

/* The world goes on with the new folder. The server is down. */
static struct notes salvage_world(struct world *world)
{
    struct notes notes = {{0}, {{0}}};
    const struct salvage_options options = {
        .name = "000000000000", .segment_size = SEGMENT_SIZE, .report = on_note, .context = &notes};
    struct salvage *salvage;
    struct failure failure = {.error = OK};
    if (salvage_read(world->disk, &options, &salvage, &failure) != OK)
        fail_msg("%s", failure.text);
    struct disk *to = memory_disk_create(2);
    if (salvage_write(salvage, to, &failure) != OK)
        fail_msg("%s", failure.text);
    salvage_destroy(salvage);
    memory_disk_crash(to);
    memory_disk_destroy(world->disk);
    world->disk = to;
    return notes;
}

static struct world *make_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 17});
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    return world;
}

static void send(struct world *world, const char *batch, const char *body)
{
    EXPECT(world, world_send(world, "jobs", batch, body).error == NULL);
}

/* Each message is sent, and stands, in a frame of its own. */
static void a_lost_frame_costs_what_it_said(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    send(world, NULL, "the first");
    send(world, NULL, "the second");
    send(world, NULL, "the third");
    world_hold(world, "jobs", 0, 0, taken);
    world_stop(world, true);
    break_text(world, "the second");
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_GAP], 1);
    assert_int_equal(notes.counts[SALVAGE_MESSAGE], 1);
    assert_int_equal(notes.counts[SALVAGE_MAY_REPEAT], 1); /* the first; the third was sent behind the gap */
    assert_int_equal(notes.counts[SALVAGE_EVENT], 0);
    world_start(world);
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 2);
    assert_string_equal(taken[0].body, "the first");
    assert_string_equal(taken[1].body, "the third");
    world_audit(world);
    world_destroy(world);
}

/* Many messages stand in one frame; those whose own checksums and ids are right are believed. */
static void the_other_messages_of_a_damaged_frame_are_saved(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    EXPECT(world, world_call(world, "SendMessageBatch",
                             "{'QueueUrl':'jobs','Entries':[{'Id':'a','MessageBody':'the first'},"
                             "{'Id':'b','MessageBody':'the second'},{'Id':'c','MessageBody':'the third'}]}")
                          .error == NULL);
    world_stop(world, true);
    break_text(world, "the second");
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_RESCUED], 1);
    assert_int_equal(notes.counts[SALVAGE_MESSAGE],
                     2); /* the second; and how many came behind the third, nobody knows */
    world_start(world);
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 2);
    assert_string_equal(taken[0].body, "the first");
    assert_string_equal(taken[1].body, "the third");
    world_destroy(world);
}

static void a_batch_that_may_lack_a_unit_does_not_complete(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'done'}}").error == NULL);
    send(world, "b", "unit one");
    send(world, "b", "unit two");
    world_stop(world, true);
    break_text(world, "unit two");
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_BATCH], 1);
    assert_string_equal(notes.names[SALVAGE_BATCH], "b");
    world_start(world);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 1);
    world_delete(world, "jobs", taken[0].handle);
    assert_int_equal(world_count_messages(world, "done"), 0);
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'tally-salvage'}]}").error ==
               NULL);
    assert_int_equal(world_count_messages(world, "done"), 1);
    world_audit(world);
    world_destroy(world);
}

/* A unit is lost, and behind it the one that made the total full and sealed the batch. */
static void a_batch_with_a_total_does_not_complete_with_fewer_units(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':3,'OnComplete':{'QueueUrl':'done'}}").error ==
               NULL);
    send(world, "b", "unit one");
    send(world, "b", "unit two");
    send(world, "b", "unit three");
    world_stop(world, true);
    break_text(world, "unit two");
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_BATCH], 1);
    assert_int_equal(notes.counts[SALVAGE_UNIT], 1);
    world_start(world);
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 2);
    world_delete(world, "jobs", taken[0].handle);
    world_delete(world, "jobs", taken[1].handle);
    assert_int_equal(world_count_messages(world, "done"), 0);
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'tally-salvage'}]}").error ==
               NULL);
    assert_int_equal(world_count_messages(world, "done"), 1);
    world_audit(world);
    world_destroy(world);
}

/* Its owner goes on as if nothing had been: all of the total's units can still be sent. */
static void a_total_that_was_not_full_takes_all_of_its_units(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':2,'OnComplete':{'QueueUrl':'done'}}").error ==
               NULL);
    send(world, NULL, "of no batch");
    world_stop(world, true);
    break_text(world, "of no batch");
    (void)salvage_world(world);
    world_start(world);
    send(world, "b", "unit one");
    send(world, "b", "unit two");
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 2);
    world_delete(world, "jobs", taken[0].handle);
    world_delete(world, "jobs", taken[1].handle);
    assert_int_equal(world_count_messages(world, "done"), 0);
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'tally-salvage'}]}").error ==
               NULL);
    assert_int_equal(world_count_messages(world, "done"), 1);
    world_audit(world);
    world_destroy(world);
}

/* Loses a message of no batch, and salvages. */
static void lose_and_salvage(struct world *world, const char *text)
{
    send(world, NULL, text);
    world_stop(world, true);
    break_text(world, text);
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_BATCH], 1);
    world_start(world);
}

/* Whoever completed the unit of the first salvage did not know of the second. */
static void a_batch_that_is_salvaged_twice_is_held_twice(void **state)
{
    (void)state;
    static const char *const tracking[] = {"exact", "xor"};
    for (size_t i = 0; i < ARRAY_LENGTH(tracking); i++) {
        struct world *world = make_world();
        struct taken taken[10];
        EXPECT(world, world_call(world, "Tally.CreateBatch",
                                 "{'BatchId':'b','Tracking':'%s','OnComplete':{'QueueUrl':'done'}}", tracking[i])
                              .error == NULL);
        send(world, "b", "a unit");
        lose_and_salvage(world, "the first to be lost");
        if (i == 0)
            EXPECT(
                world,
                world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'tally-salvage'}]}").error ==
                    NULL);
        lose_and_salvage(world, "the second to be lost");
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
        assert_int_equal(world_take(world, "jobs", 30, 10, taken), 1);
        world_delete(world, "jobs", taken[0].handle);
        assert_int_equal(world_count_messages(world, "done"), 0);
        if (i == 0)
            EXPECT(world,
                   world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'tally-salvage-2'}]}")
                           .error == NULL);
        assert_int_equal(world_count_messages(world, "done"), i == 0);
        world_audit(world);
        world_destroy(world);
    }
}

/* What is lost is noted where hardly anything is left to tell of it. Behind the segment in use stands one that was made
 * ahead of time. */
static void a_log_that_is_lost_as_a_whole_is_no_new_one(void **state)
{
    (void)state;
    enum { ZEROS, REMOVED, SNAPSHOT_REMOVED, SNAPSHOT_ZEROS, SNAPSHOT_ALONE, SNAPSHOT_DAMAGED, CASE_COUNT };
    for (unsigned round = 0; round < CASE_COUNT; round++) {
        struct world *world = world_create(&(struct world_options){.seed = 17, .snapshot_bytes = 1});
        world_create_queue(world, "jobs", "");
        struct taken taken[10];
        send(world, NULL, "done with");
        assert_int_equal(world_take(world, "jobs", 30, 10, taken), 1);
        world_delete(world, "jobs", taken[0].handle);
        if (round >= SNAPSHOT_REMOVED) {
            world_snapshot(world);
            EXPECT(world, list_files(world, ".snapshot").count == 1);
        }
        send(world, NULL, "to be lost");
        world_stop(world, true);
        uint8_t *zeros = calloc(1, SEGMENT_SIZE);
        assert_non_null(zeros);
        memory_disk_put(world->disk, "0000000000080000.segment", bytes_make(zeros, SEGMENT_SIZE));
        free(zeros);
        if (round == ZEROS || round == SNAPSHOT_ZEROS)
            fill_with_zeros(world, SEGMENT);
        else
            memory_disk_remove(world->disk, SEGMENT);
        if (round == SNAPSHOT_ZEROS || round >= SNAPSHOT_ALONE)
            memory_disk_remove(world->disk, "0000000000080000.segment");
        if (round == SNAPSHOT_DAMAGED) {
            const struct file_list snapshots = list_files(world, ".snapshot");
            assert_int_equal(snapshots.count, 1);
            memory_disk_flip_bit(world->disk, snapshots.names[0], 800);
        }
        const struct notes notes = salvage_world(world);
        assert_int_equal(notes.counts[SALVAGE_GAP], 1);
        assert_int_equal(notes.counts[SALVAGE_MESSAGE], 1);
        world_start(world);
        if (round >= SNAPSHOT_REMOVED && round != SNAPSHOT_DAMAGED)
            assert_int_equal(world_count_messages(world, "jobs"), 0);
        world_destroy(world);
    }
}

/* Two segments are lost, the one where the log went on behind the snapshot among them; all that tells of their frames
 * is the header of the next. */
static void a_header_tells_of_frames_that_are_lost(void **state)
{
    (void)state;
    struct world *world = world_create(
        &(struct world_options){.seed = 17, .segment_size = 16384, .frame_size_max = 4096, .snapshot_bytes = 1});
    world_create_queue(world, "jobs", "");
    for (unsigned i = 0; i < 60; i++)
        send(world, NULL, "a letter");
    world_snapshot(world);
    send(world, NULL, "to be lost");
    world_stop(world, true);
    const struct file_list segments = list_files(world, ".segment");
    assert_true(segments.count >= 3 && memory_disk_has(world->disk, SEGMENT));
    for (size_t i = 0; i < segments.count; i++)
        if (strcmp(segments.names[i], SEGMENT) != 0)
            memory_disk_remove(world->disk, segments.names[i]);
    uint8_t *next = calloc(1, 16384);
    assert_non_null(next);
    const struct segment_header header = {
        .version = SEGMENT_VERSION, .ordinal = 16, .segment_size = 16384, .sequence = 500, .epoch = 1};
    segment_header_encode(&header, next);
    memory_disk_put(world->disk, "0000000000040000.segment", bytes_make(next, 16384));
    free(next);
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_GAP], 1);
    assert_int_equal(notes.counts[SALVAGE_MESSAGE], 1);
    world_start(world);
    world_destroy(world);
}

/* The end of a segment is lost, and the body of the one frame behind it. Its header is right, so nothing is lost behind
 * that. */
static void a_broken_frame_behind_a_hole_is_the_end(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 17, .segment_size = 16384, .frame_size_max = 4096});
    world_create_queue(world, "jobs", "");
    do
        send(world, NULL, "a letter");
    while (!memory_disk_has(world->disk, "0000000000004000.segment") ||
           memory_disk_content(world->disk, "0000000000004000.segment").ptr[512] == 0);
    world_stop(world, true);
    size_t end = 16384;
    while (memory_disk_content(world->disk, SEGMENT).ptr[end - 1] == 0)
        end--;
    memory_disk_flip_bit(world->disk, SEGMENT, end / 512 * 512 * 8);
    memory_disk_flip_bit(world->disk, "0000000000004000.segment", (512 + 100) * 8);
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_DAMAGE], 2);
    assert_int_equal(notes.counts[SALVAGE_GAP], 1);
    world_start(world);
    world_destroy(world);
}

/* Its frames have the right numbers, but it is of another history of this folder: of one that was restored, say, and
 * went on. */
static void a_segment_of_another_log_is_a_gap(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 17, .segment_size = 16384, .frame_size_max = 4096});
    world_create_queue(world, "jobs", "");
    for (unsigned i = 0; i < 40; i++)
        send(world, NULL, "a letter");
    world_stop(world, true);
    const struct bytes content = memory_disk_content(world->disk, "0000000000004000.segment");
    struct segment_header header;
    assert_true(segment_header_decode(content, &header));
    uint8_t *copy = malloc(content.size);
    assert_non_null(copy);
    memcpy(copy, content.ptr, content.size);
    header.link++;
    segment_header_encode(&header, copy);
    memory_disk_put(world->disk, "0000000000004000.segment", bytes_make(copy, content.size));
    free(copy);
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_GAP], 1);
    assert_true(notes.counts[SALVAGE_MAY_REPEAT] > 0 && notes.counts[SALVAGE_MAY_REPEAT] < 40);
    world_start(world);
    assert_int_equal(world_count_messages(world, "jobs"), 40);
    world_destroy(world);
}

/* Its queue was created in a frame that is lost: the message is there, in a queue that is named after the lost one's
 * number. */
static void a_message_whose_queue_is_not_known_is_kept(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken[10];
    world_create_queue(world, "forgotten", "");
    EXPECT(world, world_send(world, "forgotten", NULL, "a letter").error == NULL);
    world_stop(world, true);
    break_text(world, "forgotten");
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_UNNAMED_QUEUE], 1);
    assert_string_equal(notes.names[SALVAGE_UNNAMED_QUEUE], "salvaged-3");
    world_start(world);
    assert_int_equal(world_take(world, "salvaged-3", 30, 10, taken), 1);
    assert_string_equal(taken[0].body, "a letter");
    world_destroy(world);
}

static void numbers_go_on_far_behind_what_may_have_been_given_out(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct taken taken;
    send(world, NULL, "kept");
    world_hold(world, "jobs", 300, 1, &taken);
    world_stop(world, true);
    const struct bytes content = memory_disk_content(world->disk, SEGMENT);
    size_t end = content.size;
    while (content.ptr[end - 1] == 0)
        end--;
    memory_disk_flip_bit(world->disk, SEGMENT, end * 8 - 4); /* the receive */
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_MAY_REPEAT], 1);
    world_start(world);
    struct taken again;
    world_hold(world, "jobs", 300, 1, &again);
    assert_string_equal(taken.id, again.id);
    assert_string_not_equal(taken.handle, again.handle);
    const struct core_metrics metrics = core_metrics(world_core(world));
    assert_true(metrics.delivered > UINT64_C(1) << 32);
    world_destroy(world);
}

/* Its first block has the key and the queues; the messages stand in the segments that are left. */
static void the_start_of_a_damaged_snapshot_has_the_queues(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 5, .segment_size = 1 << 20, .snapshot_bytes = 1});
    world_create_queue(world, "jobs", "");
    for (unsigned i = 0; i < 1600; i++) {
        char entries[1200];
        size_t size = 0;
        for (unsigned k = 0; k < 10; k++)
            size += (size_t)snprintf(entries + size, sizeof(entries) - size, "%s{'Id':'%u','MessageBody':'message %u'}",
                                     k == 0 ? "" : ",", k, i * 10 + k);
        EXPECT(world,
               world_call(world, "SendMessageBatch", "{'QueueUrl':'jobs','Entries':[%s]}", entries).error == NULL);
        world_forget(world);
    }
    world_snapshot(world);
    world_stop(world, true);
    const struct file_list snapshots = list_files(world, ".snapshot");
    assert_int_equal(snapshots.count, 1);
    assert_true(memory_disk_content(world->disk, snapshots.names[0]).size > (1u << 20) + 10000);
    memory_disk_flip_bit(world->disk, snapshots.names[0], ((1u << 20) + 5000) * 8);
    memory_disk_remove(world->disk, SEGMENT);
    const struct notes notes = salvage_world(world);
    assert_int_equal(notes.counts[SALVAGE_FOUNDING], 0);
    assert_int_equal(notes.counts[SALVAGE_UNNAMED_QUEUE], 0);
    assert_int_equal(notes.counts[SALVAGE_GAP], 1);
    world_start(world);
    const uint64_t left = world_count_messages(world, "jobs");
    assert_true(left > 1000 && left + notes.counts[SALVAGE_MESSAGE] == 16000);
    struct taken taken[10];
    assert_int_equal(world_take(world, "jobs", 30, 10, taken), 10);
    world_destroy(world);
}

/* Damage that a seed draws, of a folder in which a little of everything happened: salvage_rig.h judges. */
static void whatever_is_damaged_the_rest_is_as_it_was(void **state)
{
    (void)state;
    struct world *world = world_create(
        &(struct world_options){.seed = 3, .segment_size = 32768, .frame_size_max = 8192, .snapshot_bytes = 30000});
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    struct salvage_rig_report report = {0};
    for (unsigned round = 0; round < 30; round++) {
        char batch[16];
        struct taken taken[10];
        (void)snprintf(batch, sizeof(batch), "batch-%u", round);
        (void)world_call(world, "Tally.CreateBatch", "{'BatchId':'%s','OnComplete':{'QueueUrl':'done'}}", batch);
        for (unsigned i = 0; i < 8; i++)
            send(world, i % 2 == 0 ? batch : NULL, "something to do");
        (void)world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", batch);
        const unsigned count = world_take(world, "jobs", 1000, 6, taken);
        for (unsigned i = 0; i < count; i++)
            world_delete(world, "jobs", taken[i].handle);
        world_pass_time(world, 1000);
        world_stop(world, round % 2 == 0);
        for (unsigned try = 0; try < 10; try++) {
            char wrong[512];
            if (!salvage_rig_try(world->disk, round * 100 + try, &report, wrong))
                fail_msg("round %u, try %u: %s", round, try, wrong);
        }
        world_start(world);
        world_forget(world);
    }
    assert_int_equal(report.tries, 300);
    assert_true(report.kept > report.messages / 2 && report.notes[SALVAGE_GAP] > 100);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_frame_costs_what_it_said),
        cmocka_unit_test(the_other_messages_of_a_damaged_frame_are_saved),
        cmocka_unit_test(a_batch_that_may_lack_a_unit_does_not_complete),
        cmocka_unit_test(a_batch_with_a_total_does_not_complete_with_fewer_units),
        cmocka_unit_test(a_total_that_was_not_full_takes_all_of_its_units),
        cmocka_unit_test(a_batch_that_is_salvaged_twice_is_held_twice),
        cmocka_unit_test(a_log_that_is_lost_as_a_whole_is_no_new_one),
        cmocka_unit_test(a_header_tells_of_frames_that_are_lost),
        cmocka_unit_test(a_broken_frame_behind_a_hole_is_the_end),
        cmocka_unit_test(a_segment_of_another_log_is_a_gap),
        cmocka_unit_test(a_message_whose_queue_is_not_known_is_kept),
        cmocka_unit_test(numbers_go_on_far_behind_what_may_have_been_given_out),
        cmocka_unit_test(the_start_of_a_damaged_snapshot_has_the_queues),
        cmocka_unit_test(whatever_is_damaged_the_rest_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
