/* The file of a manual page, or of another page that is made of a table. */
#ifndef TALLY_MANUAL_PAGE_FILE_H
#define TALLY_MANUAL_PAGE_FILE_H

#include "base/buffer.h"

/* Writes the page into a folder that is there: 0, or an errno. */
int page_file_write(const char *folder, const char *name, const struct buffer *page);

#endif
