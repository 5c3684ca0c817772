/* Events from outside: decoding and replaying them.
 *
 * First byte: bit 0: the rest is bits to flip (u16 offset, u8 mask) in the log of random decisions that the second byte
 * draws; else the rest is a frame's payload, replayed behind such a log. Replaying must end with true, or with false
 * and the event's place; and what decodes must encode to the same bytes. */
#include "base/assert.h"
#include "base/cursor.h"
#include "core/core.h"
#include "support/core_rig.h"
#include "support/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void events_round_trip(struct bytes payload)
{
    struct buffer again;
    buffer_init(&again);
    struct bytes rest = payload;
    struct event event;
    while (rest.size > 0 && event_decode(&rest, &event)) {
        ASSERT(event_kind_name(event.kind) != NULL);
        event_encode(&event, &again);
    }
    ASSERT(bytes_equal(buffer_bytes(&again), bytes_make(payload.ptr, payload.size - rest.size)));
    buffer_deinit(&again);
}

static bool replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms)
{
    struct failure failure = {.error = OK};
    bool is_replayed = core_replay(core, payload, position, time_ms, &failure);
    history_note(bytes_from_string(failure.text));
    if (is_replayed)
        core_rig_note(core);
    ASSERT(is_replayed || (failure.error == ERROR_LOG_DAMAGED && failure.text[0] != '\0'));
    return is_replayed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor cursor = cursor_make(bytes_make(data, size));
    const uint8_t mode = cursor_u8(&cursor);
    const uint8_t seed = cursor_u8(&cursor);
    if (cursor.is_failed)
        return 0;
    struct core_rig rig;
    core_rig_init(&rig, seed);
    for (unsigned i = 0; i < seed; i++)
        core_rig_step(&rig);
    if ((mode & 1) != 0) {
        while (cursor.rest.size >= 3) {
            const size_t offset = cursor_u16(&cursor) % rig.log.size;
            rig.log.data_owned[offset] ^= cursor_u8(&cursor);
        }
    }
    struct core *core = core_create();
    bool is_good = true;
    for (size_t i = 0; i < rig.frame_count && is_good; i++) {
        const struct core_rig_frame *frame = &rig.frames_owned[i];
        const struct bytes payload = bytes_make(rig.log.data_owned + frame->offset, frame->size);
        events_round_trip(payload);
        is_good = replay(core, payload, frame->position, frame->time_ms);
    }
    if ((mode & 1) == 0) {
        ASSERT(is_good);
        events_round_trip(cursor.rest);
        (void)replay(core, cursor.rest, rig.position, rig.now_ms + 1000);
    }
    core_destroy(core);
    core_rig_deinit(&rig);
    return 0;
}
