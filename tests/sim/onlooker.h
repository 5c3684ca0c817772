/* An onlooker: somebody who asks for everything that only reads, with all filters, cursors and bodies, and for all dry
 * runs. After each turn the server must be as it was: its state, its open frame, what it counts.
 *
 * Knows the actions and their parameters; what there is to look at it asks for. */
#ifndef TALLY_TESTS_SIM_ONLOOKER_H
#define TALLY_TESTS_SIM_ONLOOKER_H

#include "api/front.h"
#include "random.h"

#define ONLOOKER_ROWS_MAX 96u
#define ONLOOKER_TOKEN_SIZE 160u

/* Where names of things to look at come from. */
struct onlooker_names {
    /* Appends a name of that kind (onlooker.c, "kinds"), of something that is there or not. */
    void (*write)(void *context, char kind, struct random *random, struct buffer *out);
    void *context;
};

struct onlooker {
    struct random random;
    struct onlooker_names names;
    struct exchange exchange;
    struct buffer body;
    struct buffer before, after;                         /* encoded states */
    char tokens[ONLOOKER_ROWS_MAX][ONLOOKER_TOKEN_SIZE]; /* NextToken of the newest page of each row; "": none */
    uint64_t looks;
    uint64_t refused; /* of them */
};

void onlooker_init(struct onlooker *onlooker, struct random random, struct onlooker_names names);
void onlooker_deinit(struct onlooker *onlooker);

/* The first action that only reads and is in no row of the onlooker, or NULL. */
const char *onlooker_find_forgotten(void);

/* Looks so many times, each time at something else, at the time that the server's state has. fail()s if that changes
 * anything. */
void onlooker_look(struct onlooker *onlooker, struct front *front, struct namespace *ns, unsigned looks);

/* The same with every row once, in order. */
void onlooker_look_at_all(struct onlooker *onlooker, struct front *front, struct namespace *ns);

#endif
