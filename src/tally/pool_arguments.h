/* A pool in words: what `tally pool create` and `tally pool update` take, as a file and as options, written as a
 * request. The file is one JSON object: {"pool", "size" | "teams", "attrs", "rules", "pick", "result", "window", "ttl",
 * "on_ttl", "confirm", "verify", "matcher", "results_max", "retention"}, all optional; or the same members by the names
 * that CreatePool and DescribePool have for them. The same file serves `tally match` and `tally pool simulate`. */
#ifndef TALLY_TALLY_POOL_ARGUMENTS_H
#define TALLY_TALLY_POOL_ARGUMENTS_H

#include "tally/output.h"

struct pool_arguments {
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

/* Writes the members of a CreatePool or UpdatePool that file and options name; options go first. EXIT_DONE, or what to
 * exit with; the user has been told. */
int pool_arguments_write(const struct invocation *invocation, const struct pool_arguments *words,
                         struct json_body *body);

/* Reads a pool's file; the caller frees the document. NULL, with the user told, if it is no JSON object, or has a
 * member that no pool has or that stands there under both its names. What DescribePool says besides, like Sequence, is
 * passed over. */
yyjson_doc *pool_arguments_read_file(const char *path);

/* A duration of the file: "window", "ttl", "confirm" or "retention". 0 where it is absent. False, with the user told,
 * if it is none. */
bool pool_arguments_duration(yyjson_val *file, const char *name, uint64_t *ms);

#endif
