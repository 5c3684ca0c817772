#include "tallyd/listeners.h"

#include "base/bytes.h"

#include <sys/un.h>

#define DESCRIBED_SIZE 256

static bool is_off(const char *text)
{
    return text[0] == '\0' || strcmp(text, "off") == 0;
}

/* Everybody who can reach it may do everything. */
static bool is_open(const struct config *config, const struct address *address)
{
    return !address->is_loopback && config_text(config, CONFIG_CREDENTIALS)[0] == '\0';
}

static enum error check_reachable(const struct config *config, enum config_key key, const struct address *address,
                                  struct failure *failure)
{
    if (!is_open(config, address) || config_number(config, CONFIG_INSECURE_ANY_ADDRESS) != 0)
        return OK;
    char described[DESCRIBED_SIZE];
    config_describe(config, key, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is %s, which other machines may reach, but no credentials are configured: without them "
                       "everybody who can connect may do everything, so only loopback addresses (127.0.0.1, [::1]) are "
                       "served. Say who may do what in a file and name it with --credentials. Where nobody else "
                       "reaches the address, as in a container whose port is published to this machine only, "
                       "--insecure-any-address does without.",
                       described, config_text(config, key));
}

static enum error read_address(const struct config *config, enum config_key key, bool *is_wanted,
                               struct address *address, struct failure *failure)
{
    const char *text = config_text(config, key);
    *is_wanted = !is_off(text);
    if (!*is_wanted)
        return OK;
    if (!address_parse(address, text)) {
        char described[DESCRIBED_SIZE];
        config_describe(config, key, described, sizeof(described));
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "%s is \"%s\": it must be an IP address or localhost, a colon and a port up to 65535, such as "
            "127.0.0.1:9324 or [::1]:0; or off.",
            described, text);
    }
    return check_reachable(config, key, address, failure);
}

static enum error read_certificate(struct listeners *listeners, const struct config *config, struct failure *failure)
{
    const char *key = config_text(config, CONFIG_TLS_KEY);
    listeners->certificate = config_text(config, CONFIG_TLS_CERTIFICATE);
    listeners->key = key[0] == '\0' ? listeners->certificate : key;
    bool has_certificate = listeners->certificate[0] != '\0';
    char described[DESCRIBED_SIZE];
    config_describe(config,
                    listeners->has_tls ? CONFIG_TLS_LISTEN
                    : has_certificate  ? CONFIG_TLS_CERTIFICATE
                                       : CONFIG_TLS_KEY,
                    described, sizeof(described));
    if (listeners->has_tls && !has_certificate)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is %s, but tls-certificate is empty: it must be a PEM file.", described,
                           config_text(config, CONFIG_TLS_LISTEN));
    if (!listeners->has_tls && (has_certificate || key[0] != '\0'))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is set, but tls-listen is empty: nothing would be served over TLS. Set tls-listen, such "
                           "as 127.0.0.1:9325, or leave both out.",
                           described);
    return OK;
}

static enum error read_socket(struct listeners *listeners, const struct config *config, struct failure *failure)
{
    const char *path = config_text(config, CONFIG_SOCKET);
    size_t size_max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    listeners->socket = is_off(path) ? NULL : path;
    if (strlen(path) <= size_max)
        return OK;
    char described[DESCRIBED_SIZE];
    config_describe(config, CONFIG_SOCKET, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is %s: a socket's path has at most %zu bytes. Choose a shorter one.", described, path,
                       size_max);
}

/* --- Names -------------------------------------------------------------------------------------------------------- */

static enum error read_public_url(struct listeners *listeners, const struct config *config, struct failure *failure)
{
    struct bytes url = bytes_from_string(config_text(config, CONFIG_PUBLIC_URL));
    struct bytes path = url;
    struct authority name;
    if (url.size == 0)
        return OK;
    if (authority_take_url(&path, &name) && !bytes_ends_with(url, BYTES("/")) &&
        own_names_add(&listeners->names, &name))
        return OK;
    char described[DESCRIBED_SIZE];
    config_describe(config, CONFIG_PUBLIC_URL, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is \"%.*s\": it must be scheme and host without a closing slash, such as "
                       "https://queues.example.com.",
                       described, BYTES_FORMAT(url));
}

