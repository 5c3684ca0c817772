/* The part of libpq that src/postgres calls, over the simulated network. It takes libpq's place at link time, so all of
 * src/postgres runs as it is. */
#ifndef TALLY_TESTS_SIM_OWNERS_LIBPQ_H
#define TALLY_TESTS_SIM_OWNERS_LIBPQ_H

#include "base/buffer.h"
#include <libpq-fe.h>

#define RESULT_COLUMNS_MAX 10

struct result_field {
    bool is_null;
    struct bytes bytes;
};

struct pg_result {
    ExecStatusType status;
    char state[8]; /* SQLSTATE */
    char severity[8];
    char text[120];
    char changed[24];
    int columns;
    int rows;
    int capacity;
    struct result_field *fields_owned;
    bool is_unreplicated; /* a warning goes before it */
};

/* An empty result. */
struct pg_result *result_create(ExecStatusType status, int columns);
struct pg_result *result_refuse(const char *state, const char *text);
void result_add_bytes(struct pg_result *result, struct bytes bytes); /* ptr NULL: a NULL */
void result_add_number(struct pg_result *result, uint64_t number, size_t size);

/* Draws of the network; how often a packet is late. */
void network_init(uint64_t seed, uint32_t late_percent);

/* The process is killed: its system closes what it had open. */
struct process;
void network_kill(const struct process *process);

/* Packets between the process and PostgreSQL are held until then; what lasts longer than a few seconds breaks
 * connections without a word to the other side. */
void network_cut(struct process *process, uint64_t until);

/* Since when can the process know that the connection is broken on which it last changed something? 0: it is not. */
uint64_t network_broken_at(const struct process *process);

/* A connection of that process breaks. False: it has none. */
bool network_break(const struct process *process);
void network_calm(void);

/* poll() for the fiber that runs, on a socket of a connection. */
struct pollfd;
bool network_has(int descriptor);
int network_poll(struct pollfd *socket, int timeout_ms);

#endif
