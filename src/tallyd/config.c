#include "tallyd/config.h"

#include "base/assert.h"
#include "base/memory.h"
#include "base/quote.h"
#include "conninfo/conninfo.h"
#include "platform/regular_file.h"
#include "tallyd/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORIGIN_SIZE 256

static const struct config_row rows[CONFIG_KEY_COUNT] = {
#define CONFIG_ROW(key, name, kind, standard, least, most, hup, help)                                                  \
    [CONFIG_##key] = {name, CONFIG_##kind, standard, least, most, CONFIG_##hup, help},
    CONFIG_KEYS(CONFIG_ROW)
#undef CONFIG_ROW
};

const char *config_text(const struct config *config, enum config_key key)
{
    return config->values[key].text_owned;
}

const char *config_data(const struct config *config)
{
    return config->temporary_data != NULL ? config->temporary_data : config_text(config, CONFIG_DATA);
}

uint64_t config_number(const struct config *config, enum config_key key)
{
    ASSERT(rows[key].kind != CONFIG_TEXT);
    return config->values[key].number;
}

const struct config_row *config_row(enum config_key key)
{
    return &rows[key];
}

const char *config_name(enum config_key key)
{
    return rows[key].name;
}

bool config_is_default(const struct config *config, enum config_key key)
{
    return config->values[key].source == CONFIG_DEFAULT;
}

/* Only a connection string may have a secret in it. Files of secrets are named by their paths, and a URL with a user
 * in it is refused (listeners.c). */
void config_show(const struct config *config, enum config_key key, struct buffer *text)
{
    const char *value = config_text(config, key);
    if (conninfo_is_uri(value))
        conninfo_redact(value, text);
    else if (quote_is_utf8(bytes_from_string(value)))
        buffer_append_bytes(text, bytes_from_string(value));
    else
        buffer_append_format(text, "(not shown: it is not UTF-8)");
}

/* CONFIG_KEY_COUNT: there is no such key. */
static enum config_key config_find(const char *name, size_t size)
{
    size_t key = 0;
    while (key < CONFIG_KEY_COUNT && !(strlen(rows[key].name) == size && memcmp(rows[key].name, name, size) == 0))
        key++;
    return (enum config_key)key;
}

static void variable_name(const char *name, char text[CONFIG_VARIABLE_SIZE])
{
    snprintf(text, CONFIG_VARIABLE_SIZE, "TALLY_%s", name);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

void config_variable(enum config_key key, char text[CONFIG_VARIABLE_SIZE])
{
    variable_name(rows[key].name, text);
}

/* Where a key gets its value from. */
static void write_origin(const struct config *config, enum config_key key, enum config_source source, int line,
                         char text[ORIGIN_SIZE])
{
    char variable[CONFIG_VARIABLE_SIZE];
    switch (source) {
    case CONFIG_DEFAULT:
        snprintf(text, ORIGIN_SIZE, "default");
        break;
    case CONFIG_FILE:
        snprintf(text, ORIGIN_SIZE, "from %.200s:%d", config->file_owned, line);
        break;
    case CONFIG_VARIABLE:
        config_variable(key, variable);
        snprintf(text, ORIGIN_SIZE, "from %s", variable);
        break;
    case CONFIG_FLAG:
        snprintf(text, ORIGIN_SIZE, "from --%s", rows[key].name);
        break;
    }
}

static void config_origin(const struct config *config, enum config_key key, char text[ORIGIN_SIZE])
{
    write_origin(config, key, config->values[key].source, config->values[key].line, text);
}

void config_describe(const struct config *config, enum config_key key, char *text, size_t size)
{
    char origin[ORIGIN_SIZE];
    config_origin(config, key, origin);
    snprintf(text, size, "%s (%s)", rows[key].name, origin);
}

bool config_note(struct config *config, struct failure *failure)
{
    if (!config->wants_check)
        return false;
    buffer_append_format(&config->faults, "%s\n",
                         failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text);
    failure_init(failure);
    return true;
}

static char *copy_text(const char *text)
{
    char *copy = memory_allocate(strlen(text) + 1);
    memcpy(copy, text, strlen(text) + 1);
    return copy;
}

/* From text to number. `described` is how the message names the key. */
static enum error value_parse(const struct config_row *row, const char *described, const char *text, uint64_t *number,
                              struct failure *failure)
{
    if (!config_value_parse(row->kind, text, number))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is \"%s\": it must be %s.", described, text,
                           config_value_example(row->kind));
    if (row->kind == CONFIG_TEXT || (*number >= row->least && *number <= row->most))
        return OK;
    char least[32], most[32];
    config_value_format(row->kind, row->least, least);
    config_value_format(row->kind, row->most, most);
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is %s: it must be from %s to %s.", described, text,
                       least, most);
}

