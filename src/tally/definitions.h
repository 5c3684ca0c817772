/* The definitions of a namespace: what `tally export --definitions` writes and `tally apply` reads, as one document of
 * JSON. A definition has the members that its action takes, but a queue is called by its name everywhere, and an
 * attribute of a queue whose text is an object of JSON stands there as that object. docs/how-to/export.md has
 * the form. */
#ifndef TALLY_TALLY_DEFINITIONS_H
#define TALLY_TALLY_DEFINITIONS_H

#include "base/buffer.h"
#include "client/json.h"
#include "tally/command.h"

#define DEFINITIONS_VERSION 1

/* The members of a definition, besides its name. */
struct definition_member {
    const char *name;
    const char *fallback; /* JSON: what the action takes for it where it is absent; NULL: that is not compared */
};

struct definition_kind {
    const char *list;  /* the member of the document */
    const char *title; /* for people */
    const char *name;  /* the member that names one */
    const char *list_action;
    const char *list_member;
    const char *describe_action; /* NULL: the list says all */
    const char *create_action;
    const char *change_action; /* NULL: it can't be changed */
    bool takes_differences;    /* a change names only what differs; else all */
    const char *pause_action;  /* NULL: there is no pause */
    const char *resume_action;
    const struct definition_member *members;
    size_t member_count;
};

/* In the order in which they are made: the first are queues, which the others name. */
extern const struct definition_kind definition_kinds[];
extern const size_t definition_kind_count;

/* Prints all definitions that the caller sees. Returns the program's status. */
int definitions_print(struct invocation *invocation);

/* Appends the names of all that the caller sees, each with a NUL. Returns the program's status. */
int definition_names(struct invocation *invocation, const struct definition_kind *kind, struct buffer *names);

/* Reads what there is of that name, in `doc`; *definition is NULL if there is none. EXIT_DONE, or the exit status; then
 * the user has been told. */
int definition_read(struct invocation *invocation, const struct definition_kind *kind, const char *name,
                    yyjson_mut_doc *doc, yyjson_mut_val **definition);

/* The value of a member as a definition has it: queues by their names. Borrows nothing from `value`. */
yyjson_mut_val *definition_value(yyjson_mut_doc *doc, const char *member, yyjson_val *value);

/* The same for an attribute of a queue, which is a text or an object. */
yyjson_mut_val *definition_attribute(yyjson_mut_doc *doc, const char *name, yyjson_val *value);

/* Does the error of the last call say that the thing is not there? */
bool definition_is_missing(const struct invocation *invocation);

#endif
