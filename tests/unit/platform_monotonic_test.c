#include "platform/monotonic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A system call takes seconds and what is left of them apart. */
static void a_pause_lasts_as_long_as_it_is_told(void **state)
{
    (void)state;
    static const uint64_t pauses_ms[] = {0, 3, 1001};
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        const uint64_t began_ms = monotonic_ms();
        sleep_for(pauses_ms[i]);
        assert_true(monotonic_ms() - began_ms >= pauses_ms[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_lasts_as_long_as_it_is_told),
    };
    return cmocka_run_group_tests_name("monotonic", tests, NULL, NULL);
}
