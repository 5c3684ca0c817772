/* A salvage of the log of random decisions, some of whose frames are lost or damaged.
 *
 * First byte: bit 0: the founding is lost, too; bit 1: the salvage begins with the queues of a state in the middle of
 * the log, the rest of which is lost. Second byte: the seed of the decisions; third: how many, in fours. Then one byte
 * for each frame: 0 loses it, 1 breaks it (u16 offset, u8 mask), and every other keeps it. Whatever is lost, the state
 * that comes out stands every check, and encodes to bytes that decode. */
#include "base/assert.h"
#include "base/cursor.h"
#include "core/salvage.h"
#include "core/state.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/history.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEGMENT_SIZE (64u << 10)

static void on_finding(void *context, const struct core_finding *finding)
{
    (void)context;
    const uint64_t facts[] = {finding->kind, finding->number, finding->last, finding->position};
    ASSERT(finding->kind < CORE_LOSS_COUNT);
    history_note(bytes_make(facts, sizeof(facts)));
    history_note(finding->name);
}

static void read_frame(struct core_salvage *salvage, const struct core_rig *rig, const struct core_rig_frame *frame,
                       struct cursor *choices)
{
    const struct bytes payload = bytes_make(rig->log.data_owned + frame->offset, frame->size);
    uint64_t unknown;
    switch (choices->rest.size == 0 ? UINT8_MAX : cursor_u8(choices)) {
    case 0:
        core_salvage_gap(salvage);
        return;
    case 1: {
        uint8_t *byte = rig->log.data_owned + frame->offset + cursor_u16(choices) % frame->size;
        *byte ^= cursor_u8(choices);
        core_salvage_gap(salvage);
        history_note_number(core_salvage_broken_frame(salvage, payload, frame->position, frame->time_ms));
        return;
    }
    default: {
        const bool is_known = core_salvage_frame(salvage, payload, frame->position, frame->time_ms, &unknown);
        ASSERT(is_known);
    }
    }
}

/* What the salvage has left to say of contents: all of them are sent anew, or their messages fail. */
static void end(struct core_salvage *salvage, struct core *core, struct core_rig *rig)
{
    core_salvage_end(salvage);
    const struct salvage_orphan *orphans;
    const size_t count = core_salvage_orphans(salvage, &orphans);
    struct buffer frame;
    buffer_init(&frame);
    core_frame_open(core, &frame, rig->position, core_now_ms(core), 1u << 20);
    for (size_t i = 0; i < count && frame.size < 1u << 19; i++) {
        const uint64_t facts[] = {orphans[i].number, orphans[i].position, orphans[i].size};
        history_note(bytes_make(facts, sizeof(facts)));
        const struct bytes content = core_rig_read(rig, orphans[i].position, orphans[i].size);
        if (orphans[i].number != 0 && content.size > 0)
            decide_send_orphan(core, content);
    }
    struct live_content content;
    for (uint32_t slot = 1; slot < core_salvage_slot_end(core); slot += 5)
        if (frame.size < 1u << 19 && core_salvage_content(core, slot, &content))
            decide_lose_message(core, &content);
    core_frame_close(core);
    history_note(buffer_bytes(&frame));
    buffer_deinit(&frame);
}

static void check(const struct core *core)
{
    core_check(core);
    core_rig_note(core);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(core, &encoded);
    struct core *again = core_create();
    const bool is_decoded = core_bytes_decode(again, buffer_bytes(&encoded));
    ASSERT(is_decoded);
    core_destroy(again);
    buffer_deinit(&encoded);
}

/* A salvage into a fresh core. With `start`, the bytes of a state, it knows that one's queues. */
static struct core_salvage *begin(struct core *core, struct bytes start, uint64_t position, bool is_founded)
{
    static const uint8_t key[CORE_KEY_SIZE] = "salvage";
    struct salvage_numbers newest;
    if (start.size > 0) {
        const bool has_queues = core_salvage_decode(core, start, &newest);
        ASSERT(has_queues);
    } else if (is_founded) {
        core_salvage_found(core, BYTES("000000000000"), key, SEGMENT_SIZE);
    }
    struct core_salvage *salvage = core_salvage_create(core, on_finding, NULL);
    if (start.size > 0)
        core_salvage_know_queues(salvage, position, &newest);
    return salvage;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor choices = cursor_make(bytes_make(data, size));
    const uint8_t mode = cursor_u8(&choices), seed = cursor_u8(&choices), steps = cursor_u8(&choices);
    if (choices.is_failed)
        return 0;
    struct core_rig rig;
    struct buffer start;
    uint64_t start_position = 0;
    core_rig_init(&rig, seed);
    buffer_init(&start);
    for (unsigned i = 0; i < steps * 4u; i++) {
        core_rig_step(&rig);
        if ((mode & 2) != 0 && i == steps * 2u) {
            core_rig_encode(rig.core, &start);
            start_position = rig.position;
        }
    }
    struct core *core = core_create();
    struct core_salvage *salvage = begin(core, buffer_bytes(&start), start_position, (mode & 1) != 0);
    size_t i = (mode & 1) != 0 && start.size == 0 ? 1 : 0;
    if (i == 1 || start.size > 0)
        core_salvage_gap(salvage);
    else if (rig.frame_count > 0) {
        uint64_t unknown;
        const struct core_rig_frame *first = &rig.frames_owned[0];
        const bool is_known = core_salvage_frame(salvage, bytes_make(rig.log.data_owned + first->offset, first->size),
                                                 first->position, first->time_ms, &unknown);
        ASSERT(is_known);
        i = 1;
    }
    for (; i < rig.frame_count; i++)
        read_frame(salvage, &rig, &rig.frames_owned[i], &choices);
    end(salvage, core, &rig);
    check(core);
    core_salvage_destroy(salvage);
    core_destroy(core);
    buffer_deinit(&start);
    core_rig_deinit(&rig);
    return 0;
}
