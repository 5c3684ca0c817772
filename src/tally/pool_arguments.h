/* A pool as `tally pool create` and `tally pool update` take it, from a file and options, written as a request. The
 * file is one JSON object: {"pool", "size" | "teams", "attrs", "rules", "pick", "result", "window", "ttl", "on_ttl",
 * "confirm", "verify", "matcher", "results_max", "retention"}, all optional. It may also use the names of CreatePool
 * and DescribePool. The same file serves `tally match` and `tally pool simulate`. */
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

/* Writes the members of a CreatePool or UpdatePool from file and options; an option replaces a member of the file.
 * EXIT_DONE, or the exit status; then the user has been told. */
int pool_arguments_write(const struct invocation *invocation, const struct pool_arguments *words,
                         struct json_body *body);

/* Reads a pool's file; the caller frees the document. NULL, after telling the user, if it is not a JSON object, has a
 * member that no pool has, or has a member under both its names. Other members of DescribePool, like Sequence, are
 * ignored. */
yyjson_doc *pool_arguments_read_file(const char *path);

/* A duration of the file: "window", "ttl", "confirm" or "retention". 0 where it is absent. False, after telling the
 * user, if it is not a duration. */
bool pool_arguments_duration(yyjson_val *file, const char *name, uint64_t *ms);

#endif
