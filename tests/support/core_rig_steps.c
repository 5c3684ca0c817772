/* Random decisions of every kind, so that they meet each other in ways nobody thought of. */
#include "support/core_rig.h"

#include "base/assert.h"
#include "core/batches/batch.h"
#include "core/batches/decide_batch.h"
#include "core/core.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_commit.h"
#include "core/messages/decide_content.h"
#include "core/messages/decide_move.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_replace.h"
#include "core/messages/explain.h"
#include "core/order/decide_group.h"
#include "core/order/decide_type_order.h"
#include "core/order/group_list.h"
#include "core/publishers/decide_publish.h"
#include "core/publishers/decide_relay.h"
#include "core/queues/decide_queue.h"
#include "core/queues/tags.h"
#include "core/schedules/decide_schedule.h"
#include "core/state.h"
#include <stdio.h>

#define QUEUES 4u
#define LINES 3u /* FIFO queues */
#define BATCHES 6u
#define GROUPS 4u
#define TYPES 4u
#define SCHEDULES 3u
#define RELAYS 3u
#define PUBLISHERS 3u
#define PUBLISHED_ROWS 5u /* of one batch, at most */
#define COMMIT_ENTRIES 3u /* of each kind, at most */

/* --- random steps ------------------------------------------------------------------------------------------------- */

static struct bytes draw_name(struct core_rig *rig, char *text, char letter, uint32_t count)
{
    int size = snprintf(text, 8, "%c%u", letter, core_rig_draw(rig, count));
    return bytes_make(text, (size_t)size);
}

/* q0 … are standard queues, f0 … FIFO queues. */
static struct bytes draw_queue_name(struct core_rig *rig, char name[8])
{
    return core_rig_draw(rig, 2) == 0 ? draw_name(rig, name, 'q', QUEUES) : draw_name(rig, name, 'f', LINES);
}

static struct queue *draw_queue(struct core_rig *rig)
{
    char name[8];
    return core_find_queue(rig->core, draw_queue_name(rig, name));
}

static const struct batch *draw_batch(struct core_rig *rig)
{
    char id[8];
    return core_find_batch(rig->core, draw_name(rig, id, 'b', BATCHES));
}

static void draw_order_settings(struct core_rig *rig, struct queue_settings *settings)
{
    if (core_rig_draw(rig, 3) == 0)
        settings->queue_rate =
            (struct rate){.interval_us = 1 + core_rig_draw(rig, 3000000), .burst = 1 + core_rig_draw(rig, 5)};
    if (core_rig_draw(rig, 3) == 0)
        settings->group_rate =
            (struct rate){.interval_us = 1 + core_rig_draw(rig, 9000000), .burst = 1 + core_rig_draw(rig, 3)};
    if (core_rig_draw(rig, 2) == 0)
        settings->backoff =
            (struct backoff){.is_set = true, .min_ms = 1000, .max_ms = 60000, .factor = 2000, .jitter = 200};
    settings->deduplication_window_s =
        core_rig_draw(rig, 4) == 0 ? DEDUPLICATION_WINDOW_EVER : core_rig_draw(rig, 2) * core_rig_draw(rig, 300);
    settings->has_window = core_rig_draw(rig, 2) == 0;
    settings->deduplication_scope = core_rig_draw(rig, 2) == 0 ? SCOPE_QUEUE : SCOPE_GROUP;
    settings->is_at_most_once = core_rig_draw(rig, 6) == 0;
    if (!settings->is_fifo) {
        settings->group_concurrency = core_rig_draw(rig, 4);
        return;
    }
    settings->is_strict = core_rig_draw(rig, 2) == 0;
    settings->group_failure = (uint8_t)core_rig_draw(rig, 3);
}

/* What is only stored and shown. */
static void draw_access_settings(struct core_rig *rig, struct queue_settings *settings)
{
    if (core_rig_draw(rig, 3) == 0)
        settings->policy = BYTES("{\"Version\":\"2008-10-17\",\"Statement\":[]}");
    if (core_rig_draw(rig, 3) == 0)
        settings->redrive_allow_policy = BYTES("{\"redrivePermission\":\"denyAll\"}");
    if (core_rig_draw(rig, 3) == 0)
        settings->kms_key = BYTES("alias/aws/sqs");
    settings->kms_reuse_s = 60 + core_rig_draw(rig, 3);
    settings->is_sse_managed = settings->kms_key.size == 0 && core_rig_draw(rig, 2) == 0;
}

