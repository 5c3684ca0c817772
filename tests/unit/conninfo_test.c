#include "conninfo/conninfo.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What libpq takes for a host, a port or a name may be the rest of a password that was not encoded. */
static void a_connection_that_can_not_be_read_is_never_repeated(void **state)
{
    static const char *const connections[] = {
        "postgres://app:hunter@2hunter@db/shop",
        "postgres://app:hunter@hunter/2@db/shop",
        "postgres://app:hunter/hunter2@db/shop",
        "postgres://app:hunter2/shop",
        "postgresql://app:%zzhunter@db/shop",
        "postgres://app:x@[::1/hunter",
        "postgres://app:x@db/shop?hunter=2",
        "postgres://app:x?hunter/2@db/shop",
        "host=db password=x hunter2",
        "host=db password=x hunter=2",
        "host=db password='hunter",
    };
    (void)state;
    for (size_t i = 0; i < sizeof connections / sizeof connections[0]; i++) {
        char wrong[CONNINFO_WRONG_SIZE];
        struct buffer shown;
        buffer_init(&shown);
        assert_null(conninfo_parse(connections[i], wrong));
        assert_null(strstr(wrong, "hunter"));
        assert_non_null(strstr(wrong, "postgres://USER:PASSWORD@HOST:PORT/DATABASE, where @ : / ? # % and"));
        assert_true(strlen(wrong) < sizeof wrong - 1);
        conninfo_redact(connections[i], &shown);
        buffer_append_u8(&shown, 0);
        assert_null(strstr((const char *)shown.data_owned, "hunter"));
        buffer_deinit(&shown);
    }
}

static void a_connection_is_shown_without_its_password(void **state)
{
    static const char *const connections[][2] = {
        {"postgres://app:hunter%402@db:5433/shop", "user=app dbname=shop host=db port=5433"},
        {"postgresql://app:hunter?2@a:1,b:2/shop?options=-c%20x%3Dy@z",
         "user=app dbname=shop host=a,b port=1,2 options='-c x=y@z'"},
        {"postgres://%2Frun%2Fpostgresql/shop", "dbname=shop host=/run/postgresql"},
        {"host=db dbname=a@b password='hunter 2'", "dbname=a@b host=db"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof connections / sizeof connections[0]; i++) {
        char wrong[CONNINFO_WRONG_SIZE];
        struct buffer shown;
        buffer_init(&shown);
        PQconninfoOption *options = conninfo_parse(connections[i][0], wrong);
        assert_non_null(options);
        PQconninfoFree(options);
        conninfo_redact(connections[i][0], &shown);
        buffer_append_u8(&shown, 0);
        assert_string_equal((const char *)shown.data_owned, connections[i][1]);
        buffer_deinit(&shown);
    }
}

static void a_password_of_any_kind_is_a_secret(void **state)
{
    static const char *const with[] = {"postgres://app:hunter2@db/shop", "postgres://db/shop?sslpassword=hunter2"};
    static const char *const without[] = {"postgres://app@db/shop", "host=db sslkey=/etc/key password=''"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char wrong[CONNINFO_WRONG_SIZE];
        PQconninfoOption *one = conninfo_parse(with[i], wrong), *other = conninfo_parse(without[i], wrong);
        assert_non_null(one);
        assert_non_null(other);
        assert_true(conninfo_has_secret(one));
        assert_false(conninfo_has_secret(other));
        PQconninfoFree(one);
        PQconninfoFree(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_can_not_be_read_is_never_repeated),
        cmocka_unit_test(a_connection_is_shown_without_its_password),
        cmocka_unit_test(a_password_of_any_kind_is_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
