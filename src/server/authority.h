/* Host and port, as in the header fields Host and Origin and in a URL (RFC 3986, 3.2, without user names). No name is
 * looked up.
 *
 *   tally.example:9324    a name: letters, digits and - _ ~ in labels with dots between, at most 255 bytes; one
 *                         closing dot may stand there
 *   127.0.0.1             an IPv4 address: four decimal numbers. What browsers and old libraries also take for one,
 *                         like 127.1 or 0x7f.1, is a name here
 *   [::1]:9324            an IPv6 address, without a zone
 *
 * Names in other alphabets come as xn--…; bytes from 0x80 on are not allowed in a host. */
#ifndef TALLY_SERVER_AUTHORITY_H
#define TALLY_SERVER_AUTHORITY_H

#include "base/bytes.h"

#define AUTHORITY_HOST_SIZE_MAX 255u

struct authority {
    struct bytes host; /* as it was written, without brackets and final dot; a view into the parsed text */
    uint32_t port;     /* 0: none was written, or 0 was written */
    bool is_ip6;
};

/* False if `text` is not one; *authority is then untouched. */
bool authority_parse(struct bytes text, struct authority *authority);

/* Takes "http://" or "https://", in any case, and the authority after it off the front of *text. *text keeps the rest.
 * A missing port becomes that of the scheme. False if *text begins with neither. */
bool authority_take_url(struct bytes *text, struct authority *authority);

/* Is the host an address of this machine's loopback interface: 127.0.0.0/8, ::1, or one of 127.0.0.0/8 written as
 * IPv6? */
bool authority_is_loopback(const struct authority *authority);

/* Are the hosts the same? The case of names and the spelling of addresses do not matter. Ports are not compared. */
bool authority_is_same_host(const struct authority *a, const struct authority *b);

#endif
