/* One write to a connection: the replies that may leave now, joined so that a single system call takes them.
 *
 * Heads and small bodies are copied together into the hub's output memory; each large body is a piece of its own.
 * Borrows from the requests and the hub; it is written before either changes. */
#ifndef TALLY_SERVER_OUTPUT_H
#define TALLY_SERVER_OUTPUT_H

#include "server/hub.h"

#include <uv.h>

#define OUTPUT_PIECES_MAX 32u

struct output {
    uv_buf_t pieces[OUTPUT_PIECES_MAX];
    unsigned piece_count;
    size_t used;          /* of the hub's output memory */
    size_t size;          /* bytes of all pieces */
    size_t pending_count; /* whose replies they are */
    bool is_last;         /* the connection closes behind them */
};

/* Takes the ready requests at the front of `requests`, as far as there is room; none if the first is not ready. */
void output_gather(struct output *output, struct hub *hub, const struct list *turns);

#endif
