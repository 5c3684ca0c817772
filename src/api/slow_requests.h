/* The newest requests that took the server long, of all namespaces, for DescribeServer. The server measures them, and
 * says which were slow (front_note_slow()). In memory only. */
#ifndef TALLY_API_SLOW_REQUESTS_H
#define TALLY_API_SLOW_REQUESTS_H

#include "api/exchange.h"
#include "auth/credentials.h"
#include "core/queues/queue.h"

#define SLOW_REQUESTS_MAX 100u

/* Where the time went, in milliseconds. */
struct slow_times {
    uint32_t wait;   /* until it could begin: memory of replies was scarce, or the disk far behind */
    uint32_t decide; /* to read its parameters, to decide, and to write the reply */
    uint32_t flush;  /* until its frame was durable */
    uint32_t write;  /* until its reply went to the socket: behind others of its connection */
};

static inline uint32_t slow_times_sum(const struct slow_times *times)
{
    return times->wait + times->decide + times->flush + times->write;
}

struct slow_request {
    uint64_t at_ms; /* when its reply left; log time */
    const char *action;
    struct slow_times times;
    size_t request_size; /* bytes, with its head */
    size_t reply_size;   /* of the body */
    char request_id[REQUEST_ID_SIZE];
    char namespace_name[NAMESPACE_NAME_SIZE];
    char queue[QUEUE_NAME_SIZE_MAX];
    char access_key[CREDENTIAL_WORD_SIZE_MAX];
    uint8_t queue_size; /* 0: it is about none, or several, or that has gone */
    uint8_t access_key_size;
};

struct slow_requests {
    struct slow_request *ring_owned; /* NULL: there was none */
    uint64_t count;                  /* that there ever were */
};

/* The newest for `back` 0, then the ones before; NULL: there are no more. */
const struct slow_request *slow_requests_at(const struct slow_requests *requests, unsigned back);

#endif
