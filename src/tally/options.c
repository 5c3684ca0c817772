#include "tally/options.h"

#include "base/assert.h"
#include "tally/command.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct option_row options_common[] = {
    {"endpoint", "URL", "where the server is; else the variable TALLY_ENDPOINT, else " TALLY_ENDPOINT_DEFAULT,
     OPTION_TEXT, 0, 0, NULL},
    {"ca-file", "FILE", "PEM: who may vouch for an https:// server; else TALLY_CA_FILE, else the system's", OPTION_TEXT,
     0, 0, NULL},
    {"json", NULL, "answer in JSON, for programs; what standard error says, too", OPTION_FLAG, 0, 0, NULL},
    {"help", NULL, "this help", OPTION_FLAG, 0, 0, NULL},
};
const size_t options_common_count = ARRAY_LENGTH(options_common);

/* Sets an option of the invocation itself. --help was checked before. */
static const struct setting settings_common[] = {
    {"endpoint", offsetof(struct invocation, endpoint)},
    {"ca-file", offsetof(struct invocation, ca_file)},
    {"json", offsetof(struct invocation, is_json)},
};

static const struct option_row *find_row(const struct option_row *rows, size_t count, const char *name, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == size && memcmp(rows[i].name, name, size) == 0)
            return &rows[i];
    return NULL;
}

static void *find_setting(const struct setting *settings, size_t count, const char *option, void *start)
{
    size_t i = 0;
    while (i < count && strcmp(settings[i].option, option) != 0)
        i++;
    ASSERT(i < count); /* each option of commands.txt has a member */
    return (char *)start + settings[i].offset;
}

void *options_find_setting(const struct invocation *invocation, const char *option)
{
    const struct command *command = invocation->row->command;
    return find_setting(command->settings, command->setting_count, option, invocation->settings);
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static int store_number(const struct invocation *invocation, const struct option_row *row, const char *value,
                        struct option_number *number)
{
    uint64_t parsed;
    if (!parse_number(value, &parsed) || parsed < row->min || parsed > row->max)
        return complain_usage(invocation, "--%s takes a whole number from %llu to %llu, not \"%s\"", row->name,
                              (unsigned long long)row->min, (unsigned long long)row->max, value);
    *number = (struct option_number){.is_given = true, .value = parsed};
    return EXIT_DONE;
}

static int store(const struct invocation *invocation, const struct option_row *row, const char *value, void *member)
{
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return EXIT_DONE;
    case OPTION_TEXT:
        *(const char **)member = value;
        return EXIT_DONE;
    case OPTION_NUMBER:
        return store_number(invocation, row, value, member);
    case OPTION_LIST: {
        struct option_list *list = member;
        if (list->count == OPTION_LIST_MAX)
            return complain_usage(invocation, "--%s can be given %d times", row->name, OPTION_LIST_MAX);
        list->items[list->count++] = value;
        return EXIT_DONE;
    }
    }
    return EXIT_USAGE;
}

static void store_fallbacks(struct invocation *invocation)
{
    for (size_t i = 0; i < invocation->row->option_count; i++) {
        const struct option_row *row = &invocation->row->options[i];
        void *setting = options_find_setting(invocation, row->name);
        int status = row->fallback == NULL ? EXIT_DONE : store(invocation, row, row->fallback, setting);
        ASSERT(status == EXIT_DONE);
    }
}

/* Takes words[*at], which begins with "--", and its value; moves *at to the last word taken. */
static int parse_option(struct invocation *invocation, int count, char **words, int *at)
{
    const char *name = words[*at] + 2;
    const char *value = strchr(name, '=');
    size_t size = value == NULL ? strlen(name) : (size_t)(value - name);
    const struct option_row *own = find_row(invocation->row->options, invocation->row->option_count, name, size);
    const struct option_row *row = own != NULL ? own : find_row(options_common, options_common_count, name, size);

    if (row == NULL)
        return complain_usage(invocation, "there is no option %s", words[*at]);
    if (row->kind == OPTION_FLAG && value != NULL)
        return complain_usage(invocation, "--%s takes no value", row->name);
    if (row->kind != OPTION_FLAG && value == NULL && *at + 1 >= count)
        return complain_usage(invocation, "--%s needs a value: --%s %s", row->name, row->name, row->value);
    if (row->kind != OPTION_FLAG)
        value = value == NULL ? words[++*at] : value + 1;
    return store(invocation, row, value,
                 own != NULL ? options_find_setting(invocation, row->name)
                             : find_setting(settings_common, ARRAY_LENGTH(settings_common), row->name, invocation));
}

static int check_arguments(const struct invocation *invocation)
{
    const struct command_row *row = invocation->row;
    if (invocation->argument_count < row->arguments_min)
        return complain_usage(invocation, "something is missing: tally %s %s%s", row->name, row->arguments,
                              row->takes_program ? " -- COMMAND [ARGUMENT...]" : "");
    if (row->arguments_max >= 0 && invocation->argument_count > row->arguments_max)
        return complain_usage(invocation, "\"%s\" is one argument too many: tally %s %s",
                              invocation->arguments[row->arguments_max], row->name, row->arguments);
    if (row->takes_program && invocation->program_count == 0)
        return complain_usage(invocation, "the command to run is missing; it stands behind \"--\"");
    return EXIT_DONE;
}

int options_parse(struct invocation *invocation, int count, char **words, bool *wants_help)
{
    bool takes_program = invocation->row->takes_program;
    bool is_open = true; /* options are still recognised */

    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        *wants_help = *wants_help || strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0;
    if (*wants_help)
        return EXIT_DONE;
    store_fallbacks(invocation);
    invocation->arguments = words;
    for (int i = 0; i < count; i++) {
        if (is_open && strcmp(words[i], "--") == 0) {
            is_open = false;
            if (!takes_program)
                continue;
            invocation->program = words + i + 1;
            invocation->program_count = count - i - 1;
            break;
        }
        if (is_open && words[i][0] == '-' && words[i][1] != '\0') {
            int status = words[i][1] == '-' ? parse_option(invocation, count, words, &i)
                                            : complain_usage(invocation, "there is no option %s", words[i]);
            if (status != EXIT_DONE)
                return status;
            continue;
        }
        words[invocation->argument_count++] = words[i]; /* never beyond i */
    }
    return check_arguments(invocation);
}
