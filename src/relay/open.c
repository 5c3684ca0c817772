#include "relay/open.h"

#include "relay/lease_mysql.h"
#include "relay/lease_postgres.h"
#include "relay/lease_sqlite.h"
#include "relay/sink_forward.h"
#include "relay/sink_http.h"
#include "relay/sink_queue.h"
#include "relay/sink_sqs.h"
#include "relay/source_mysql.h"
#include "relay/source_postgres.h"
#include "relay/source_queue.h"
#include "relay/source_sqlite.h"

struct source *open_source(const struct relay_spec *spec, struct fault *fault)
{
    switch (spec->source) {
    case SOURCE_POSTGRES:
        return source_postgres_create(spec);
    case SOURCE_SQLITE:
        return source_sqlite_create(spec);
    case SOURCE_MYSQL:
#if TALLY_HAS_MYSQL
        return source_mysql_create(spec);
#else
        fault_set(fault, STEP_UNFIT, "this Tally was built without libmariadb, so it knows no source of type mysql");
        return NULL;
#endif
    case SOURCE_QUEUE:
    case SOURCE_SQS:
        return source_queue_create(spec, fault);
    }
    fault_set(fault, STEP_UNFIT, "this type of source is not built in yet");
    return NULL;
}

struct lease *open_lease(const struct relay_spec *spec)
{
    switch (spec->source) {
    case SOURCE_POSTGRES:
        return lease_postgres_create(spec);
    case SOURCE_SQLITE:
        return lease_sqlite_create(spec);
    case SOURCE_MYSQL:
#if TALLY_HAS_MYSQL
        return lease_mysql_create(spec);
#else
        break;
#endif
    case SOURCE_QUEUE:
    case SOURCE_SQS:
        break;
    }
    return NULL;
}

struct sink *open_sink(const struct relay_spec *spec, struct fault *fault)
{
    switch (spec->sink) {
    case SINK_QUEUE:
        return relay_spec_is_of_queue(spec) ? sink_forward_create(spec, fault) : sink_queue_create(spec, fault);
    case SINK_HTTP:
        return sink_http_create(spec);
    case SINK_SQS:
        return sink_sqs_create(spec, fault);
    }
    return NULL;
}
