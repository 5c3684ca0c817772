/* A definition of a document, while `tally apply` is at it. */
#ifndef TALLY_TALLY_APPLY_H
#define TALLY_TALLY_APPLY_H

#include "base/buffer.h"
#include "tally/definitions.h"

struct apply_work {
    struct invocation *invocation;
    bool is_dry_run;
    const struct definition_kind *kind;
    size_t index; /* in its list */
    const char *name;
    yyjson_val *wanted;
    yyjson_mut_doc *doc_owned; /* of `there` and of what is compared */
    yyjson_mut_val *there;     /* NULL: it is not there */
    bool is_new;
    bool is_touched; /* something was told of it */
};

/* Reads what is there now. All these return the program's status; if it is not EXIT_DONE, the user has been told. */
int apply_read(struct apply_work *work);

/* Calls the action and ends the body. */
int apply_act(struct apply_work *work, const char *action, struct json_body *body);

/* Pauses or resumes it, if the document says something else than there is. */
int apply_pause(struct apply_work *work);

/* Tells that the server refused the definition, and where it stands. */
int apply_refuse(const struct apply_work *work);

/* Prints a line: "create queue orders", "change queue orders: VisibilityTimeout". */
void apply_tell(struct apply_work *work, const char *what, const char *details);

/* Names of what differs, "NAME, NAME". */
void apply_add_name(struct buffer *names, const char *name);
const char *apply_names(struct buffer *names);

/* Makes and changes all queues of the list (apply_queues.c). */
int apply_queues(const struct apply_work *common, yyjson_val *list);

/* Begins the work at an item of the list, and ends it. */
void apply_begin(struct apply_work *work, const struct apply_work *common, yyjson_val *item, size_t index);
void apply_end(struct apply_work *work);

#endif
