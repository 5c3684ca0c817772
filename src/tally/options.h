/* Options of a command: their names and values, and the members of the command's settings struct that store the
 * values. */
#ifndef TALLY_TALLY_OPTIONS_H
#define TALLY_TALLY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_LIST_MAX 32

struct option_number {
    bool is_given; /* also by its fallback */
    uint64_t value;
};

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t count;
};

enum option_kind {
    OPTION_TEXT,   /* const char *; NULL: not given */
    OPTION_FLAG,   /* stores a bool */
    OPTION_NUMBER, /* struct option_number */
    OPTION_LIST,   /* struct option_list: may be repeated */
};

/* The part of an option that commands.txt defines. */
struct option_row {
    const char *name;  /* "delay", for --delay */
    const char *value; /* "SECONDS"; NULL for flags */
    const char *help;
    enum option_kind kind;
    uint64_t min; /* numbers */
    uint64_t max;
    const char *fallback; /* used if the option is not given; NULL: none */
};

/* Where a command stores the value of an option. */
struct setting {
    const char *option;
    size_t offset; /* of the member in the settings */
};

struct invocation;

/* Sorts the words after the command's name into options, arguments and, after "--", the program. The caller has set the
 * invocation's row and zeroed its settings. EXIT_DONE, or EXIT_USAGE after telling the user. `wants_help` is set if
 * --help is one of them; then nothing else is checked. The words are reordered in place. */
int options_parse(struct invocation *invocation, int count, char **words, bool *wants_help);

/* The member of the invocation's settings for an option of its command. */
void *options_find_setting(const struct invocation *invocation, const char *option);

/* The options of every command, for the help. */
extern const struct option_row options_common[];
extern const size_t options_common_count;

#endif
