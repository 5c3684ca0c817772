/* A list of the server, requested page after page until there is no NextToken. */
#ifndef TALLY_TALLY_PAGES_H
#define TALLY_TALLY_PAGES_H

#include "tally/output.h"

struct pages {
    struct invocation *invocation; /* it is connected */
    const char *action;
    const char *list; /* the member of an answer */
    uint64_t limit;   /* how many items; 0: all */
    void (*ask)(
        void *context,
        struct json_body *body); /* adds the members of a request, without those of the page; NULL: there are none */
    void (*print)(yyjson_val *item);               /* for people; with --json an item is a line of JSON */
    void (*take)(void *context, yyjson_val *item); /* NULL; else it gets each item, and nothing is printed */
    void *context;
};

/* Returns the program's status. Tells the user if there may be more than `limit` items. */
int pages_run(const struct pages *pages);

#endif
