#include "server/peer.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

/* --- Addresses ---------------------------------------------------------------------------------------------------- */

static bool take_port(struct bytes text, uint16_t *port)
{
    uint64_t number;
    if (!bytes_to_u64(text, &number) || number == 0 || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

/* As host names are written, and with the underscore, which names in private networks have. */
static bool is_host_name(struct bytes host)
{
    if (host.size == 0 || host.ptr[0] == '-' || host.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < host.size; i++) {
        const uint8_t byte = host.ptr[i];
        const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        if (!is_letter && !(byte >= '0' && byte <= '9') && byte != '-' && byte != '_' && byte != '.')
            return false;
    }
    return true;
}

/* A last label of digits is that of a wrong IPv4 address, not of a name (RFC 1123, 2.1). */
static bool ends_with_number(struct bytes host)
{
    size_t begin = host.size;
    while (begin > 0 && host.ptr[begin - 1] != '.')
        begin--;
    for (size_t i = begin; i < host.size; i++)
        if (host.ptr[i] < '0' || host.ptr[i] > '9')
            return false;
    return true;
}

static bool parse_host(struct peer_address *address, struct bytes host, bool has_brackets)
{
    memcpy(address->host, host.ptr, host.size);
    address->host[host.size] = '\0';
    if (has_brackets)
        return uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)&address->socket) == 0;
    if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)&address->socket) == 0)
        return true;
    address->is_name = is_host_name(host) && !ends_with_number(host);
    return address->is_name;
}

bool peer_address_parse(const char *text, struct peer_address *address)
{
    const char *colon = strrchr(text, ':');
    *address = (struct peer_address){0};
    if (colon == NULL || !take_port(bytes_from_string(colon + 1), &address->port))
        return false;
    struct bytes host = bytes_make(text, (size_t)(colon - text));
    const bool has_brackets = bytes_starts_with(host, BYTES("[")) && bytes_ends_with(host, BYTES("]"));
    if (has_brackets)
        host = bytes_make(host.ptr + 1, host.size - 2);
    return host.size > 0 && host.size < PEER_HOST_SIZE && parse_host(address, host, has_brackets);
}

/* --- All ---------------------------------------------------------------------------------------------------------- */

void peers_init(struct peers *peers, uv_loop_t *loop, void (*changed)(void *context), void *context)
{
    peers->loop = loop;
    peers->changed = changed;
    peers->context = context;
    list_init(&peers->all);
}

static void stop_lookup(struct peer *peer)
{
    if (peer->lookup != NULL)
        lookup_abandon(peer->lookup);
    peer->lookup = NULL;
}

void peers_close(struct peers *peers)
{
    for (struct list_link *link = list_first(&peers->all); link != NULL; link = list_next(&peers->all, link))
        stop_lookup(CONTAINER_OF(link, struct peer, link));
}

static void forget(struct peer *peer)
{
    ASSERT(peer->users == 0);
    stop_lookup(peer);
    list_remove(&peer->link);
    free(peer);
}

void peers_deinit(struct peers *peers)
{
    struct list_link *link;
    while ((link = list_first(&peers->all)) != NULL)
        forget(CONTAINER_OF(link, struct peer, link));
}

/* Nodes come and go, and their addresses with them. */
static void forget_unused(struct peers *peers)
{
    const uint64_t now_ms = uv_now(peers->loop);
    struct list_link *next;
    for (struct list_link *link = list_first(&peers->all); link != NULL; link = next) {
        struct peer *peer = CONTAINER_OF(link, struct peer, link);
        next = list_next(&peers->all, link);
        if (peer->users == 0 && now_ms - peer->used_ms > PEER_UNUSED_MS)
            forget(peer);
    }
}

static struct peer *create(struct peers *peers, const char *text)
{
    struct peer *peer = memory_allocate_zeroed(sizeof(*peer));
    const bool is_address = peer_address_parse(text, &peer->address);
    ASSERT(is_address && strlen(text) < sizeof(peer->text));
    memcpy(peer->text, text, strlen(text) + 1);
    peer->peers = peers;
    if (!peer->address.is_name) {
        peer->addresses[0] = peer->address.socket;
        peer->count = 1;
    }
    list_append(&peers->all, &peer->link);
    return peer;
}

struct peer *peers_get(struct peers *peers, const char *text)
{
    struct peer *found = NULL;
    for (struct list_link *link = list_first(&peers->all); link != NULL && found == NULL;
         link = list_next(&peers->all, link))
        if (strcmp(CONTAINER_OF(link, struct peer, link)->text, text) == 0)
            found = CONTAINER_OF(link, struct peer, link);
    if (found == NULL) {
        forget_unused(peers);
        found = create(peers, text);
    }
    found->used_ms = uv_now(peers->loop);
    return found;
}

