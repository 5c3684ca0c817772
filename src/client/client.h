/* What the files of the client library share about a client. */
#ifndef TALLY_CLIENT_CLIENT_H
#define TALLY_CLIENT_CLIENT_H

#include "client/transport.h"
#include "tally/tally.h"

struct tally_client {
    struct transport *transport_owned;
    char *endpoint_owned; /* without a slash at its end */
    unsigned attempts_max;
    bool repeats_sends;
    bool has_lost;        /* a try of the last call may have been carried out without our seeing its answer */
    bool numbers_answers; /* the server has given an id with an answer: what comes without one is of something else */
    bool is_clock_off;    /* the last call was refused for the time of its signature alone */
    uint64_t random;      /* state of the generator for jitter and batch ids; never 0 */
    struct tally_error error;
};

/* Asks for a page of the server's own, such as "/ready", once. TALLY_OK whatever its status is, which is set, as the
 * page is appended to `text`. */
enum tally_status client_get(struct tally_client *client, const char *path, int *http_status, struct buffer *text);

/* Sets the client's error and returns its status. */
enum tally_status client_fail(struct tally_client *client, enum tally_status status, const char *code,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* client_fail() for TALLY_INVALID. */
enum tally_status client_refuse(struct tally_client *client, const char *message);

/* client_fail() for an answer that lacks what `target` must answer. */
enum tally_status client_garbled(struct tally_client *client, const char *target);

/* client_fail() for an answer of something that is no queue server. Its body is told, in an excerpt, as it may say what
 * stands there. */
enum tally_status client_fail_stranger(struct tally_client *client, const char *target, int http_status,
                                       struct bytes text);

/* A pseudo-random number (xorshift64*), seeded from the system. */
uint64_t client_random(struct tally_client *client);

#endif