/* Sets a key, unless a stronger source has set it. On error nothing changes. */
static enum error config_set(struct config *config, enum config_key key, const char *text, enum config_source source,
                             int line, struct failure *failure)
{
    struct config_value *value = &config->values[key];
    if (value->text_owned != NULL && value->source > source)
        return OK;
    char origin[ORIGIN_SIZE], described[ORIGIN_SIZE + CONFIG_VARIABLE_SIZE];
    write_origin(config, key, source, line, origin);
    if (source == CONFIG_FILE) /* the message begins with file and line */
        snprintf(described, sizeof(described), "%s", rows[key].name);
    else
        snprintf(described, sizeof(described), "%s (%s)", rows[key].name, origin);
    uint64_t number;
    const enum error error = value_parse(&rows[key], described, text, &number, failure);
    if (error != OK)
        return error;
    free(value->text_owned);
    *value = (struct config_value){.text_owned = copy_text(text), .number = number, .source = source, .line = line};
    return OK;
}

char *config_take(struct config *config, enum config_key key, const struct config *newer)
{
    char *before = config->values[key].text_owned;
    config->values[key] = newer->values[key];
    config->values[key].text_owned = copy_text(newer->values[key].text_owned);
    return before;
}

/* --- Flags and variables ------------------------------------------------------------------------------------------ */

struct arguments {
    int count;
    char **list;
    int next;
};

/* The value of a flag: the text after its "=", or the next argument unless that is a flag. A switch needs none. NULL:
 * it is missing. */
static const char *flag_value(struct arguments *arguments, const char *equals, bool is_switch)
{
    if (equals != NULL)
        return equals + 1;
    if (arguments->next == arguments->count || strncmp(arguments->list[arguments->next], "--", 2) == 0)
        return is_switch ? "on" : NULL;
    return arguments->list[arguments->next++];
}

static enum error flag_without_value(const char *name, size_t size, struct failure *failure)
{
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "--%.*s needs a value; tallyd --help says which.",
                       (int)size, name);
}

/* Handles the flags that are not keys. False: `name` is none of them. */
static bool config_take_word(struct config *config, const char *name)
{
    if (strcmp(name, "help") == 0)
        config->wants_help = true;
    else if (strcmp(name, "version") == 0)
        config->wants_version = true;
    else if (strcmp(name, "print-config") == 0)
        config->wants_print = true;
    else if (strcmp(name, "check-config") == 0)
        config->wants_check = true;
    else if (strcmp(name, "init") == 0)
        config->wants_init = true;
    else
        return false;
    return true;
}

static void path_set(char **path, const char *value)
{
    free(*path);
    *path = copy_text(value);
}

/* The flags that name a file or a folder and are not keys; NULL: `name` is not one of them. */
static char **config_path(struct config *config, const char *name, size_t size)
{
    struct {
        const char *name;
        char **path;
    } paths[] = {
        {"config", &config->file_owned},   {"verify", &config->verify_owned},   {"salvage", &config->salvage_owned},
        {"manual", &config->manual_owned}, {"restore", &config->restore_owned}, {"until", &config->until_owned},
        {"to", &config->to_owned}};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        if (strlen(paths[i].name) == size && memcmp(paths[i].name, name, size) == 0)
            return paths[i].path;
    return NULL;
}

