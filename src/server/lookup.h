/* Looks up the addresses of a host's name without holding up the loop.
 *
 * Each look-up has a thread of its own. uv_getaddrinfo() would do, but can't be given up: a loop could not be closed
 * before the name server has answered, or failed to for many seconds, and a node that has lost its logs must begin
 * again at once. A look-up that is given up here goes on alone, and its thread ends with it. */
#ifndef TALLY_SERVER_LOOKUP_H
#define TALLY_SERVER_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define LOOKUP_ADDRESSES_MAX 8u

struct lookup_result {
    int status; /* 0, or an EAI_ of getaddrinfo() */
    size_t count;
    struct sockaddr_storage addresses[LOOKUP_ADDRESSES_MAX]; /* without a port, in the order in which to try them */
};

struct lookup;

typedef void (*lookup_cb)(void *context, const struct lookup_result *result);

/* `done` is called once, from the loop. NULL: the system gave no thread. */
struct lookup *lookup_begin(uv_loop_t *loop, const char *host, lookup_cb done, void *context);

/* `done` is not called any more. The loop must run once more. */
void lookup_abandon(struct lookup *lookup);

/* Is another try of use? Otherwise there is no such name. */
bool lookup_may_pass(int status);

#endif
