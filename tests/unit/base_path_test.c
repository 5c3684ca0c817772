/* The folder that a path lies in. */
#include "base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void lies_in(const char *path, const char *wanted)
{
    char parent[PATH_MAX];
    assert_true(path_parent(path, parent));
    assert_string_equal(parent, wanted);
}

static void it_is_what_stands_before_the_last_part(void **state)
{
    (void)state;
    lies_in("/var/lib/tally", "/var/lib");
    lies_in("/var/lib/tally//", "/var/lib");
    lies_in("data/backups", "data");
    lies_in("data", ".");
    lies_in("data/", ".");
    lies_in("/data", "/");
    lies_in("/", "/");
    lies_in("//", "/");
}

static void a_path_that_is_none_has_no_folder(void **state)
{
    (void)state;
    char parent[PATH_MAX], path[PATH_MAX + 1];
    assert_false(path_parent("", parent));
    memset(path, 'a', PATH_MAX);
    path[PATH_MAX] = '\0';
    assert_false(path_parent(path, parent));
    path[PATH_MAX - 1] = '\0';
    lies_in(path, ".");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_stands_before_the_last_part),
        cmocka_unit_test(a_path_that_is_none_has_no_folder),
    };
    return cmocka_run_group_tests_name("base: paths", tests, NULL, NULL);
}
