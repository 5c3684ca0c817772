/* The command line of `load`: a row for each option, from which both the parser and the help are made. */
#include "arguments.h"
#include "record.h"
#include "tickets.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>

#define OPTIONS_MAX 40
#define FIRST_OPTION 256 /* no character's number: '?' says that an option is not known, or could be several */

/* What a value may be, and the type of the field it goes to. */
enum value_kind {
    VALUE_NONE,   /* bool */
    VALUE_TEXT,   /* const char * */
    VALUE_PORT,   /* uint16_t, from 1 */
    VALUE_NUMBER, /* unsigned, from 1 to `max` */
    VALUE_LARGE,  /* uint64_t, from `min` to `max` */
    VALUE_REAL,   /* double, 0 or more */
    VALUE_CORE,   /* unsigned, and is_pinned */
    VALUE_HELP,   /* no field: prints the help */
};

struct row {
    const char *name; /* NULL: a heading, which is in `help` */
    const char *value;
    const char *help;
    enum value_kind kind;
    size_t field, field_size; /* in struct arguments */
    unsigned min, max;
};

#define FIELD(member) offsetof(struct arguments, member), sizeof(((struct arguments *)NULL)->member)
#define PLAN(member) FIELD(plan.member)
#define MANY 1000000000u

/* clang-format off */
static const struct row ROWS[] = {
    {"port", "PORT", "where the server listens", VALUE_PORT, PLAN(port), 1, 65535},
    {"queue", "NAME",
     "queue, list, pool (default bench); an SQS queue and a pool must exist", VALUE_TEXT, PLAN(queue), 0, 0},
    {"connections", "N", "each with one write in flight (default 64)", VALUE_NUMBER, PLAN(connections), 1, 10000},
    {"pipeline", "N", "commands in one write, not over HTTP (default 1)", VALUE_NUMBER, PLAN(pipeline), 1, 1000},
    {"body", "BYTES", "size of one message (default 200)", VALUE_NUMBER, PLAN(body_size), 1, 100000},
    {"groups", "N",
     "each message belongs to one of N groups, in turn (default 0: to none)", VALUE_LARGE, PLAN(groups), 0, UINT32_MAX},
    {"group-first", "N", "the number of the first of them (default 0)", VALUE_LARGE, PLAN(group_first), 0, UINT32_MAX},
    {"id-first", "N",
     "each message has a deduplication id, counted from N (default 0: none has); of tickets, pairs and keys the\n"
     "                     number of the first", VALUE_LARGE, PLAN(id_first), 0, UINT32_MAX},
    {"tickets", "KIND", "pools only: what tickets say (default pair), see below", VALUE_TEXT, PLAN(ticket_kind), 0, 0},
    {"batch", "N",
     "pools and redis-claim: tickets or pairs in one request (default 100)", VALUE_NUMBER, PLAN(batch), 1, 1000},
    {"attribute", "N=V", "each message has this attribute", VALUE_TEXT, PLAN(attribute), 0, 0},
    {"sign", NULL,
     "each SQS request is signed, with the credential of AWS's documentation", VALUE_NONE, PLAN(is_signed), 0, 0},
    {"access-key", "KEY", "with --sign: this access key, with the same secret", VALUE_TEXT, PLAN(access_key), 0, 0},
    {"account", "ID", "of the queue's URL (default 000000000000)", VALUE_TEXT, PLAN(account), 0, 0},
    {"warm-up", "S", "seconds before the measured window (default 1)", VALUE_REAL, PLAN(warm_up_s), 0, 0},
    {"seconds", "S", "the measured window (default 3)", VALUE_REAL, PLAN(duration_s), 0, 0},
    {"count", "N", "instead of both: exactly N writes, all of them measured", VALUE_LARGE, PLAN(count), 1, MANY},
    {"rate", "R", "open loop: R writes a second; latency counts from when each was due", VALUE_REAL, PLAN(rate), 0, 0},
    {"latencies", "FILE",
     "of each write that is measured two 64-bit numbers, in ns: when it was asked, or due (CLOCK_MONOTONIC),\n"
     "                     and its latency", VALUE_TEXT, PLAN(latencies), 0, 0},
    {"core", "C", "run on this core only", VALUE_CORE, FIELD(core), 0, 1023},
    {"cpu-of", "PIDS",
     "report the CPU time of these processes (12,13) in the window", VALUE_TEXT, PLAN(cpu_pids), 0, 0},
    {"file", "FILE", "for disk-sync; made, 16 MiB, and removed", VALUE_TEXT, FIELD(file), 0, 0},
    {"help", NULL, "print this", VALUE_HELP, 0, 0, 0, 0},
    {NULL, NULL,
     "Of the long runs (long-*, soak-*), whose processes share a record of all messages:", VALUE_NONE, 0, 0, 0, 0},
    {"tell", NULL, "print a line of JSON each second", VALUE_NONE, PLAN(is_told), 0, 0},
    {"record", "FILE",
     "the record; `load record --record FILE --messages N` prints what it proves", VALUE_TEXT, PLAN(record), 0, 0},
    {"messages", "N", "that it has room for; the same for all processes", VALUE_LARGE, PLAN(messages), 1, MANY},
    {"slot", "N",
     "which of the record's slots keeps the latencies of this process (default 0)",
     VALUE_NUMBER, PLAN(slot), 1, RECORD_SLOTS - 1},
    {"hand", "N", "long-scatter: receipt handles in hand (default 100000)", VALUE_LARGE, PLAN(hand), 1, 100000000},
    {"keep", "N", "long-scatter: messages that are not deleted (default 0)", VALUE_LARGE, PLAN(keep), 0, MANY},
    {"window", "N",
     "soak-send: at most so many messages are sent and not ended (default 0: any number)",
     VALUE_LARGE, PLAN(window), 0, MANY},
    {"lease", "S", "soak-work: visibility timeout (default 5)", VALUE_NUMBER, PLAN(lease_s), 1, 43200},
};
/* clang-format on */
enum { ROW_COUNT = sizeof(ROWS) / sizeof(ROWS[0]) };
_Static_assert(ROW_COUNT < OPTIONS_MAX, "an option for each row, and the end");

