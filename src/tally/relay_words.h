/* What a relay is to do, in the words of the command line: --source, --sink and what belongs to them, for `relay
 * create` and `relay run`. */
#ifndef TALLY_TALLY_RELAY_WORDS_H
#define TALLY_TALLY_RELAY_WORDS_H

#include "client/json.h"
#include "tally/command.h"

struct relay_words {
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

/* Rows for the options of a command whose settings struct has a struct relay_words as `member`. */
#define RELAY_WORDS_ROW(settings, member, field) offsetof(settings, member.field), 0, 0, NULL
#define RELAY_WORDS_OPTIONS(settings, member)                                                                          \
    {"source", "postgres://…|sqlite:PATH|queue:NAME", "where the messages come from", OPTION_TEXT,                     \
     RELAY_WORDS_ROW(settings, member, source)},                                                                       \
        {"sink", "queue[:NAME]|sqs:URL|http(s)://…", "where they go; queue: each row names its own", OPTION_TEXT,      \
         RELAY_WORDS_ROW(settings, member, sink)},                                                                     \
        {"order", "group|strict", "which rows wait for each other: those of a group (default), or all", OPTION_TEXT,   \
         RELAY_WORDS_ROW(settings, member, order)},                                                                    \
        {"table", "NAME", "schema (postgres) or prefix (sqlite) of the outbox's tables; else tally", OPTION_TEXT,      \
         RELAY_WORDS_ROW(settings, member, table)},                                                                    \
        {"pooler", "session|transaction", "how a PgBouncer before the database pools; session if there is none",       \
         OPTION_TEXT, RELAY_WORDS_ROW(settings, member, pooler)},                                                      \
        {"publish-after-replicas",                                                                                     \
         "N",                                                                                                          \
         "for postgres: publish what so many replicas have flushed; else 0",                                           \
         OPTION_NUMBER,                                                                                                \
         offsetof(settings, member.replicas),                                                                          \
         0,                                                                                                            \
         100,                                                                                                          \
         NULL},                                                                                                        \
        {"lease",                                                                                                      \
         "SECONDS",                                                                                                    \
         "how long a relay that was cut off is waited for, 1 to 60; else 3",                                           \
         OPTION_NUMBER,                                                                                                \
         offsetof(settings, member.lease),                                                                             \
         1,                                                                                                            \
         60,                                                                                                           \
         NULL},                                                                                                        \
        {"region", "NAME", "for sqs: else that of the URL, else AWS_REGION, else us-east-1", OPTION_TEXT,              \
         RELAY_WORDS_ROW(settings, member, region)},                                                                   \
        {"credentials-file", "FILE", "for sqs: access key id, secret and perhaps a session token, apart by blanks",    \
         OPTION_TEXT, RELAY_WORDS_ROW(settings, member, credentials_file)},                                            \
        {"mode", "at-least-once|at-most-once", "for http(s): may a request be repeated? at-least-once (default): yes", \
         OPTION_TEXT, RELAY_WORDS_ROW(settings, member, mode)},                                                        \
        {"timeout",                                                                                                    \
         "SECONDS",                                                                                                    \
         "for http(s): how long a request may take, 1 to 60; else 10",                                                 \
         OPTION_NUMBER,                                                                                                \
         offsetof(settings, member.timeout),                                                                           \
         1,                                                                                                            \
         60,                                                                                                           \
         NULL},                                                                                                        \
        {"secret-file", "FILE", "for http(s): what signs the requests, a line for each key", OPTION_TEXT,              \
         RELAY_WORDS_ROW(settings, member, secret_file)},                                                              \
        {"doubts", "send|park",                                                                                        \
         "for sqs: rows that may have arrived before; else park to a FIFO queue, send to others", OPTION_TEXT,         \
         RELAY_WORDS_ROW(settings, member, doubts)},                                                                   \
    {                                                                                                                  \
        "refused", "park|block", "what a refused row does: it is put aside (default), or holds its group",             \
            OPTION_TEXT, RELAY_WORDS_ROW(settings, member, refused)                                                    \
    }

/* Adds Source, Sink and Order to the body. False, with the user told, if the words are none: *status is what to exit
 * with. What a type of source or sink may have is left to whoever reads the body. */
bool relay_words_write(const struct invocation *invocation, const struct relay_words *words, struct json_body *body,
                       int *status);

#endif
