/* A pool in words: what `tally pool create` and `tally pool update` take, as a file and as options, written as a
 * request. The file is one JSON object: {"pool", "size" | "teams", "attrs", "rules", "pick", "result", "window", "ttl",
 * "on_ttl", "confirm", "verify", "matcher", "results_max", "retention"}, all optional; or the same members by the names
 * that CreatePool and DescribePool have for them. The same file serves `tally match` and `tally pool simulate`. */
#ifndef TALLY_TALLY_POOL_WORDS_H
#define TALLY_TALLY_POOL_WORDS_H

#include "tally/output.h"

struct pool_words {
    const char *file;
    const char *result;
    const char *pick;
    const char *matcher;
    const char *window;
    const char *ttl;
    const char *on_expiry;
    const char *confirm;
    const char *verify;
    const char *retention;
    struct option_number size;
    struct option_number results_max;
};

/* Rows for the options of a command whose settings hold `member`, a struct pool_words. */
#define POOL_WORDS_OPTIONS(settings, member)                                                                           \
    {"rules",                                                                                                          \
     "FILE",                                                                                                           \
     "the pool as JSON: attrs, rules, size or teams, pick, result, ttl, ...; - for standard input",                    \
     OPTION_TEXT,                                                                                                      \
     offsetof(settings, member.file),                                                                                  \
     0,                                                                                                                \
     0,                                                                                                                \
     NULL},                                                                                                            \
        {"result", "QUEUE", "where the matches go", OPTION_TEXT, offsetof(settings, member.result), 0, 0, NULL},       \
        {"matcher", "WHO", "built-in, external or both", OPTION_TEXT, offsetof(settings, member.matcher), 0, 0, NULL}, \
        {"size",                                                                                                       \
         "N",                                                                                                          \
         "weight of a whole match, if the file names no teams; else 2",                                                \
         OPTION_NUMBER,                                                                                                \
         offsetof(settings, member.size),                                                                              \
         0,                                                                                                            \
         200,                                                                                                          \
         NULL},                                                                                                        \
        {"pick",                                                                                                       \
         "PICK",                                                                                                       \
         "oldest, first, nearest:ATTRIBUTE or score:EXPRESSION",                                                       \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.pick),                                                                              \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"ttl",                                                                                                        \
         "DURATION",                                                                                                   \
         "how long a ticket waits, if it doesn't say so itself: 90, 10m; 0: for ever",                                 \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.ttl),                                                                               \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"on-expiry",                                                                                                  \
         "QUEUE",                                                                                                      \
         "where the tickets go that nobody matched in time",                                                           \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.on_expiry),                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"window",                                                                                                     \
         "DURATION",                                                                                                   \
         "collect what the built-in matcher finds for so long, and then take the best: 200ms",                         \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.window),                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"confirm",                                                                                                    \
         "DURATION",                                                                                                   \
         "a match is made when all have confirmed, within this time",                                                  \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.confirm),                                                                           \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"verify",                                                                                                     \
         "yes|no",                                                                                                     \
         "hold proposals from outside against the rules",                                                              \
         OPTION_TEXT,                                                                                                  \
         offsetof(settings, member.verify),                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {"results-max",                                                                                                \
         "N",                                                                                                          \
         "refuse matches while the result queue holds so many messages; 0: never",                                     \
         OPTION_NUMBER,                                                                                                \
         offsetof(settings, member.results_max),                                                                       \
         0,                                                                                                            \
         INT64_MAX,                                                                                                    \
         NULL},                                                                                                        \
    {                                                                                                                  \
        "retention", "DURATION", "how long tickets and matches that are over are remembered; else 24h", OPTION_TEXT,   \
            offsetof(settings, member.retention), 0, 0, NULL                                                           \
    }

/* Writes the members of a CreatePool or UpdatePool that file and options name; options go first. EXIT_DONE, or what to
 * exit with; the user has been told. */
int pool_words_write(const struct invocation *invocation, const struct pool_words *words, struct json_body *body);

/* Reads a pool's file; the caller frees the document. NULL, with the user told, if it is no JSON object, or has a
 * member that no pool has or that stands there under both its names. What DescribePool says besides, like Sequence, is
 * passed over. */
yyjson_doc *pool_words_read_file(const char *path);

/* A duration of the file: "window", "ttl", "confirm" or "retention". 0 where it is absent. False, with the user told,
 * if it is none. */
bool pool_words_duration(yyjson_val *file, const char *name, uint64_t *ms);

#endif