/* Some tags of six, given or taken. */
static void step_tags(struct core_rig *rig)
{
    struct queue *queue = draw_queue(rig);
    bool is_taken = core_rig_draw(rig, 3) == 0;
    struct buffer run;
    if (queue == NULL)
        return;
    buffer_init(&run);
    for (char key = 'a'; key < 'g'; key++) {
        if (core_rig_draw(rig, 3) != 0)
            continue;
        buffer_append_sized(&run, bytes_make(&key, 1));
        if (!is_taken)
            buffer_append_sized(&run, core_rig_draw(rig, 3) == 0 ? BYTES("") : BYTES("value"));
    }
    if (is_taken)
        decide_untag_queue(rig->core, queue, buffer_bytes(&run));
    else
        (void)decide_tag_queue(rig->core, queue, buffer_bytes(&run));
    buffer_deinit(&run);
}

static void step_queue(struct core_rig *rig)
{
    char name_text[8];
    struct bytes name = draw_queue_name(rig, name_text);
    struct queue *queue = core_find_queue(rig->core, name);
    struct queue_settings settings = core_rig_settings();
    settings.retention_s = 60 + core_rig_draw(rig, 600);
    settings.delay_s = core_rig_draw(rig, 6) == 0 ? 1 + core_rig_draw(rig, 20) : 0;
    settings.is_fifo = name.ptr[0] == 'f';
    if (core_rig_draw(rig, 2) == 0) {
        settings.receive_count_max = 1 + core_rig_draw(rig, 3);
        settings.dead_letter_arn = settings.is_fifo ? BYTES("arn:aws:sqs:us-east-1:000000000000:f0")
                                                    : BYTES("arn:aws:sqs:us-east-1:000000000000:q0");
    }
    draw_order_settings(rig, &settings);
    draw_access_settings(rig, &settings);
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
    char id[8], parent[8], groups[BATCH_EVENT_COUNT][8];
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
        if (queue->settings.is_fifo || core_rig_draw(rig, 4) == 0)
            command.spec.targets[i].group = draw_name(rig, groups[i], 'g', GROUPS);
    }
    const struct batch *batch;
    (void)decide_create_batch(rig->core, &command, &batch);
}

/* Things to wait for: messages of any age, batches, deduplication ids. `texts` keeps what the names point to. */
static uint32_t draw_antecedents(struct core_rig *rig, struct antecedent_name names[3],
                                 char texts[3][IDENTITY_TEXT_SIZE])
{
    uint64_t newest = core_metrics(rig->core).sent;
    uint32_t count = newest > 0 && core_rig_draw(rig, 4) == 0 ? 1 + core_rig_draw(rig, 3) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t id[MESSAGE_ID_SIZE];
        switch (core_rig_draw(rig, 4)) {
        case 0:
            names[i] = (struct antecedent_name){.kind = NAMED_BATCH, .text = draw_name(rig, texts[i], 'b', BATCHES)};
            break;
        case 1:
            names[i] = (struct antecedent_name){
                .kind = NAMED_DEDUPLICATION, .text = draw_name(rig, texts[i], 'd', 6), .queue = BYTES("q1")};
            break;
        default:
            identity_message(core_digest(rig->core), newest - core_rig_draw(rig, newest < 12 ? 1 : 12), id);
            identity_to_text(id, texts[i]);
            names[i] =
                (struct antecedent_name){.kind = NAMED_MESSAGE, .text = bytes_make(texts[i], IDENTITY_TEXT_SIZE)};
        }
    }
    return count;
}

/* A send to a queue, and what its command points to. */
struct drawn_send {
    char batch[8], group[8], id[8], producer[8], type[8], texts[3][IDENTITY_TEXT_SIZE];
    struct antecedent_name antecedents[3];
    struct send_command command;
};

