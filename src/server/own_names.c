#include "server/own_names.h"

bool own_names_add(struct own_names *names, const struct authority *name)
{
    if (names->given_count == OWN_NAMES_MAX)
        return false;
    names->given[names->given_count++] = *name;
    return true;
}

static bool is_under_localhost(const struct authority *name)
{
    static const struct bytes localhost = BYTES("localhost");
    size_t size = name->host.size;
    if (name->is_ip6 || size < localhost.size)
        return false;
    struct authority end = {.host = bytes_skip(name->host, size - localhost.size)};
    bool is_whole_label = size == localhost.size || name->host.ptr[size - localhost.size - 1] == '.';
    return is_whole_label && authority_is_same_host(&end, &(struct authority){.host = localhost});
}

bool own_names_have(const struct own_names *names, const struct authority *name)
{
    if (authority_is_loopback(name) || is_under_localhost(name))
        return true;
    for (size_t i = 0; i < names->given_count; i++)
        if (authority_is_same_host(name, &names->given[i]))
            return true;
    return false;
}
