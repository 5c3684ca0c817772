#include "postgres/chain.h"

#include "base/assert.h"
#include "postgres/statements.h"

#define OID_BYTEA 17u

static void append_be32(struct buffer *out, uint32_t number)
{
    const uint8_t bytes[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    buffer_append(out, bytes, sizeof(bytes));
}

struct pg_chain pg_chain_begin(struct sha256 *sha256, uint64_t file)
{
    uint8_t text[16];
    memcpy(text, "tallylog", 8);
    bytes_put_u64(text + 8, file);
    uint8_t digest[SHA256_SIZE];
    sha256_digest(sha256, bytes_make(text, sizeof(text)), digest);
    struct pg_chain chain = {0};
    memcpy(chain.hash, digest, PG_HASH_SIZE);
    return chain;
}

void pg_chain_add(struct pg_chain *chain, struct sha256 *sha256, uint64_t epoch, uint64_t at, struct bytes data)
{
    ASSERT(data.size > 0 && data.ptr[data.size - 1] != 0 && at >= chain->end);
    uint8_t head[PG_HASH_SIZE + 16 + SHA256_SIZE];
    memcpy(head, chain->hash, PG_HASH_SIZE);
    bytes_put_u64(head + PG_HASH_SIZE, epoch);
    bytes_put_u64(head + PG_HASH_SIZE + 8, at);
    sha256_digest(sha256, data, head + PG_HASH_SIZE + 16);
    uint8_t digest[SHA256_SIZE];
    sha256_digest(sha256, bytes_make(head, sizeof(head)), digest);
    memcpy(chain->hash, digest, PG_HASH_SIZE);
    chain->last_at = at;
    chain->end = at + data.size;
}

bool pg_chain_has_hash(const struct pg_chain *chain, struct bytes hash)
{
    return hash.size == PG_HASH_SIZE && memcmp(hash.ptr, chain->hash, PG_HASH_SIZE) == 0;
}

struct bytes pg_chunk_cut(struct bytes data)
{
    while (data.size > 0 && data.ptr[data.size - 1] == 0)
        data.size--;
    return data;
}

uint32_t pg_chunks_encode(struct bytes data, struct buffer *out)
{
    ASSERT(data.size > 0);
    const uint32_t count = (uint32_t)((data.size + PG_CHUNK_SIZE - 1) / PG_CHUNK_SIZE);
    append_be32(out, 1); /* dimensions */
    append_be32(out, 0); /* no NULL among them */
    append_be32(out, OID_BYTEA);
    append_be32(out, count);
    append_be32(out, 1); /* the first one's number */
    while (data.size > 0) {
        const size_t piece = data.size < PG_CHUNK_SIZE ? data.size : PG_CHUNK_SIZE;
        append_be32(out, (uint32_t)piece);
        buffer_append(out, data.ptr, piece);
        data = bytes_skip(data, piece);
    }
    return count;
}
