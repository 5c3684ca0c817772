/* Fair queues: when a group has so much in flight that the others go first. */
#include "dependency.h"

static void send_many(struct core_rig *rig, const char *group, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(send_alone(rig, "fair", group, "", NULL, AFTER_FAILURE_CANCEL), OK);
}

/* The number of the next message. */
static uint64_t take(struct core_rig *rig, struct received_message *message)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    core_rig_begin(rig);
    struct queue *queue = core_find_queue(rig->core, BYTES("fair"));
    assert_int_equal(decide_receive(rig->core, queue, 1, 30000, 120000, messages, &count), OK);
    core_rig_end(rig);
    assert_int_equal(count, 1);
    *message = messages[0];
    return messages[0].handle.message;
}

static void take_many(struct core_rig *rig, unsigned count)
{
    struct received_message message;
    for (unsigned i = 0; i < count; i++)
        (void)take(rig, &message);
}

/* A tenth of what is in flight is its due, and 30 are always. */
static void a_group_with_more_than_its_share_in_flight_comes_last(void **state)
{
    (void)state;
    const struct {
        unsigned others, own; /* in flight */
        bool is_noisy;
    } tries[] = {
        {0, 1, false},    {0, 29, false},  {0, 30, true},    {1, 29, false},  {269, 29, false},  {269, 30, true},
        {270, 30, false}, {270, 31, true}, {279, 31, false}, {278, 31, true}, {1000, 30, false},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct core_rig rig;
        core_rig_init(&rig, 1);
        make_queue(&rig, "fair", false, NULL);
        send_many(&rig, "", tries[i].others);
        take_many(&rig, tries[i].others);
        send_many(&rig, "a", tries[i].own + 1);
        uint64_t loud = newest.number;
        take_many(&rig, tries[i].own);
        send_many(&rig, "b", 1);
        uint64_t quiet = newest.number;
        struct received_message message;
        uint64_t first = take(&rig, &message), second = take(&rig, &message);
        if (first != (tries[i].is_noisy ? quiet : loud) || second != (tries[i].is_noisy ? loud : quiet))
            fail_msg("%u: %u of %u in flight, %s", i, tries[i].own, tries[i].own + tries[i].others,
                     first == quiet ? "noisy" : "not noisy");
        judge(&rig);
        core_rig_deinit(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_with_more_than_its_share_in_flight_comes_last),
    };
    return cmocka_run_group_tests_name("core noisy group", tests, NULL, NULL);
}
