/* What the command line of `load` says. */
#ifndef TALLY_BENCH_ARGUMENTS_H
#define TALLY_BENCH_ARGUMENTS_H

#include "workload.h"

struct arguments {
    struct plan plan;
    const char *file; /* disk-sync only; NULL if none was named */
    unsigned core;    /* to run on */
    bool is_pinned;   /* was one named? */
};

/* Reads the command line over the defaults. Bad ones end the program with a message; `--help` ends it too. */
void arguments_read(struct arguments *arguments, int argc, char **argv);

#endif
