/* What of a file has never been written. */
#ifndef TALLY_PLATFORM_HOLES_H
#define TALLY_PLATFORM_HOLES_H

#include <stdint.h>

/* The offset of the first data at `offset` or behind it: `offset` itself where a file system knows no holes; the size
 * of the file if only a hole follows. Moves the descriptor's own offset. Any thread. */
uint64_t holes_next_data(int descriptor, uint64_t offset);

/* The offset of the first hole behind `offset`, where there is data; the end of the file is one. `offset` itself if
 * that can't be said. Moves the descriptor's own offset. Any thread. */
uint64_t holes_next_hole(int descriptor, uint64_t offset);

#endif
