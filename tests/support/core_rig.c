#include "support/core_rig.h"

#include "base/assert.h"
#include "base/memory.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_content.h"
#include "core/messages/decide_send.h"
#include "core/snapshot.h"
#include "core/state.h"
#include "support/core_bytes.h"
#include "support/history.h"

#include <stdlib.h>

#define START_MS UINT64_C(1700000000000)

static const uint8_t rig_key[CORE_KEY_SIZE] = "core rig";

uint32_t core_rig_draw(struct core_rig *rig, uint32_t end)
{
    uint64_t mixed = rig->random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((mixed ^ mixed >> 31) % end);
}

void core_rig_init(struct core_rig *rig, uint64_t seed)
{
    *rig = (struct core_rig){.core = core_create(), .now_ms = START_MS, .random_state = seed, .position = 4096};
    buffer_init(&rig->frame);
    buffer_init(&rig->log);
    decide_found(core_rig_begin(rig), BYTES("000000000000"), rig_key, 64u << 10);
    decide_restart(rig->core, 1, rig->now_ms);
    core_rig_end(rig);
}

void core_rig_deinit(struct core_rig *rig)
{
    core_rig_note(rig->core);
    core_destroy(rig->core);
    buffer_deinit(&rig->frame);
    buffer_deinit(&rig->log);
    free(rig->frames_owned);
}

struct core *core_rig_begin(struct core_rig *rig)
{
    buffer_truncate(&rig->frame, 0);
    rig->opened_ms = rig->now_ms;
    core_frame_open(rig->core, &rig->frame, rig->position, rig->now_ms, 1u << 20);
    return rig->core;
}

void core_rig_end(struct core_rig *rig)
{
    core_frame_close(rig->core);
    history_note(buffer_bytes(&rig->frame));
    if (rig->frame.size == 0)
        return;
    if (rig->frame_count == rig->frame_capacity) {
        rig->frame_capacity = rig->frame_capacity == 0 ? 64 : rig->frame_capacity * 2;
        rig->frames_owned = memory_resize(rig->frames_owned, rig->frame_capacity * sizeof(*rig->frames_owned));
    }
    rig->frames_owned[rig->frame_count++] = (struct core_rig_frame){
        .position = rig->position, .time_ms = rig->opened_ms, .offset = rig->log.size, .size = rig->frame.size};
    buffer_append_bytes(&rig->log, buffer_bytes(&rig->frame));
    rig->position += rig->frame.size + 64;
}

static struct bytes read_frame(struct bytes frame, uint64_t start, uint64_t position, size_t size)
{
    if (position < start || position + size > start + frame.size)
        return bytes_make(NULL, 0);
    return bytes_make(frame.ptr + (position - start), size);
}

struct bytes core_rig_read(const struct core_rig *rig, uint64_t position, size_t size)
{
    if (position >= rig->position)
        return read_frame(buffer_bytes(&rig->frame), rig->position, position, size);
    size_t low = 0, high = rig->frame_count;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (rig->frames_owned[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    if (rig->frame_count == 0)
        return bytes_make(NULL, 0);
    const struct core_rig_frame *frame = &rig->frames_owned[low];
    return read_frame(bytes_make(rig->log.data_owned + frame->offset, frame->size), frame->position, position, size);
}

unsigned core_rig_clean(struct core_rig *rig, unsigned count)
{
    uint64_t ordinal = core_next_needed_segment(rig->core, 0);
    if (ordinal == UINT64_MAX)
        return 0;
    uint32_t slot = 1;
    unsigned visits = UINT32_MAX, moved_count = 0;
    struct live_content found;
    struct buffer content; /* the frame grows while the event is encoded into it */
    buffer_init(&content);
    while (moved_count < count && core_find_content(rig->core, &ordinal, 1, &slot, &visits, &found)) {
        struct bytes bytes = core_rig_read(rig, found.position, found.size);
        if (bytes.size == 0)
            break;
        buffer_truncate(&content, 0);
        buffer_append_bytes(&content, bytes);
        decide_move_content(rig->core, &found, buffer_bytes(&content));
        moved_count++;
    }
    buffer_deinit(&content);
    return moved_count;
}

void core_rig_forget_log(struct core_rig *rig)
{
    buffer_truncate(&rig->log, 0);
    rig->frame_count = 0;
}

struct core *core_rig_replay(const struct core_rig *rig)
{
    struct core *core = core_create();
    for (size_t i = 0; i < rig->frame_count; i++) {
        const struct core_rig_frame *frame = &rig->frames_owned[i];
        struct failure failure;
        bool is_replayed = core_replay(core, bytes_make(rig->log.data_owned + frame->offset, frame->size),
                                       frame->position, frame->time_ms, &failure);
        ASSERT(is_replayed);
    }
    struct buffer none;
    buffer_init(&none);
    core_frame_open(core, &none, rig->position, core_now_ms(rig->core), 1u << 20);
    core_frame_close(core);
    buffer_deinit(&none);
    return core;
}

static void append_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

static void note_piece(void *context, struct bytes piece)
{
    (void)context;
    history_note(piece);
}

void core_rig_note(const struct core *core)
{
    if (history_is_wanted())
        core_encode(core, note_piece, NULL);
}

void core_rig_encode(const struct core *core, struct buffer *out)
{
    buffer_truncate(out, 0);
    core_encode(core, append_piece, out);
}

struct bytes core_rig_find_part(const struct core *core, const struct buffer *encoded, core_rig_encoder *encode)
{
    struct core_writer writer = {.sink = NULL};
    buffer_init(&writer.piece);
    encode(core, &writer);
    const uint8_t *at = memmem(encoded->data_owned, encoded->size, writer.piece.data_owned, writer.piece.size);
    ASSERT(at != NULL);
    struct bytes part = bytes_make(at, writer.piece.size);
    buffer_deinit(&writer.piece);
    return part;
}

unsigned core_rig_damage_part(struct core_rig *rig, core_rig_encoder *encode, unsigned rounds)
{
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    struct bytes part = core_rig_find_part(rig->core, &encoded, encode);
    size_t first = (size_t)(part.ptr - encoded.data_owned);
    unsigned refused_count = 0;
    while (rounds-- > 0) {
        uint8_t *byte = encoded.data_owned + first + core_rig_draw(rig, (uint32_t)part.size);
        uint8_t was = *byte;
        *byte = (uint8_t)core_rig_draw(rig, 256);
        struct core *read = core_create();
        if (core_bytes_decode(read, buffer_bytes(&encoded)))
            core_check(read);
        else
            refused_count++;
        core_destroy(read);
        *byte = was;
    }
    buffer_deinit(&encoded);
    return refused_count;
}

struct queue_settings core_rig_settings(void)
{
    return (struct queue_settings){
        .message_size_max = 1048576, .retention_s = 345600, .visibility_timeout_s = 30, .dead_letter_arn = BYTES("")};
}

enum error core_rig_send(struct core *core, struct queue *queue, struct bytes batch, struct bytes body,
                         uint32_t delay_ms)
{
    const struct send_command command = {
        .queue = queue,
        .content = {.body = body, .sender = core_name(core)},
        .delay_ms = delay_ms,
        .batch_id = batch,
        .priority = PRIORITY_DEFAULT,
    };
    struct send_result result;
    return decide_send(core, &command, &result);
}
