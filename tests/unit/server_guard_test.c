#include "server/guard.h"

#include "base/assert.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(struct own_names *names, const char *text)
{
    struct authority name;
    assert_true(authority_parse(bytes_from_string(text), &name));
    assert_true(own_names_add(names, &name));
}

static const struct {
    const char *host;
    bool is_own;
} hosts[] = {
    /* loopback addresses */
    {"127.0.0.1", true},
    {"127.0.0.1:9324", true},
    {"127.0.0.1.", true},
    {"127.255.255.254:1", true},
    {"[::1]", true},
    {"[::1]:9324", true},
    {"[0:0:0:0:0:0:0:1]", true},
    {"[::ffff:127.0.0.1]:9324", true},
    {"[::ffff:7f00:1]", true},
    {"[::FFFF:127.9.9.9]", true},
    /* localhost, and what is under it */
    {"localhost", true},
    {"LocalHost:9324", true},
    {"localhost.", true},
    {"tally.localhost:9324", true},
    {"a.b.LOCALHOST.", true},
    /* those that were given */
    {"tally", true},
    {"TALLY:9324", true},
    {"tally.", true},
    {"queues.example.com", true},
    {"10.1.2.3:80", true},
    {"[fd00::5]:9324", true},
    {"[fd00:0::0005]", true},
    /* others, most of which look like one of these */
    {"evil.example", false},
    {"evil.example:9324", false},
    {"127.0.0.1.evil.com", false},
    {"localhost.evil.com", false},
    {"evil-localhost", false},
    {"evillocalhost", false},
    {"localhost-evil", false},
    {"localhostevil.com", false},
    {"localhost.localdomain", false},
    {"tally.evil.com", false},
    {"evil.tally", false},
    {"tallyx", false},
    {"xtally", false},
    {"example.com", false},
    {"a.queues.example.com", false},
    /* what browsers and old libraries take for 127.0.0.1, and we don't */
    {"127.1", false},
    {"127", false},
    {"2130706433", false},
    {"0x7f.1", false},
    {"0x7f000001", false},
    {"0177.0.0.1", false},
    {"127.0.0.01", false},
    {"127.000.000.001", false},
    {"127.0.0.256", false},
    {"127.0.0.1.1", false},
    {"0", false},
    {"0.0.0.0", false},
    {"[::]", false},
    {"[::2]", false},
    {"[::127.0.0.1]", false},
    {"[::ffff:126.0.0.1]", false},
    {"[::ffff:128.0.0.1]", false},
    {"[64:ff9b::127.0.0.1]", false},
    {"[1::1]", false},
    {"128.0.0.1", false},
    {"126.255.255.255", false},
    {"1.127.0.0", false},
    {"10.1.2.4", false},
    {"192.168.0.1", false},
    {"169.254.169.254", false},
    {"[fd00::6]", false},
    {"[fe80::1]", false},
};

static void fill(struct own_names *names)
{
    *names = (struct own_names){.given_count = 0};
    add(names, "Tally");
    add(names, "queues.example.com");
    add(names, "10.1.2.3");
    add(names, "[fd00::5]");
}

/* One guard for all, so that what it remembers of one Host lets no other one in. */
static void a_request_must_be_for_a_name_of_the_server(void **state)
{
    (void)state;
    struct own_names names;
    struct guard guard;
    fill(&names);
    guard_init(&guard, &names);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_LENGTH(hosts); i++) {
            struct failure failure = {.error = OK};
            struct request request = {.host = bytes_from_string(hosts[i].host)};
            if (guard_check(&guard, &request, &failure) != (hosts[i].is_own ? OK : ERROR_ACCESS_DENIED))
                fail_msg("%s is %staken for a name of the server", hosts[i].host, hosts[i].is_own ? "not " : "");
        }
    }
    /* Of HTTP/1.0 there may be none. */
    assert_int_equal(guard_check(&guard, &(struct request){.host = BYTES("")}, NULL), OK);
}

static void without_names_of_its_own_only_loopback_is_left(void **state)
{
    (void)state;
    const struct own_names names = {.given_count = 0};
    struct guard guard;
    guard_init(&guard, &names);
    assert_int_equal(guard_check(&guard, &(struct request){.host = BYTES("localhost:1")}, NULL), OK);
    assert_int_equal(guard_check(&guard, &(struct request){.host = BYTES("tally")}, NULL), ERROR_ACCESS_DENIED);
}

