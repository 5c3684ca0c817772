/* The count of kept memory against a core in all its states: what it has taken is what it gives back. */
#include "base/accounted.h"
#include "core/core.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_core_gives_back_all_that_it_has_taken(void **state)
{
    (void)state;
    size_t before = accounted_in_use();
    for (uint64_t seed = 1; seed <= scaled(20); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned i = 0; i < 1500; i++)
            core_rig_step(&rig);
        assert_true(accounted_in_use() > before);
        core_rig_deinit(&rig);
        assert_int_equal(accounted_in_use(), before);
    }
}

/* Which is what restarts do: the live core and the one that replays its log need about the same. */
static void a_replayed_core_takes_about_as_much(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(20); seed++) {
        struct core_rig rig;
        size_t before = accounted_in_use();
        core_rig_init(&rig, seed);
        for (unsigned i = 0; i < 1500; i++)
            core_rig_step(&rig);
        size_t live = accounted_in_use() - before;
        struct core *replayed = core_rig_replay(&rig);
        size_t again = accounted_in_use() - before - live;
        assert_true(again > live / 2 && again < live * 2);
        core_destroy(replayed);
        assert_int_equal(accounted_in_use() - before, live);
        core_rig_deinit(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_gives_back_all_that_it_has_taken),
        cmocka_unit_test(a_replayed_core_takes_about_as_much),
    };
    return cmocka_run_group_tests_name("core: memory", tests, NULL, NULL);
}
