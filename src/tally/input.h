/* Text from a file or standard input: whole, or as lines. */
#ifndef TALLY_TALLY_INPUT_H
#define TALLY_TALLY_INPUT_H

#include "base/buffer.h"

/* Reads standard input to its end, and adds a NUL that buffer->size does not count. False, after telling the user, if
 * it can't be read, is larger than `size_max` bytes or holds a NUL. In both cases the caller ends the buffer. */
bool input_read(struct buffer *buffer, size_t size_max);

/* The same for a file, or for standard input if the path is "-". */
bool input_read_file(const char *path, struct buffer *buffer, size_t size_max);

/* The lines of a text, without their ends; empty lines are left out. Points into the text and cuts it with NULs. */
struct lines {
    char **items_owned;
    size_t count;
};

void lines_init(struct lines *lines, char *text);
void lines_deinit(struct lines *lines);

#endif
