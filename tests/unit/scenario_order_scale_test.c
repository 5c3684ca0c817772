/* Scenarios T32, T41 and Q56: a huge group beside many small ones, a million groups that come and go, and what a
 * receive costs before a million that wait. */
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "scenario.h"

#include "support/core_rig.h"
#include <time.h>

#define GROUPS 100000u

static struct queue *make_line(struct core_rig *rig)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    struct queue *queue = decide_create_queue(core_rig_begin(rig), BYTES("q.fifo"), &settings);
    core_rig_end(rig);
    return queue;
}

static void put(struct core *core, struct queue *queue, struct bytes group)
{
    struct send_result result;
    const struct send_command command = {
        .queue = queue,
        .content = {.body = BYTES("b"), .group = group, .sender = BYTES("s")},
        .priority = PRIORITY_DEFAULT,
    };
    assert_int_equal(decide_send(core, &command, &result), OK);
}

/* Sends one message to each of `count` groups named after numbers from `first` on, in frames of a thousand. */
static void put_each(struct core_rig *rig, struct queue *queue, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count;) {
        struct core *core = core_rig_begin(rig);
        for (unsigned k = 0; k < 1000 && i < count; k++, i++) {
            char name[24];
            int size = snprintf(name, sizeof(name), "g%llu", (unsigned long long)(first + i));
            put(core, queue, bytes_make(name, (size_t)size));
        }
        core_rig_end(rig);
        core_rig_forget_log(rig);
    }
}

/* Receives ten and deletes them; returns how many came. */
static unsigned live_ten(struct core_rig *rig, struct queue *queue, struct received_message messages[RECEIVE_MAX])
{
    unsigned count;
    struct core *core = core_rig_begin(rig);
    assert_int_equal(decide_receive(core, queue, 10, 30000, 120000, messages, &count), OK);
    for (unsigned i = 0; i < count; i++) {
        char text[HANDLE_TEXT_SIZE];
        handle_to_text(core_digest(core), &messages[i].handle, text);
        assert_int_equal(decide_delete(core, queue, bytes_make(text, sizeof(text)), NULL), OK);
    }
    core_rig_end(rig);
    core_rig_forget_log(rig);
    return count;
}

static void T32_small_groups_keep_their_latency_beside_a_huge_one(void **state)
{
    (void)state;
    uint64_t small = scaled(GROUPS), large = small * 10;
    struct core_rig rig;
    core_rig_init(&rig, 32);
    struct queue *queue = make_line(&rig);
    for (uint64_t i = 0; i < large;) {
        struct core *core = core_rig_begin(&rig);
        for (unsigned k = 0; k < 1000 && i < large; k++, i++)
            put(core, queue, BYTES("huge"));
        core_rig_end(&rig);
        core_rig_forget_log(&rig);
    }
    put_each(&rig, queue, 0, small);
    /* The huge group stands in front and has its turn; then come the small ones, each of them before its second
     * turn. */
    struct received_message messages[RECEIVE_MAX];
    uint64_t of_small = 0, receives = 0;
    while (of_small < small) {
        unsigned count = live_ten(&rig, queue, messages);
        for (unsigned i = 0; i < count; i++)
            of_small += messages[i].handle.message > large;
        receives++;
        assert_true(receives <= small / 10 + 3);
    }
    while (live_ten(&rig, queue, messages) > 0) {
    }
    assert_int_equal(core_metrics(rig.core).messages, 0);
    core_rig_deinit(&rig);
}

static void T41_groups_that_were_emptied_leave_nothing(void **state)
{
    (void)state;
    uint64_t count = scaled(10 * GROUPS);
    struct core_rig rig;
    core_rig_init(&rig, 41);
    struct queue *queue = make_line(&rig);
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    core_rig_encode(rig.core, &before);
    put_each(&rig, queue, 0, count);
    assert_int_equal(core_metrics(rig.core).groups, count);
    struct received_message messages[RECEIVE_MAX];
    while (live_ten(&rig, queue, messages) > 0) {
    }
    assert_int_equal(core_metrics(rig.core).groups, 0);
    core_rig_encode(rig.core, &after);
    assert_int_equal(after.size, before.size); /* a snapshot has nothing of them: the log behind it can go */
    core_check(rig.core);
    buffer_deinit(&before);
    buffer_deinit(&after);
    core_rig_deinit(&rig);
}

/* --- Q56 ---------------------------------------------------------------------------------------------------------- */

/* Processor time, in nanoseconds, that it takes to receive and delete one of `waiting` messages in `groups` groups,
 * over all of them; the smallest of some rounds. */
static double drain_ns(uint64_t waiting, uint64_t groups, unsigned rounds)
{
    struct core_rig rig;
    double least_ns = 0;
    core_rig_init(&rig, 56);
    struct queue *queue = make_line(&rig);
    struct received_message messages[RECEIVE_MAX];
    for (unsigned round = 0; round < rounds; round++) {
        for (uint64_t sent = 0; sent < waiting; sent += groups)
            put_each(&rig, queue, 0, groups);
        clock_t began = clock();
        while (live_ten(&rig, queue, messages) > 0) {
        }
        double ns = (double)(clock() - began) * 1e9 / CLOCKS_PER_SEC / (double)waiting;
        if (round == 0 || ns < least_ns)
            least_ns = ns;
    }
    core_rig_deinit(&rig);
    return least_ns;
}

/* A walk over what waits would cost a thousand times more before a million than before a thousand; memory that no
 * longer fits the caches costs a few times more. */
#define DRAIN_FACTOR_MAX 6

static void Q56_a_drain_costs_the_same_before_a_million_as_before_a_thousand(void **state)
{
    (void)state;
    static const uint64_t depths[] = {216000, 1000000};
    double small_ns = drain_ns(1000, 100, 20);
    for (size_t i = 0; i < ARRAY_LENGTH(depths); i++) {
        double deep_ns = drain_ns(scaled(depths[i]) / 100 * 100, 100, 1);
        print_message("a message of 1000: %.0f ns, of %llu: %.0f ns\n", small_ns, (unsigned long long)depths[i],
                      deep_ns);
        assert_true(deep_ns < small_ns * DRAIN_FACTOR_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T32_small_groups_keep_their_latency_beside_a_huge_one),
        cmocka_unit_test(T41_groups_that_were_emptied_leave_nothing),
        cmocka_unit_test(Q56_a_drain_costs_the_same_before_a_million_as_before_a_thousand),
    };
    return cmocka_run_group_tests_name("scenario_order_scale", tests, NULL, NULL);
}
