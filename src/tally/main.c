/* tally: the command line tool. Finds the command, parses its options, runs it. */
#include "base/memory.h"
#include "tally/commands.h"
#include "tally/completion.h"
#include "tally/help.h"
#include "tally/manual.h"
#include "tally/request.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_command(const struct command_row *row, int count, char **words)
{
    struct invocation invocation = {.row = row};
    bool wants_help = false;
    int status;

    invocation.settings = memory_allocate_zeroed(row->command->settings_size);
    status = options_parse(&invocation, count, words, &wants_help);
    if (wants_help)
        help_command(stdout, row);
    else if (status == EXIT_DONE)
        status = row->command->run == NULL ? request_run(&invocation) : row->command->run(&invocation);
    tally_client_destroy(invocation.client);
    free(invocation.settings);
    return status;
}

static int show_help(int count, char **words)
{
    int name_count;
    const struct command_row *row = command_of_words(count, words, &name_count);
    if (row != NULL)
        help_command(stdout, row);
    else if (count > 0 && command_is_group(words[0]))
        help_group(stdout, words[0]);
    else
        help_overview(stdout);
    return EXIT_DONE;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* How many words at the beginning are options of every command, as in `tally --endpoint URL queue list`. */
static int count_leading_options(int count, char **words)
{
    int leading = 0;
    while (leading < count)
        if (strcmp(words[leading], "--json") == 0 || strncmp(words[leading], "--endpoint=", 11) == 0 ||
            strncmp(words[leading], "--ca-file=", 10) == 0)
            leading += 1;
        else if ((strcmp(words[leading], "--endpoint") == 0 || strcmp(words[leading], "--ca-file") == 0) &&
                 leading + 1 < count)
            leading += 2;
        else
            break;
    return leading;
}

/* Moves those options after the name of the command, like all others. */
static void move_options(int option_count, int name_count, char **words)
{
    for (int i = 0; i < name_count; i++) {
        char *word = words[option_count + i];
        memmove(words + i + 1, words + i, (size_t)option_count * sizeof *words);
        words[i] = word;
    }
}

/* Even if the rest is wrong: a program that asked for JSON reads the error, too. */
static bool wants_json(int count, char **words)
{
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        if (strcmp(words[i], "--json") == 0)
            return true;
    return false;
}

/* There is no such command. `words` begins with its name; the options before it are left out. */
static int complain_command(int count, char **words)
{
    if (count == 0)
        return complain_usage(NULL, "the command is missing behind the options; tally --help lists them");
    if (!command_is_group(words[0]))
        return complain_usage(NULL, "there is no command \"%s\"; tally --help lists them", words[0]);
    if (count > 1 && is_help(words[1]))
        return show_help(1, words);
    if (count > 1)
        return complain_usage(NULL, "there is no command \"%s %s\"; tally %s --help lists them", words[0], words[1],
                              words[0]);
    help_group(stderr, words[0]);
    return EXIT_USAGE;
}

static int dispatch(int count, char **words)
{
    int name_count, leading;
    const struct command_row *row;

    if (wants_json(count, words))
        complain_in_json();
    if (count == 0) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(words[0], "__complete") == 0)
        return completion_run(count - 1, words + 1);
    if (is_help(words[0]))
        return show_help(count - 1, words + 1);
    if (strcmp(words[0], "--version") == 0) {
        printf("tally %s\n", TALLY_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(words[0], "--manual") == 0 && count == 2) /* for the build */
        return manual_write_all(words[1]);
    leading = count_leading_options(count, words);
    row = command_of_words(count - leading, words + leading, &name_count);
    if (row == NULL)
        return complain_command(count - leading, words + leading);
    move_options(leading, name_count, words);
    return run_command(row, count - name_count, words + name_count);
}

/* If a standard stream is closed, the next file or socket that we open would take its place and receive what we print.
 * This descriptor can't be written to, either, so a program that checks for errors notices. */
static void open_standard_streams(void)
{
    int descriptor;
    while ((descriptor = open("/dev/null", O_RDONLY)) >= 0 && descriptor <= STDERR_FILENO)
        continue;
    close(descriptor);
}

int main(int argc, char **argv)
{
    int status;
    open_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* if the reader goes away, a write fails */
    status = dispatch(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno != EPIPE)
            complain("can't write to standard output: %s", strerror(errno));
        return status == EXIT_DONE ? EXIT_LOCAL : status;
    }
    return status;
}
