/* mdoc(7), the markup of manual pages: texts that were written for --help become parts of a page, which is a buffer. */
#ifndef TALLY_MANUAL_MDOC_H
#define TALLY_MANUAL_MDOC_H

#include "base/buffer.h"

/* "November 30, 2026" */
#define MDOC_DATE_SIZE 32

/* The date of pages that are made now: that of SOURCE_DATE_EPOCH, so that a build can be repeated, else today's. */
void mdoc_date(char date[MDOC_DATE_SIZE]);

/* The head of a page: "tally-send", section 1, what it is in one line. */
void mdoc_begin(struct buffer *page, const char *date, const char *name, unsigned section, const char *summary);

/* ".Sh DESCRIPTION" */
void mdoc_section(struct buffer *page, const char *title);

/* Text inside a line: nothing in it is markup. It must not begin a line. */
void mdoc_text(struct buffer *page, const char *text);

/* A text as --help shows it. Empty lines part its paragraphs, indented lines are shown as they are, and what stands in
 * backquotes is bold. */
void mdoc_prose(struct buffer *page, const char *text);

/* A new paragraph begins. */
void mdoc_paragraph(struct buffer *page);

/* Lines that are shown as they are. */
void mdoc_literal(struct buffer *page, const char *text);

/* A usage line: what is in capitals is a placeholder. */
void mdoc_usage(struct buffer *page, const char *text);

/* A list of terms, and what each means. */
void mdoc_list_begin(struct buffer *page);
void mdoc_term(struct buffer *page, const char *term);
void mdoc_flag(struct buffer *page, const char *flag, const char *value); /* --flag VALUE; NULL: it has none */
void mdoc_list_end(struct buffer *page);

#endif