/* The next of the names, without the comma and the blanks around it. */
static struct bytes take_name(const char **text)
{
    *text += strspn(*text, " \t,");
    struct bytes name = bytes_make(*text, strcspn(*text, " \t,"));
    *text += name.size;
    return name;
}

/* A host without a port: requests may name any port. */
static bool parse_host(struct bytes text, struct authority *name)
{
    if (!authority_parse(text, name))
        return false;
    return name->is_ip6 ? bytes_ends_with(text, BYTES("]")) : memchr(text.ptr, ':', text.size) == NULL;
}

static enum error read_allowed_hosts(struct listeners *listeners, const struct config *config, struct failure *failure)
{
    const char *text = config_text(config, CONFIG_ALLOW_HOST);
    char described[DESCRIBED_SIZE];
    config_describe(config, CONFIG_ALLOW_HOST, described, sizeof(described));
    for (struct bytes item = take_name(&text); item.size > 0; item = take_name(&text)) {
        struct authority name;
        if (!parse_host(item, &name))
            return failure_set(
                failure, ERROR_INVALID_PARAMETER_VALUE,
                "%s has \"%.*s\": it must be host names or IP addresses, without scheme and port, with commas "
                "between, such as tally,queues.example.com,[fd00::5].",
                described, BYTES_FORMAT(item));
        if (!own_names_add(&listeners->names, &name))
            return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                               "%s has too many names: there may be %u, together with that of public-url.", described,
                               OWN_NAMES_MAX);
    }
    return OK;
}

enum error listeners_read(struct listeners *listeners, const struct config *config, struct failure *failure)
{
    *listeners = (struct listeners){0};
    enum error error = read_address(config, CONFIG_LISTEN, &listeners->has_plain, &listeners->plain, failure);
    if (error == OK)
        error = read_address(config, CONFIG_TLS_LISTEN, &listeners->has_tls, &listeners->tls, failure);
    if (error == OK)
        error = read_certificate(listeners, config, failure);
    if (error == OK)
        error = read_socket(listeners, config, failure);
    if (error == OK)
        error = read_public_url(listeners, config, failure);
    if (error == OK)
        error = read_allowed_hosts(listeners, config, failure);
    if (error == OK && !listeners->has_plain && !listeners->has_tls && listeners->socket == NULL)
        error =
            failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                        "listen is off, and there is neither tls-listen nor socket: nobody could connect. Set one.");
    return error;
}

bool listeners_warn(const struct listeners *listeners, const struct config *config, struct failure *warning)
{
    const bool is_plain_open = listeners->has_plain && is_open(config, &listeners->plain);
    const enum config_key key = is_plain_open ? CONFIG_LISTEN : CONFIG_TLS_LISTEN;
    if (!is_plain_open && !(listeners->has_tls && is_open(config, &listeners->tls)))
        return false;
    (void)failure_set(warning, ERROR_INVALID_PARAMETER_VALUE,
                      "insecure-any-address is on, and there are no credentials: whoever reaches %s may do everything.",
                      config_text(config, key));
    return true;
}

void listeners_fill(const struct listeners *listeners, struct server_options *options)
{
    if (listeners->has_plain)
        options->listeners[LISTENER_PLAIN] =
            (struct listener_options){.address = listeners->plain.host, .port = listeners->plain.port};
    if (listeners->has_tls)
        options->listeners[LISTENER_TLS] =
            (struct listener_options){.address = listeners->tls.host, .port = listeners->tls.port};
    options->listeners[LISTENER_UNIX] = (struct listener_options){.address = listeners->socket};
    options->names = &listeners->names;
    options->tls = (struct tls_files){.certificate = listeners->certificate, .key = listeners->key};
}

static void write_address(const char *scheme, const struct address *address, uint16_t port, struct buffer *text)
{
    buffer_append_format(text, " %s://%s%s%s:%u", scheme, address->is_ip6 ? "[" : "", address->host,
                         address->is_ip6 ? "]" : "", port);
}

void listeners_write(const struct listeners *listeners, const struct server *server, struct buffer *text)
{
    if (listeners->has_plain)
        write_address("http", &listeners->plain, server_port(server, LISTENER_PLAIN), text);
    if (listeners->has_tls)
        write_address("https", &listeners->tls, server_port(server, LISTENER_TLS), text);
    if (listeners->socket != NULL)
        buffer_append_format(text, " unix:%s", listeners->socket);
}