uint64_t peers_pause_ms(const struct peers *peers)
{
    uint64_t pause_ms = 0;
    for (struct list_link *link = list_first(&peers->all); link != NULL; link = list_next(&peers->all, link)) {
        const struct peer *peer = CONTAINER_OF(link, struct peer, link);
        pause_ms = peer->pause_ms > pause_ms ? peer->pause_ms : pause_ms;
    }
    return pause_ms;
}

/* --- Names -------------------------------------------------------------------------------------------------------- */

static void set_port(struct sockaddr_storage *socket, uint16_t port)
{
    if (socket->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)socket)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)socket)->sin_port = htons(port);
}

static size_t socket_size(const struct sockaddr_storage *socket)
{
    return socket->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool peer_has_socket(const struct peer *peer, const struct sockaddr_storage *socket)
{
    for (size_t i = 0; i < peer->count; i++)
        if (memcmp(&peer->addresses[i], socket, socket_size(socket)) == 0)
            return true;
    return false;
}

/* Name servers change the order of addresses from time to time; another order is not news. */
static void take_result(struct peer *peer, struct lookup_result result)
{
    bool is_news = result.count != peer->count;
    for (size_t i = 0; i < result.count; i++) {
        set_port(&result.addresses[i], peer->address.port);
        is_news = is_news || !peer_has_socket(peer, &result.addresses[i]);
    }
    peer->found_ms = uv_now(peer->peers->loop);
    if (!is_news)
        return;
    memcpy(peer->addresses, result.addresses, sizeof(peer->addresses));
    peer->count = result.count;
    peer->next = 0;
    peer->failed_count = 0;
    peer->pause_ms = 0;
}

static void miss(struct peer *peer, int status)
{
    peer->peers->lookups_failed++;
    const bool is_stale = uv_now(peer->peers->loop) - peer->found_ms > PEER_STALE_MS;
    if (!lookup_may_pass(status) || is_stale)
        peer->count = 0;
    if (peer->count > 0)
        return; /* the name server is away, and the node may be where it was */
    (void)snprintf(peer->trouble, sizeof(peer->trouble), "the name %s was not found: %s", peer->address.host,
                   gai_strerror(status));
}

static void on_looked_up(void *context, const struct lookup_result *result)
{
    struct peer *peer = context;
    peer->lookup = NULL;
    peer->looked_ms = uv_now(peer->peers->loop);
    if (result->status == 0)
        take_result(peer, *result);
    else
        miss(peer, result->status);
    peer->peers->changed(peer->peers->context);
}

/* Is it known where the name leads? Sees to it that it is soon. */
static bool is_found(struct peer *peer)
{
    const uint64_t now_ms = uv_now(peer->peers->loop);
    if (!peer->address.is_name)
        return true;
    const uint64_t age_ms = now_ms - peer->found_ms;
    const bool must_look = peer->count == 0 || age_ms > PEER_FOUND_MS || peer->failed_count >= peer->count;
    const bool may_look = peer->looked_ms == 0 || now_ms - peer->looked_ms >= PEER_MISSED_MS;
    if (must_look && may_look && peer->lookup == NULL) {
        peer->peers->lookups++;
        peer->lookup = lookup_begin(peer->peers->loop, peer->address.host, on_looked_up, peer);
    }
    return peer->count > 0 && age_ms <= PEER_STALE_MS;
}

/* --- Tries -------------------------------------------------------------------------------------------------------- */

bool peer_may_try(struct peer *peer)
{
    const uint64_t now_ms = uv_now(peer->peers->loop);
    peer->used_ms = now_ms;
    if (!is_found(peer) || (peer->pause_ms > 0 && now_ms < peer->next_try_ms))
        return false;
    if (peer->pause_ms > 0)
        peer->next_try_ms = now_ms + peer->pause_ms;
    return true;
}

const struct sockaddr_storage *peer_socket(const struct peer *peer)
{
    ASSERT(peer->next < peer->count);
    return &peer->addresses[peer->next];
}

void peer_note_reached(struct peer *peer)
{
    peer->failed_count = 0;
    peer->pause_ms = 0;
    peer->trouble[0] = '\0';
}

void peer_note_failure(struct peer *peer, uint64_t tried_ms, const char *why)
{
    peer->peers->connects_failed++;
    (void)snprintf(peer->trouble, sizeof(peer->trouble), "%s", why);
    if (tried_ms < peer->failed_ms)
        return; /* it was tried beside the one that failed before it, so it says nothing new */
    peer->failed_ms = uv_now(peer->peers->loop);
    peer->failed_count++;
    if (peer->count > 0)
        peer->next = (peer->next + 1) % peer->count;
    if (peer->failed_count < peer->count)
        return;
    const uint64_t doubled_ms = peer->pause_ms == 0 ? PEER_PAUSE_MS : 2 * peer->pause_ms;
    peer->pause_ms = doubled_ms < PEER_PAUSE_MAX_MS ? doubled_ms : PEER_PAUSE_MAX_MS;
    peer->next_try_ms = uv_now(peer->peers->loop) + peer->pause_ms;
}
