/* Listing what comes in pages: calls until there is no NextToken. */
#ifndef TALLY_TALLY_PAGES_H
#define TALLY_TALLY_PAGES_H

#include "tally/output.h"

struct pages {
    const char *target;                 /* "Tally.ListUnits" */
    const char *list;                   /* the member of the answer that is the list: "Units" */
    const char *const (*parameters)[2]; /* name and value of members of the request; a NULL value is left out */
    size_t parameter_count;
    void (*print)(yyjson_val *item); /* one item, for people; with --json an item is a line of JSON */
};

/* Prints all pages. EXIT_DONE, or what to exit with; the user has been told. */
int pages_print(struct invocation *invocation, const struct pages *pages);

#endif
