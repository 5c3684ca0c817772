#include "tallyd/manual.h"

#include "manual/mdoc.h"
#include "manual/page_file.h"
#include "tallyd/config_help.h"

#include <string.h>

/* What SIGHUP does for a key, in a table and in a sentence. */
static const char *const hups[] = {
    [CONFIG_RELOAD] = "SIGHUP",
    [CONFIG_CONTENTS] = "SIGHUP reads the file again; another file: restart",
    [CONFIG_RESTART] = "restart",
};
static const char *const hup_sentences[] = {
    [CONFIG_RELOAD] = "SIGHUP takes another value.",
    [CONFIG_CONTENTS] = "SIGHUP reads the file again; another file needs a restart.",
    [CONFIG_RESTART] = "Another value needs a restart.",
};

/* --- tallyd(8) ---------------------------------------------------------------------------------------------------- */

static void write_modes(struct buffer *page)
{
    mdoc_section(page, "MODES");
    buffer_append_format(page, "Without any of these, tallyd serves.\n");
    mdoc_list_begin(page);
    for (size_t i = 0; i < config_mode_count; i++) {
        mdoc_term(page, config_modes[i].flag);
        mdoc_prose(page, config_modes[i].text);
    }
    mdoc_list_end(page);
}

static void write_short_keys(struct buffer *page)
{
    mdoc_section(page, "KEYS");
    mdoc_prose(page, config_about_keys);
    buffer_append_format(page, ".Xr tallyd.conf 5\nsays more of each.\n");
    mdoc_list_begin(page);
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        mdoc_flag(page, config_name((enum config_key)key), NULL);
        mdoc_prose(page, config_row((enum config_key)key)->help);
    }
    mdoc_list_end(page);
}

static void write_signals(struct buffer *page)
{
    static const struct config_mode rows[] = {
        {"SIGTERM, SIGINT", "A clean stop; a second one does not wait for replies and relays that are under way."},
        {"SIGHUP", "Read the configuration, the certificates and the credentials again. What is wrong is told on "
                   "standard error, and changes nothing."},
    };
    mdoc_section(page, "SIGNALS");
    mdoc_list_begin(page);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mdoc_term(page, rows[i].flag);
        mdoc_prose(page, rows[i].text);
    }
    mdoc_list_end(page);
}

static void write_exit(struct buffer *page)
{
    static const struct config_mode rows[] = {
        {"0", "A clean stop."},
        {"1", "It could not start, its log failed, or its database turned out to be another cluster's."},
        {"2", "The command line or the configuration is wrong."},
    };
    mdoc_section(page, "EXIT STATUS");
    mdoc_list_begin(page);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mdoc_term(page, rows[i].flag);
        mdoc_prose(page, rows[i].text);
    }
    mdoc_list_end(page);
    buffer_append_format(page, "The other modes say theirs above.\n");
}

void manual_write_daemon(struct buffer *page, const char *date)
{
    mdoc_begin(page, date, "tallyd", 8, "a durable queue server that speaks the Amazon SQS protocol");
    mdoc_section(page, "SYNOPSIS");
    buffer_append_format(page, ".Nm tallyd\n");
    mdoc_usage(page, "[--config FILE] [--KEY VALUE ...]");
    buffer_append_format(page, ".Nm tallyd\n");
    mdoc_usage(page, "--check-config [--config FILE] [--KEY VALUE ...]");
    buffer_append_format(page, ".Nm tallyd\n");
    mdoc_usage(page, "--verify DIR");
    buffer_append_format(page, ".Nm tallyd\n");
    mdoc_usage(page, "--salvage DIR --to NEW");
    mdoc_section(page, "DESCRIPTION");
    mdoc_prose(page, config_about_serving);
    write_modes(page);
    write_short_keys(page);
    write_signals(page);
    write_exit(page);
    mdoc_section(page, "SEE ALSO");
    buffer_append_format(page, ".Xr tally 1 ,\n.Xr tallyd.conf 5 ,\n.Xr tally-protocol 7\n");
}

/* --- tallyd.conf(5) ----------------------------------------------------------------------------------------------- */

static void write_key(struct buffer *page, enum config_key key)
{
    const struct config_row *row = config_row(key);
    char range[CONFIG_RANGE_SIZE], variable[CONFIG_VARIABLE_SIZE];
    config_range(row, range);
    config_variable(key, variable);
    mdoc_term(page, row->name);
    mdoc_prose(page, row->help);
    mdoc_paragraph(page);
    if (range[0] != '\0') {
        buffer_append_format(page, "Range: ");
        mdoc_text(page, range);
        buffer_append_format(page, ".\n");
    }
    buffer_append_format(page, "Default: ");
    mdoc_text(page, row->standard[0] == '\0' ? "empty" : row->standard);
    buffer_append_format(page, ".\nVariable: %s.\n%s\n", variable, hup_sentences[row->hup]);
}