static void draw_send(struct core_rig *rig, struct queue *queue, struct drawn_send *drawn)
{
    bool is_fifo = queue->settings.is_fifo;
    struct send_command *command = &drawn->command;
    *command = (struct send_command){
        .queue = queue,
        .content = {.body = BYTES("body of a message"), .sender = core_name(rig->core)},
        .delay_ms = !is_fifo && core_rig_draw(rig, 4) == 0 ? core_rig_draw(rig, 60000) : queue->settings.delay_s * 1000,
        .priority = core_rig_draw(rig, 3) == 0 ? (uint8_t)core_rig_draw(rig, PRIORITY_MAX + 1) : PRIORITY_DEFAULT,
        .antecedents = drawn->antecedents,
        .after_failure = (enum after_failure)core_rig_draw(rig, 3),
    };
    if (is_fifo || core_rig_draw(rig, 2) == 0)
        command->content.group = draw_name(rig, drawn->group, 'g', GROUPS);
    if (core_rig_draw(rig, 2) == 0)
        command->batch_id = draw_name(rig, drawn->batch, 'b', BATCHES);
    if (core_rig_draw(rig, 3) == 0)
        command->content.deduplication = draw_name(rig, drawn->id, 'd', 6);
    if (core_rig_draw(rig, 6) == 0)
        command->type = draw_name(rig, drawn->type, 't', TYPES);
    if (core_rig_draw(rig, 6) == 0) {
        command->producer = draw_name(rig, drawn->producer, 'p', 2);
        command->sequence = core_rig_draw(rig, 400);
    }
    command->antecedent_count = draw_antecedents(rig, drawn->antecedents, drawn->texts);
}

static void step_send(struct core_rig *rig)
{
    struct queue *queue = draw_queue(rig);
    if (queue == NULL)
        return;
    struct drawn_send drawn;
    draw_send(rig, queue, &drawn);
    struct send_result result;
    (void)decide_send(rig->core, &drawn.command, &result);
}

static void step_receive(struct core_rig *rig)
{
    struct queue *queue = draw_queue(rig);
    struct received_message messages[RECEIVE_MAX];
    unsigned count = 0;
    char text[8];
    struct bytes attempt = draw_name(rig, text, 'a', 3);
    uint32_t timeout_ms = core_rig_draw(rig, 4) * 10000;
    if (queue == NULL)
        return;
    bool has_attempt = queue->settings.is_fifo && core_rig_draw(rig, 3) == 0;
    if (has_attempt &&
        (decide_receive_again(rig->core, queue, attempt, timeout_ms, messages, &count) != OK || count > 0))
        return;
    if (decide_receive(rig->core, queue, 1 + core_rig_draw(rig, RECEIVE_MAX), timeout_ms, 20, messages, &count) != OK)
        return;
    if (has_attempt && count > 0)
        decide_remember_attempt(rig->core, queue, attempt, messages, count);
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
    struct receipt_use use;
    struct failed_attempt failed = {.reason = BYTES("it failed"),
                                    .is_final = core_rig_draw(rig, 4) == 0,
                                    .has_wait = core_rig_draw(rig, 4) == 0,
                                    .wait_ms = core_rig_draw(rig, 3) * 20000,
                                    .attempts_max = core_rig_draw(rig, 4)};
    struct failure_result result;
    struct granted_lease given = {.message = handle->message, .delivery = handle->delivery};
    if (queue == NULL)
        return;
    struct queue *grave = draw_queue(rig);
    if (grave != NULL && grave != queue && grave->settings.is_fifo == queue->settings.is_fifo)
        failed.dead_letters = grave;
    if (core_rig_draw(rig, 4) == 0)
        (void)decide_renew_lease(rig->core, &given, rig->now_ms + core_rig_draw(rig, 3) * 20000);
    if (core_rig_draw(rig, 4) == 0)
        (void)decide_fail(rig->core, queue, bytes_make(text, sizeof(text)), &failed, &result);
    else if (core_rig_draw(rig, 3) > 0)
        (void)decide_delete(rig->core, queue, bytes_make(text, sizeof(text)), NULL);
    else
        (void)decide_change_visibility(rig->core, queue, bytes_make(text, sizeof(text)), core_rig_draw(rig, 3) * 20000,
                                       &given, &use);
}

