#include "tallyd/config_help.h"

#include "base/assert.h"

#include <string.h>

#define WIDTH 119u /* of a line of the help */
#define INDENT 22u /* of the text beside a flag */

const char config_about_serving[] =
    "tallyd prints one line on standard output when it serves, and ends cleanly on SIGTERM and SIGINT. SIGHUP has it "
    "read the configuration and the files of certificate and credentials again. What is wrong with them is told on "
    "standard error, and the old ones stay in force. A key that has changed and needs a restart is named there. "
    "GET /health and GET /metrics answer wherever it listens.\n";

const char config_about_keys[] =
    "Each key is a flag, a variable (--body-max is TALLY_BODY_MAX) and a line of the configuration file "
    "(body-max = 8MiB). A flag beats a variable, a variable the file, the file the default. "
    "Sizes: 65536, 64KiB, 8MiB, 1GiB. Times: 500ms, 30s, 5m, 1h. Switches: on, off.\n";

const struct config_mode config_modes[] = {
    {"--config FILE", "Read keys from FILE (TALLY_CONFIG)."},
    {"--check-config",
     "Read flags, variables and file as a start would, and the files that they name. Print all that is wrong, with key "
     "and line, and end: status 0 nothing is, 1 something is. Nothing is changed, and nothing is connected to."},
    {"--init", "Make the tables of a log in PostgreSQL, and end: tallyd --log postgres://... --init"},
    {"--print-config", "Print the configuration in force, in the form of the file, and end."},
    {"--verify DIR", "Read all of a data folder, of a backup, or of one namespace, check every checksum, change "
                     "nothing, and end: status "
                     "0 it is clean, 1 damaged, 2 could not be read. No tallyd may have it."},
    {"--verify",
     "Likewise with every log in the PostgreSQL that --log names; tallyd may serve meanwhile. Copies one log at a time "
     "to TMPDIR."},
    {"--salvage DIR --to NEW",
     "Write what can be read of a damaged folder into a new one, with a list of what is lost; DIR is not changed. "
     "Status 0 nothing is lost, 1 something is, 2 it failed."},
    {"--restore DIR --to NEW [--until TIME]",
     "Make a data folder of a backup (tally backup), up to a time such as 2026-11-30T03:10:00Z. Numbers that clients "
     "know are raised, relays are paused. Status 0; 1 the backup is damaged, 2 it failed."},
    {"--restore DIR --archive ARCHIVE --until TIME --to NEW",
     "Likewise as it was at any time that the archive reaches back to. DIR is a backup, or the data folder of a tallyd "
     "that has ended; both folders are only read."},
    {"--version", "Print the version and end."},
    {"--help", "Print this and end."},
};
const size_t config_mode_count = ARRAY_LENGTH(config_modes);

void config_range(const struct config_row *row, char text[CONFIG_RANGE_SIZE])
{
    char least[32], most[32];
    config_value_format(row->kind, row->least, least);
    config_value_format(row->kind, row->most, most);
    switch (row->kind) {
    case CONFIG_TEXT:
        text[0] = '\0';
        break;
    case CONFIG_SWITCH:
        snprintf(text, CONFIG_RANGE_SIZE, "on or off");
        break;
    case CONFIG_MEMORY:
        snprintf(text, CONFIG_RANGE_SIZE, "1%% to 100%%, a size up to %s, or off", most);
        break;
    case CONFIG_BUDGET:
        snprintf(text, CONFIG_RANGE_SIZE, "auto, or %s to %s", least, most);
        break;
    case CONFIG_MIN_FREE:
        snprintf(text, CONFIG_RANGE_SIZE, "auto, a size, or off");
        break;
    case CONFIG_COUNT:
    case CONFIG_SIZE:
    case CONFIG_TIME:
        snprintf(text, CONFIG_RANGE_SIZE, "%s to %s", least, most);
        break;
    }
}

/* Prints a text in lines, each with so many blanks before it; the first line has `column` characters already. */
static void print_wrapped(FILE *stream, const char *text, size_t indent, size_t column)
{
    while (*(text += strspn(text, " \n")) != '\0') {
        const size_t size = strcspn(text, " \n");
        if (column > indent && column + 1 + size > WIDTH) {
            fputc('\n', stream);
            column = 0;
        }
        if (column < indent)
            column += (size_t)fprintf(stream, "%*s", (int)(indent - column), "");
        else if (column > indent)
            column += (size_t)fprintf(stream, " ");
        column += (size_t)fprintf(stream, "%.*s", (int)size, text);
        text += size;
    }
    fputc('\n', stream);
}

static void print_mode(FILE *stream, const struct config_mode *mode)
{
    size_t column = (size_t)fprintf(stream, "  %s", mode->flag);
    if (column + 1 >= INDENT) {
        fputc('\n', stream);
        column = 0;
    }
    print_wrapped(stream, mode->text, INDENT, column);
}

void config_help_print(FILE *stream)
{
    fprintf(stream,
            "tallyd %s: a durable queue server that speaks the Amazon SQS protocol\n"
            "\n"
            "  tallyd [--config FILE] [--KEY VALUE ...]\n"
            "  tallyd --check-config [--config FILE] [--KEY VALUE ...]\n"
            "  tallyd --verify DIR\n"
            "  tallyd --log postgres://... --verify\n"
            "  tallyd --salvage DIR --to NEW\n"
            "  tallyd --restore DIR --to NEW [--until TIME]\n"
            "  tallyd --restore DIR --archive ARCHIVE --until TIME --to NEW\n"
            "\n",
            TALLY_VERSION);
    print_wrapped(stream, config_about_serving, 0, 0);
    fputc('\n', stream);
    print_wrapped(stream, config_about_keys, 0, 0);
    fputc('\n', stream);
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        const struct config_row *row = config_row((enum config_key)key);
        fprintf(stream, "  --%-17s %s%s%s%s\n", row->name, row->help, row->standard[0] == '\0' ? "" : " [",
                row->standard, row->standard[0] == '\0' ? "" : "]");
    }
    fputc('\n', stream);
    for (size_t i = 0; i < config_mode_count; i++)
        print_mode(stream, &config_modes[i]);
}
