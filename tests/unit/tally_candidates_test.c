/* What fits at the cursor of a command line, by a small table of commands. */
#include "base/assert.h"
#include "tally/candidates.h"
#include "tally/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct option_row send_options[] = {
    {"batch", "ID", "its batch", OPTION_TEXT, 0, 0, NULL},
    {"lines", NULL, "each line", OPTION_FLAG, 0, 0, NULL},
    {"rules", "FILE", "a file", OPTION_TEXT, 0, 0, NULL},
    {"verify", "yes|no", "or not", OPTION_TEXT, 0, 0, NULL},
};

const struct command_row commands[] = {
    {.name = "queue create", .summary = "make", .arguments = "NAME [ATTRIBUTE=VALUE...]", .arguments_max = -1},
    {.name = "queue show", .summary = "show", .arguments = "QUEUE", .arguments_max = 1},
    {.name = "send",
     .summary = "put",
     .arguments = "QUEUE BODY|-",
     .arguments_max = 2,
     .options = send_options,
     .option_count = ARRAY_LENGTH(send_options)},
    {.name = "commit", .summary = "all", .arguments = "[QUEUE BODY|-]...", .arguments_max = -1},
    {.name = "work", .summary = "run", .arguments = "--queue QUEUE", .arguments_max = 0, .takes_program = true},
    {.name = "pool delete", .summary = "end", .arguments = "NAME", .arguments_max = 1},
    {.name = "relay resolve", .summary = "so", .arguments = "NAME ID send|drop", .arguments_max = 3},
    {.name = "batch add", .summary = "more", .arguments = "ID KEY...|-", .arguments_max = -1},
};
const size_t command_count = ARRAY_LENGTH(commands);

const struct option_row options_common[] = {
    {"endpoint", "URL", "where", OPTION_TEXT, 0, 0, NULL},
    {"ca-file", "FILE", "who", OPTION_TEXT, 0, 0, NULL},
    {"json", NULL, "so", OPTION_FLAG, 0, 0, NULL},
};
const size_t options_common_count = ARRAY_LENGTH(options_common);

static struct candidates found;

static enum candidate_names find(int count, const char *const *words)
{
    candidates_deinit(&found);
    candidates_find(&found, count, (char *const *)words);
    buffer_append_u8(&found.lines, '\0');
    return found.names;
}

#define FIND(...) find(ARRAY_LENGTH(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})

#define ASSERT_LINES(wanted, ...)                                                                                      \
    do {                                                                                                               \
        assert_int_equal(FIND(__VA_ARGS__), NAMES_NONE);                                                               \
        assert_string_equal((const char *)found.lines.data_owned, wanted);                                             \
    } while (0)

static void names_of_commands_are_completed_word_by_word(void **state)
{
    (void)state;
    ASSERT_LINES("queue\ta group of commands\n", "q");
    ASSERT_LINES("create\tmake\nshow\tshow\n", "queue", "");
    ASSERT_LINES("show\tshow\n", "queue", "sh");
    ASSERT_LINES("", "queue", "x");
    ASSERT_LINES("", "nothing", "x");
    ASSERT_LINES("send\tput\n", "--json", "--endpoint", "http://x", "se");
    assert_string_equal(found.endpoint, "http://x");
    assert_int_equal(find(0, NULL), NAMES_NONE);
}

static void arguments_are_what_the_usage_line_calls_them(void **state)
{
    (void)state;
    assert_int_equal(FIND("queue", "show", "o"), NAMES_OF_QUEUES);
    assert_string_equal(found.prefix, "o");
    assert_int_equal(FIND("send", ""), NAMES_OF_QUEUES);
    assert_int_equal(FIND("send", "--lines", "--batch", "b", ""), NAMES_OF_QUEUES);
    ASSERT_LINES("", "send", "q", "");
    assert_int_equal(FIND("commit", "a", "b", ""), NAMES_OF_QUEUES);
    ASSERT_LINES("", "commit", "a", "");
    assert_int_equal(FIND("pool", "delete", ""), NAMES_OF_POOLS);
    assert_int_equal(FIND("relay", "resolve", ""), NAMES_OF_RELAYS);
    ASSERT_LINES("", "relay", "resolve", "r", "");
    ASSERT_LINES("send\t\ndrop\t\n", "relay", "resolve", "r", "1", "");
    ASSERT_LINES("drop\t\n", "relay", "resolve", "r", "1", "d");
    assert_int_equal(FIND("batch", "add", ""), NAMES_OF_BATCHES);
    ASSERT_LINES("", "batch", "add", "b", "k", "");
    ASSERT_LINES("", "queue", "create", "");
}

static void options_and_their_values_are_completed(void **state)
{
    (void)state;
    ASSERT_LINES("--lines\teach line\n", "send", "--l");
    ASSERT_LINES("--endpoint\twhere\n--ca-file\twho\n--json\tso\n", "--");
    assert_int_equal(FIND("send", "--batch", "n"), NAMES_OF_BATCHES);
    assert_int_equal(FIND("send", "--batch=n"), NAMES_OF_BATCHES);
    assert_memory_equal(found.stem.ptr, "--batch=", found.stem.size);
    assert_string_equal(found.prefix, "n");
    assert_int_equal(FIND("send", "--rules", ""), NAMES_OF_FILES);
    assert_int_equal(FIND("--ca-file", ""), NAMES_OF_FILES);
    ASSERT_LINES("--verify=yes\t\n", "send", "--verify=y");
    ASSERT_LINES("", "send", "--nothing=");
    assert_int_equal(FIND("send", "--endpoint=http://y", ""), NAMES_OF_QUEUES);
    assert_string_equal(found.endpoint, "http://y");
}

static void behind_two_hyphens_there_is_no_option(void **state)
{
    (void)state;
    assert_int_equal(FIND("work", "--", "x", "--l"), NAMES_OF_FILES);
    assert_int_equal(FIND("send", "--", ""), NAMES_OF_QUEUES);
    ASSERT_LINES("", "send", "--", "q", "--l");
    ASSERT_LINES("--endpoint\twhere\n--ca-file\twho\n--json\tso\n", "work", ""); /* nothing else can follow */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_commands_are_completed_word_by_word),
        cmocka_unit_test(arguments_are_what_the_usage_line_calls_them),
        cmocka_unit_test(options_and_their_values_are_completed),
        cmocka_unit_test(behind_two_hyphens_there_is_no_option),
    };
    const int status = cmocka_run_group_tests(tests, NULL, NULL);
    candidates_deinit(&found);
    return status;
}
