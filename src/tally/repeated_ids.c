#include "tally/repeated_ids.h"

#include "base/bytes.h"
#include "base/memory.h"
#include <stdlib.h>

#define BITS (1u << 27) /* 16 MiB */
#define HASHES 6u

bool repeated_ids_note(struct repeated_ids *ids, const char *queue, const char *id)
{
    const uint64_t step = bytes_hash(bytes_from_string(queue)) | 1;
    uint64_t hash = bytes_hash(bytes_from_string(id)) ^ (step << 1);
    bool is_repeated = true;
    if (ids->bits_owned == NULL)
        ids->bits_owned = memory_allocate_zeroed(BITS / 8);
    for (unsigned i = 0; i < HASHES; i++) {
        const uint64_t bit = hash >> 37; /* the highest 27 bits */
        is_repeated = is_repeated && (ids->bits_owned[bit / 64] >> (bit % 64) & 1) != 0;
        ids->bits_owned[bit / 64] |= (uint64_t)1 << (bit % 64);
        hash = hash * 0x9e3779b97f4a7c15u + step;
    }
    return is_repeated;
}

void repeated_ids_deinit(struct repeated_ids *ids)
{
    free(ids->bits_owned);
    ids->bits_owned = NULL;
}
