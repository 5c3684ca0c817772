#include "relay/sqs_endpoint.h"

#include "base/memory.h"
#include "client/json.h"
#include "relay/sqs_queues.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request must have ended before its lease has; four of five messages that wait for an answer for so long will never
 * get one. */
#define TIMEOUT_MS_MAX 15000u
#define TIMEOUT_MS_MIN 500u

/* --- connections -------------------------------------------------------------------------------------------------- */

static const char *setting(const char *given, const char *variable)
{
    const char *value = given != NULL ? given : getenv(variable);
    return value == NULL || *value == '\0' ? NULL : value;
}

/* Of an endpoint of AWS it stands in the name of the host: sqs.REGION.amazonaws.com. */
static const char *find_region(const struct relay_spec *spec, const char *url, char *text, size_t size)
{
    const char *region = setting(spec->region_owned, "AWS_REGION");
    if (region == NULL)
        region = setting(NULL, "AWS_DEFAULT_REGION");
    const char *host = strstr(url, "://sqs.");
    if (spec->region_owned == NULL && host != NULL && strstr(host, ".amazonaws.com") != NULL) {
        host += strlen("://sqs.");
        snprintf(text, size, "%.*s", (int)strcspn(host, "."), host);
        region = text;
    }
    return region != NULL ? region : "us-east-1";
}

struct transport *sqs_endpoint_connect(const struct relay_spec *spec, const char *url)
{
    char region[64];
    const struct bytes endpoint = bytes_make(url, sqs_endpoint_size(url));
    char *root = memory_allocate(endpoint.size + 2);
    snprintf(root, endpoint.size + 2, "%.*s/", BYTES_FORMAT(endpoint));
    unsigned timeout_ms = spec->lease_ms / 4 * 3;
    bool is_given = spec->access_key_id_owned != NULL;
    struct transport_options options = {
        .url = root,
        .region = find_region(spec, url, region, sizeof(region)),
        .access_key_id = setting(spec->access_key_id_owned, "AWS_ACCESS_KEY_ID"),
        .secret_access_key = setting(spec->secret_access_key_owned, "AWS_SECRET_ACCESS_KEY"),
        .session_token = is_given ? spec->session_token_owned : setting(NULL, "AWS_SESSION_TOKEN"),
    };
    timeout_ms = timeout_ms > TIMEOUT_MS_MAX ? TIMEOUT_MS_MAX : timeout_ms;
    options.timeout_ms = timeout_ms < TIMEOUT_MS_MIN ? TIMEOUT_MS_MIN : timeout_ms;
    if (options.secret_access_key == NULL)
        options.access_key_id = NULL;
    struct transport *transport = transport_create(&options);
    free(root);
    return transport;
}

const char *sqs_shown(const char *url)
{
    const char *at = strrchr(url, '@');
    return at == NULL ? url : at + 1;
}

/* --- one request -------------------------------------------------------------------------------------------------- */

void sqs_exchange_init(struct sqs_exchange *exchange, const char *target)
{
    *exchange = (struct sqs_exchange){.target = target};
    buffer_init(&exchange->body);
    buffer_init(&exchange->text);
}

void sqs_exchange_deinit(struct sqs_exchange *exchange)
{
    buffer_deinit(&exchange->body);
    buffer_deinit(&exchange->text);
}

bool sqs_exchange_write(struct sqs_exchange *exchange, const yyjson_mut_doc *doc)
{
    size_t size;
    char *text = json_write(doc, YYJSON_WRITE_NOFLAG, &size);
    if (text != NULL)
        buffer_append(&exchange->body, text, size);
    free(text);
    return text != NULL;
}

bool sqs_exchange_post(struct sqs_exchange *exchange, struct transport *transport)
{
    enum transport_result result = transport_post(transport, exchange->target, (const char *)exchange->body.data_owned,
                                                  exchange->body.size, true, &exchange->text, &exchange->answer);
    exchange->may_have_arrived = result != TRANSPORT_ANSWERED && result != TRANSPORT_NOT_SENT;
    return result == TRANSPORT_ANSWERED;
}
