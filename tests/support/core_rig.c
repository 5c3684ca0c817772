#include "support/core_rig.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>

#define QUEUES 4u
#define BATCHES 6u
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
    core_destroy(rig->core);
    buffer_deinit(&rig->frame);
    buffer_deinit(&rig->log);
    free(rig->frames_owned);
}

struct core *core_rig_begin(struct core_rig *rig)
{
    buffer_truncate(&rig->frame, 0);
    core_frame_open(rig->core, &rig->frame, rig->position, rig->now_ms, 1u << 20);
    return rig->core;
}

void core_rig_end(struct core_rig *rig)
{
    core_frame_close(rig->core);
    if (rig->frame.size == 0)
        return;
    if (rig->frame_count == rig->frame_capacity) {
        rig->frame_capacity = rig->frame_capacity == 0 ? 64 : rig->frame_capacity * 2;
        rig->frames_owned = memory_resize(rig->frames_owned, rig->frame_capacity * sizeof(*rig->frames_owned));
    }
    rig->frames_owned[rig->frame_count++] = (struct core_rig_frame){
        .position = rig->position, .time_ms = rig->now_ms, .offset = rig->log.size, .size = rig->frame.size};
    buffer_append_bytes(&rig->log, buffer_bytes(&rig->frame));
    rig->position += rig->frame.size + 64;
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

void core_rig_encode(const struct core *core, struct buffer *out)
{
    buffer_truncate(out, 0);
    core_encode(core, append_piece, out);
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

/* --- random steps --------------------------------------------------------------------------------------------------- */

static struct bytes draw_name(struct core_rig *rig, char text[8], char letter, uint32_t count)
{
    int size = snprintf(text, 8, "%c%u", letter, core_rig_draw(rig, count));
    return bytes_make(text, (size_t)size);
}

static struct queue *draw_queue(struct core_rig *rig)
{
    char name[8];
    return core_find_queue(rig->core, draw_name(rig, name, 'q', QUEUES));
}

static const struct batch *draw_batch(struct core_rig *rig)
{
    char id[8];
    return core_find_batch(rig->core, draw_name(rig, id, 'b', BATCHES));
}

static void step_queue(struct core_rig *rig)
{
    char name_text[8];
    struct bytes name = draw_name(rig, name_text, 'q', QUEUES);
    struct queue *queue = core_find_queue(rig->core, name);
    struct queue_settings settings = core_rig_settings();
    settings.retention_s = 60 + core_rig_draw(rig, 600);
    if (core_rig_draw(rig, 2) == 0) {
        settings.receive_count_max = 1 + core_rig_draw(rig, 3);
        settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:q0");
    }
    if (queue == NULL)
        decide_create_queue(rig->core, name, &settings);
    else if (core_rig_draw(rig, 3) == 0)
        (void)decide_delete_queue(rig->core, queue);
    else if (core_rig_draw(rig, 2) == 0)
        decide_purge_queue(rig->core, queue);
    else
        decide_set_queue(rig->core, queue, &settings);
}

static void step_create_batch(struct core_rig *rig)
{
    char id[8], parent[8];
    struct create_batch_command command = {.id = draw_name(rig, id, 'b', BATCHES)};
    if (core_rig_draw(rig, 2) == 0)
        command.parent_id = draw_name(rig, parent, 'b', BATCHES);
    command.spec.has_total = core_rig_draw(rig, 4) == 0;
    command.spec.total = core_rig_draw(rig, 6);
    command.spec.tracking = core_rig_draw(rig, 3) == 0 ? BATCH_XOR : BATCH_EXACT;
    command.spec.expires_after_s = 1 + core_rig_draw(rig, 900);
    command.spec.retention_s = core_rig_draw(rig, 300);
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++) {
        const struct queue *queue = draw_queue(rig);
        if (queue == NULL)
            continue;
        command.spec.targets[i].queue = queue->id;
        command.spec.targets[i].has_body = core_rig_draw(rig, 2) == 0;
        command.spec.targets[i].body = command.spec.targets[i].has_body ? BYTES("given") : BYTES("");
        command.spec.targets[i].attributes = BYTES("attributes");
    }
    const struct batch *batch;
    (void)decide_create_batch(rig->core, &command, &batch);
}

static void step_send(struct core_rig *rig)
{
    char batch[8];
    struct queue *queue = draw_queue(rig);
    bool has_batch = core_rig_draw(rig, 2) == 0;
    uint32_t delay_ms = core_rig_draw(rig, 4) == 0 ? core_rig_draw(rig, 60000) : 0;
    if (queue != NULL)
        (void)core_rig_send(rig->core, queue, has_batch ? draw_name(rig, batch, 'b', BATCHES) : BYTES(""),
                            BYTES("body of a message"), delay_ms);
}

static void step_receive(struct core_rig *rig)
{
    struct queue *queue = draw_queue(rig);
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    if (queue == NULL || decide_receive(rig->core, queue, 1 + core_rig_draw(rig, RECEIVE_MAX),
                                        core_rig_draw(rig, 4) * 10000, 20, messages, &count) != OK)
        return;
    for (unsigned i = 0; i < count; i++)
        rig->handles[rig->handle_count++ % CORE_RIG_HANDLES] = messages[i].handle;
}

static void step_handle(struct core_rig *rig)
{
    if (rig->handle_count == 0)
        return;
    unsigned kept = rig->handle_count < CORE_RIG_HANDLES ? rig->handle_count : CORE_RIG_HANDLES;
    const struct handle *handle = &rig->handles[core_rig_draw(rig, kept)];
    struct queue *queue = core_find_queue_by_id(rig->core, handle->queue);
    char text[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(rig->core), handle, text);
    bool is_gone;
    if (queue == NULL)
        return;
    if (core_rig_draw(rig, 3) > 0)
        (void)decide_delete(rig->core, queue, bytes_make(text, sizeof(text)));
    else
        (void)decide_change_visibility(rig->core, queue, bytes_make(text, sizeof(text)), core_rig_draw(rig, 3) * 20000,
                                       &is_gone);
}

static void step_add_units(struct core_rig *rig)
{
    const struct batch *batch = draw_batch(rig);
    if (batch == NULL)
        return;
    char texts[3][8];
    struct bytes keys[3];
    for (unsigned i = 0; i < 3; i++)
        keys[i] = core_rig_draw(rig, 2) == 0 ? draw_name(rig, texts[i], 'u', 6) : draw_name(rig, texts[i], '1', 6);
    struct add_units_command command = {.keys = keys, .key_count = core_rig_draw(rig, 3)};
    command.count = command.key_count == 0 ? core_rig_draw(rig, 20) : 0;
    uint32_t added;
    (void)decide_add_units(rig->core, batch, &command, &added);
}

static void step_complete_units(struct core_rig *rig)
{
    const struct batch *batch = draw_batch(rig);
    if (batch == NULL)
        return;
    char texts[2][8];
    struct unit_report reports[2];
    for (unsigned i = 0; i < 2; i++) {
        int size =
            snprintf(texts[i], sizeof(texts[i]), core_rig_draw(rig, 3) == 0 ? "u%u" : "%u", core_rig_draw(rig, 12));
        reports[i] = (struct unit_report){
            .key = bytes_make(texts[i], (size_t)size),
            .outcome = core_rig_draw(rig, 4) == 0 ? UNIT_FAILED : UNIT_SUCCEEDED,
            .detail = core_rig_draw(rig, 3) == 0 ? BYTES("a detail") : BYTES(""),
        };
    }
    uint32_t unknown;
    bool is_completed;
    (void)decide_complete_units(rig->core, batch, reports, 1 + core_rig_draw(rig, 2), &unknown, &is_completed);
}

static void step_xor_units(struct core_rig *rig)
{
    const struct batch *batch = draw_batch(rig);
    if (batch == NULL)
        return;
    char token[24];
    bool is_old = core_rig_draw(rig, 5) == 0;
    int size =
        snprintf(token, sizeof(token), "t%llu", (unsigned long long)(is_old ? rig->token_number : ++rig->token_number));
    const struct xor_command command = {.value = core_rig_draw(rig, 2) == 0 ? batch->xor_value : core_rig_draw(rig, 4),
                                        .registered = core_rig_draw(rig, 3),
                                        .finished = core_rig_draw(rig, 3),
                                        .token = bytes_make(token, (size_t)size)};
    bool is_zero, is_completed;
    (void)decide_xor_units(rig->core, batch, &command, &is_zero, &is_completed);
}

static void step_end_batch(struct core_rig *rig)
{
    const struct batch *batch = draw_batch(rig);
    bool is_completed;
    if (batch == NULL)
        return;
    switch (core_rig_draw(rig, 6)) {
    case 0:
        decide_cancel_batch(rig->core, batch);
        break;
    case 1:
        (void)decide_delete_batch(rig->core, batch);
        break;
    default:
        decide_seal_batch(rig->core, batch, &is_completed);
    }
}

static void step_restart(struct core_rig *rig)
{
    static uint64_t const downtime_ms[] = {0, 5000, 600000};
    uint64_t resumed_at_ms = rig->now_ms + downtime_ms[core_rig_draw(rig, 3)];
    decide_restart(rig->core, 2, resumed_at_ms);
}

void core_rig_step(struct core_rig *rig)
{
    static const struct {
        unsigned weight;
        void (*run)(struct core_rig *rig);
    } steps[] = {
        {2, step_queue},     {4, step_create_batch},    {20, step_send},     {14, step_receive},  {14, step_handle},
        {6, step_add_units}, {12, step_complete_units}, {6, step_xor_units}, {4, step_end_batch}, {1, step_restart},
    };
    if (core_rig_draw(rig, 3) == 0)
        rig->now_ms += core_rig_draw(rig, 8) == 0 ? core_rig_draw(rig, 120000) : core_rig_draw(rig, 2000);
    unsigned total = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        total += steps[i].weight;
    unsigned drawn = core_rig_draw(rig, total);
    size_t which = 0;
    for (; drawn >= steps[which].weight; which++)
        drawn -= steps[which].weight;
    core_rig_begin(rig);
    if (core_rig_draw(rig, 4) == 0)
        (void)decide_due(rig->core);
    steps[which].run(rig);
    core_rig_end(rig);
}
