/* What OpenPublisher and Publish have in common. Private to src/api. */
#ifndef TALLY_API_PUBLISHER_H
#define TALLY_API_PUBLISHER_H

#include "api/action.h"
#include "core/publishers/publisher.h"

/* Who says to be a publisher's owner. */
struct publisher_claim {
    uint8_t publisher[PUBLISHER_ID_SIZE];
    uint8_t owner[PUBLISHER_ID_SIZE];
    uint64_t epoch;
};

/* Publisher, Epoch and Owner, which must be there. ERROR_SERIALIZATION, ERROR_MISSING_PARAMETER,
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error publisher_claim_read(struct call *call, struct publisher_claim *claim);

/* An integer from `min` to 2^63 - 1 that must be there, of the request or of an entry of it. Errors as before. */
enum error publisher_read_number(const struct params *params, const char *name, int64_t min, uint64_t *value);

/* A UUID that must be there. */
enum error publisher_read_uuid(const struct params *params, const char *name, uint8_t uuid[PUBLISHER_ID_SIZE]);

#endif
