/* Passes the encoded state on, piece by piece. */
#include "core/snapshot.h"

#define PIECE_SIZE (256u << 10)

void core_writer_hand_on(struct core_writer *writer)
{
    if (writer->piece.size == 0)
        return;
    writer->sink(writer->context, buffer_bytes(&writer->piece));
    buffer_truncate(&writer->piece, 0);
}

void core_writer_pass_on(struct core_writer *writer)
{
    if (writer->piece.size > PIECE_SIZE)
        core_writer_hand_on(writer);
}