/* What a commit is made of: sends, units and handles as they come; it may be refused for any of them. */
static void step_commit(struct core_rig *rig)
{
    struct drawn_send drawn[COMMIT_ENTRIES];
    struct commit_send sends[COMMIT_ENTRIES];
    struct commit_unit units[COMMIT_ENTRIES];
    struct commit_message deletes[COMMIT_ENTRIES];
    char keys[COMMIT_ENTRIES][8], handles[COMMIT_ENTRIES][HANDLE_TEXT_SIZE];
    struct commit_command command = {.sends = sends, .units = units, .deletes = deletes, .size_max = 1u << 19};
    for (uint32_t i = core_rig_draw(rig, COMMIT_ENTRIES + 1); i > 0; i--) {
        struct queue *queue = draw_queue(rig);
        if (queue == NULL)
            continue;
        draw_send(rig, queue, &drawn[command.send_count]);
        sends[command.send_count] = (struct commit_send){.command = drawn[command.send_count].command};
        command.send_count++;
    }
    for (uint32_t i = core_rig_draw(rig, COMMIT_ENTRIES); i > 0; i--) {
        const struct batch *batch = draw_batch(rig);
        if (batch == NULL)
            continue;
        struct bytes key = draw_name(rig, keys[command.unit_count], 'u', 6);
        enum unit_state outcome = core_rig_draw(rig, 3) == 0 ? UNIT_FAILED : UNIT_SUCCEEDED;
        units[command.unit_count++] =
            (struct commit_unit){.batch = batch, .report = {.key = key, .outcome = outcome, .detail = BYTES("")}};
    }
    uint32_t kept = rig->handle_count < CORE_RIG_HANDLES ? rig->handle_count : CORE_RIG_HANDLES;
    for (uint32_t i = kept == 0 ? 0 : core_rig_draw(rig, COMMIT_ENTRIES + 1); i > 0; i--) {
        const struct handle *handle = &rig->handles[core_rig_draw(rig, kept)];
        struct queue *queue = core_find_queue_by_id(rig->core, handle->queue);
        if (queue == NULL)
            continue;
        handle_to_text(core_digest(rig->core), handle, handles[command.delete_count]);
        deletes[command.delete_count].queue = queue;
        deletes[command.delete_count].handle = bytes_make(handles[command.delete_count], HANDLE_TEXT_SIZE);
        command.delete_count++;
    }
    struct commit_fault fault;
    (void)decide_commit(rig->core, &command, &fault);
}

/* A calendar without calendars: "m0" is due each 20 seconds, "m1" each 40, and so on. */
static uint64_t next_due(struct bytes cron, uint64_t after_ms)
{
    uint64_t period_ms = cron.size < 2 ? 60000 : 20000u * (1u + cron.ptr[1] % 10u);
    return (after_ms / period_ms + 1) * period_ms;
}

static void step_schedule(struct core_rig *rig)
{
    char name_text[8], cron[8], group[8];
    struct bytes name = draw_name(rig, name_text, 's', SCHEDULES);
    const struct schedule *schedule = schedule_find(rig->core, name);
    struct queue *queue = draw_queue(rig);
    if (schedule != NULL && core_rig_draw(rig, 2) == 0) {
        decide_delete_schedule(rig->core, schedule);
    } else if (schedule != NULL && core_rig_draw(rig, 2) == 0) {
        if (core_rig_draw(rig, 2) == 0)
            decide_pause_schedule(rig->core, schedule);
        else
            decide_resume_schedule(rig->core, schedule, next_due(schedule->spec.cron, core_now_ms(rig->core)));
    } else if (queue != NULL) {
        struct schedule_spec spec = {.queue = queue->id,
                                     .catch_up = (enum catch_up)core_rig_draw(rig, 3),
                                     .is_paused = core_rig_draw(rig, 5) == 0,
                                     .cron = draw_name(rig, cron, 'm', 9),
                                     .zone = BYTES("UTC"),
                                     .body = BYTES("at its time")};
        if (queue->settings.is_fifo || core_rig_draw(rig, 3) == 0)
            spec.group = draw_name(rig, group, 'g', GROUPS);
        (void)decide_put_schedule(rig->core, name, &spec, next_due(spec.cron, core_now_ms(rig->core)), &schedule);
    }
}

