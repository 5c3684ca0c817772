#include "tally/candidates.h"

#include "base/assert.h"
#include "tally/commands.h"
#include <stdio.h>
#include <string.h>

/* What a placeholder of a usage line stands for: everywhere, or in the commands of a group or behind an option that are
 * called so. */
static const struct {
    const char *placeholder;
    const char *place; /* NULL: everywhere */
    enum candidate_names names;
} meanings[] = {
    {"QUEUE", NULL, NAMES_OF_QUEUES},         {"BATCH", NULL, NAMES_OF_BATCHES},
    {"POOL", NULL, NAMES_OF_POOLS},           {"FILE", NULL, NAMES_OF_FILES},
    {"FOLDER", NULL, NAMES_OF_FILES},         {"ID", "batch", NAMES_OF_BATCHES},
    {"NAME", "pool", NAMES_OF_POOLS},         {"NAME", "relay", NAMES_OF_RELAYS},
    {"NAME", "schedule", NAMES_OF_SCHEDULES}, {"NAME", "type-order", NAMES_OF_TYPE_ORDERS},
};

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

void candidates_add(struct candidates *candidates, struct bytes word, const char *meaning)
{
    buffer_append_bytes(&candidates->lines, candidates->stem);
    buffer_append_bytes(&candidates->lines, word);
    buffer_append_format(&candidates->lines, "\t%s\n", meaning);
}

/* --- placeholders ------------------------------------------------------------------------------------------------- */

/* The word "bash|zsh|fish" of a usage line names all that fits; "BODY|-" does not. */
static void add_choices(struct candidates *candidates, struct bytes placeholder)
{
    while (placeholder.size > 0) {
        const char *text = (const char *)placeholder.ptr;
        const char *bar = memchr(text, '|', placeholder.size);
        const size_t size = bar == NULL ? placeholder.size : (size_t)(bar - text);
        const size_t prefix_size = strlen(candidates->prefix);
        if (size >= prefix_size && memcmp(text, candidates->prefix, prefix_size) == 0)
            candidates_add(candidates, bytes_make(text, size), "");
        placeholder = bytes_skip(placeholder, bar == NULL ? size : size + 1);
    }
}

/* Something fits that a usage line calls so. `place` is the group of the command or the option. */
static void fit_placeholder(struct candidates *candidates, struct bytes placeholder, const char *place)
{
    const struct bytes choices = placeholder;
    size_t size = 0;
    while (size < placeholder.size && strchr("|.:=[]", placeholder.ptr[size]) == NULL)
        size++;
    placeholder.size = size;
    for (size_t i = 0; i < ARRAY_LENGTH(meanings); i++)
        if (bytes_equal(placeholder, bytes_from_string(meanings[i].placeholder)) &&
            (meanings[i].place == NULL || strcmp(meanings[i].place, place) == 0))
            candidates->names = meanings[i].names;
    if (size > 0 && placeholder.ptr[0] >= 'a' && placeholder.ptr[0] <= 'z' && size < choices.size &&
        choices.ptr[size] == '|')
        add_choices(candidates, choices);
}

/* The placeholder of the argument with this index, without the brackets around it; empty: there is none. */
static struct bytes find_placeholder(const char *usage, size_t index)
{
    struct bytes words[8];
    size_t count = 0;
    while (count < ARRAY_LENGTH(words) && *(usage += strspn(usage, " ")) != '\0') {
        words[count++] = bytes_make(usage, strcspn(usage, " "));
        usage += strcspn(usage, " ");
    }
    if (count == 0)
        return BYTES("");
    const bool is_repeated_whole =
        words[0].ptr[0] == '[' && count > 1 && bytes_ends_with(words[count - 1], BYTES("]..."));
    const bool is_repeated =
        bytes_ends_with(words[count - 1], BYTES("...")) || bytes_ends_with(words[count - 1], BYTES("...]"));
    if (index >= count && !is_repeated)
        return BYTES("");
    struct bytes word = words[is_repeated_whole ? index % count : index < count ? index : count - 1];
    return word.ptr[0] == '[' ? bytes_skip(word, 1) : word;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static const struct option_row *find_among(const struct option_row *rows, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_from_string(rows[i].name)))
            return &rows[i];
    return NULL;
}

/* The option of a word "--name" or "--name=value"; row may be NULL. */
static const struct option_row *find_option(const struct command_row *row, const char *word)
{
    const struct bytes name = bytes_make(word + 2, strcspn(word + 2, "="));
    const struct option_row *own = row == NULL ? NULL : find_among(row->options, row->option_count, name);
    return own != NULL ? own : find_among(options_common, options_common_count, name);
}

static void add_options(struct candidates *candidates, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "--%s", rows[i].name);
        if (begins_with(word, candidates->prefix))
            candidates_add(candidates, bytes_from_string(word), rows[i].help);
    }
}

/* A value of this option stands at the cursor. */
static void fit_value(struct candidates *candidates, const struct option_row *option)
{
    if (option->value != NULL)
        fit_placeholder(candidates, bytes_from_string(option->value), option->name);
}

