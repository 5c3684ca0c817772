#include "tallyd/reload.h"

#include "tallyd/config_check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_SIZE_MAX (1 << 20)

void reload_init(struct reload *reload, struct config *config, int argument_count, char **arguments)
{
    *reload = (struct reload){.config = config, .argument_count = argument_count, .arguments = arguments};
    buffer_init(&reload->texts);
}

/* The loop waits for the file to be read. */
static enum error check_file(const char *path, struct failure *failure)
{
    struct stat status;
    if (path == NULL || stat(path, &status) != 0)
        return OK; /* reading it says why not */
    if (S_ISREG(status.st_mode) && status.st_size <= FILE_SIZE_MAX)
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "the configuration file %s is no ordinary file of at most %d bytes: only a start reads it.",
                       path, FILE_SIZE_MAX);
}

enum error reload_read(struct reload *reload, struct failure *failure)
{
    enum error error = check_file(reload->config->file_owned, failure);
    if (error != OK)
        return error;
    error = config_load(&reload->newer, reload->argument_count, reload->arguments, failure);
    return error == OK ? config_check_values(&reload->newer, failure) : error;
}

/* A share of the memory may be another number, though it is written as before. */
bool reload_has_changed(const struct reload *reload, enum config_key key)
{
    const struct config_value *before = &reload->config->values[key], *now = &reload->newer.values[key];
    return strcmp(before->text_owned, now->text_owned) != 0 ||
           (config_row(key)->hup == CONFIG_RELOAD && before->number != now->number);
}

static void append_name(struct buffer *names, enum config_key key)
{
    buffer_append_format(names, "%s%s", names->size == 0 ? "" : ", ", config_name(key));
}

void reload_take(struct reload *reload, struct buffer *taken, struct buffer *left)
{
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++) {
        const enum config_key key = (enum config_key)i;
        if (!reload_has_changed(reload, key))
            continue;
        if (config_row(key)->hup != CONFIG_RELOAD) {
            append_name(left, key);
            continue;
        }
        char *before = config_take(reload->config, key, &reload->newer);
        buffer_append(&reload->texts, &before, sizeof(before));
        append_name(taken, key);
    }
}

void reload_end(struct reload *reload)
{
    config_deinit(&reload->newer);
}

void reload_deinit(struct reload *reload)
{
    for (size_t at = 0; at < reload->texts.size; at += sizeof(char *)) {
        char *text;
        memcpy(&text, reload->texts.data_owned + at, sizeof(text));
        free(text);
    }
    buffer_deinit(&reload->texts);
}
