/* Shared by OpenPublisher and Publish. Private to src/api. */
#ifndef TALLY_API_PUBLISHER_H
#define TALLY_API_PUBLISHER_H

#include "api/action.h"
#include "core/publishers/publisher.h"

/* Who claims to be a publisher's owner. */
struct publisher_claim {
    uint8_t publisher[PUBLISHER_ID_SIZE];
    uint8_t owner[PUBLISHER_ID_SIZE];
    uint64_t epoch;
};

/* Publisher, Epoch and Owner, which are required. ERROR_SERIALIZATION, ERROR_MISSING_PARAMETER,
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error publisher_claim_read(struct call *call, struct publisher_claim *claim);

/* A required integer from `min` to 2^63 - 1, of the request or of an entry of it. Errors as before. */
enum error publisher_read_number(const struct params *params, const char *name, int64_t min, uint64_t *value);

/* A required UUID. */
enum error publisher_read_uuid(const struct params *params, const char *name, uint8_t uuid[PUBLISHER_ID_SIZE]);

#endif
