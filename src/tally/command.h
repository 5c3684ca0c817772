/* A command of the tool: its row in the table, its help, its options and the function that carries it out.
 *
 * commands.txt lists the commands and says what they take and do; a `const struct command` says how they do it. A
 * command gets everything in its invocation and returns an exit status; it never calls exit(). */
#ifndef TALLY_TALLY_COMMAND_H
#define TALLY_TALLY_COMMAND_H

#include "tally/options.h"
#include "tally/tally.h"
#include <yyjson.h>

/* Exit statuses; help.c tells them to the user. */
enum exit_status {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,      /* the server answered with an error */
    EXIT_USAGE = 2,        /* the command line is wrong; nothing was done */
    EXIT_UNREACHABLE = 3,  /* the server gave no answer, or one that is not from a queue server */
    EXIT_UNSUCCESSFUL = 4, /* run: the batch is complete, but not every unit succeeded */
    EXIT_LOCAL = 5,        /* something on this machine failed: a file, standard output, a process */
    EXIT_SIGNAL = 128,     /* plus the number of the signal that stopped it */
};

struct invocation;

/* How a command is carried out. A command that only passes a request on has an `action`, and request.c does the rest:
 * its arguments and options become members of the request, and the answer is printed. All others have `run`. */
struct command {
    const struct setting *settings; /* one for each option */
    size_t setting_count;
    size_t settings_size; /* bytes of the struct that stores the values of options; 0: none */
    int (*run)(struct invocation *invocation);

    const char *action;                /* "Tally.SealBatch" */
    const char *members[4];            /* the members of the request that take the arguments, in their order; up to a
                                        * NULL */
    const char *list;                  /* the list in the answer that comes in pages; NULL: no pages */
    void (*print)(yyjson_val *answer); /* prints the answer, or an item of its list, for people; NULL: they see
                                        * nothing */
};

/* The part of a command that commands.txt defines. */
struct command_row {
    const char *name;      /* "queue create" */
    const char *summary;   /* one line */
    const char *arguments; /* for the usage line: "QUEUE BODY|-" */
    int arguments_min;
    int arguments_max;  /* -1: any number */
    bool takes_program; /* "-- COMMAND [ARGUMENT…]" follows */
    const struct option_row *options;
    size_t option_count;
    const char *text;     /* what it does, in paragraphs */
    const char *examples; /* lines to copy */
    const struct command *command;
};

/* One call of the tool, parsed. Borrows from main()'s arguments. */
struct invocation {
    const struct command_row *row;
    void *settings; /* the command's own struct, filled by its options */
    char **arguments;
    int argument_count;
    char **program; /* behind "--"; closed by NULL */
    int program_count;
    const char *endpoint; /* NULL: the library's default */
    const char *ca_file;  /* the same */
    bool is_json;
    char worker[TALLY_WORKER_SIZE_MAX + 1]; /* what its clients call themselves; "": nothing */
    struct tally_client *client;            /* NULL until invocation_connect() */
};

/* Makes the invocation's client. EXIT_DONE, or the exit status; then the user has been told. */
int invocation_connect(struct invocation *invocation);

/* The same, with a client that waits so long for an answer. */
int invocation_connect_for(struct invocation *invocation, unsigned timeout_ms);

/* A client for a thread that retries by itself: short timeouts, two attempts. NULL if it can't be made; then the user
 * has been told. */
struct tally_client *invocation_client_create(const struct invocation *invocation);

/* The same, and complain(), for those who call back; the context is the invocation. */
struct tally_client *invocation_connect_thread(void *invocation);
void invocation_note(void *invocation, const char *text);

/* From now on its clients call themselves `name`, or if that is NULL, "HOST/PROCESS": then whoever asks the server who
 * has a message sees it. EXIT_DONE, or EXIT_USAGE after telling the user. */
int invocation_name_worker(struct invocation *invocation, const char *name);

/* Tells the user what went wrong and returns the exit status for it. It reports the client's last call, or an error
 * that was kept. */
int invocation_failed(const struct invocation *invocation, const struct tally_client *client);
int invocation_failed_with(const struct invocation *invocation, const struct tally_error *error);

/* From now on each line on standard error is JSON: {"message"} for a remark, {"error", "message", "httpStatus",
 * "outcomeUnknown"} for the error that made the command fail. Call it before there are threads. */
void complain_in_json(void);

/* From now on nobody waits longer than a second for the reader of standard error. A line that it does not take is lost;
 * a later line says how many were. Call it before there are threads. */
void complain_briefly(void);

/* Writes "tally: …" and a line end to standard error. At most 4,095 characters. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports a wrong command line, with a hint to the command's --help unless the invocation is NULL; returns
 * EXIT_USAGE. */
int complain_usage(const struct invocation *invocation, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
