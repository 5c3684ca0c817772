#include "manual/mdoc.h"

#include "base/assert.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void mdoc_date(char date[MDOC_DATE_SIZE])
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t now = epoch == NULL || epoch[0] == '\0' ? time(NULL) : (time_t)strtoll(epoch, NULL, 10);
    struct tm parts;
    size_t size = 0;
    if (gmtime_r(&now, &parts) != NULL)
        size = strftime(date, MDOC_DATE_SIZE, "%B %-d, %Y", &parts);
    if (size == 0)
        date[0] = '\0';
}

void mdoc_begin(struct buffer *page, const char *date, const char *name, unsigned section, const char *summary)
{
    buffer_append_format(page, ".Dd %s\n.Dt ", date);
    for (const char *at = name; *at != '\0'; at++)
        buffer_append_u8(page, (uint8_t)toupper((unsigned char)*at));
    buffer_append_format(page, " %u\n.Os \"Tally %s\"\n.Sh NAME\n.Nm ", section, TALLY_VERSION);
    mdoc_text(page, name);
    buffer_append_format(page, "\n.Nd ");
    mdoc_text(page, summary);
    buffer_append_u8(page, '\n');
}

void mdoc_section(struct buffer *page, const char *title)
{
    buffer_append_format(page, ".Sh %s\n", title);
}

/* --- characters --------------------------------------------------------------------------------------------------- */

static void append_character(struct buffer *page, char character)
{
    switch (character) {
    case '\\':
        buffer_append_format(page, "\\e");
        break;
    case '-': /* a hyphen that can be copied into a shell */
        buffer_append_format(page, "\\-");
        break;
    case '"':
        buffer_append_format(page, "\\(dq");
        break;
    case '`':
        buffer_append_format(page, "\\(ga");
        break;
    case '\'':
        buffer_append_format(page, "\\(aq");
        break;
    case '^':
        buffer_append_format(page, "\\(ha");
        break;
    case '~':
        buffer_append_format(page, "\\(ti");
        break;
    case '\n':
        buffer_append_u8(page, ' ');
        break;
    default:
        buffer_append_u8(page, (uint8_t)character);
    }
}

static bool is_at_line_start(const struct buffer *page)
{
    return page->size == 0 || page->data_owned[page->size - 1] == '\n';
}

/* A point there would make the line a request. */
static void guard_line_start(struct buffer *page, char next)
{
    if (is_at_line_start(page) && next == '.')
        buffer_append_format(page, "\\&");
}

void mdoc_text(struct buffer *page, const char *text)
{
    for (; *text != '\0'; text++)
        append_character(page, *text);
}

/* --- prose -------------------------------------------------------------------------------------------------------- */

/* Does a sentence end with this character, the text going on behind it? On a page each begins a line. */
static bool ends_sentence(const char *at, const char *end)
{
    return strchr(".!?:", *at) != NULL && at + 1 < end && at[1] == ' ';
}

/* A line of a paragraph. `is_bold`: it began inside of backquotes; afterwards: the next one does. */
static void append_line(struct buffer *page, const char *at, const char *end, bool *is_bold)
{
    for (; at < end; at++) {
        guard_line_start(page, *at);
        if (*at == '`') {
            *is_bold = !*is_bold;
            buffer_append_format(page, *is_bold ? "\\fB" : "\\fR");
            continue;
        }
        append_character(page, *at);
        if (*is_bold || !ends_sentence(at, end))
            continue;
        buffer_append_u8(page, '\n');
        at += strspn(at + 1, " ");
    }
    if (!is_at_line_start(page))
        buffer_append_u8(page, '\n');
}

/* A line of a display. */
static void append_shown(struct buffer *page, const char *at, const char *end)
{
    for (; at < end; at++) {
        guard_line_start(page, *at);
        append_character(page, *at);
    }
    buffer_append_u8(page, '\n');
}

static void set_display(struct buffer *page, bool *is_shown, bool wanted)
{
    if (*is_shown != wanted)
        buffer_append_format(page, wanted ? ".Bd -literal\n" : ".Ed\n");
    *is_shown = wanted;
}

void mdoc_prose(struct buffer *page, const char *text)
{
    bool is_shown = false, is_bold = false, has_gap = false;
    const size_t begin = page->size;
    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        if (end == text) {
            set_display(page, &is_shown, false);
            has_gap = page->size > begin;
        } else if (*text == ' ') {
            set_display(page, &is_shown, true);
            append_shown(page, text, end);
            has_gap = false;
        } else {
            set_display(page, &is_shown, false);
            if (has_gap)
                buffer_append_format(page, ".Pp\n");
            append_line(page, text, end, &is_bold);
            has_gap = false;
        }
        text = *end == '\0' ? end : end + 1;
    }
    set_display(page, &is_shown, false);
    ASSERT(!is_bold); /* each backquote has its other one */
}

void mdoc_literal(struct buffer *page, const char *text)
{
    buffer_append_format(page, ".Bd -literal\n");
    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        append_shown(page, text, end);
        text = *end == '\0' ? end : end + 1;
    }
    buffer_append_format(page, ".Ed\n");
}

void mdoc_paragraph(struct buffer *page)
{
    buffer_append_format(page, ".Pp\n");
}

static bool is_capital(char character)
{
    return character >= 'A' && character <= 'Z';
}

void mdoc_usage(struct buffer *page, const char *text)
{
    bool is_italic = false;
    for (char before = ' '; *text != '\0'; before = *text++) {
        const bool begins = !is_italic && is_capital(*text) && !isalnum((unsigned char)before);
        const bool goes_on = is_italic && (is_capital(*text) || (*text == '-' && is_capital(text[1])));
        if (begins != is_italic && begins)
            buffer_append_format(page, "\\fI");
        if (is_italic && !goes_on)
            buffer_append_format(page, "\\fR");
        is_italic = begins || goes_on;
        append_character(page, *text);
    }
    buffer_append_format(page, is_italic ? "\\fR\n" : "\n");
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

void mdoc_list_begin(struct buffer *page)
{
    buffer_append_format(page, ".Bl -tag -width Ds\n");
}

void mdoc_term(struct buffer *page, const char *term)
{
    buffer_append_format(page, ".It \\fB");
    mdoc_text(page, term);
    buffer_append_format(page, "\\fR\n");
}

void mdoc_flag(struct buffer *page, const char *flag, const char *value)
{
    buffer_append_format(page, ".It Fl \\-");
    mdoc_text(page, flag);
    if (value != NULL) {
        buffer_append_format(page, " Ar \"");
        mdoc_text(page, value);
        buffer_append_u8(page, '"');
    }
    buffer_append_u8(page, '\n');
}

void mdoc_list_end(struct buffer *page)
{
    buffer_append_format(page, ".El\n");
}
