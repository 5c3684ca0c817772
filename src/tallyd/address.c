#include "tallyd/address.h"

#include "base/bytes.h"

#include <arpa/inet.h>

static bool port_parse(const char *text, uint16_t *port)
{
    uint64_t number;
    if (!bytes_to_u64(bytes_from_string(text), &number) || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

static bool host_parse(struct address *address)
{
    struct in_addr ip4;
    if (inet_pton(AF_INET, address->host, &ip4) == 1) {
        address->is_ip6 = false;
        address->is_loopback = ntohl(ip4.s_addr) >> 24 == 127;
        return true;
    }
    struct in6_addr ip6;
    if (inet_pton(AF_INET6, address->host, &ip6) == 1) {
        address->is_ip6 = true;
        address->is_loopback = IN6_IS_ADDR_LOOPBACK(&ip6);
        return true;
    }
    return false;
}

bool address_parse(struct address *address, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !port_parse(colon + 1, &address->port))
        return false;
    struct bytes host = bytes_make(text, (size_t)(colon - text));
    bool has_brackets = bytes_starts_with(host, BYTES("[")) && bytes_ends_with(host, BYTES("]"));
    if (has_brackets)
        host = bytes_make(host.ptr + 1, host.size - 2);
    if (bytes_equal(host, BYTES("localhost")))
        host = BYTES("127.0.0.1");
    if (host.size >= ADDRESS_HOST_SIZE)
        return false;
    memcpy(address->host, host.ptr, host.size);
    address->host[host.size] = '\0';
    return host_parse(address) && address->is_ip6 == has_brackets;
}