static void help_print(FILE *file)
{
    fputs("Usage: load MODE --port PORT [options]\n"
          "       load disk-sync --file FILE [--seconds S]\n"
          "       load record --record FILE --messages N\n"
          "\n"
          "Asks a server on 127.0.0.1 and prints one line of JSON: rates, latencies, CPU time.\n"
          "\n"
          "Modes:\n",
          file);
    const struct workload *workload;
    for (unsigned index = 0; (workload = workload_at(index)) != NULL; index++)
        fprintf(file, "  %-16s %s\n", workload->name, workload->help);
    fputs("  disk-sync        write 512 bytes inside a file, fdatasync: the disk's own rate\n\nOptions:\n", file);
    for (const struct row *row = ROWS; row < ROWS + ROW_COUNT; row++) {
        char name[24];
        if (row->name != NULL) {
            (void)snprintf(name, sizeof(name), "--%s %s", row->name, row->value == NULL ? "" : row->value);
            fprintf(file, "  %-18s %s\n", name, row->help);
        } else {
            fprintf(file, "\n%s\n", row->help);
        }
    }
    fputs("\nKinds of tickets:\n", file);
    const struct ticket_kind *kind;
    for (unsigned index = 0; (kind = ticket_kind_at(index)) != NULL; index++)
        fprintf(file, "  %-16s %s\n", kind->name, kind->help);
}

static uint64_t whole(const struct row *row, const char *text)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < row->min || value > row->max)
        fatal("--%s %s: expected a number from %u to %u", row->name, text, row->min, row->max);
    return value;
}

static double real(const struct row *row, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0))
        fatal("--%s %s: expected a number, 0 or more", row->name, text);
    return value;
}

/* The field that a row means, which must have the size of what will be written to it. */
static void *field_of(struct arguments *arguments, const struct row *row, size_t size)
{
    if (row->field_size != size)
        fatal("--%s: its row names a wrong type", row->name);
    return (char *)arguments + row->field;
}

static void row_apply(const struct row *row, const char *text, struct arguments *arguments)
{
    switch (row->kind) {
    case VALUE_NONE:
        *(bool *)field_of(arguments, row, sizeof(bool)) = true;
        return;
    case VALUE_TEXT:
        *(const char **)field_of(arguments, row, sizeof(char *)) = text;
        return;
    case VALUE_PORT:
        *(uint16_t *)field_of(arguments, row, sizeof(uint16_t)) = (uint16_t)whole(row, text);
        return;
    case VALUE_NUMBER:
        *(unsigned *)field_of(arguments, row, sizeof(unsigned)) = (unsigned)whole(row, text);
        return;
    case VALUE_LARGE:
        *(uint64_t *)field_of(arguments, row, sizeof(uint64_t)) = whole(row, text);
        return;
    case VALUE_REAL:
        *(double *)field_of(arguments, row, sizeof(double)) = real(row, text);
        return;
    case VALUE_CORE:
        *(unsigned *)field_of(arguments, row, sizeof(unsigned)) = (unsigned)whole(row, text);
        arguments->is_pinned = true;
        return;
    case VALUE_HELP:
        help_print(stdout);
        exit(0);
    }
}

void arguments_read(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){.plan = {
                                        .queue = "bench",
                                        .connections = 64,
                                        .pipeline = 1,
                                        .body_size = 200,
                                        .ticket_kind = "pair",
                                        .batch = 100,
                                        .warm_up_s = 1,
                                        .duration_s = 3,
                                        .hand = 100000,
                                        .lease_s = 5,
                                    }};
    struct option options[OPTIONS_MAX] = {0};
    const struct row *rows[OPTIONS_MAX];
    unsigned count = 0;
    for (const struct row *row = ROWS; row < ROWS + ROW_COUNT; row++)
        if (row->name != NULL) {
            const bool is_flag = row->kind == VALUE_NONE || row->kind == VALUE_HELP;
            rows[count] = row;
            options[count] = (struct option){.name = row->name,
                                             .has_arg = is_flag ? no_argument : required_argument,
                                             .val = FIRST_OPTION + (int)count};
            count++;
        }
    int found;
    while ((found = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (found == '?')
            fatal("try --help");
        row_apply(rows[found - FIRST_OPTION], optarg, arguments);
    }
    if (optind != argc - 1)
        fatal("expected one mode; try --help");
    arguments->plan.mode = argv[optind];
}
