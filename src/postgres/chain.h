/* What a write becomes in tally_log.chunk: pieces of PG_CHUNK_SIZE without the zeros at the end, and a hash that covers
 * all of the file up to there. */
#ifndef TALLY_POSTGRES_CHAIN_H
#define TALLY_POSTGRES_CHAIN_H

#include "auth/sha256.h"
#include "base/buffer.h"

#define PG_HASH_SIZE 16u /* the first half of a SHA-256 */

/* Up to and with one write of a file. */
struct pg_chain {
    uint64_t last_at; /* offset of the newest write */
    uint64_t end;     /* behind its last byte that is not zero; 0: nothing was written */
    uint8_t hash[PG_HASH_SIZE];
};

/* Of an empty file. */
struct pg_chain pg_chain_begin(struct sha256 *sha256, uint64_t file);

/* Goes on behind a write of `data`, which has no zeros at its end, at offset `at` in `epoch`. */
void pg_chain_add(struct pg_chain *chain, struct sha256 *sha256, uint64_t epoch, uint64_t at, struct bytes data);

bool pg_chain_has_hash(const struct pg_chain *chain, struct bytes hash);

/* `data` without the zeros at its end. */
struct bytes pg_chunk_cut(struct bytes data);

/* Appends the chunks of `data`, which has at least one byte, as a binary parameter of type bytea[]; returns how many
 * there are. */
uint32_t pg_chunks_encode(struct bytes data, struct buffer *out);

#endif
