/* The load of `tally bench`: many connections from one thread, each with one request on the way at a time. */
#ifndef TALLY_TALLY_LOAD_H
#define TALLY_TALLY_LOAD_H

#include "tally/histogram.h"
#include "tally/signature.h"
#include <stdbool.h>
#include <stddef.h>

enum load_mode {
    LOAD_SEND,  /* one message a request */
    LOAD_BATCH, /* ten messages a request */
    LOAD_LIFE,  /* send ten, receive ten, delete ten */
};

struct load_options {
    const char *endpoint; /* http:// only */
    const char *queue;
    enum load_mode mode;
    unsigned connections;
    unsigned seconds;
    unsigned body_size;
    struct signature *signature; /* NULL: requests are not signed */
};

struct load_result {
    double seconds;
    uint64_t requests;
    uint64_t messages; /* sent; in LOAD_LIFE, deleted */
    uint64_t errors;
    char first_error[512];
    struct histogram latency; /* of requests */
};

/* Loads the server for the given time. False with `first_error` filled if it can't be reached at all. */
bool load_run(const struct load_options *options, struct load_result *result);

#endif