/* A calendar that can't tell has the schedule wait. */
static void fire_schedules(struct core_rig *rig)
{
    const struct schedule *schedule;
    uint64_t after_ms;
    for (unsigned i = 0; i < 100 && (schedule = schedule_next_due(rig->core, &after_ms)) != NULL; i++)
        if (!rig->knows_zones && core_rig_draw(rig, 8) == 0)
            schedule_put_off(rig->core, schedule, core_now_ms(rig->core) + 60000);
        else
            decide_fire_schedule(rig->core, schedule, next_due(schedule->spec.cron, after_ms));
}

static void step_relay(struct core_rig *rig)
{
    char name_text[8];
    struct bytes name = draw_name(rig, name_text, 'r', RELAYS);
    const struct relay_record *record = relay_record_find(rig->core, name);
    if (record == NULL)
        (void)decide_put_relay(rig->core, name, BYTES("what it is to do"), &record);
    else if (core_rig_draw(rig, 2) == 0)
        decide_delete_relay(rig->core, record);
    else
        decide_pause_relay(rig->core, record, core_rig_draw(rig, 2) == 0);
}

static void draw_uuid(struct core_rig *rig, uint32_t count, uint8_t uuid[PUBLISHER_ID_SIZE])
{
    memset(uuid, 7, PUBLISHER_ID_SIZE);
    uuid[0] = (uint8_t)core_rig_draw(rig, count);
}

/* Few ids and uids, so that some come again, alone or together. */
static void draw_row(struct core_rig *rig, struct buffer *rows)
{
    uint8_t uid[PUBLISHER_ID_SIZE];
    draw_uuid(rig, 120, uid);
    buffer_append_u64(rows, core_rig_draw(rig, 3) == 0 ? 1 + core_rig_draw(rig, 120) : 1u + uid[0]);
    buffer_append(rows, uid, sizeof(uid));
}

static void publish_row(struct core_rig *rig, struct publication *publication)
{
    struct queue *queue = draw_queue(rig);
    uint32_t kept = rig->handle_count < CORE_RIG_HANDLES ? rig->handle_count : CORE_RIG_HANDLES;
    struct drawn_send drawn;
    struct send_result result;
    if (queue == NULL) {
        decide_publish_fault(rig->core, publication, ROW_BLOCKED, BYTES("NoQueue"), BYTES("There is no such queue."));
    } else if (kept > 0 && core_rig_draw(rig, 4) == 0) {
        const struct handle *handle = &rig->handles[core_rig_draw(rig, kept)];
        char text[HANDLE_TEXT_SIZE];
        struct receipt_use use;
        handle_to_text(core_digest(rig->core), handle, text);
        decide_publish_delete(rig->core, publication, core_find_queue_by_id(rig->core, handle->queue),
                              bytes_make(text, sizeof(text)), &use);
    } else {
        draw_send(rig, queue, &drawn);
        if (decide_publish_send(rig->core, publication, &drawn.command, &result) != OK)
            decide_publish_fault(rig->core, publication, ROW_REFUSED, BYTES("Refused"), BYTES("It can't be sent."));
    }
}

