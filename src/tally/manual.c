#include "tally/manual.h"

#include "manual/mdoc.h"
#include "manual/page_file.h"
#include "tally/help.h"
#include <stdio.h>
#include <string.h>

#define SECTION 1u
#define NAME_SIZE 64u

/* "queue create" is described by tally-queue-create(1). */
static void page_name(const char *command, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "tally-%s", command);
    for (char *at = name; *at != '\0'; at++)
        if (*at == ' ')
            *at = '-';
}

static void write_statuses(struct buffer *page)
{
    mdoc_section(page, "EXIT STATUS");
    mdoc_list_begin(page);
    for (size_t i = 0; i < help_status_count; i++) {
        mdoc_term(page, help_statuses[i].status);
        mdoc_prose(page, help_statuses[i].meaning);
    }
    mdoc_list_end(page);
}

/* "(1 to 9, default 4)" */
static void write_bounds(struct buffer *page, const struct option_row *row)
{
    const bool is_number = row->kind == OPTION_NUMBER, has_default = row->fallback != NULL;
    if (is_number)
        buffer_append_format(page, "(%llu to %llu%s", (unsigned long long)row->min, (unsigned long long)row->max,
                             has_default ? ", " : "");
    else if (row->kind == OPTION_LIST)
        buffer_append_format(page, "(may be given again");
    else if (has_default)
        buffer_append_format(page, "(");
    else
        return;
    if (has_default) {
        buffer_append_format(page, "default ");
        mdoc_text(page, row->fallback);
    }
    buffer_append_format(page, ")\n");
}

static void write_options(struct buffer *page, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mdoc_flag(page, rows[i].name, rows[i].value);
        mdoc_prose(page, rows[i].help);
        write_bounds(page, &rows[i]);
    }
}

/* A term for each command of the group, or of all. */
static void write_commands(struct buffer *page, const char *group)
{
    char name[NAME_SIZE];
    mdoc_section(page, "COMMANDS");
    mdoc_list_begin(page);
    for (size_t i = 0; i < command_count; i++) {
        if (group != NULL && !command_is_of_group(&commands[i], group))
            continue;
        page_name(commands[i].name, name);
        buffer_append_format(page, ".It Xr %s %u\n", name, SECTION);
        mdoc_prose(page, commands[i].summary);
    }
    mdoc_list_end(page);
}

static void write_usage(struct buffer *page, const char *command, const char *usage)
{
    mdoc_section(page, "SYNOPSIS");
    buffer_append_format(page, ".Nm \"tally%s%s\"\n", *command == '\0' ? "" : " ", command);
    mdoc_usage(page, usage);
}

void manual_write_overview(struct buffer *page, const char *date)
{
    mdoc_begin(page, date, "tally", SECTION, "the command line of Tally, a durable queue server");
    write_usage(page, "", "COMMAND [OPTIONS] [ARGUMENTS]");
    mdoc_section(page, "DESCRIPTION");
    mdoc_prose(page, help_first_steps);
    write_commands(page, NULL);
    mdoc_section(page, "OPTIONS");
    buffer_append_format(page, "These belong to every command:\n");
    mdoc_list_begin(page);
    write_options(page, options_common, options_common_count);
    mdoc_list_end(page);
    write_statuses(page);
    mdoc_section(page, "SEE ALSO");
    buffer_append_format(page, ".Xr tally-protocol 7 ,\n.Xr tallyd 8\n");
}

void manual_write_group(struct buffer *page, const char *date, const struct group_row *group)
{
    char name[NAME_SIZE], summary[NAME_SIZE];
    page_name(group->name, name);
    (void)snprintf(summary, sizeof(summary), "the commands that begin with tally %s", group->name);
    mdoc_begin(page, date, name, SECTION, summary);
    write_usage(page, group->name, "COMMAND [OPTIONS] [ARGUMENTS]");
    mdoc_section(page, "DESCRIPTION");
    mdoc_prose(page, group->text);
    write_commands(page, group->name);
    mdoc_section(page, "SEE ALSO");
    buffer_append_format(page, ".Xr tally 1\n");
}

void manual_write_command(struct buffer *page, const char *date, const struct command_row *row)
{
    char name[NAME_SIZE], usage[256];
    page_name(row->name, name);
    mdoc_begin(page, date, name, SECTION, row->summary);
    (void)snprintf(usage, sizeof(usage), "[OPTIONS] %s%s", row->arguments,
                   row->takes_program ? " -- COMMAND [ARGUMENT...]" : "");
    usage[strlen(usage) - (usage[strlen(usage) - 1] == ' ')] = '\0';
    write_usage(page, row->name, usage);
    mdoc_section(page, "DESCRIPTION");
    mdoc_prose(page, row->text);
    mdoc_section(page, "OPTIONS");
    mdoc_list_begin(page);
    write_options(page, row->options, row->option_count);
    write_options(page, options_common, options_common_count);
    mdoc_list_end(page);
    write_statuses(page);
    mdoc_section(page, "EXAMPLES");
    mdoc_literal(page, row->examples);
    mdoc_section(page, "SEE ALSO");
    buffer_append_format(page, ".Xr tally 1\n");
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Writes the page "tally-queue.1" of "tally-queue", and empties it. */
static bool write_file(const char *folder, const char *name, struct buffer *page)
{
    char file[NAME_SIZE + 2];
    (void)snprintf(file, sizeof(file), "%s.%u", name, SECTION);
    const int failed = page_file_write(folder, file, page);
    if (failed != 0)
        complain("can't write %s/%s: %s", folder, file, strerror(failed));
    buffer_truncate(page, 0);
    return failed == 0;
}

int manual_write_all(const char *folder)
{
    char date[MDOC_DATE_SIZE], name[NAME_SIZE];
    struct buffer page;
    buffer_init(&page);
    mdoc_date(date);
    manual_write_overview(&page, date);
    bool is_written = write_file(folder, "tally", &page);
    for (size_t i = 0; i < group_count && is_written; i++) {
        page_name(groups[i].name, name);
        manual_write_group(&page, date, &groups[i]);
        is_written = write_file(folder, name, &page);
    }
    for (size_t i = 0; i < command_count && is_written; i++) {
        page_name(commands[i].name, name);
        manual_write_command(&page, date, &commands[i]);
        is_written = write_file(folder, name, &page);
    }
    buffer_deinit(&page);
    return is_written ? EXIT_DONE : EXIT_LOCAL;
}
