/* The address to listen on: "127.0.0.1:9324", "[::1]:9324", "localhost:0". */
#ifndef TALLY_TALLYD_ADDRESS_H
#define TALLY_TALLYD_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_HOST_SIZE 64

struct address {
    char host[ADDRESS_HOST_SIZE]; /* an IP address, without brackets */
    uint16_t port;
    bool is_ip6;
    bool is_loopback; /* no other machine can reach it */
};

/* False if `text` is not an address and port. localhost is the only name that is accepted, because where a daemon
 * listens must not depend on a name server. */
bool address_parse(struct address *address, const char *text);

#endif
