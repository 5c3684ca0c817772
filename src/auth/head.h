/* The header lines of a request as fields: names and values as views. The memory is kept from request to request. */
#ifndef TALLY_AUTH_HEAD_H
#define TALLY_AUTH_HEAD_H

#include "base/bytes.h"

struct head_field {
    struct bytes name;  /* in the case it was sent in */
    struct bytes value; /* without the blanks around it */
};

struct head {
    struct head_field *fields_owned;
    size_t count;
    size_t capacity;
};

void head_init(struct head *head);
void head_deinit(struct head *head);

/* Takes apart the lines in `raw`, each "name: value" CR LF; what is no such line is passed over. */
void head_read(struct head *head, struct bytes raw);

/* The first field of that name from `from` on, whatever the case of its letters; head->count if there is none. */
size_t head_find(const struct head *head, size_t from, struct bytes name);

#endif
