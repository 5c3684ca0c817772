/* "Name=Value" on the command line. */
#ifndef TALLY_TALLY_ASSIGNMENT_H
#define TALLY_TALLY_ASSIGNMENT_H

#include "base/trace_context.h"
#include "client/json.h"
#include "tally/command.h"

/* Splits "Name=Value[:Type]" in place. The type counts only if it is String, Number or Binary, with or without
 * ".label", so most values with a colon need no escape. False if there is no "=" or nothing before it. */
bool assignment_attribute(char *text, struct tally_attribute *attribute);

/* Splits `count` texts "Name=Value" into pairs (room for `count`). EXIT_DONE, or EXIT_USAGE after telling the user. */
int assignment_pairs(const struct invocation *invocation, char *const *texts, size_t count, struct tally_pair *pairs);

/* Of a message: ten, and the context of a trace, which is not counted. */
#define ASSIGNMENT_COUNTED_MAX 10
#define ASSIGNMENT_ATTRIBUTES_MAX (ASSIGNMENT_COUNTED_MAX + TRACE_NAMES)

/* The same for all values of --attribute. EXIT_DONE, or EXIT_USAGE after telling the user. */
int assignment_attributes(const struct invocation *invocation, const struct option_list *given,
                          struct tally_attribute attributes[ASSIGNMENT_ATTRIBUTES_MAX]);

/* The same, as the member MessageAttributes of a request; without any there is no such member. Borrows the values until
 * json_body_call(). */
int assignment_add_members(const struct invocation *invocation, const struct option_list *given,
                           struct json_body *body);

#endif
