#include "conninfo/conninfo.h"
#include "conninfo/mysql_url.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_text(const char *text, const char *expected)
{
    if (expected == NULL)
        assert_null(text);
    else
        assert_string_equal(text, expected);
}

static void each_part_is_read_and_decoded(void **state)
{
    static const struct {
        const char *url, *user, *password, *host, *database, *socket, *ca;
        unsigned port;
        enum mysql_tls tls;
    } rows[] = {
        {"mysql://app:p%40ss%2f%3A@db:3307/shop", "app", "p@ss/:", "db", "shop", NULL, NULL, 3307, MYSQL_TLS_DISABLED},
        {"mariadb://app@db/shop", "app", NULL, "db", "shop", NULL, NULL, 0, MYSQL_TLS_DISABLED},
        {"mysql://app:@db/shop", "app", "", "db", "shop", NULL, NULL, 0, MYSQL_TLS_DISABLED},
        {"mysql:///shop", NULL, NULL, NULL, "shop", NULL, NULL, 0, MYSQL_TLS_DISABLED},
        {"mysql://localhost/shop?socket=/run/my%20sql@1", NULL, NULL, "localhost", "shop", "/run/my sql@1", NULL, 0,
         MYSQL_TLS_DISABLED},
        {"mysql://a:b@[::1]:3306/shop?ssl-mode=required", "a", "b", "::1", "shop", NULL, NULL, 3306,
         MYSQL_TLS_REQUIRED},
        {"mysql://a@db/shop?ssl-ca=/ca.pem", "a", NULL, "db", "shop", NULL, "/ca.pem", 0, MYSQL_TLS_VERIFY_IDENTITY},
        {"mysql://a@db/shop?ssl-ca=/ca.pem&ssl-mode=required", "a", NULL, "db", "shop", NULL, "/ca.pem", 0,
         MYSQL_TLS_REQUIRED},
        {"mysql://a@db/shop?ssl-mode=verify_identity&ssl-key=k&ssl-cert=c", "a", NULL, "db", "shop", NULL, NULL, 0,
         MYSQL_TLS_VERIFY_IDENTITY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mysql_url url;
        char wrong[MYSQL_URL_WRONG_SIZE] = "";
        assert_true(mysql_url_parse(&url, rows[i].url, wrong));
        assert_text(url.user_owned, rows[i].user);
        assert_text(url.password_owned, rows[i].password);
        assert_text(url.host_owned, rows[i].host);
        assert_text(url.database_owned, rows[i].database);
        assert_text(url.socket_owned, rows[i].socket);
        assert_text(url.ca_owned, rows[i].ca);
        assert_int_equal(url.port, rows[i].port);
        assert_int_equal(url.tls, rows[i].tls);
        mysql_url_deinit(&url);
    }
}

static void a_url_that_can_not_be_read_is_never_repeated(void **state)
{
    static const char *const urls[] = {
        "mysql://app:hunter@2hunter@db/shop",
        "mysql://app:hunter@hunter/2@db/shop",
        "mysql://app:hunter/hunter2@db/shop",
        "mysql://app:hunter2/shop",
        "mysql://app:x?hunter/2@db/shop",
        "mysql://app:%zzhunter@db/shop",
        "mysql://app:hunter%0@db/shop",
        "mysql://app:hunter%00@db/shop",
        "mysql://app:hunter@db/shop%",
        "mysql://app:hunter@db/",
        "mysql://app:hunter@db",
        "mysql://app:hunter@db/shop/hunter",
        "mysql://app:hunter@db:0/shop",
        "mysql://app:hunter@db:65536/shop",
        "mysql://app:hunter@db:99999999999999999999/shop",
        "mysql://app:hunter@db:/shop",
        "mysql://app:hunter@[::1/shop",
        "mysql://app:hunter@[::1]x:1/shop",
        "mysql://app:hunter@db/shop?ssl-mode=verify_ca",
        "mysql://app:hunter@db/shop?hunter=1",
        "mysql://app:hunter@db/shop?socket=",
        "mysql://app:hunter@db/shop?socket",
        "mysql:/app:hunter@db/shop",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct mysql_url url;
        char wrong[MYSQL_URL_WRONG_SIZE] = "";
        struct buffer shown;
        buffer_init(&shown);
        assert_false(mysql_url_parse(&url, urls[i], wrong));
        mysql_url_deinit(&url);
        assert_null(strstr(wrong, "hunter"));
        assert_non_null(strstr(wrong, "It must be mysql://USER:PASSWORD@HOST:PORT/DATABASE"));
        assert_true(strlen(wrong) < sizeof(wrong) - 1);
        mysql_url_redact(urls[i], &shown);
        buffer_append_u8(&shown, 0);
        assert_null(strstr((const char *)shown.data_owned, "hunter"));
        buffer_deinit(&shown);
    }
}

static void a_url_is_shown_without_its_password(void **state)
{
    static const char *const urls[][2] = {
        {"mysql://app:hunter%402@db:3307/shop", "mysql://app@db:3307/shop"},
        {"mysql://app:@db/shop", "mysql://app@db/shop"},
        {"mariadb://app@db:3307/shop?socket=/a:b@c", "mariadb://app@db:3307/shop?socket=/a:b@c"},
        {"mysql://db:3307/shop", "mysql://db:3307/shop"},
        {"mysql://a:hunter@[::1]:3306/shop?ssl-mode=required", "mysql://a@[::1]:3306/shop?ssl-mode=required"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct buffer shown;
        buffer_init(&shown);
        conninfo_redact(urls[i][0], &shown); /* which is what shows connections of all kinds */
        buffer_append_u8(&shown, 0);
        assert_string_equal((const char *)shown.data_owned, urls[i][1]);
        buffer_deinit(&shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_read_and_decoded),
        cmocka_unit_test(a_url_that_can_not_be_read_is_never_repeated),
        cmocka_unit_test(a_url_is_shown_without_its_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
