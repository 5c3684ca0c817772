/* The options by which a command says which messages of a queue it means, and the answer to --dry-run. */
#ifndef TALLY_TALLY_SELECTION_H
#define TALLY_TALLY_SELECTION_H

#include "tally/output.h"

/* At the beginning of the settings of a command that has these options. */
struct selection_settings {
    struct option_list ids;
    const char *reason;
    const char *group;
    struct option_number sent_before;
    struct option_number sent_after;
    struct option_number max;
    struct option_number rate;
    bool is_dry_run;
};

/* Their rows in its table of settings. */
#define SELECTION_SETTINGS                                                                                             \
    {"id", offsetof(struct selection_settings, ids)}, {"reason", offsetof(struct selection_settings, reason)},         \
        {"group", offsetof(struct selection_settings, group)},                                                         \
        {"sent-before", offsetof(struct selection_settings, sent_before)},                                             \
        {"sent-after", offsetof(struct selection_settings, sent_after)},                                               \
        {"max", offsetof(struct selection_settings, max)}, {"rate", offsetof(struct selection_settings, rate)},        \
    {                                                                                                                  \
        "dry-run", offsetof(struct selection_settings, is_dry_run)                                                     \
    }

/* Adds the members that the options ask for. */
void selection_add(const struct selection_settings *settings, struct json_body *body);

/* Is there an option that a server of an earlier version would pass over, and then do more than was asked for? */
bool selection_needs_server(const struct selection_settings *settings);

/* Asks the server whether it is of such a version. EXIT_DONE: it is not; else the exit status, after telling the user.
 * Nothing was done then. */
int selection_check_server(struct invocation *invocation);

/* The whole of a command that takes --dry-run: calls the action with the body, or asks what it would do. */
int selection_call(struct invocation *invocation, struct json_body *body, const char *action, bool is_dry_run);

/* Prints the answer to a dry run. */
void selection_print(yyjson_val *answer);

#endif
