/* An endpoint of the SQS protocol, as the sink and the source of type sqs call it: where it is, how requests are
 * signed, and one request with its answer. */
#ifndef TALLY_RELAY_SQS_ENDPOINT_H
#define TALLY_RELAY_SQS_ENDPOINT_H

#include "client/transport.h"
#include "relay/spec.h"
#include <yyjson.h>

/* Requests that are under way at once, each on a connection and a thread of its own. */
#define SQS_CONNECTIONS_MAX 8u

/* A connection for one thread to the endpoint of `url`, a queue's or the endpoint's own. Region and credentials that
 * the spec lacks come from the environment (AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN); without any the requests are not signed. A request ends before the
 * spec's lease does. Connects to nothing yet. */
struct transport *sqs_endpoint_connect(const struct relay_spec *spec, const char *url);

/* The URL as people may read it: user and password may stand before an @. Points into it. */
const char *sqs_shown(const char *url);

/* A request and what came of it. */
struct sqs_exchange {
    const char *target;
    struct buffer body, text;
    struct transport_answer answer;
    bool may_have_arrived; /* if it was not answered */
};

void sqs_exchange_init(struct sqs_exchange *exchange, const char *target);
void sqs_exchange_deinit(struct sqs_exchange *exchange);

/* False, with nothing appended, if a text in the document is not UTF-8. */
bool sqs_exchange_write(struct sqs_exchange *exchange, const yyjson_mut_doc *doc);

/* Sends the request once. False: it was not answered. */
bool sqs_exchange_post(struct sqs_exchange *exchange, struct transport *transport);

#endif
