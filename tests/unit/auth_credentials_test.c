/* The text of credentials: what is read from it, and what is refused without repeating a secret. */
#include "auth/credentials.h"
#include "auth/patterns.h"

#include "base/assert.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct credentials *parsed(const char *text)
{
    struct credentials *credentials = NULL;
    struct failure failure = {0};
    if (credentials_parse(bytes_from_string(text), &credentials, &failure) != OK)
        fail_msg("%s", failure.text);
    return credentials;
}

static const struct credential *find(const struct credentials *credentials, const char *access_key)
{
    return credentials_find(credentials, bytes_from_string(access_key));
}

static void a_line_says_who_and_what(void **state)
{
    (void)state;
    struct credentials *credentials =
        parsed("# who may do what\n"
               "\n"
               "AKIA_one-1\ts#cret/+=  000000000000 read,write # of the shop\r\n"
               "   AKIA2 two 123456789012 admin queues=orders-*,refunds.fifo token=t0=k/n\n"
               "  # AKIA3 three 000000000000 read\n"
               "AKIA4 four 000000000000 admin,read,write,read");
    assert_int_equal(credentials_count(credentials), 3);
    const struct credential *first = find(credentials, "AKIA_one-1");
    assert_true(bytes_equal(first->secret, BYTES("s#cret/+=")));
    assert_true(bytes_equal(first->namespace_name, BYTES("000000000000")));
    assert_int_equal(first->rights, RIGHT_READ | RIGHT_WRITE);
    assert_int_equal(first->token.size, 0);
    const struct credential *second = find(credentials, "AKIA2");
    assert_int_equal(second->rights, RIGHT_ADMIN);
    assert_true(bytes_equal(second->namespace_name, BYTES("123456789012")));
    assert_true(bytes_equal(second->token, BYTES("t0=k/n")));
    assert_int_equal(find(credentials, "AKIA4")->rights, RIGHT_ANY);
    assert_null(find(credentials, "AKIA3"));
    assert_null(find(credentials, "akia2"));
    assert_null(find(credentials, ""));
    credentials_destroy(credentials);
}

