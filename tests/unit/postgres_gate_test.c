/* How often a PostgreSQL that can't be reached is tried, by many who want it. */
#include "postgres/gate.h"

#include "platform/monotonic.h"
#include "postgres/clock.h"
#include <stdatomic.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WAITERS 20
#define SPAN_MS 1000u

struct rig {
    struct pg_gate gate;
    uint64_t until_ms;
    atomic_uint tries, refused;
};

static void *try_on(void *argument)
{
    struct rig *rig = argument;
    struct failure failure;
    failure_init(&failure);
    while (pg_gate_pass(&rig->gate, false, rig->until_ms, &failure) == OK) {
        atomic_fetch_add(&rig->tries, 1);
        pg_gate_note(&rig->gate, "it is down");
    }
    assert_string_equal(failure.text, "it is down");
    atomic_fetch_add(&rig->refused, 1);
    return NULL;
}

static void wait_at(struct rig *rig)
{
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, try_on, rig), 0);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* On a busy machine a thread may stand still for longer than a pause. So each test is right, or tries again, however
 * long anything takes. */
#define TRIES_MAX 20

static bool is_shut(struct pg_gate *gate)
{
    struct failure failure;
    failure_init(&failure);
    for (int i = 0; i < TRIES_MAX; i++)
        if (pg_gate_pass(gate, false, pg_now_ms() + 1, &failure) == ERROR_SERVICE_UNAVAILABLE)
            return true;
    return false;
}

/* Those that are under way when it breaks, and then one after 20, 40, 80, 160, 160, ... ms; each may be late once. */
static void test_many_that_wait_make_few_tries(void **state)
{
    (void)state;
    struct rig rig = {.until_ms = pg_now_ms() + SPAN_MS};
    pg_gate_init(&rig.gate);
    wait_at(&rig);
    assert_in_range(atomic_load(&rig.tries), 2, 2 * WAITERS + 4 + SPAN_MS / PG_GATE_PAUSE_MAX_MS);
    assert_int_equal(atomic_load(&rig.refused), WAITERS);
    pg_gate_deinit(&rig.gate);
}

static void test_once_it_is_reached_all_go(void **state)
{
    (void)state;
    struct pg_gate gate;
    struct failure failure;
    failure_init(&failure);
    pg_gate_init(&gate);
    assert_int_equal(pg_gate_pass(&gate, false, pg_now_ms(), &failure), OK);
    enum error error = OK;
    uint64_t began_ms;
    do {
        pg_gate_note(&gate, NULL);
        began_ms = pg_now_ms();
        pg_gate_note(&gate, "it is down");
        error = pg_gate_pass(&gate, false, began_ms + 1, &failure);
    } while (error == OK && pg_now_ms() >= began_ms + PG_GATE_PAUSE_MS);
    assert_int_equal(error, ERROR_SERVICE_UNAVAILABLE);
    assert_int_equal(pg_gate_pass(&gate, false, UINT64_MAX, &failure), OK);
    assert_in_range(pg_now_ms(), began_ms + PG_GATE_PAUSE_MS, UINT64_MAX);
    assert_true(is_shut(&gate));
    pg_gate_note(&gate, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pg_gate_pass(&gate, false, pg_now_ms() + 1, &failure), OK);
    pg_gate_deinit(&gate);
}

static void *leave_open(void *gate)
{
    sleep_for(50);
    pg_gate_leave_open(gate);
    return NULL;
}

/* How long somebody waits at a gate that is left open after 50 ms, with 80 ms or more of its pause to go. */
static uint64_t wait_at_the_end(void)
{
    struct pg_gate gate;
    struct failure failure;
    failure_init(&failure);
    pg_gate_init(&gate);
    pg_gate_note(&gate, "it is down");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pg_gate_pass(&gate, false, UINT64_MAX, &failure), OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_open, &gate), 0);
    const uint64_t began_ms = pg_now_ms();
    assert_int_equal(pg_gate_pass(&gate, false, UINT64_MAX, &failure), OK);
    const uint64_t waited_ms = pg_now_ms() - began_ms;
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(pg_gate_pass(&gate, false, pg_now_ms(), &failure), OK);
    pg_gate_deinit(&gate);
    return waited_ms;
}

static void test_at_the_end_nobody_waits(void **state)
{
    (void)state;
    int tries = 1;
    while (wait_at_the_end() >= PG_GATE_PAUSE_MAX_MS)
        assert_in_range(++tries, 2, TRIES_MAX);
}

static void test_who_gives_way_waits_a_little_when_it_is_back(void **state)
{
    (void)state;
    struct pg_gate gate;
    struct failure failure;
    failure_init(&failure);
    pg_gate_init(&gate);
    pg_gate_note(&gate, NULL);
    assert_int_equal(pg_gate_pass(&gate, true, pg_now_ms() + 1, &failure), OK); /* it was never away */
    pg_gate_note(&gate, "it is down");
    assert_int_equal(pg_gate_pass(&gate, true, UINT64_MAX, &failure), OK);
    const uint64_t back_ms = pg_now_ms();
    pg_gate_note(&gate, NULL);
    if (pg_gate_pass(&gate, true, back_ms + 1, &failure) == OK)
        assert_in_range(pg_now_ms(), back_ms + PG_GATE_WAY_MS, UINT64_MAX);
    for (int i = 0; i < 100; i++)
        assert_int_equal(pg_gate_pass(&gate, false, pg_now_ms() + 1, &failure), OK);
    assert_int_equal(pg_gate_pass(&gate, true, UINT64_MAX, &failure), OK);
    assert_in_range(pg_now_ms(), back_ms + PG_GATE_WAY_MS, UINT64_MAX);
    assert_int_equal(pg_gate_pass(&gate, true, pg_now_ms() + 1, &failure), OK);
    pg_gate_deinit(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_that_wait_make_few_tries),
        cmocka_unit_test(test_once_it_is_reached_all_go),
        cmocka_unit_test(test_at_the_end_nobody_waits),
        cmocka_unit_test(test_who_gives_way_waits_a_little_when_it_is_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
