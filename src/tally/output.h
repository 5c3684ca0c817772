/* Printing answers: JSON for programs, aligned lines for people. */
#ifndef TALLY_TALLY_OUTPUT_H
#define TALLY_TALLY_OUTPUT_H

#include "client/json.h"
#include "tally/command.h"

/* The answer as it came, in one line; {} where the action answers nothing. */
void output_reply(const struct tally_reply *reply);

/* Calls the action, and shows the answer: with --json as it came, else by `print`, unless that is NULL. The program's
 * status. */
int output_call(struct invocation *invocation, struct json_body *body, const char *action,
                void (*print)(yyjson_val *answer));

/* The same of the one thing that the command line names, `member` in the request. Connects first. */
int output_named(struct invocation *invocation, const char *member, const char *target,
                 void (*print)(yyjson_val *answer));

/* "name   value" with the value from column 12 on. */
void output_field(const char *name, const char *value);
void output_number(const char *name, uint64_t value);

/* A time in seconds since the epoch, as "2026-11-20 06:07:41 UTC"; nothing where it is 0. */
void output_time(const char *name, double seconds);

/* The one text that a command answers: alone, or with --json as {"MEMBER": TEXT}. */
void output_text(const struct invocation *invocation, const char *member, const char *text);

/* A mutable document, in one line. */
void output_document(const yyjson_mut_doc *doc);

#endif
