#include "tally/help.h"

#include "tally/commands.h"
#include <string.h>

static const struct group_text {
    const char *name;
    const char *text;
} group_texts[] = {
    {"queue",
     "A queue holds messages until a worker has received and deleted them. Names have 1 to 80 letters, digits,\n"
     "hyphens and underscores. Wherever a command asks for a queue, its name or its URL will do.\n"
     "\n"
     "  tally queue create orders\n"
     "  tally send orders 'hello'\n"
     "  tally receive orders --delete\n"},
    {"group", "A group is the messages of one queue that share a MessageGroupId. On a FIFO queue it is a line: one "
              "message after the\n"
              "other, in the order in which they were sent, while other groups go on. If a message fails for good, its "
              "group goes on\n"
              "without it, or is held until you say what to do (the queue's Tally.OnGroupFailure).\n"
              "\n"
              "  tally queue create comments.fifo Tally.OnGroupFailure=hold\n"
              "  tally send comments.fifo 'first!' --group post-17 --deduplication-id comment-1\n"
              "  tally group list comments.fifo\n"
              "  tally group release comments.fifo post-17 --retry\n"},
    {"batch",
     "A batch counts units of work and sends one completion message when it is sealed and the last unit has ended.\n"
     "A unit is a message sent with --batch (it ends when it is deleted), or an external unit known by its key.\n"
     "\n"
     "  tally queue create results\n"
     "  tally batch create night --on-complete results\n"
     "  tally batch add night page-1 page-2\n"
     "  tally batch seal night\n"
     "  tally batch complete night page-1 page-2\n"
     "  tally receive results --wait 20 --delete\n"},
    {"type-order",
     "A type order says which types of messages come first, in each group: a comment waits for its post, in whatever "
     "queues\n"
     "the two are.\n"
     "\n"
     "  tally type-order put posts create-post create-comment\n"
     "  tally send posts 'a post' --group post-17 --type create-post\n"
     "  tally send comments 'first!' --group post-17 --type create-comment\n"},
    {"schedule", "A schedule sends a message at each time that a cron expression names: once, also across restarts.\n"
                 "\n"
                 "  tally schedule put nightly '30 2 * * *' jobs 'clean up' --time-zone Europe/Berlin\n"
                 "  tally schedule list\n"},
    {"relay",
     "A relay carries messages from an outbox, a table that an application fills in the transactions of its own "
     "data, to a\n"
     "queue, to an endpoint of SQS or to a web hook. What was rolled back is never sent, and what was committed "
     "always is. A\n"
     "queue can be the source as well. docs/relays.md says more.\n"
     "\n"
     "  tally relay schema --type postgres | psql -v ON_ERROR_STOP=1 -1 mydb\n"
     "  tally relay run --source postgres://relay@localhost/mydb --sink queue\n"
     "  tally relay create orders --source postgres://tally@db/shop --sink queue\n"
     "  tally relay show orders\n"},
    {"pool",
     "A pool holds tickets that wait until some of them fit together, like players for a game or drivers for a ride. "
     "Each is\n"
     "matched at most once, whoever looks; a match is one message in the pool's result queue. The server looks itself, "
     "or\n"
     "programs do (`tally match`).\n"
     "\n"
     "  tally queue create duels\n"
     "  tally pool create duel --rules duel.json --result duels\n"
     "  tally pool offer duel --tickets players.jsonl\n"
     "  tally pool explain duel ann\n"
     "  tally receive duels --delete\n"},
};

static const char overview_end[] =
    "\n"
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

static const char exit_statuses[] =
    "Exit status:\n"
    "  0  done\n"
    "  1  the server refused it; standard error says why\n"
    "  2  the command line is wrong; nothing was done\n"
    "  3  the server did not answer; where the outcome is unknown, the message says so\n"
    "  4  run: the batch is complete, but not every unit succeeded\n"
    "  5  something on this machine failed: a file, standard output, a process\n"
    "  128 + N  stopped by signal N (run: the same command line goes on where it stopped)\n";

static void print_rows(FILE *out, const char *group)
{
    size_t size = group == NULL ? 0 : strlen(group);
    for (size_t i = 0; i < command_count; i++)
        if (group == NULL || (strncmp(commands[i].name, group, size) == 0 && commands[i].name[size] == ' '))
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
    fputs(overview_end, out);
    fputs("\n", out);
    fputs(exit_statuses, out);
}

void help_group(FILE *out, const char *group)
{
    fprintf(out, "usage: tally %s COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n", group);
    print_rows(out, group);
    for (size_t i = 0; i < sizeof group_texts / sizeof group_texts[0]; i++)
        if (strcmp(group_texts[i].name, group) == 0)
            fprintf(out, "\n%s", group_texts[i].text);
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
    const struct command *command = row->command;
    fprintf(out, "tally %s: %s\n\nusage: tally %s [OPTIONS]%s%s%s\n\n%s", row->name, row->summary, row->name,
            *command->arguments == '\0' ? "" : " ", command->arguments,
            command->takes_program ? " -- COMMAND [ARGUMENT...]" : "", command->text);
    fputs("\nOptions:\n", out);
    for (size_t i = 0; i < command->option_count; i++)
        print_option(out, &command->options[i]);
    for (size_t i = 0; i < options_common_count; i++)
        print_option(out, &options_common[i]);
    fprintf(out, "\nExamples:\n%s\n%s", command->examples, exit_statuses);
}
