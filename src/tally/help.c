#include "tally/help.h"

#include "base/assert.h"
#include "tally/commands.h"
#include <string.h>

const char help_first_steps[] =
    "First steps, with the server running (tallyd --data /some/folder):\n"
    "  tally queue create orders\n"
    "  tally send orders '{\"order\": 1}'\n"
    "  tally receive orders --delete\n"
    "  tally run . --workers 4 -- sha256sum {}\n"
    "\n"
    "`tally COMMAND --help` explains a command with examples, `tally queue --help` a group of them.\n"
    "\n"
    "The server is looked for at --endpoint URL, else at the variable TALLY_ENDPOINT, else at " TALLY_ENDPOINT_DEFAULT
    ".\n"
    "It may be http://…, https://… (--ca-file says who vouches for it) or unix:/PATH.\n"
    "Requests are signed when AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set (region: AWS_REGION).\n";

const struct status_row help_statuses[] = {
    {"0", "done"},
    {"1", "the server refused it; standard error says why; status: something needs a person"},
    {"2", "the command line is wrong; nothing was done"},
    {"3", "the server did not answer; where the outcome is unknown, the message says so"},
    {"4", "run: the batch is complete, but not every unit succeeded"},
    {"5", "something on this machine failed: a file, standard output, a process"},
    {"128 + N", "stopped by signal N (run: the same command line goes on where it stopped)"},
};
const size_t help_status_count = ARRAY_LENGTH(help_statuses);

static void print_statuses(FILE *out)
{
    fputs("\nExit status:\n", out);
    for (size_t i = 0; i < help_status_count; i++)
        fprintf(out, "  %s  %s\n", help_statuses[i].status, help_statuses[i].meaning);
}

static void print_rows(FILE *out, const char *group)
{
    for (size_t i = 0; i < command_count; i++)
        if (group == NULL || command_is_of_group(&commands[i], group))
            fprintf(out, "  %-18s %s\n", commands[i].name, commands[i].summary);
}

void help_overview(FILE *out)
{
    fputs("tally: the command line of Tally, a durable queue server\n"
          "\n"
          "usage: tally COMMAND [OPTIONS] [ARGUMENTS]\n"
          "\n"
          "Commands:\n",
          out);
    print_rows(out, NULL);
    fprintf(out, "\n%s", help_first_steps);
    print_statuses(out);
}

void help_group(FILE *out, const char *group)
{
    fprintf(out, "usage: tally %s COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n", group);
    print_rows(out, group);
    for (size_t i = 0; i < group_count; i++)
        if (strcmp(groups[i].name, group) == 0)
            fprintf(out, "\n%s", groups[i].text);
    fprintf(out, "\n`tally %s COMMAND --help` explains one of them.\n", group);
}

static void print_option(FILE *out, const struct option_row *row)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", row->name, row->value == NULL ? "" : " ",
             row->value == NULL ? "" : row->value);
    if (strlen(left) < 26)
        fprintf(out, "  %-26s%s", left, row->help);
    else
        fprintf(out, "  %s\n%28s%s", left, "", row->help);
    if (row->fallback != NULL)
        fprintf(out, " (default %s)", row->fallback);
    fputs("\n", out);
}

void help_command(FILE *out, const struct command_row *row)
{
    fprintf(out, "tally %s: %s\n\nusage: tally %s [OPTIONS]%s%s%s\n\n%s", row->name, row->summary, row->name,
            *row->arguments == '\0' ? "" : " ", row->arguments, row->takes_program ? " -- COMMAND [ARGUMENT...]" : "",
            row->text);
    fputs("\nOptions:\n", out);
    for (size_t i = 0; i < row->option_count; i++)
        print_option(out, &row->options[i]);
    for (size_t i = 0; i < options_common_count; i++)
        print_option(out, &options_common[i]);
    fprintf(out, "\nExamples:\n%s", row->examples);
    print_statuses(out);
}
