/* The documents of tallyd that are made of its table of keys: tallyd(8), tallyd.conf(5) and docs/configuration.md. */
#ifndef TALLY_TALLYD_MANUAL_H
#define TALLY_TALLYD_MANUAL_H

#include "base/buffer.h"

/* Appends a document; the date is mdoc_date()'s. */
void manual_write_daemon(struct buffer *page, const char *date);
void manual_write_keys(struct buffer *page, const char *date);
void manual_write_markdown(struct buffer *page);

/* Writes all of them into a folder: tallyd.8, tallyd.conf.5, configuration.md. 0, or an errno. */
int manual_write_all(const char *folder);

#endif