/* Mostly by the owner, and the next batch; at times by another one, the last batch again, or one that is neither. */
static void step_publish(struct core_rig *rig)
{
    struct publish_command command = {.is_strict = core_rig_draw(rig, 4) == 0,
                                      .blocks_refused = core_rig_draw(rig, 3) == 0,
                                      .size_max = core_rig_draw(rig, 4) == 0 ? 1200 : 1u << 19};
    draw_uuid(rig, PUBLISHERS, command.publisher);
    draw_uuid(rig, 2, command.owner);
    const struct publisher *publisher = decide_find_publisher(rig->core, command.publisher);
    if (publisher == NULL || core_rig_draw(rig, 6) == 0) {
        uint64_t known = publisher == NULL ? 0 : publisher->epoch;
        bool is_accepted;
        (void)decide_open_publisher(rig->core, command.publisher, 1 + known - core_rig_draw(rig, known == 0 ? 1 : 2),
                                    command.owner, &is_accepted);
        publisher = decide_find_publisher(rig->core, command.publisher);
    }
    if (core_rig_draw(rig, 8) > 0)
        memcpy(command.owner, publisher->owner, sizeof(command.owner));
    command.epoch = publisher->epoch;
    command.batch = publisher->batch + (core_rig_draw(rig, 8) == 0 ? 1 + core_rig_draw(rig, 2) : 1);
    command.confirmed_batch = command.batch - 1 - core_rig_draw(rig, command.batch < 4 ? (uint32_t)command.batch : 4);
    struct buffer rows;
    buffer_init(&rows);
    for (uint32_t i = 1 + core_rig_draw(rig, PUBLISHED_ROWS); i > 0; i--)
        draw_row(rig, &rows);
    command.rows = buffer_bytes(&rows);
    struct publication publication;
    bool is_repeat;
    if (decide_publish_begin(rig->core, &command, &publication, &is_repeat) == OK && !is_repeat) {
        char group[8];
        while (publication.next < publication.row_count)
            if (!decide_publish_known(rig->core, &publication, draw_name(rig, group, 'g', 1)))
                publish_row(rig, &publication);
        decide_publish_end(rig->core, &publication);
        decide_publish_deinit(&publication);
    }
    buffer_deinit(&rows);
}

static void step_group(struct core_rig *rig)
{
    struct queue *queue = draw_queue(rig);
    char text[8];
    struct bytes group = draw_name(rig, text, 'g', GROUPS);
    if (queue == NULL)
        return;
    switch (core_rig_draw(rig, 6)) {
    case 0:
        decide_pause_queue(rig->core, queue, core_rig_draw(rig, 3) == 0);
        break;
    case 1:
        decide_pause_group(rig->core, queue, group, core_rig_draw(rig, 2) == 0);
        break;
    default:
        (void)decide_release_group(rig->core, queue, group, (enum group_release)core_rig_draw(rig, 3));
    }
}

