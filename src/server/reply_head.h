/* The head of a reply: status line and header fields, written into the caller's memory.
 *
 * Knows no connection. */
#ifndef TALLY_SERVER_REPLY_HEAD_H
#define TALLY_SERVER_REPLY_HEAD_H

#include "api/exchange.h"

/* No head is longer: every part is bounded; the program itself bounds content types, error codes and more fields. */
#define REPLY_HEAD_SIZE_MAX 1280u

#define REQUEST_ID_PREFIX_SIZE 19u
#define HTTP_DATE_SIZE 29u

/* Request ids look like random UUIDs and never repeat in a process. They have a random half, the same for all, and a
 * counter scattered by a one-to-one function. */
struct request_ids {
    char prefix[REQUEST_ID_PREFIX_SIZE]; /* "xxxxxxxx-xxxx-4xxx-" */
    uint64_t mask;
    uint64_t count;
};

/* `seed` is random. */
void request_ids_init(struct request_ids *ids, const uint64_t seed[2]);
void request_ids_next(struct request_ids *ids, char text[REQUEST_ID_SIZE]);

/* "Sun, 06 Nov 1994 08:49:37 GMT", without a NUL; `time_s` is seconds since the epoch. */
void http_date_format(uint64_t time_s, char text[HTTP_DATE_SIZE]);

struct reply_head {
    int status;
    enum error error;         /* OK, or gives x-amzn-query-error */
    const char *content_type; /* NULL: none */
    const char *fields;       /* more lines, each with CR LF behind it; NULL: none */
    const char *request_id;   /* REQUEST_ID_SIZE characters */
    const char *date;         /* HTTP_DATE_SIZE characters */
    uint64_t body_size;       /* not said of a status 304, which has no body and no type */
    bool is_http_1_0;         /* of the request: such a client must be told that the connection stays open */
    bool is_last;             /* the connection closes after this reply */
    bool is_not_owner;        /* says so to the node that has passed the request on */
};

/* Writes at most REPLY_HEAD_SIZE_MAX bytes to `at`, ending with the empty line; returns how many. */
size_t reply_head_write(const struct reply_head *head, uint8_t *at);

#endif
