/* Printing answers: JSON for programs, aligned lines for people. */
#ifndef TALLY_TALLY_OUTPUT_H
#define TALLY_TALLY_OUTPUT_H

#include "client/json.h"
#include "tally/command.h"

/* The answer as it came, in one line; {} if the action answers nothing. */
void output_reply(const struct tally_reply *reply);

/* Calls the action and shows the answer: with --json as it came, otherwise by `print`, unless that is NULL. Returns the
 * program's status. */
int output_call(struct invocation *invocation, struct json_body *body, const char *action,
                void (*print)(yyjson_val *answer));

/* "name value", with the value from column 12 on. The other one is for a text of several lines. */
void output_field(const char *name, const char *value);
void output_block(const char *name, const char *value);
void output_number(const char *name, uint64_t value);

/* The same for members of an object, given as pairs of printed name and member. Texts are printed as such, other
 * values as JSON; absent members are left out. A list has a line for each item. */
void output_members(yyjson_val *object, const char *const rows[][2], size_t count);

/* The same for numbers; an absent one is 0. */
void output_numbers(yyjson_val *object, const char *const rows[][2], size_t count);

/* `before` and a text of others, which stays in its line and says nothing to the terminal (base/shown.h). The other one
 * leaves line ends and tabs as they are. */
void output_in_line(const char *before, const char *text);
void output_in_lines(const char *before, const char *text);

/* A member that is a text, or "" if it is absent. */
const char *output_text_of(yyjson_val *object, const char *member);

/* A time in seconds since the epoch, as "2026-11-20 06:07:41 UTC"; empty if it is 0. */
void output_time(const char *name, double seconds);

/* "59 s", "59 min", "47 h", "13 d". */
#define OUTPUT_AGE_SIZE 32
void output_age(uint64_t seconds, char text[OUTPUT_AGE_SIZE]);

/* "mail-1/77 (10.0.0.2, key AKIAORDERS)": the Holder of a message; "" if nobody knows who has it. */
#define OUTPUT_HOLDER_SIZE 400
void output_holder(yyjson_val *message, char text[OUTPUT_HOLDER_SIZE]);

/* The only text in a command's answer: alone, or with --json as {"MEMBER": TEXT}. */
void output_text(const struct invocation *invocation, const char *member, const char *text);

/* A part of an answer, in one line of JSON. */
void output_value(yyjson_val *value);

/* A mutable document, in one line. */
void output_document(const yyjson_mut_doc *doc);

#endif