static enum error config_take_flag(struct config *config, struct arguments *arguments, struct failure *failure)
{
    const char *argument = arguments->list[arguments->next++];
    if (strcmp(argument, "-h") == 0) {
        config->wants_help = true;
        return OK;
    }
    if (strncmp(argument, "--", 2) != 0) {
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "\"%s\" is no flag: flags begin with --; tallyd --help lists them.", argument);
    }
    const char *name = argument + 2;
    if (config_take_word(config, name))
        return OK;
    const char *equals = strchr(name, '=');
    size_t name_size = equals == NULL ? strlen(name) : (size_t)(equals - name);
    char **path = config_path(config, name, name_size);
    if (path != NULL) {
        const char *value = flag_value(arguments, equals, false);
        const bool may_lack = path == &config->verify_owned && value == NULL;
        if (!may_lack && (value == NULL || value[0] == '\0'))
            return flag_without_value(name, name_size, failure);
        path_set(path, may_lack ? "" : value);
        return OK;
    }
    enum config_key key = config_find(name, name_size);
    if (key == CONFIG_KEY_COUNT) {
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "there is no flag \"--%.*s\"; tallyd --help lists them.", (int)name_size, name);
    }
    const char *value = flag_value(arguments, equals, rows[key].kind == CONFIG_SWITCH);
    if (value == NULL)
        return flag_without_value(name, name_size, failure);
    return config_set(config, key, value, CONFIG_FLAG, 0, failure);
}

/* An empty variable counts as absent, because a container's template leaves a variable out like that. */
static const char *variable_value(const char *name)
{
    char variable[CONFIG_VARIABLE_SIZE];
    variable_name(name, variable);
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static enum error config_take_variables(struct config *config, struct failure *failure)
{
    enum error error = OK;
    for (size_t key = 0; key < CONFIG_KEY_COUNT && error == OK; key++) {
        const char *value = variable_value(rows[key].name);
        if (value != NULL)
            error = config_set(config, (enum config_key)key, value, CONFIG_VARIABLE, 0, failure);
        if (error != OK && config_note(config, failure))
            error = OK;
    }
    const char *file = variable_value("config");
    if (error == OK && config->file_owned == NULL && file != NULL)
        path_set(&config->file_owned, file);
    return error;
}

/* --- The file ----------------------------------------------------------------------------------------------------- */

struct config_file {
    struct config *config;
    FILE *stream;
    int line;     /* being read */
    int line_bad; /* the number of the first wrong line; 0: none */
    bool is_set[CONFIG_KEY_COUNT];
    struct failure failure; /* what is wrong with it */
};

/* Keeps the first error in the file; with --check-config all of them are noted. */
static void file_fail(struct config_file *file, const char *before, const char *name, const char *behind)
{
    struct failure failure;
    failure_init(&failure);
    if (file->line_bad != 0)
        return;
    (void)failure_set(&failure, ERROR_INVALID_PARAMETER_VALUE, "%s:%d: %s%s%s", file->config->file_owned, file->line,
                      before, name, behind);
    if (config_note(file->config, &failure))
        return;
    file->line_bad = file->line;
    file->failure = failure;
}

/* fgets() for inih, which would silently split a line that is longer than its buffer. */
static char *file_read_line(char *line, int size, void *context)
{
    struct config_file *file = context;
    if (fgets(line, size, file->stream) == NULL)
        return NULL;
    file->line++;
    if (strchr(line, '\n') == NULL && !feof(file->stream)) {
        int character;
        while ((character = fgetc(file->stream)) != EOF && character != '\n') {
        }
        char most[16];
        snprintf(most, sizeof(most), "%d", size - 2);
        file_fail(file, "the line is longer than ", most, " characters.");
    }
    return line;
}

static int file_take_value(void *context, const char *section, const char *name, const char *value)
{
    struct config_file *file = context;
    enum config_key key = config_find(name, strlen(name));
    struct failure failure;
    failure_init(&failure);
    if (file->line_bad != 0)
        return 0;
    if (section[0] != '\0')
        file_fail(file, "the file has no sections, but this line stands in [", section, "].");
    else if (key == CONFIG_KEY_COUNT)
        file_fail(file, "there is no key \"", name, "\"; tallyd --help lists them.");
    else if (file->is_set[key])
        file_fail(file, "", name, " is set twice.");
    else if (config_set(file->config, key, value, CONFIG_FILE, file->line, &failure) != OK)
        file_fail(file, failure.text, "", "");
    else
        file->is_set[key] = true;
    return file->line_bad == 0;
}

/* Anything else than a file at that path may never end, and a start would wait for it without a word. */
static FILE *open_file(const char *path, const char **why)
{
    const int descriptor = regular_file_open_given(path, why);
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (stream == NULL && descriptor >= 0) {
        *why = strerror(errno);
        (void)close(descriptor);
    }
    return stream;
}

static enum error config_read_file(struct config *config, struct failure *failure)
{
    const char *why = "";
    struct config_file file = {.config = config, .stream = open_file(config->file_owned, &why)};
    if (file.stream == NULL) {
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "can't open the configuration file %s: %s.",
                           config->file_owned, why);
    }
    int line_bad = ini_parse_stream(file_read_line, &file, file_take_value, &file);
    bool is_unreadable = ferror(file.stream) != 0;
    fclose(file.stream);
    if (is_unreadable) {
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "can't read the configuration file %s: %s.",
                           config->file_owned, strerror(errno));
    }
    if (line_bad > 0 && (file.line_bad == 0 || line_bad < file.line_bad)) {
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s:%d: a line must look like: key = value",
                           config->file_owned, line_bad);
    }
    if (file.line_bad != 0)
        *failure = file.failure;
    return file.line_bad != 0 ? ERROR_INVALID_PARAMETER_VALUE : OK;
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