void manual_write_keys(struct buffer *page, const char *date)
{
    mdoc_begin(page, date, "tallyd.conf", 5, "configuration of tallyd");
    mdoc_section(page, "DESCRIPTION");
    buffer_append_format(page,
                         "The file that\n.Xr tallyd 8\nreads with \\-\\-config has a key and its value a line:\n");
    mdoc_literal(page, "  # A comment\n  body-max = 1MiB   ; another one\n");
    mdoc_paragraph(page);
    mdoc_prose(page, "There are no sections, and a key stands once.\n");
    mdoc_paragraph(page);
    mdoc_prose(page, config_about_keys);
    mdoc_section(page, "KEYS");
    mdoc_list_begin(page);
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++)
        write_key(page, (enum config_key)key);
    mdoc_list_end(page);
    mdoc_section(page, "SEE ALSO");
    buffer_append_format(page, ".Xr tallyd 8\n");
}

/* --- docs/configuration.md ---------------------------------------------------------------------------------------- */

static const char markdown_begin[] =
    "# Configuration\n"
    "\n"
    "Every key of `tallyd`: what it is for, its default, its range, and what makes another value take effect. "
    "`tallyd`\n"
    "itself makes this page, `--help` and tallyd.conf(5) of one table.\n"
    "\n"
    "```ini\n"
    "# /etc/tally/tallyd.conf, for tallyd --config /etc/tally/tallyd.conf\n"
    "data = /var/lib/tally\n"
    "listen = 0.0.0.0:9324\n"
    "credentials = /etc/tally/credentials\n"
    "slow-request = 100ms      ; a comment\n"
    "```\n"
    "\n"
    "- A key is a line of the file, a flag (`--slow-request 100ms`) and a variable (`TALLY_SLOW_REQUEST=100ms`). A "
    "flag\n"
    "  beats a variable, a variable the file, the file the default.\n"
    "- Sizes are written `65536`, `64KiB`, `8MiB`, `1GiB`; times `500ms`, `30s`, `5m`, `1h`; switches `on` and `off`.\n"
    "- `tallyd --check-config --config FILE` says all that is wrong, with key and line, and changes nothing. Its exit\n"
    "  status is 0 if nothing is wrong, else 1. Ask it before a restart or a SIGHUP.\n"
    "- `tallyd --print-config` prints what is in force, and where each value comes from.\n"
    "- The file is an ordinary one, or what a shell opens: `--config <(COMMAND)`, `--config /dev/stdin`. Such a one is "
    "read\n"
    "  at the start only.\n"
    "\n"
    "SIGHUP has `tallyd` read flags, variables, file, certificates and credentials again. It takes the keys that say\n"
    "*SIGHUP* below. If another key has changed, standard error says `needs a restart: KEY`, and the old value stays "
    "in\n"
    "force. If anything is wrong, all of the configuration stays as it is, and standard error says why.\n"
    "\n"
    "| key | what it is for | default | range | takes effect by |\n"
    "|---|---|---|---|---|\n";

/* A bar would end the cell. */
static void append_cell(struct buffer *page, const char *text)
{
    for (; *text != '\0'; text++)
        buffer_append_format(page, *text == '|' ? "\\%c" : "%c", *text);
}

static void append_code(struct buffer *page, const char *text)
{
    if (text[0] != '\0')
        buffer_append_format(page, "`%s`", text);
}

void manual_write_markdown(struct buffer *page)
{
    buffer_append(page, markdown_begin, strlen(markdown_begin));
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        const struct config_row *row = config_row((enum config_key)key);
        char range[CONFIG_RANGE_SIZE];
        config_range(row, range);
        buffer_append_format(page, "| `%s` | ", row->name);
        append_cell(page, row->help);
        buffer_append_format(page, " | ");
        append_code(page, row->standard);
        buffer_append_format(page, " | %s | %s |\n", range, hups[row->hup]);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

int manual_write_all(const char *folder)
{
    char date[MDOC_DATE_SIZE];
    struct buffer daemon, keys, markdown;
    buffer_init(&daemon);
    buffer_init(&keys);
    buffer_init(&markdown);
    mdoc_date(date);
    manual_write_daemon(&daemon, date);
    manual_write_keys(&keys, date);
    manual_write_markdown(&markdown);
    int failed = page_file_write(folder, "tallyd.8", &daemon);
    failed = failed != 0 ? failed : page_file_write(folder, "tallyd.conf.5", &keys);
    failed = failed != 0 ? failed : page_file_write(folder, "configuration.md", &markdown);
    buffer_deinit(&daemon);
    buffer_deinit(&keys);
    buffer_deinit(&markdown);
    return failed;
}
