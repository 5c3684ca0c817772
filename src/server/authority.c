#include "server/authority.h"

#include <arpa/inet.h>

#define IP6_SIZE 16u

/* --- Parsing ------------------------------------------------------------------------------------------------------ */

/* For each byte: may it be in a label of a name? */
static const bool label_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['-'] = true, ['_'] = true, ['~'] = true,
};

/* How many bytes at the front are a name, with its final dot; 0 if a label is empty or there is none. */
static size_t name_size(struct bytes text)
{
    size_t size = 0, label = 0;
    for (; size < text.size; size++, label++) {
        if (label_bytes[text.ptr[size]])
            continue;
        if (text.ptr[size] != '.')
            break;
        if (label == 0)
            return 0;
        label = SIZE_MAX; /* the next round makes it 0 */
    }
    return size;
}

/* The text between the brackets of an IPv6 address. */
static bool parse_ip6(struct bytes text, uint8_t address[IP6_SIZE])
{
    char string[INET6_ADDRSTRLEN];
    if (text.size >= sizeof(string))
        return false;
    memcpy(string, text.ptr, text.size);
    string[text.size] = '\0';
    return strlen(string) == text.size && inet_pton(AF_INET6, string, address) == 1;
}

static bool parse_ip4(struct bytes text, uint8_t address[4])
{
    char string[INET_ADDRSTRLEN];
    if (text.size >= sizeof(string))
        return false;
    memcpy(string, text.ptr, text.size);
    string[text.size] = '\0';
    return strlen(string) == text.size && inet_pton(AF_INET, string, address) == 1;
}

/* The text after the host: nothing, or a colon and a port, which may be empty. */
static bool parse_port(struct bytes text, uint32_t *port)
{
    uint32_t number = 0;
    if (text.size > 0 && text.ptr[0] != ':')
        return false;
    for (size_t i = 1; i < text.size; i++) {
        uint32_t digit = (uint32_t)text.ptr[i] - '0';
        if (digit > 9 || i > 5)
            return false;
        number = number * 10 + digit;
    }
    *port = number;
    return number <= UINT16_MAX;
}

static bool parse_ip6_authority(struct bytes text, struct authority *authority)
{
    uint8_t address[IP6_SIZE];
    const uint8_t *end = memchr(text.ptr, ']', text.size);
    if (end == NULL)
        return false;
    struct authority parsed = {.host = bytes_make(text.ptr + 1, (size_t)(end - text.ptr) - 1), .is_ip6 = true};
    if (!parse_ip6(parsed.host, address) || !parse_port(bytes_skip(text, parsed.host.size + 2), &parsed.port))
        return false;
    *authority = parsed;
    return true;
}

bool authority_parse(struct bytes text, struct authority *authority)
{
    if (text.size > 0 && text.ptr[0] == '[')
        return parse_ip6_authority(text, authority);
    size_t size = name_size(text);
    struct authority parsed = {.host = bytes_make(text.ptr, size)};
    if (size == 0 || size > AUTHORITY_HOST_SIZE_MAX || !parse_port(bytes_skip(text, size), &parsed.port))
        return false;
    if (text.ptr[size - 1] == '.')
        parsed.host.size--;
    *authority = parsed;
    return true;
}

static bool take_scheme(struct bytes *text, struct bytes scheme)
{
    if (text->size < scheme.size)
        return false;
    for (size_t i = 0; i < scheme.size; i++) /* bytes that are not letters already have the bit set */
        if ((text->ptr[i] | 0x20) != scheme.ptr[i])
            return false;
    *text = bytes_skip(*text, scheme.size);
    return true;
}

bool authority_take_url(struct bytes *text, struct authority *authority)
{
    struct bytes rest = *text;
    bool is_https = take_scheme(&rest, BYTES("https://"));
    if (!is_https && !take_scheme(&rest, BYTES("http://")))
        return false;
    size_t size = 0;
    while (size < rest.size && rest.ptr[size] != '/' && rest.ptr[size] != '?' && rest.ptr[size] != '#')
        size++;
    struct authority parsed;
    if (!authority_parse(bytes_make(rest.ptr, size), &parsed))
        return false;
    if (parsed.port == 0)
        parsed.port = is_https ? 443 : 80;
    *authority = parsed;
    *text = bytes_skip(rest, size);
    return true;
}

/* --- Comparing ---------------------------------------------------------------------------------------------------- */

/* Turns every address into IPv6, an IPv4 one into ::ffff:…. False: it is a name. */
static bool to_address(const struct authority *authority, uint8_t address[IP6_SIZE])
{
    static const uint8_t mapped[IP6_SIZE] = {[10] = 0xff, [11] = 0xff};
    if (authority->is_ip6)
        return parse_ip6(authority->host, address);
    memcpy(address, mapped, sizeof(mapped));
    return parse_ip4(authority->host, address + 12);
}

bool authority_is_loopback(const struct authority *authority)
{
    static const uint8_t ip6_loopback[IP6_SIZE] = {[IP6_SIZE - 1] = 1};
    static const uint8_t ip4_loopback[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    uint8_t address[IP6_SIZE];
    return to_address(authority, address) && (memcmp(address, ip6_loopback, sizeof(ip6_loopback)) == 0 ||
                                              memcmp(address, ip4_loopback, sizeof(ip4_loopback)) == 0);
}

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

bool authority_is_same_host(const struct authority *a, const struct authority *b)
{
    uint8_t address[2][IP6_SIZE];
    bool is_address = to_address(a, address[0]);
    if (is_address != to_address(b, address[1]))
        return false;
    if (is_address)
        return memcmp(address[0], address[1], IP6_SIZE) == 0;
    if (a->host.size != b->host.size)
        return false;
    for (size_t i = 0; i < a->host.size; i++)
        if (lower(a->host.ptr[i]) != lower(b->host.ptr[i]))
            return false;
    return true;
}
