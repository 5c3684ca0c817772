/* Finds, of the hosts that a connection string names, one that takes writes.
 *
 * The hosts have an order. The next one is tried beside those that are under way when nothing has come from them for
 * HEAD_START_MS, and at once when one has failed (RFC 8305 does so with addresses): a machine that is gone answers
 * nothing at all, and keeps nobody from the others. A host that was passed over, because it took a connection and then
 * answered no more (F14), is tried last, and only when all others have failed.
 *
 * libpq itself looks names up, and waits for that; and it tries the addresses of one name one after the other. */
#ifndef TALLY_POSTGRES_CONNECT_H
#define TALLY_POSTGRES_CONNECT_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PG_HEAD_START_MS 200u

struct pg_hosts {
    const PQconninfoOption *options; /* the connection string, parsed; borrowed */
    const char *application;         /* unless the connection string has one */
    uint32_t first;                  /* the number, modulo how many there are, of the host to begin with */
    bool has_passed;                 /* the one before that, the last in this order, was passed over */
    bool is_only_first;              /* no other one is tried */
};

/* A connection, for the caller to close; hosts->first is then the host that took it. NULL: none did, or not before
 * `until_ms` of pg_now_ms(); `reasons` then has what each of them said, as lines. */
PGconn *pg_connect(struct pg_hosts *hosts, uint64_t until_ms, char *reasons, size_t size);

#endif
