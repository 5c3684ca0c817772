/* A core's state from outside.
 *
 * First byte: bit 0: the rest is bits to flip (u16 offset, u8 mask) in the state after random decisions that the second
 * byte draws; else the rest is the state. Decoding must end with true or false; if true, the state stands every check
 * and encodes to bytes that decode to the same. */
#include "base/assert.h"
#include "base/cursor.h"
#include "core/state.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void state_round_trips(const struct core *core)
{
    struct buffer first, second;
    buffer_init(&first);
    buffer_init(&second);
    core_rig_encode(core, &first);
    core_rig_note(core);
    struct core *again = core_create();
    bool is_decoded = core_bytes_decode(again, buffer_bytes(&first));
    ASSERT(is_decoded);
    core_rig_encode(again, &second);
    ASSERT(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    core_destroy(again);
    buffer_deinit(&first);
    buffer_deinit(&second);
}

static void decode(struct bytes encoded)
{
    struct core *core = core_create();
    /* Encoding and checking walk all queue ids there ever were: not for four billion of them. */
    if (core_bytes_decode(core, encoded) && core->queues.queue_id < 100000) {
        core_check(core);
        state_round_trips(core);
    }
    core_destroy(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor cursor = cursor_make(bytes_make(data, size));
    const uint8_t mode = cursor_u8(&cursor);
    const uint8_t seed = cursor_u8(&cursor);
    if (cursor.is_failed)
        return 0;
    if ((mode & 1) == 0) {
        decode(cursor.rest);
        return 0;
    }
    struct core_rig rig;
    core_rig_init(&rig, seed);
    for (unsigned i = 0; i < seed; i++)
        core_rig_step(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    while (cursor.rest.size >= 3) {
        const size_t offset = cursor_u16(&cursor) % encoded.size;
        encoded.data_owned[offset] ^= cursor_u8(&cursor);
    }
    decode(buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
    return 0;
}
