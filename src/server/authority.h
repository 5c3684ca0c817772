/* Host and port, as the header fields Host and Origin and a URL have them (RFC 3986, 3.2, without user names).
 * Nothing is looked up.
 *
 *   tally.example:9324    a name: letters, digits and - _ ~ in labels with dots between, at most 255 bytes; one
 *                         closing dot may stand there
 *   127.0.0.1             an IPv4 address: four decimal numbers. What browsers and old libraries also take for one,
 *                         like 127.1 or 0x7f.1, is a name here
 *   [::1]:9324            an IPv6 address, without a zone
 *
 * Names of other alphabets come as xn--…; bytes from 0x80 on are no part of a host. */
#ifndef TALLY_SERVER_AUTHORITY_H
#define TALLY_SERVER_AUTHORITY_H

#include "base/bytes.h"

#define AUTHORITY_HOST_SIZE_MAX 255u

struct authority {
    struct bytes host; /* as it was written, without brackets and closing dot; a view into what was parsed */
    uint32_t port;     /* 0: none was written, or that */
    bool is_ip6;
};

/* False, with *authority untouched, if `text` is none. */
bool authority_parse(struct bytes text, struct authority *authority);

/* Takes "http://" or "https://", whatever the case, and the authority behind it off the front of *text, which keeps
 * what follows; a port that was left out is the scheme's. False if *text begins with none. */
bool authority_take_url(struct bytes *text, struct authority *authority);

/* Is the host an address of this machine's loopback interface: 127.0.0.0/8, ::1, or the former written as IPv6? */
bool authority_is_loopback(const struct authority *authority);

/* Are the hosts the same, whatever the case of names and the spelling of addresses? Ports are not looked at. */
bool authority_is_same_host(const struct authority *a, const struct authority *b);

#endif
