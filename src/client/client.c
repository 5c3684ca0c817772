#include "client/client.h"

#include "base/memory.h"
#include "base/shown.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define ATTEMPTS_DEFAULT 6
#define TIMEOUT_DEFAULT_MS 60000
#define EXCERPT_MAX 120 /* bytes of an answer that are told */

/* The option, else the first variable that is set and not empty, else `fallback`. */
static const char *choose(const char *option, const char *variable, const char *second_variable, const char *fallback)
{
    const char *value = option;
    if (value == NULL)
        value = getenv(variable);
    if ((value == NULL || *value == '\0') && second_variable != NULL)
        value = getenv(second_variable);
    return value == NULL || *value == '\0' ? fallback : value;
}

static enum tally_status create_failed(struct tally_error *error, const char *subject, const char *text)
{
    if (error != NULL) {
        *error = (struct tally_error){.status = TALLY_INVALID};
        snprintf(error->code, sizeof error->code, "Invalid");
        snprintf(error->message, sizeof error->message, "%.200s %s", subject, text);
    }
    return TALLY_INVALID;
}

/* The path behind "unix:", or NULL. */
static const char *socket_path(const char *endpoint)
{
    return strncmp(endpoint, "unix:/", 6) == 0 ? endpoint + 5 : NULL;
}

static bool is_address(const char *endpoint)
{
    if (socket_path(endpoint) != NULL)
        return true;
    const char *host = NULL;
    if (strncmp(endpoint, "http://", 7) == 0)
        host = endpoint + 7;
    if (strncmp(endpoint, "https://", 8) == 0)
        host = endpoint + 8;
    return host != NULL && *host != '\0' && *host != '/' && strpbrk(endpoint, " \t\r\n") == NULL;
}

/* Can the name of a worker be sent, and be shown? NULL is none. */
static bool is_worker(const char *name)
{
    const size_t size = name == NULL ? 1 : strlen(name);
    for (size_t i = 0; name != NULL && i < size; i++)
        if (name[i] < ' ' || name[i] > '~')
            return false;
    return size >= 1 && size <= TALLY_WORKER_SIZE_MAX;
}

enum tally_status tally_client_create(const struct tally_options *options, struct tally_client **client,
                                      struct tally_error *error)
{
    static const struct tally_options none;
    const struct tally_options *given = options == NULL ? &none : options;
    const char *endpoint = choose(given->endpoint, "TALLY_ENDPOINT", NULL, TALLY_ENDPOINT_DEFAULT);
    struct transport_options transport = {
        .region = choose(given->region, "AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1"),
        .access_key_id = choose(given->access_key_id, "AWS_ACCESS_KEY_ID", NULL, NULL),
        .secret_access_key = choose(given->secret_access_key, "AWS_SECRET_ACCESS_KEY", NULL, NULL),
        .session_token = choose(given->session_token, "AWS_SESSION_TOKEN", NULL, NULL),
        .timeout_ms = given->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : given->timeout_ms,
        .socket = socket_path(endpoint),
        .worker = given->worker,
        .ca_file = choose(given->ca_file, "TALLY_CA_FILE", NULL, NULL),
    };
    struct tally_client *made;
    size_t size = strlen(endpoint);

    if (!is_address(endpoint))
        return create_failed(error, endpoint,
                             "is not the address of a server; it must look like " TALLY_ENDPOINT_DEFAULT);
    if ((transport.access_key_id == NULL) != (transport.secret_access_key == NULL))
        return create_failed(error, transport.access_key_id == NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                             "is not set: give both keys, or neither for requests without a signature");
    if (!is_worker(given->worker))
        return create_failed(error, given->worker,
                             "is no name for a worker; it must be 1 to 128 characters of printable ASCII");

    while (endpoint[size - 1] == '/')
        size--;
    made = memory_allocate_zeroed(sizeof *made);
    made->endpoint_owned = memory_allocate(size + 2);
    memcpy(made->endpoint_owned, endpoint, size);
    memcpy(made->endpoint_owned + size, "/", 2);
    transport.url = transport.socket == NULL ? made->endpoint_owned : "http://localhost/";
    made->transport_owned = transport_create(&transport);
    made->endpoint_owned[size] = '\0';
    made->attempts_max = given->attempts_max == 0 ? ATTEMPTS_DEFAULT : given->attempts_max;
    made->repeats_sends = given->repeats_sends;
    if (getrandom(&made->random, sizeof made->random, 0) != (ssize_t)sizeof made->random || made->random == 0)
        made->random = (uintptr_t)made | 1;
    *client = made;
    return TALLY_OK;
}

void tally_client_destroy(struct tally_client *client)
{
    if (client == NULL)
        return;
    transport_destroy(client->transport_owned);
    free(client->endpoint_owned);
    free(client);
}

const struct tally_error *tally_client_error(const struct tally_client *client)
{
    return &client->error;
}

const char *tally_client_endpoint(const struct tally_client *client)
{
    return client->endpoint_owned;
}

void tally_client_interrupt(struct tally_client *client)
{
    transport_interrupt(client->transport_owned);
}

void tally_client_resume(struct tally_client *client)
{
    transport_resume(client->transport_owned);
}

enum tally_status client_fail(struct tally_client *client, enum tally_status status, const char *code,
                              const char *format, ...)
{
    va_list arguments;
    client->error = (struct tally_error){.status = status};
    client->has_lost = client->has_lost || status == TALLY_GARBLED; /* the server's own answer went elsewhere */
    snprintf(client->error.code, sizeof client->error.code, "%s", code);
    va_start(arguments, format);
    vsnprintf(client->error.message, sizeof client->error.message, format, arguments);
    va_end(arguments);
    return status;
}

enum tally_status client_refuse(struct tally_client *client, const char *message)
{
    return client_fail(client, TALLY_INVALID, "Invalid", "%s", message);
}

/* What stands for the text in one line, cut at EXCERPT_MAX bytes. */
static void excerpt_of(struct bytes text, char excerpt[EXCERPT_MAX + 1])
{
    size_t size = 0;
    while (text.size > 0) {
        const struct bytes shown = shown_take(&text);
        const bool is_blank = shown.ptr[0] == ' ';
        if (size + shown.size > EXCERPT_MAX)
            break;
        if (is_blank && (size == 0 || excerpt[size - 1] == ' '))
            continue;
        memcpy(excerpt + size, shown.ptr, shown.size);
        size += shown.size;
    }
    excerpt[size > 0 && excerpt[size - 1] == ' ' ? size - 1 : size] = '\0';
}

enum tally_status client_fail_stranger(struct tally_client *client, const char *target, int http_status,
                                       struct bytes text)
{
    char excerpt[EXCERPT_MAX + 1];
    excerpt_of(text, excerpt);
    client_fail(client, TALLY_GARBLED, "Garbled", "%s answered %s with HTTP %d, and not as a queue server does: %s",
                client->endpoint_owned, target, http_status, excerpt[0] == '\0' ? "no text" : excerpt);
    client->error.http_status = http_status;
    return TALLY_GARBLED;
}

enum tally_status client_garbled(struct tally_client *client, const char *target)
{
    return client_fail(client, TALLY_GARBLED, "Garbled", "the answer of %s to %s lacks what this action answers",
                       client->endpoint_owned, target);
}

uint64_t client_random(struct tally_client *client)
{
    uint64_t state = client->random;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    client->random = state;
    return state * 0x2545F4914F6CDD1Du;
}