static const struct {
    const char *origin;
    const char *site;
    bool is_own;
} pages[] = {
    {"", "", true}, /* no browser */
    {"", "none", true},
    {"", "same-origin", true},
    {"http://localhost:9324", "", true},
    {"http://localhost:9324", "same-origin", true},
    {"http://LOCALHOST", "same-origin", true},
    {"http://app.localhost:3000", "same-origin", true},
    {"http://127.0.0.1:9324", "", true},
    {"http://[::1]:9324", "", true},
    {"https://queues.example.com", "same-origin", true},
    {"http://tally:9324", "", true},
    {"", "cross-site", false},
    {"", "same-site", false},
    {"", "Same-Origin", false},
    {"", "same-origin, same-origin", false},
    {"", "anything", false},
    {"http://localhost:9324", "cross-site", false},
    {"http://localhost:3000", "same-site", false},
    {"http://evil.example", "", false},
    {"http://evil.example", "same-origin", false},
    {"http://evil.example:9324", "none", false},
    {"https://evil.example", "cross-site", false},
    {"null", "", false},
    {"null", "same-origin", false},
    {"http://127.0.0.1.evil.com", "", false},
    {"http://localhost.evil.com", "", false},
    {"http://localhost@evil.com", "", false},
    {"http://evil.com#localhost", "", false},
    {"http://localhost/", "", false},
    {"http://localhost/path", "", false},
    {"http://localhost http://evil.example", "", false},
    {"http://localhost, http://evil.example", "", false},
    {"//localhost", "", false},
    {"localhost", "", false},
    {"file://", "", false},
    {"file://localhost", "", false},
    {"ftp://localhost", "", false},
    {"ws://localhost", "", false},
    {"chrome-extension://aaaabbbbccccddddeeeeffffgggghhhh", "", false},
    {"http://127.1", "", false},
    {"http://b\xc3\xbc"
     "cher.localhost",
     "", false},
};

static void a_request_of_a_page_must_be_of_a_page_of_the_servers_own_names(void **state)
{
    (void)state;
    struct own_names names;
    struct guard guard;
    fill(&names);
    guard_init(&guard, &names);
    for (size_t i = 0; i < ARRAY_LENGTH(pages); i++) {
        struct failure failure = {.error = OK};
        struct request request = {.host = BYTES("localhost:9324"),
                                  .origin = bytes_from_string(pages[i].origin),
                                  .fetch_site = bytes_from_string(pages[i].site)};
        if (guard_check(&guard, &request, &failure) != (pages[i].is_own ? OK : ERROR_ACCESS_DENIED))
            fail_msg("Origin '%s', Sec-Fetch-Site '%s'", pages[i].origin, pages[i].site);
    }
}

/* A link in a chat leads to the dashboard, whose files tell nothing. */
static void of_what_tells_nothing_only_the_host_counts(void **state)
{
    (void)state;
    const struct own_names names = {.given_count = 0};
    struct guard guard;
    struct failure failure;
    guard_init(&guard, &names);
    struct request request = {.host = BYTES("localhost:9324"), .fetch_site = BYTES("cross-site")};
    assert_int_equal(guard_check_host(&guard, &request, &failure), OK);
    assert_int_equal(guard_check(&guard, &request, &failure), ERROR_ACCESS_DENIED);
    request.host = BYTES("evil.example");
    assert_int_equal(guard_check_host(&guard, &request, &failure), ERROR_ACCESS_DENIED);
    assert_non_null(strstr(failure.text, "--allow-host evil.example"));
}

/* The text is what people have in their hands: the value as it came, and the flag as they would write it. */
static void the_refusal_names_the_host_and_the_flag(void **state)
{
    (void)state;
    const struct own_names names = {.given_count = 0};
    struct guard guard;
    struct failure failure;
    guard_init(&guard, &names);
    assert_int_equal(guard_check(&guard, &(struct request){.host = BYTES("tally.:9324")}, &failure),
                     ERROR_ACCESS_DENIED);
    assert_non_null(strstr(failure.text, "Host 'tally.:9324'"));
    assert_non_null(strstr(failure.text, "--allow-host tally,"));
    assert_non_null(strstr(failure.text, "--credentials"));
    char longest[AUTHORITY_HOST_SIZE_MAX + 1];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(guard_check(&guard, &(struct request){.host = bytes_from_string(longest)}, &failure),
                     ERROR_ACCESS_DENIED);
    assert_non_null(strstr(failure.text, "--allow-host NAME, or with --credentials."));
    assert_null(strstr(failure.text, "aaaa"));
}

static void what_it_repeats_of_a_page_is_plain_text(void **state)
{
    (void)state;
    const struct own_names names = {.given_count = 0};
    struct guard guard;
    struct failure failure;
    guard_init(&guard, &names);
    struct request request = {.host = BYTES("localhost"), .origin = BYTES("http://\xff\xfe")};
    assert_int_equal(guard_check(&guard, &request, &failure), ERROR_ACCESS_DENIED);
    assert_non_null(strstr(failure.text, "(Origin: ...)"));
    request = (struct request){.host = BYTES("localhost"), .origin = BYTES("https://evil.example")};
    assert_int_equal(guard_check(&guard, &request, &failure), ERROR_ACCESS_DENIED);
    assert_non_null(strstr(failure.text, "(Origin: https://evil.example)"));
}

static void no_more_names_fit_than_it_says(void **state)
{
    (void)state;
    struct own_names names = {.given_count = 0};
    for (size_t i = 0; i < OWN_NAMES_MAX; i++)
        add(&names, "a");
    assert_false(own_names_add(&names, &(struct authority){.host = BYTES("b")}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_must_be_for_a_name_of_the_server),
        cmocka_unit_test(without_names_of_its_own_only_loopback_is_left),
        cmocka_unit_test(a_request_of_a_page_must_be_of_a_page_of_the_servers_own_names),
        cmocka_unit_test(of_what_tells_nothing_only_the_host_counts),
        cmocka_unit_test(the_refusal_names_the_host_and_the_flag),
        cmocka_unit_test(what_it_repeats_of_a_page_is_plain_text),
        cmocka_unit_test(no_more_names_fit_than_it_says),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
