/* The settings of a relay on the command line: --source, --sink and their options, for `relay create` and `relay
 * run`. */
#ifndef TALLY_TALLY_RELAY_ARGUMENTS_H
#define TALLY_TALLY_RELAY_ARGUMENTS_H

#include "client/json.h"
#include "tally/command.h"

struct relay_arguments {
    const char *source;
    const char *sink;
    const char *order;
    const char *table;
    const char *pooler;
    struct option_number replicas;
    struct option_number lease;
    const char *region;
    const char *credentials_file;
    const char *mode;
    struct option_number timeout;
    const char *secret_file;
    const char *doubts;
    const char *refused;
};

/* Stores the options of a command whose settings struct has a struct relay_arguments as `member`. */
#define RELAY_WORDS_SETTINGS(settings, member)                                                                         \
    {"source", offsetof(settings, member.source)}, {"sink", offsetof(settings, member.sink)},                          \
        {"order", offsetof(settings, member.order)}, {"table", offsetof(settings, member.table)},                      \
        {"pooler", offsetof(settings, member.pooler)},                                                                 \
        {"publish-after-replicas", offsetof(settings, member.replicas)}, {"lease", offsetof(settings, member.lease)},  \
        {"region", offsetof(settings, member.region)},                                                                 \
        {"credentials-file", offsetof(settings, member.credentials_file)}, {"mode", offsetof(settings, member.mode)},  \
        {"timeout", offsetof(settings, member.timeout)}, {"secret-file", offsetof(settings, member.secret_file)},      \
        {"doubts", offsetof(settings, member.doubts)},                                                                 \
    {                                                                                                                  \
        "refused", offsetof(settings, member.refused)                                                                  \
    }

/* Adds Source, Sink and Order to the body. False, after telling the user, if the words are not valid: *status is the
 * exit status. The reader of the body checks the members of each type of source or sink. */
bool relay_arguments_write(const struct invocation *invocation, const struct relay_arguments *words,
                           struct json_body *body, int *status);

#endif
