/* Prints the configuration file that packages bring: every key of the table with its help, commented out with its
 * default. What is given as KEY=VALUE is set instead. A program of the build; it links nothing. */
#include "base/assert.h"
#include "tallyd/config.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 78

struct sample_row {
    const char *name;
    const char *standard;
    const char *help;
    enum config_hup hup;
};

static const struct sample_row rows[] = {
#define SAMPLE_ROW(key, name, kind, standard, least, most, hup, help) {name, standard, help, CONFIG_##hup},
    CONFIG_KEYS(SAMPLE_ROW)
#undef SAMPLE_ROW
};

static const char head[] = "# The configuration of tallyd: see tallyd.conf(5) and tallyd --help.\n"
                           "#\n"
                           "# Each key is commented out with its default. To change one, take the # away,\n"
                           "# and then: systemctl restart tallyd. Where it says so, systemctl reload tallyd\n"
                           "# will do. Before either, tallyd --config /etc/tally/tallyd.conf --check-config\n"
                           "# says what is wrong; --print-config says what is in force.\n"
                           "#\n"
                           "# Sizes: 65536, 64KiB, 8MiB, 1GiB. Times: 500ms, 30s, 5m, 1h. Switches: on, off.\n";

/* The text in lines of a comment. */
static void print_comment(const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t size = strcspn(text, " ");
        const bool fits = column > 0 && column + 1 + size <= WIDTH;
        if (!fits)
            column = (size_t)printf("%s#", column > 0 ? "\n" : "");
        column += (size_t)printf(" %.*s", (int)size, text);
        text += size + (text[size] == ' ');
    }
    putchar('\n');
}

/* The VALUE of KEY=VALUE, where KEY is that name; or NULL. */
static const char *find_value(char **settings, const char *name)
{
    const size_t size = strlen(name);
    for (; *settings != NULL; settings++)
        if (strncmp(*settings, name, size) == 0 && (*settings)[size] == '=')
            return *settings + size + 1;
    return NULL;
}

int main(int argc, char **argv)
{
    int found = 0;
    fputs(head, stdout);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct sample_row *row = &rows[i];
        const char *value = find_value(argv + 1, row->name);
        putchar('\n');
        print_comment(row->help);
        if (row->hup != CONFIG_RESTART)
            print_comment(row->hup == CONFIG_RELOAD ? "A reload takes it." : "A reload reads the file again.");
        if (value != NULL)
            printf("%s = %s\n", row->name, value);
        else
            printf("#%s =%s%s\n", row->name, row->standard[0] == '\0' ? "" : " ", row->standard);
        found += value != NULL;
    }
    if (found != argc - 1)
        fputs("sample_config: an argument is no KEY=VALUE with a key of the table.\n", stderr);
    return found == argc - 1 ? 0 : 1;
}