const char *config_restore_archive(const struct config *config)
{
    const bool is_given = config->values[CONFIG_ARCHIVE].source == CONFIG_FLAG;
    return config->restore_owned != NULL && is_given ? config_text(config, CONFIG_ARCHIVE) : NULL;
}

/* What to do instead of serving: with one folder, and where the result goes. */
static enum error check_paths(const struct config *config, struct failure *failure)
{
    const bool writes = config->salvage_owned != NULL || config->restore_owned != NULL;
    const int modes =
        (config->verify_owned != NULL) + (config->salvage_owned != NULL) + (config->restore_owned != NULL);
    if (modes > 1)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "--verify, --salvage and --restore do not go together: type one of them.");
    if (writes && config->to_owned == NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "--%s needs a new folder to write into: tallyd --%s %s --to NEW.",
                           config->salvage_owned != NULL ? "salvage" : "restore",
                           config->salvage_owned != NULL ? "salvage" : "restore",
                           config->salvage_owned != NULL ? config->salvage_owned : config->restore_owned);
    if (!writes && config->to_owned != NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "--to %s says where --salvage and --restore write: there is no --salvage and no --restore.",
                           config->to_owned);
    if (config->restore_owned == NULL && config->until_owned != NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "--until %s says how far --restore goes, and there is no --restore.", config->until_owned);
    if (config_restore_archive(config) != NULL && config->until_owned == NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "--restore with --archive needs a time: tallyd --restore %s --archive %s --until TIME --to "
                           "%s.",
                           config->restore_owned, config_restore_archive(config), config->to_owned);
    return OK;
}

enum error config_load(struct config *config, int argc, char **argv, struct failure *failure)
{
    *config = (struct config){0};
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        enum error standard = config_set(config, (enum config_key)key, rows[key].standard, CONFIG_DEFAULT, 0, failure);
        ASSERT(standard == OK);
    }
    struct arguments arguments = {.count = argc, .list = argv, .next = 1};
    enum error error = OK;
    for (int i = 1; i < argc; i++) /* what is wrong before that flag is noted, too */
        config->wants_check = config->wants_check || strcmp(argv[i], "--check-config") == 0;
    while (error == OK && arguments.next < arguments.count) {
        error = config_take_flag(config, &arguments, failure);
        if (error != OK && config_note(config, failure))
            error = OK;
    }
    if (error == OK)
        error = check_paths(config, failure);
    if (config->wants_help || config->wants_version)
        return OK; /* whoever asks for help gets it, whatever else is wrong */
    if (error == OK)
        error = config_take_variables(config, failure);
    if (error == OK && config->file_owned != NULL)
        error = config_read_file(config, failure);
    return error != OK && config_note(config, failure) ? OK : error;
}

void config_deinit(struct config *config)
{
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++)
        free(config->values[key].text_owned);
    free(config->file_owned);
    free(config->verify_owned);
    free(config->salvage_owned);
    free(config->restore_owned);
    free(config->to_owned);
    free(config->manual_owned);
    free(config->until_owned);
    buffer_deinit(&config->faults);
    *config = (struct config){0};
}

void config_print(const struct config *config, FILE *stream)
{
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        char origin[ORIGIN_SIZE];
        config_origin(config, (enum config_key)key, origin);
        fprintf(stream, "%-16s = %-16s ; %s\n", rows[key].name, config->values[key].text_owned, origin);
    }
}
