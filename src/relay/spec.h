/* What a relay is to do: the Source, Sink and Order of a CreateRelay, and how it goes about it. */
#ifndef TALLY_RELAY_SPEC_H
#define TALLY_RELAY_SPEC_H

#include "relay/step.h"

#include <stdbool.h>
#include <stddef.h>

struct yyjson_val;

#define RELAY_NAME_SIZE_MAX 80u

enum source_type { SOURCE_POSTGRES, SOURCE_SQLITE, SOURCE_MYSQL, SOURCE_QUEUE, SOURCE_SQS };
enum sink_type { SINK_QUEUE, SINK_SQS, SINK_HTTP };

/* Strings are owned; NULL where they are not given. */
/* What becomes of a row that may have arrived at an SQS queue, when that can't recognise it any more. */
enum doubt_policy {
    /* a FIFO queue promises that nothing comes twice: parked. A standard one does not: sent again, marked */
    DOUBTS_BY_QUEUE,
    DOUBTS_SEND, /* again, marked `maybe-duplicate` */
    DOUBTS_PARK,
};

struct relay_spec {
    char *name_owned;
    enum source_type source;
    char *connection_owned;   /* postgres: a libpq connection string; sqlite: a path; mysql: a URL */
    char *table_owned;        /* of the outbox: schema, or prefix; NULL: "tally" */
    bool is_pooled;           /* postgres: behind PgBouncer in transaction mode: nothing is tied to a connection */
    unsigned replica_count;   /* postgres: publish a row when so many replicas have flushed it; 0: do not wait */
    char *source_queue_owned; /* queue: its URL or name; sqs: its URL */

    enum sink_type sink;
    char *queue_owned;  /* queue, sqs: URL; NULL: each row names its own */
    char *region_owned; /* of the side that is sqs, as are the next three */
    char *access_key_id_owned;
    char *secret_access_key_owned;
    char *session_token_owned;
    char *url_owned;     /* http */
    char *secret_owned;  /* http: signs the bodies; NULL: they are not signed */
    unsigned timeout_ms; /* http: of a request; 0: 10 s */
    bool is_at_most_once;
    enum doubt_policy doubts; /* sqs */
    bool blocks_group;        /* a refused row holds its group instead of being parked */

    bool is_strict; /* one order for all rows, as if they had one group */

    /* The Tally that sinks and sources of type queue mean, and the credential for it; no members of a CreateRelay. */
    char *endpoint_owned;        /* as libtally takes it, as are the next two; NULL: from the environment */
    char *endpoint_key_id_owned; /* both or neither */
    char *endpoint_secret_owned;

    unsigned lease_ms; /* how long a cut-off owner is waited for: 1,000 to 60,000 */
};

/* Are its rows messages of a queue, of this Tally or of another SQS? */
static inline bool relay_spec_is_of_queue(const struct relay_spec *spec)
{
    return spec->source == SOURCE_QUEUE || spec->source == SOURCE_SQS;
}

void relay_spec_init(struct relay_spec *spec);
void relay_spec_deinit(struct relay_spec *spec);
void relay_spec_copy(struct relay_spec *to, const struct relay_spec *from);

/* Reads the members Source, Sink and Order of a CreateRelay. False: `fault` says what is wrong, with the member's name,
 * the value and what it may be. The spec is deinit'ed by the caller in any case. */
bool relay_spec_read(struct relay_spec *spec, struct yyjson_val *source, struct yyjson_val *sink, const char *order,
                     struct fault *fault);

/* Whether what stands there fits together; relay_spec_read() has asked. `fault` as above. */
bool relay_spec_check(const struct relay_spec *spec, struct fault *fault);

#endif
