/* Tickets of the benchmark pools: what the n-th one of a kind says of itself. The same in every run. */
#ifndef TALLY_BENCH_TICKETS_H
#define TALLY_BENCH_TICKETS_H

#include "text.h"

/* Names of tickets are a letter and so many digits. */
enum { TICKET_DIGITS = 10, TICKET_NAME_SIZE = 1 + TICKET_DIGITS };

struct ticket_kind {
    const char *name;
    const char *help;
    /* Appends the attributes of the ticket, a JSON object. */
    void (*append)(struct text *out, uint64_t number);
};

/* The kind of that name, or NULL. */
const struct ticket_kind *ticket_kind_find(const char *name);

/* The n-th kind, or NULL behind the last. */
const struct ticket_kind *ticket_kind_at(unsigned index);

/* Appends the name of a ticket, without quotes. */
void ticket_name_append(struct text *out, uint64_t number);

#endif
