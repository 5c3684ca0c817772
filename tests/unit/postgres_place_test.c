/* Where a log is that is not in the database of its cluster, as a row says it and as a node uses it. */
#include "postgres/place.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CLUSTER                                                                                                        \
    "postgres://tally:se'cr%20et%5C@10.0.0.3:5433,10.0.0.4:5434/tally?sslmode=require&hostaddr=10.0.0.3,10.0.0.4"

/* What libpq makes of the completed string for that keyword; "" for nothing. */
static void check(const char *place, const char *keyword, const char *wanted)
{
    char *complete = pg_place_complete(place, CLUSTER);
    PQconninfoOption *options = PQconninfoParse(complete, NULL);
    assert_non_null(options);
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++)
        if (strcmp(option->keyword, keyword) == 0)
            assert_string_equal(option->val == NULL ? "" : option->val, wanted);
    PQconninfoFree(options);
    free(complete);
}

static void a_place_is_completed_by_all_that_the_cluster_says_but_where_it_is(void **state)
{
    (void)state;
    const char *place = "postgres://10.0.0.5/other";
    check(place, "host", "10.0.0.5");
    check(place, "hostaddr", "");
    check(place, "port", "");
    check(place, "dbname", "other");
    check(place, "user", "tally");
    check(place, "password", "se'cr et\\");
    check(place, "sslmode", "require");
}

static void what_a_place_says_itself_counts(void **state)
{
    (void)state;
    const char *place = "host=/run/pg dbname='o\\'ne' user=somebody sslmode=disable port=7";
    check(place, "host", "/run/pg");
    check(place, "dbname", "o'ne");
    check(place, "user", "somebody");
    check(place, "sslmode", "disable");
    check(place, "port", "7");
    check(place, "password", "se'cr et\\");
}

static void what_can_not_be_read_stays_as_it_is(void **state)
{
    (void)state;
    char *complete = pg_place_complete("no = = place", CLUSTER);
    assert_string_equal(complete, "no = = place");
    free(complete);
}

static void check_refused(const char *place, const char *reason)
{
    struct failure failure;
    failure_init(&failure);
    assert_int_equal(pg_place_check(place, &failure), ERROR_INVALID_PARAMETER_VALUE);
    assert_non_null(strstr(failure.text, reason));
    assert_null(strstr(failure.text, "se'cret"));
}

static void a_place_names_host_and_database_and_no_password(void **state)
{
    (void)state;
    struct failure failure;
    failure_init(&failure);
    assert_int_equal(pg_place_check("postgres://one,two:5433/tally", &failure), OK);
    assert_int_equal(pg_place_check("hostaddr=10.0.0.5 dbname=tally", &failure), OK);
    check_refused("postgres://u:se'cret@one/tally", "password");
    check_refused("postgres:///tally", "no host");
    check_refused("postgres://one", "no database");
    check_refused("one/tally", "can't be read");
    check_refused("", "no host");
    char longer[PG_PLACE_SIZE + 64] = "host=one dbname=tally application_name=";
    const size_t used = strlen(longer);
    memset(longer + used, 'x', PG_PLACE_SIZE - used);
    check_refused(longer, "longer than 1,023 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_completed_by_all_that_the_cluster_says_but_where_it_is),
        cmocka_unit_test(what_a_place_says_itself_counts),
        cmocka_unit_test(what_can_not_be_read_stays_as_it_is),
        cmocka_unit_test(a_place_names_host_and_database_and_no_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