/* Orders of two or three types; they may contradict each other, and are then refused. */
static void step_type_order(struct core_rig *rig)
{
    char name[8], texts[3][8];
    struct type_order_command command = {.name = draw_name(rig, name, 'o', 3)};
    if (core_rig_draw(rig, 3) == 0) {
        (void)decide_delete_type_order(rig->core, command.name);
        return;
    }
    uint32_t first = core_rig_draw(rig, TYPES), step = 1 + core_rig_draw(rig, TYPES - 1);
    command.types.count = 2 + core_rig_draw(rig, 2);
    for (uint32_t i = 0; i < command.types.count; i++) {
        int size = snprintf(texts[i], sizeof(texts[i]), "t%u", (first + i * step) % TYPES);
        command.types.names[i] = bytes_make(texts[i], (size_t)size);
        for (uint32_t earlier = 0; earlier < i; earlier++)
            if (bytes_equal(command.types.names[earlier], command.types.names[i]))
                return;
    }
    command.retention_s = core_rig_draw(rig, 2) == 0 ? 1 + core_rig_draw(rig, 300) : 0;
    struct buffer conflict;
    buffer_init(&conflict);
    (void)decide_put_type_order(rig->core, &command, &conflict);
    buffer_deinit(&conflict);
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
    (void)decide_complete_units(rig->core, batch, reports, 1 + core_rig_draw(rig, 2), UINT64_MAX, &unknown,
                                &is_completed);
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

/* Some of the newest messages, wherever they are. */
static uint32_t draw_numbers(struct core_rig *rig, uint64_t numbers[8])
{
    const uint64_t newest = rig->core->messages.message_number;
    uint32_t count = 0;
    for (uint64_t number = newest > 30 ? newest - 30 : 1; number <= newest && count < 8; number++)
        if (core_rig_draw(rig, 4) == 0)
            numbers[count++] = number;
    return count;
}

/* Moves or deletes some messages: what the preview says of them before is what happens, if nothing else does. */
static void start_selection(struct core_rig *rig, struct queue *source, const struct move_command *move)
{
    uint64_t numbers[8];
    char group[8];
    struct move_command command = *move;
    struct selection_command selection = {.act = core_rig_draw(rig, 2) == 0 ? SELECTION_MOVES : SELECTION_DELETES};
    struct message_filter *filter = &selection.filter;
    selection.numbers = numbers;
    if (core_rig_draw(rig, 3) == 0)
        selection.number_count = draw_numbers(rig, numbers);
    else if (core_rig_draw(rig, 2) == 0)
        filter->group = draw_name(rig, group, 'g', GROUPS);
    if (core_rig_draw(rig, 3) == 0)
        filter->sent_before_ms = rig->now_ms - core_rig_draw(rig, 5000);
    if (core_rig_draw(rig, 4) == 0)
        filter->sent_after_ms = rig->now_ms - core_rig_draw(rig, 50000);
    if (selection.act == SELECTION_DELETES)
        command.destination = NULL;
    decide_start_selection(rig->core, source, &command, &selection);
}

/* Moves what a queue holds, dead letters or not, to where it came from or to another queue of its kind. */
static void step_move(struct core_rig *rig)
{
    char name[8];
    struct queue *source = core_rig_draw(rig, 2) == 0
                               ? draw_queue(rig)
                               : core_find_queue(rig->core, core_rig_draw(rig, 2) == 0 ? BYTES("q0") : BYTES("f0"));
    if (source == NULL)
        return;
    const struct move_task *running = move_running(rig->core, source);
    if (running != NULL) {
        if (core_rig_draw(rig, 3) == 0)
            decide_cancel_move(rig->core, running);
        return;
    }
    const struct queue *destination = NULL;
    if (core_rig_draw(rig, 2) == 0)
        destination = core_find_queue(rig->core, source->settings.is_fifo ? draw_name(rig, name, 'f', LINES)
                                                                          : draw_name(rig, name, 'q', QUEUES));
    const struct move_command command = {.destination = destination,
                                         .rate = core_rig_draw(rig, 3) == 0 ? 1 + core_rig_draw(rig, 3) : 0,
                                         .messages_max =
                                             core_rig_draw(rig, 3) == 0 ? core_rig_draw(rig, 4) : UINT64_MAX};
    if (destination == source)
        return;
    if (core_rig_draw(rig, 2) == 0)
        decide_start_move(rig->core, source, &command);
    else
        start_selection(rig, source, &command);
}

/* Replaces one of the newest messages, if it may be. */
static void step_replace(struct core_rig *rig)
{
    static const char letters[] = "a changed body, longer or shorter than before";
    const uint64_t newest = rig->core->messages.message_number;
    const uint32_t near = newest < 60 ? (uint32_t)newest : 60;
    const uint32_t slot = near == 0 ? 0 : core_find_message(rig->core, newest - core_rig_draw(rig, near));
    const struct queue *target;
    if (slot == 0 || decide_check_replace(rig->core, slot, &target) != REPLACE_IS_POSSIBLE)
        return;
    const uint32_t group = core_group_of(rig->core, core_message(rig->core, slot));
    struct content content = {.body = bytes_make(letters, 1 + core_rig_draw(rig, sizeof(letters) - 1)),
                              .group = group == 0 ? BYTES("") : core_group(rig->core, group)->id_owned,
                              .sender = core_name(rig->core)};
    decide_replace(rig->core, slot, target, &content);
}

/* Reading changes nothing, and finds its way in every state. */
static void read_something(struct core_rig *rig)
{
    const struct queue *queue = draw_queue(rig);
    uint64_t newest = core_metrics(rig->core).sent;
    if (queue == NULL || newest == 0)
        return;
    uint8_t id[MESSAGE_ID_SIZE];
    struct explanation explanation;
    explain_message_id(rig->core, newest - core_rig_draw(rig, newest < 40 ? (uint32_t)newest : 40), id);
    explain_message(rig->core, queue, id, &explanation);
    ASSERT(explanation.condition <= CONDITION_UNKNOWN && explanation.count <= WHYS_MAX);
    ASSERT(explanation.condition != CONDITION_BLOCKED || explanation.count > 0); /* invariant O13 */
    struct group_view views[2];
    enum group_condition filter = (enum group_condition)core_rig_draw(rig, GROUP_BUSY + 1);
    uint64_t position = 0;
    do {
        unsigned count = group_list(rig->core, queue, filter, &position, views, ARRAY_LENGTH(views));
        for (unsigned i = 0; i < count; i++)
            ASSERT(filter == GROUP_ANY || views[i].condition == filter);
    } while (position != 0);
    position = (uint64_t)core_rig_draw(rig, UINT32_MAX) << 32 | core_rig_draw(rig, 20); /* of a page long gone */
    (void)group_list(rig->core, queue, filter, &position, views, ARRAY_LENGTH(views));
}

static void step_restart(struct core_rig *rig)
{
    static uint64_t const downtime_ms[] = {0, 5000, 600000};
    uint64_t resumed_at_ms = rig->now_ms + downtime_ms[core_rig_draw(rig, 3)];
    decide_restart(rig->core, 2, resumed_at_ms);
}

/* Time passes in frames at which nothing is decided: the log does not know of them. */
static void step_time(struct core_rig *rig)
{
    uint64_t end_ms =
        rig->now_ms + (core_rig_draw(rig, 8) == 0 ? core_rig_draw(rig, 120000) : core_rig_draw(rig, 2000));
    for (uint32_t stops = core_rig_draw(rig, 4); stops > 0; stops--) {
        rig->now_ms += core_rig_draw(rig, (uint32_t)(end_ms - rig->now_ms) + 1);
        core_rig_begin(rig);
        core_rig_end(rig);
    }
    rig->now_ms = end_ms;
}

/* The oldest message with content in that segment; a slot says nothing about age. */
static struct live_content find_oldest_content(const struct core_rig *rig, uint64_t ordinal)
{
    struct live_content found, oldest = {.number = UINT64_MAX};
    uint32_t slot = 1;
    unsigned visits = UINT32_MAX;
    while (slot != 0 && core_find_content(rig->core, &ordinal, 1, &slot, &visits, &found))
        if (found.number < oldest.number)
            oldest = found;
    return oldest;
}

/* What the content says does not matter to the core, so it need not be read back. */
static void step_clean(struct core_rig *rig)
{
    static const uint8_t zeros[4096];
    uint64_t ordinal = core_next_needed_segment(rig->core, 0);
    if (ordinal == UINT64_MAX)
        return;
    struct live_content found = find_oldest_content(rig, ordinal);
    if (found.size <= sizeof(zeros))
        decide_move_content(rig->core, &found, bytes_make(zeros, found.size));
}

static void do_due(struct core_rig *rig)
{
    (void)decide_due(rig->core);
    fire_schedules(rig);
}

void core_rig_step(struct core_rig *rig)
{
    static const struct {
        unsigned weight;
        void (*run)(struct core_rig *rig);
    } steps[] = {
        {4, step_queue},           {4, step_create_batch}, {20, step_send},          {14, step_receive},
        {14, step_handle},         {5, step_group},        {3, step_type_order},     {6, step_add_units},
        {12, step_complete_units}, {6, step_xor_units},    {4, step_end_batch},      {1, step_restart},
        {5, step_commit},          {3, step_schedule},     {2, step_tags},           {8, step_move},
        {2, step_relay},           {10, step_publish},     {16, core_rig_step_pool}, {6, step_clean},
        {6, step_replace},
    };
    if (core_rig_draw(rig, 3) == 0)
        step_time(rig);
    unsigned total = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        total += steps[i].weight;
    unsigned drawn = core_rig_draw(rig, total);
    size_t which = 0;
    for (; drawn >= steps[which].weight; which++)
        drawn -= steps[which].weight;
    core_rig_begin(rig);
    if (core_rig_draw(rig, 4) == 0)
        do_due(rig);
    if (core_rig_draw(rig, 4) == 0) {
        rig->now_ms += core_rig_draw(rig, 3000);
        decide_pass_time(rig->core, rig->now_ms);
    }
    steps[which].run(rig);
    if (core_rig_draw(rig, 4) == 0)
        read_something(rig);
    core_rig_end(rig);
}
