/* What tallyd says of itself, in --help and in its manual pages. */
#ifndef TALLY_TALLYD_CONFIG_HELP_H
#define TALLY_TALLYD_CONFIG_HELP_H

#include "tallyd/config.h"

/* "--verify DIR", and what it does. */
struct config_mode {
    const char *flag;
    const char *text;
};

extern const struct config_mode config_modes[];
extern const size_t config_mode_count;

/* What it does when it serves, and what keys are: paragraphs. */
extern const char config_about_serving[], config_about_keys[];

/* What a key may be: "1KiB to 1GiB", "on or off"; empty: a text, as the key's help says. */
#define CONFIG_RANGE_SIZE 96
void config_range(const struct config_row *row, char text[CONFIG_RANGE_SIZE]);

void config_help_print(FILE *stream);

#endif
