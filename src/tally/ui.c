/* tally ui: prints the address of the dashboard. Where the server wants signatures, the address signs in: it has the
 * key of today, which src/ui/web/sign.js takes from it. The secret is not in it, and can't be had from it. */
#include "auth/credentials.h"
#include "auth/signing_key.h"
#include "base/assert.h"
#include "client/client.h"
#include "tally/output.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the page signs for. */
#define REGION "us-east-1"
#define SERVICE "sqs"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

/* Browsers sign where others can't change the page on its way. */
static bool is_secure(const char *endpoint)
{
    static const char *const local[] = {"http://127.", "http://localhost", "http://[::1]", "https://"};
    for (size_t i = 0; i < ARRAY_LENGTH(local); i++)
        if (strncmp(endpoint, local[i], strlen(local[i])) == 0)
            return true;
    return false;
}

static void append_escaped(struct buffer *url, const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (strchr("-._~", *at) != NULL || ((unsigned char)*at < 128 && isalnum((unsigned char)*at)))
            buffer_append_u8(url, (uint8_t)*at);
        else
            buffer_append_format(url, "%%%02X", (unsigned char)*at);
}

static void append_key(struct buffer *url, struct bytes secret)
{
    char date[SIGNING_DATE_SIZE + 1], hex[SHA256_HEX_SIZE];
    uint8_t key[SHA256_SIZE];
    const time_t now = time(NULL);
    struct tm parts;
    struct sha256 sha256;
    strftime(date, sizeof date, "%Y%m%d", gmtime_r(&now, &parts));
    sha256_init(&sha256);
    signing_key_derive(
        &sha256, secret,
        &(struct signing_scope){.date = bytes_from_string(date), .region = BYTES(REGION), .service = BYTES(SERVICE)},
        key);
    sha256_deinit(&sha256);
    bytes_to_hex(bytes_make(key, sizeof key), hex);
    buffer_append_format(url, "#k=");
    append_escaped(url, variable("AWS_ACCESS_KEY_ID"));
    buffer_append_format(url, "&d=%s&s=%.*s", date, (int)sizeof hex, hex);
    if (*variable("AWS_SESSION_TOKEN") == '\0')
        return;
    buffer_append_format(url, "&t=");
    append_escaped(url, variable("AWS_SESSION_TOKEN"));
}

/* The part that signs in. */
static int append_signer(struct invocation *invocation, struct buffer *url)
{
    const struct bytes secret = bytes_from_string(variable("AWS_SECRET_ACCESS_KEY"));
    if (secret.size == 0) {
        complain("the server wants signatures, and neither AWS_ACCESS_KEY_ID nor AWS_SECRET_ACCESS_KEY is set: the "
                 "page will ask for them");
        return EXIT_DONE;
    }
    if (secret.size > CREDENTIAL_WORD_SIZE_MAX)
        return complain_usage(invocation, "AWS_SECRET_ACCESS_KEY has %zu characters; a server takes at most %u",
                              secret.size, CREDENTIAL_WORD_SIZE_MAX);
    append_key(url, secret);
    complain("until midnight UTC, whoever has this address may do what %s may", variable("AWS_ACCESS_KEY_ID"));
    if (!is_secure(tally_client_endpoint(invocation->client)))
        complain("browsers sign over https:// and on this machine only; use a tunnel: ssh -L 9324:localhost:9324 HOST");
    return EXIT_DONE;
}

/* What GET /ui/config says, or a status. */
static int read_config(const struct invocation *invocation, bool *has_credentials)
{
    struct buffer text;
    int http_status = 0;
    buffer_init(&text);
    int status = EXIT_DONE;
    if (client_get(invocation->client, "/ui/config", &http_status, &text) != TALLY_OK)
        status = invocation_failed(invocation, invocation->client);
    yyjson_doc *doc = status == EXIT_DONE && http_status == 200 ? json_read(text.data_owned, text.size) : NULL;
    if (status == EXIT_DONE && doc == NULL) {
        complain("the server has no dashboard: it is older, or runs with ui = off");
        status = EXIT_REFUSED;
    }
    *has_credentials = json_is_true(yyjson_doc_get_root(doc), "HasCredentials");
    yyjson_doc_free(doc);
    buffer_deinit(&text);
    return status;
}

static int run(struct invocation *invocation)
{
    struct buffer url;
    bool has_credentials = false;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    const char *endpoint = tally_client_endpoint(invocation->client);
    if (strncmp(endpoint, "unix:", 5) == 0)
        return complain_usage(invocation, "no browser reaches %s; give an address that begins with http", endpoint);
    status = read_config(invocation, &has_credentials);
    if (status != EXIT_DONE)
        return status;
    buffer_init(&url);
    buffer_append_format(&url, "%s/ui/", endpoint);
    if (has_credentials)
        status = append_signer(invocation, &url);
    buffer_append_u8(&url, 0);
    if (status == EXIT_DONE)
        output_text(invocation, "Url", (const char *)url.data_owned);
    buffer_deinit(&url);
    return status;
}

const struct command command_ui = {.run = run};
