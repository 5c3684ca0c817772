/* A salvage of a namespace: what is not in its notes is as it was, and what it says of the rest is right. */
#include "scenario.h"

#include "api/salvage.h"
#include "core/identity.h"
#include "support/salvage_rig.h"

#define SEGMENT "0000000000000000.segment"

struct notes {
    uint64_t counts[SALVAGE_NOTE_COUNT];
    char names[SALVAGE_NOTE_COUNT][64]; /* of the last of each kind */
};

static void on_note(void *context, const struct salvage_note *note)
{
    struct notes *notes = context;
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

/* The world goes on with the new folder. The server is down. */
static struct notes salvage_world(struct world *world)
{
    struct notes notes = {{0}, {{0}}};
    const struct salvage_options options = {.name = "000000000000", .tell = on_note, .context = &notes};
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

/* Its queue was created in a frame that is lost: the message is there, in a queue that is named after the lost one's number. */
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
        cmocka_unit_test(a_message_whose_queue_is_not_known_is_kept),
        cmocka_unit_test(numbers_go_on_far_behind_what_may_have_been_given_out),
        cmocka_unit_test(the_start_of_a_damaged_snapshot_has_the_queues),
        cmocka_unit_test(whatever_is_damaged_the_rest_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
