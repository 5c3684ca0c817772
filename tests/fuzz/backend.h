/* What the fuzz targets of the wire have behind them: an api and a namespace on a disk in memory. */
#ifndef TALLY_TESTS_FUZZ_BACKEND_H
#define TALLY_TESTS_FUZZ_BACKEND_H

#include "api/api.h"
#include "support/memory_disk.h"

struct backend {
    struct disk *disk;
    struct namespace *ns;
    struct front *front;
    struct api *api;
    uint64_t now_ms;
};

/* Opens the namespace that is on the disk, or founds one. The disk stays the caller's. */
void backend_open(struct backend *backend, struct disk *disk);
void backend_close(struct backend *backend);

/* Runs one request to its end, as the server would, and checks that its reply is complete and that the core keeps its
 * invariants. Returns what went wrong with it. The body of the reply is appended to `body`, unless that is NULL. */
enum error backend_run(struct backend *backend, const struct request *request, struct buffer *body);

/* The same with a body in the JSON form. */
enum error backend_call(struct backend *backend, const char *target, struct bytes json, struct buffer *body);

#endif
