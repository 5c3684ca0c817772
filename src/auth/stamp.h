/* Times as requests write them: "20150830T123600Z", and in the header Date also "Sun, 30 Aug 2015 12:36:00 GMT". */
#ifndef TALLY_AUTH_STAMP_H
#define TALLY_AUTH_STAMP_H

#include "base/bytes.h"

#define STAMP_SIZE 16u /* of the first form, without a NUL */

struct stamp {
    int64_t s; /* seconds since the epoch */
    char text[STAMP_SIZE];
};

/* Reads a whole text of the first form, or of the second (the IMF-fixdate of RFC 9110; the day of the week is not
 * checked). False, with *stamp untouched, if it is neither. */
bool stamp_read(struct bytes text, struct stamp *stamp);
bool stamp_read_http_date(struct bytes text, struct stamp *stamp);

/* The stamp of a time from 0 to the year 9999. */
struct stamp stamp_of(int64_t s);

#endif