/* The word at the cursor begins with a hyphen. */
static void fit_option(struct candidates *candidates, const struct command_row *row)
{
    const char *equals = strchr(candidates->prefix, '=');
    if (equals == NULL) {
        if (row != NULL)
            add_options(candidates, row->options, row->option_count);
        add_options(candidates, options_common, options_common_count);
        return;
    }
    const struct option_row *option = find_option(row, candidates->prefix);
    candidates->stem = bytes_make(candidates->prefix, (size_t)(equals + 1 - candidates->prefix));
    candidates->prefix = equals + 1;
    if (option != NULL)
        fit_value(candidates, option);
}

static void note_option(struct candidates *candidates, const struct option_row *option, const char *value)
{
    if (strcmp(option->name, "endpoint") == 0)
        candidates->endpoint = value;
    else if (strcmp(option->name, "ca-file") == 0)
        candidates->ca_file = value;
}

/* Passes over the option at words[*at] and its value. False: the value is what stands at the cursor. */
static bool pass_option(struct candidates *candidates, const struct command_row *row, int count, char *const *words,
                        int *at)
{
    const struct option_row *option = find_option(row, words[*at]);
    const char *equals = strchr(words[*at], '=');
    if (option == NULL || option->value == NULL)
        return true;
    if (equals != NULL) {
        note_option(candidates, option, equals + 1);
        return true;
    }
    if (++*at < count - 1) {
        note_option(candidates, option, words[*at]);
        return true;
    }
    fit_value(candidates, option);
    return false;
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

/* The next argument of a command stands at the cursor. */
static void fit_argument(struct candidates *candidates, const struct command_row *row, size_t index)
{
    char group[32] = "";
    const char *blank = strchr(row->name, ' ');
    if (blank != NULL)
        (void)snprintf(group, sizeof(group), "%.*s", (int)(blank - row->name), row->name);
    if (row->arguments_max >= 0 && index >= (size_t)row->arguments_max)
        fit_option(candidates, row);                         /* nothing else can follow */
    else if (blank == NULL || strcmp(blank, " create") != 0) /* a name that is new is nobody's */
        fit_placeholder(candidates, find_placeholder(row->arguments, index), group);
}

/* The words behind the name of a command. */
static void fit_command(struct candidates *candidates, const struct command_row *row, int count, char *const *words)
{
    size_t argument_count = 0;
    bool is_open = true; /* options are still recognised */
    for (int i = 0; i < count - 1; i++) {
        if (is_open && strcmp(words[i], "--") == 0) {
            is_open = false;
            if (!row->takes_program)
                continue;
            candidates->names = NAMES_OF_FILES;
            return;
        }
        if (!is_open || !begins_with(words[i], "--"))
            argument_count++;
        else if (!pass_option(candidates, row, count, words, &i))
            return;
    }
    if (is_open && candidates->prefix[0] == '-')
        fit_option(candidates, row);
    else
        fit_argument(candidates, row, argument_count);
}

/* What stands in `name` behind the words; NULL: it begins otherwise, or nothing does. */
static const char *rest_of_name(const char *name, int count, char *const *words)
{
    for (int i = 0; i < count; i++) {
        const size_t size = strlen(words[i]);
        if (strncmp(name, words[i], size) != 0 || name[size] != ' ')
            return NULL;
        name += size + 1;
    }
    return name;
}

/* The name of a command is not complete: the next words of all that begin so. */
static void fit_name(struct candidates *candidates, int count, char *const *words)
{
    struct bytes last = BYTES("");
    for (size_t i = 0; i < command_count; i++) {
        const char *rest = rest_of_name(commands[i].name, count, words);
        if (rest == NULL || !begins_with(rest, candidates->prefix))
            continue;
        const struct bytes word = bytes_make(rest, strcspn(rest, " "));
        const bool is_whole = rest[word.size] == '\0';
        if (!bytes_equal(word, last))
            candidates_add(candidates, word, is_whole ? commands[i].summary : "a group of commands");
        last = word;
    }
}

void candidates_find(struct candidates *candidates, int count, char *const *words)
{
    int at = 0, name_count = 0;
    *candidates = (struct candidates){.prefix = count == 0 ? "" : words[count - 1], .stem = BYTES("")};
    buffer_init(&candidates->lines);
    for (; at < count - 1 && begins_with(words[at], "--"); at++) /* tally --endpoint URL queue list */
        if (!pass_option(candidates, NULL, count, words, &at))
            return;
    const struct command_row *row = command_of_words(count - 1 - at, words + at, &name_count);
    if (row != NULL)
        fit_command(candidates, row, count - at - name_count, words + at + name_count);
    else if (at >= count - 1 && candidates->prefix[0] == '-')
        fit_option(candidates, NULL);
    else
        fit_name(candidates, count - 1 - at, words + at);
}

void candidates_deinit(struct candidates *candidates)
{
    buffer_deinit(&candidates->lines);
}