static void patterns_name_the_queues(void **state)
{
    (void)state;
    struct credentials *credentials = parsed("all s 000000000000 read\n"
                                             "some s 000000000000 read queues=orders-*,refunds.fifo\n"
                                             "stars s 000000000000 read queues=*a*b*,**c\n");
    static const struct {
        const char *access_key, *name;
        bool is_covered;
    } rows[] = {
        {"all", "anything", true},      {"some", "orders-", true},   {"some", "orders-7", true},
        {"some", "orders", false},      {"some", "Orders-7", false}, {"some", "my-orders-7", false},
        {"some", "refunds.fifo", true}, {"some", "refunds", false},  {"some", "refundsxfifo", false},
        {"stars", "ab", true},          {"stars", "xxaxxbxx", true}, {"stars", "ba", false},
        {"stars", "c", true},           {"stars", "cc", true},       {"stars", "cd", false},
        {"stars", "abba", true},        {"stars", "", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (credential_covers(find(credentials, rows[i].access_key), bytes_from_string(rows[i].name)) !=
            rows[i].is_covered)
            fail_msg("%s, %s", rows[i].access_key, rows[i].name);
    credentials_destroy(credentials);
}

static void patterns_tell_which_name_could_fit_next(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *name, *next; /* NULL: none */
    } rows[] = {
        {"orders-*", "a", "orders-"},
        {"orders-*", "orders-", "orders-"},
        {"orders-*", "orders-9", "orders-9"},
        {"orders-*", "orders.", NULL},
        {"b,a*z,c*", "a1", "a1"},
        {"b,a*z,c*", "aa", "aa"},
        {"b,a*z,c*", "az9", "az9"},
        {"c*,b", "a", "b"},
        {"c*,b", "b", "b"},
        {"c*,b", "b0", "c"},
        {"c*,b", "cc", "cc"},
        {"c*,b", "d", NULL},
        {"c*,*b", "d", "d"},
        {"orders", "orders", "orders"},
        {"orders", "orders-1", NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct bytes name = bytes_from_string(rows[i].name);
        const struct bytes next = patterns_next(bytes_from_string(rows[i].patterns), name);
        if (rows[i].next == NULL ? next.ptr != NULL : !bytes_equal(next, bytes_from_string(rows[i].next)))
            fail_msg("%s from %s on: %.*s", rows[i].patterns, rows[i].name, BYTES_FORMAT(next));
        if (bytes_equal(next, name) && next.ptr != NULL)
            assert_ptr_equal(next.ptr, name.ptr);
    }
}

static void a_fault_is_named_with_its_line_and_without_the_secret(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "no credential"},
        {"# nothing\n\n", "no credential"},
        {"key", "line 1: a credential is"},
        {"key SECRET 000000000000", "line 1: a credential is"},
        {"key SECRET 000000000000 # read", "line 1: a credential is"},
        {"\n\nk/y SECRET 000000000000 read", "line 3: the access key"},
        {"key SE\x7f"
         "CRET 000000000000 read",
         "line 1: the secret"},
        {"key SECRET 00000000000 read", "line 1: the namespace"},
        {"key SECRET 00000000000x read", "line 1: the namespace"},
        {"key SECRET SECRET 000000000000 read", "line 1: the namespace"},
        {"key SECRET 000000000000 SECRET", "line 1: the rights"},
        {"key SECRET 000000000000 read,,write", "line 1: the rights"},
        {"key SECRET 000000000000 Read", "line 1: the rights"},
        {"key SECRET 000000000000 read SECRET", "line 1: behind the rights"},
        {"key SECRET 000000000000 read queues=", "line 1: a pattern"},
        {"key SECRET 000000000000 read queues=a,,b", "line 1: a pattern"},
        {"key SECRET 000000000000 read queues=a?", "line 1: a pattern"},
        {"key SECRET 000000000000 read queues=a queues=b", "line 1: queues= stands twice"},
        {"key SECRET 000000000000 read token=", "line 1: the token"},
        {"key SECRET 000000000000 read token=a token=b", "line 1: token= stands twice"},
        {"key SECRET 000000000000 read\nkey OTHER 000000000000 read", "line 2: another line"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct credentials *credentials = NULL;
        struct failure failure = {0};
        enum error error = credentials_parse(bytes_from_string(rows[i].text), &credentials, &failure);
        if (error != ERROR_INVALID_PARAMETER_VALUE || strstr(failure.text, rows[i].words) == NULL ||
            strstr(failure.text, "SECRET") != NULL || credentials != NULL)
            fail_msg("%s: %s", rows[i].text, failure.text);
    }
}

/* A line with an access key and a secret of that many characters, and as many patterns. */
static enum error parse_sizes(size_t access_key_size, size_t secret_size, size_t pattern_count)
{
    char text[1024] = "";
    size_t size = 0;
    memset(text, 'k', access_key_size);
    size += access_key_size;
    text[size++] = ' ';
    memset(text + size, 's', secret_size);
    size += secret_size;
    size += (size_t)sprintf(text + size, " 000000000000 read queues=a");
    for (size_t i = 1; i < pattern_count; i++)
        size += (size_t)sprintf(text + size, ",a");
    struct credentials *credentials = NULL;
    enum error error = credentials_parse(bytes_make(text, size), &credentials, NULL);
    credentials_destroy(credentials);
    return error;
}

static void limits_are_where_they_are_said_to_be(void **state)
{
    (void)state;
    assert_int_equal(parse_sizes(128, 128, 100), OK);
    assert_int_equal(parse_sizes(129, 128, 100), ERROR_INVALID_PARAMETER_VALUE);
    assert_int_equal(parse_sizes(128, 129, 100), ERROR_INVALID_PARAMETER_VALUE);
    assert_int_equal(parse_sizes(128, 128, 101), ERROR_INVALID_PARAMETER_VALUE);
}

static void a_hundred_thousand_credentials_are_found_and_no_more_taken(void **state)
{
    (void)state;
    size_t room = (CREDENTIALS_COUNT_MAX + 1) * (size_t)48, size = 0;
    char *text = malloc(room);
    for (unsigned i = 0; i < CREDENTIALS_COUNT_MAX; i++)
        size += (size_t)snprintf(text + size, room - size, "key-%u secret-%u 000000000000 read\n", i, i);
    struct credentials *credentials = NULL;
    assert_int_equal(credentials_parse(bytes_make(text, size), &credentials, NULL), OK);
    assert_true(bytes_equal(find(credentials, "key-99999")->secret, BYTES("secret-99999")));
    credentials_destroy(credentials);
    size += (size_t)snprintf(text + size, room - size, "one-more s 000000000000 read\n");
    struct failure failure = {0};
    assert_int_equal(credentials_parse(bytes_make(text, size), &credentials, &failure), ERROR_INVALID_PARAMETER_VALUE);
    assert_non_null(strstr(failure.text, "line 100001: there are more than 100000"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_who_and_what),
        cmocka_unit_test(patterns_name_the_queues),
        cmocka_unit_test(patterns_tell_which_name_could_fit_next),
        cmocka_unit_test(a_fault_is_named_with_its_line_and_without_the_secret),
        cmocka_unit_test(limits_are_where_they_are_said_to_be),
        cmocka_unit_test(a_hundred_thousand_credentials_are_found_and_no_more_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
