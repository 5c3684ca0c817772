#include "tally/commands.h"

#include <string.h>

/* How many of the words form the name; 0 if they do not. */
static int match_name(const char *name, int count, char *const *words)
{
    int used = 0;
    while (used < count) {
        size_t size = strlen(words[used]);
        if (strncmp(name, words[used], size) != 0)
            return 0;
        used++;
        if (name[size] == '\0')
            return used;
        if (name[size] != ' ')
            return 0;
        name += size + 1;
    }
    return 0;
}

const struct command_row *command_of_words(int count, char *const *words, int *name_count)
{
    for (size_t i = 0; i < command_count; i++) {
        int used = match_name(commands[i].name, count, words);
        if (used > 0) {
            *name_count = used;
            return &commands[i];
        }
    }
    return NULL;
}

bool command_is_of_group(const struct command_row *row, const char *group)
{
    const size_t size = strlen(group);
    return size > 0 && strncmp(row->name, group, size) == 0 && row->name[size] == ' ';
}

bool command_is_group(const char *word)
{
    for (size_t i = 0; i < command_count; i++)
        if (command_is_of_group(&commands[i], word))
            return true;
    return false;
}
