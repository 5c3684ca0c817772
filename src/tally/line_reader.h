/* The lines of a file or of standard input, one after the other, however long the file is. */
#ifndef TALLY_TALLY_LINE_READER_H
#define TALLY_TALLY_LINE_READER_H

#include "base/buffer.h"

struct line_reader {
    int file;
    const char *name; /* for people; borrowed */
    uint64_t line;    /* the number of the last one */
    bool is_at_end;
    struct buffer text;
    size_t begin; /* of what is not read yet, in the text */
};

/* The file at `path`, or standard input if that is "-". False, after telling the user, if it can't be opened. */
bool line_reader_init(struct line_reader *reader, const char *path);
void line_reader_deinit(struct line_reader *reader);

enum line_reader_result {
    LINE_READ,
    LINE_NONE,   /* the end */
    LINE_FAILED, /* it can't be read, or has more than size_max bytes; the user was told */
};

/* The next line without its end, until the next call. */
enum line_reader_result line_reader_next(struct line_reader *reader, size_t size_max, struct bytes *line);

#endif
