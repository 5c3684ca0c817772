/* What the programs of the campaigns read from their command lines. */
#ifndef TALLY_CAMPAIGN_OPTION_H
#define TALLY_CAMPAIGN_OPTION_H

#include "daemon.h"

#include <getopt.h>

/* The options that both programs have; those of one of them begin with OPTION_OWN. */
enum option_shared {
    OPTION_TALLYD = 1,
    OPTION_FOLDER,
    OPTION_PORT,
    OPTION_KILL_EVERY,
    OPTION_KILL_EACH,
    OPTION_SEED,
    OPTION_HELP,
    OPTION_OWN,
};

/* Their rows of a table for getopt_long(). */
#define OPTION_ROW(name, has_value, which)                                                                             \
    {                                                                                                                  \
        name, has_value, NULL, OPTION_##which                                                                          \
    }
#define OPTION_ROWS_SHARED                                                                                             \
    OPTION_ROW("tallyd", required_argument, TALLYD), OPTION_ROW("folder", required_argument, FOLDER),                  \
        OPTION_ROW("port", required_argument, PORT), OPTION_ROW("kill-every", required_argument, KILL_EVERY),          \
        OPTION_ROW("kill-each", required_argument, KILL_EACH), OPTION_ROW("seed", required_argument, SEED),            \
        OPTION_ROW("help", no_argument, HELP)

/* Takes a shared option that has a value into *daemon or *seed; false if it is none. Ends the program on a bad
 * value. */
bool option_take(struct daemon *daemon, uint64_t *seed, int option, const char *value);

/* When all options are read: `rest` are those of tallyd. Finds a port where none was given, and makes the folder. Ends
 * the program if the daemon's program or folder was not named, or if the folder can't be made. */
void option_finish(struct daemon *daemon, char *const *rest);

/* The text as a number from `min` to `max`; ends the program if it is none. */
double option_number(const char *text, double min, double max);

#endif
