#include "server/guard.h"

#include "base/assert.h"

/* A longer host, origin or field is not repeated. */
#define SHOWN_SIZE_MAX 120u

void guard_init(struct guard *guard, const struct own_names *names)
{
    *guard = (struct guard){.names = names};
}

/* A client's text for an error: as it is, or `otherwise` if it is long or not plain text. */
static struct bytes shown(struct bytes text, struct bytes otherwise)
{
    bool is_plain = text.size <= SHOWN_SIZE_MAX;
    for (size_t i = 0; i < text.size && is_plain; i++)
        is_plain = text.ptr[i] >= ' ' && text.ptr[i] < 0x7f && text.ptr[i] != '"';
    return is_plain ? text : otherwise;
}

static enum error refuse_host(struct bytes text, struct bytes host, struct failure *failure)
{
    return failure_set(
        failure, ERROR_ACCESS_DENIED,
        "Access is denied: the request is for Host '%.*s', which is not a name of this server. Without credentials it "
        "answers only to localhost, loopback addresses and allowed names, because a web page can use any other name to "
        "reach it (DNS rebinding). If this name is yours, start tallyd with --allow-host %.*s, or with --credentials. "
        "Queue URLs begin with the Host that the client sends; where that lacks the port or is wrong, --public-url "
        "says how they begin.",
        BYTES_FORMAT(shown(text, BYTES("..."))), BYTES_FORMAT(shown(host, BYTES("NAME"))));
}

static enum error check_host(struct guard *guard, struct bytes text, struct failure *failure)
{
    struct authority authority;
    if (text.size == 0)
        return OK;
    bool is_authority = authority_parse(text, &authority);
    ASSERT(is_authority); /* http.c refuses what is none */
    if (!own_names_have(guard->names, &authority))
        return refuse_host(text, authority.host, failure);
    if (text.size <= sizeof(guard->host)) {
        memcpy(guard->host, text.ptr, text.size);
        guard->host_size = text.size;
    }
    return OK;
}

static bool is_own_origin(const struct guard *guard, struct bytes origin)
{
    struct authority authority;
    return authority_take_url(&origin, &authority) && origin.size == 0 && own_names_have(guard->names, &authority);
}

static enum error refuse_page(const char *field, struct bytes value, struct failure *failure)
{
    return failure_set(
        failure, ERROR_ACCESS_DENIED,
        "Access is denied: a web page of another site sent this (%s: %.*s). Without credentials this server "
        "obeys programs, and pages that come from the same origin as itself. If the page is yours, serve "
        "both from one origin, and allow its name with --allow-host; or start tallyd with --credentials.",
        field, BYTES_FORMAT(shown(value, BYTES("..."))));
}

enum error guard_check_host(struct guard *guard, const struct request *request, struct failure *failure)
{
    if (bytes_equal(request->host, bytes_make(guard->host, guard->host_size)))
        return OK;
    return check_host(guard, request->host, failure);
}

enum error guard_check(struct guard *guard, const struct request *request, struct failure *failure)
{
    struct bytes site = request->fetch_site;
    enum error error = guard_check_host(guard, request, failure);
    if (error == OK && request->origin.size > 0 && !is_own_origin(guard, request->origin))
        error = refuse_page("Origin", request->origin, failure);
    if (error == OK && site.size > 0 && !bytes_equal(site, BYTES("none")) && !bytes_equal(site, BYTES("same-origin")))
        error = refuse_page("Sec-Fetch-Site", site, failure);
    return error;
}
