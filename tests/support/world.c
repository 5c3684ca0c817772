/* Life of the world: starting, dying, time, and calls. */
#include "support/world.h"

#include "base/assert.h"
#include "base/memory.h"
#include "support/error_type.h"
#include "support/front_of_one.h"
#include "support/history.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SEGMENT_SIZE_DEFAULT (512u << 10)
#define FRAME_SIZE_DEFAULT (128u << 10)
#define IN_FLIGHT_DEFAULT 120000u

/* Stops after the first one, and how far apart they are at most. */
#define STOPS_AFTER_FIRST 2u
#define STOP_DISTANCE_MAX 24u

static const uint8_t namespace_key[CORE_KEY_SIZE] = "scenario";

static const char *const way_names[] = {
    [WORLD_PLAIN] = "plain",
    [WORLD_KILLS] = "with kills",
    [WORLD_SNAPSHOTS] = "with snapshots and kills",
    [WORLD_STOPS] = "with a disk that stops",
};

const char *world_describe(const struct world *world, char text[160])
{
    snprintf(text, 160, "%s, seed %llu, stop at %llu, %u restarts", way_names[world->options.way],
             (unsigned long long)world->options.seed, (unsigned long long)world->options.stop_at, world->restart_count);
    return text;
}

void world_give_up(const struct world *world, const char *what)
{
    char text[160];
    fprintf(stderr, "world: %s (%s): %s\n", what, world_describe(world, text), world->failure.text);
    abort();
}

/* splitmix64 */
static uint64_t draw(struct world *world)
{
    uint64_t mixed = world->random_state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* What the end of the process does to the disk. One that stopped lost its power; else `is_power` says. */
static void end_process(struct world *world, bool is_power, bool has_stopped)
{
    if (is_power || has_stopped)
        memory_disk_crash(world->disk);
    else
        memory_disk_kill(world->disk);
    memory_disk_fail_after(world->disk, 0, MEMORY_DISK_FAULT_NONE);
}

void world_stop(struct world *world, bool is_power)
{
    api_release_waiting(world->api);
    while (front_take_finished(world->front) != NULL) {
    }
    history_note_metrics(world->front);
    front_of_one_destroy(world->front, world->api);
    world->api = NULL;
    /* Whoever is killed writes nothing more: closing must not flush. */
    const bool had_failed = memory_disk_has_failed(world->disk);
    if (!had_failed)
        memory_disk_fail_after(world->disk, 0, MEMORY_DISK_STOP);
    namespace_close(world->ns);
    world->ns = NULL;
    end_process(world, is_power,
                had_failed ? world->options.fault == MEMORY_DISK_STOP : memory_disk_has_failed(world->disk));
    history_note_disk(world->disk);
}

void world_start(struct world *world)
{
    ASSERT(world->ns == NULL);
    const struct namespace_options options = {
        .name = "000000000000",
        .segment_size = world->options.segment_size,
        .frame_size_max = world->options.frame_size_max,
        .in_flight_max = world->options.in_flight_max,
        .snapshot_bytes = world->options.way == WORLD_SNAPSHOTS ? 1 : world->options.snapshot_bytes,
        .snapshot_worth = world->options.snapshot_worth,
        .cleans_eagerly = world->options.cleans_eagerly,
        .keeps_reserve = world->options.keeps_reserve,
        .disk_min_free = world->options.disk_min_free,
    };
    const struct front_options front_options = {
        .region = "us-east-1",
        .public_url = "http://localhost",
        .enforce_purge_interval = world->options.enforce_intervals,
        .enforce_delete_interval = world->options.enforce_intervals,
        .memory_max = world->options.memory_max,
        .zones_folder = world->options.zones_folder,
        .relays = world->options.relays,
        .keeps_history = world->options.keeps_history,
        .metrics_queues = world->options.metrics_queues,
        .audit = world->options.audit,
        .audit_context = world->options.audit_context,
    };
    for (;;) {
        enum error error =
            namespace_open(world->disk, &options, world->now_ms, namespace_key, &world->ns, &world->failure);
        if (error == OK)
            break;
        if (!memory_disk_has_failed(world->disk))
            world_give_up(world, "the namespace does not open");
        end_process(world, draw(world) % 2 == 0, world->options.fault == MEMORY_DISK_STOP);
    }
    /* The server's clock never shows less than the log says (clock_raise). */
    if (world->now_ms < namespace_time(world->ns))
        world->now_ms = namespace_time(world->ns);
    world->api = front_of_one_create(world->ns, &front_options, &world->front);
}

void world_kill(struct world *world)
{
    world->restart_count++;
    world_stop(world, world->kill_count++ % 2 == 0);
    if (world->stops_left > 0) {
        world->stops_left--;
        memory_disk_fail_after(world->disk, draw(world) % STOP_DISTANCE_MAX, world->options.fault);
    }
    world_start(world);
}

struct world *world_create(const struct world_options *options)
{
    struct world *world = memory_allocate_zeroed(sizeof(*world));
    world->options = *options;
    if (world->options.segment_size == 0)
        world->options.segment_size = SEGMENT_SIZE_DEFAULT;
    if (world->options.frame_size_max == 0)
        world->options.frame_size_max = FRAME_SIZE_DEFAULT;
    if (world->options.in_flight_max == 0)
        world->options.in_flight_max = IN_FLIGHT_DEFAULT;
    if (world->options.fault == MEMORY_DISK_FAULT_NONE)
        world->options.fault = MEMORY_DISK_STOP;
    world->random_state = options->seed;
    world->now_ms = WORLD_START_MS;
    world->disk = memory_disk_create(options->seed);
    if (options->way == WORLD_STOPS) {
        world->stops_left = STOPS_AFTER_FIRST;
        memory_disk_fail_after(world->disk, options->stop_at, world->options.fault);
    }
    world_start(world);
    return world;
}

void world_destroy(struct world *world)
{
    world_forget(world);
    free(world->docs_owned);
    if (world->ns != NULL)
        world_stop(world, false);
    memory_disk_destroy(world->disk);
    free(world);
}

/* --- durability --------------------------------------------------------------------------------------------------- */

bool world_flush(struct world *world)
{
    if (namespace_flush(world->ns, &world->failure) == OK) {
        namespace_note_durable(world->ns, world->now_ms);
        return true;
    }
    if (!memory_disk_has_failed(world->disk))
        world_give_up(world, "the log takes no frame");
    /* Invariant R10: a failure is final. */
    struct failure again;
    const uint64_t durable = namespace_durable(world->ns);
    ASSERT(namespace_failure(world->ns, &again) == world->failure.error);
    ASSERT(namespace_flush(world->ns, &again) == world->failure.error && namespace_durable(world->ns) == durable);
    world_kill(world);
    return false;
}

void world_care_for_disk(struct world *world, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        world->now_ms += 250;
        if (namespace_disk_step(world->ns, world->now_ms, &world->failure) != OK ||
            namespace_flush(world->ns, &world->failure) != OK ||
            namespace_snapshot_step(world->ns, true, &world->failure) != OK)
            world_give_up(world, world->failure.text);
    }
}

void world_snapshot(struct world *world)
{
    /* Twice: one step begins and writes it, the next publishes it. */
    for (unsigned i = 0; i < 2; i++)
        if (namespace_snapshot_step(world->ns, true, &world->failure) != OK && !memory_disk_has_failed(world->disk))
            world_give_up(world, "the snapshot fails");
}

/* Behind every step that was answered. */
static void end_step(struct world *world)
{
    if (world->is_together)
        return;
    if (world->options.way == WORLD_SNAPSHOTS)
        world_snapshot(world);
    if (world->options.way == WORLD_SNAPSHOTS || world->options.way == WORLD_KILLS) {
        core_check(world_core(world));
        world_kill(world);
        core_check(world_core(world));
    }
}

void world_together_begin(struct world *world)
{
    ASSERT(!world->is_together);
    world->is_together = true;
}

bool world_together_end(struct world *world)
{
    ASSERT(world->is_together);
    world->is_together = false;
    world->is_repeating = !world_flush(world);
    if (!world->is_repeating)
        end_step(world);
    return !world->is_repeating;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

void world_pass_time(struct world *world, uint64_t ms)
{
    /* The kill comes first: a restart gives leases in flight up to 30 more seconds (invariant R11), and a time in which
     * nothing was logged is no time for it. */
    end_step(world);
    const uint64_t target_ms = world->now_ms + ms;
    uint64_t rounds = 0;
    for (;;) {
        uint64_t due_ms = api_due_ms(world->api);
        if (due_ms > (world->now_ms < target_ms ? target_ms : world->now_ms)) /* a disk that stalls takes time, too */
            break;
        if (due_ms > world->now_ms)
            world->now_ms = due_ms;
        api_tick(world->api, world->now_ms);
        (void)world_flush(world);
        if (++rounds > 10000000)
            world_give_up(world, "time stands still");
    }
    if (world->now_ms < target_ms)
        world->now_ms = target_ms;
    do
        api_tick(world->api, world->now_ms);
    while (!world_flush(world));
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static yyjson_val *keep_reply(struct world *world, struct bytes body)
{
    if (body.size == 0)
        return NULL;
    yyjson_doc *doc = yyjson_read((const char *)body.ptr, body.size, YYJSON_READ_NOFLAG);
    if (doc == NULL)
        world_give_up(world, "a reply is not JSON");
    if (world->doc_count == world->doc_capacity) {
        world->doc_capacity = world->doc_capacity == 0 ? 64 : world->doc_capacity * 2;
        world->docs_owned = memory_resize(world->docs_owned, world->doc_capacity * sizeof(*world->docs_owned));
    }
    world->docs_owned[world->doc_count++] = doc;
    return yyjson_doc_get_root(doc);
}

void world_forget(struct world *world)
{
    for (size_t i = 0; i < world->doc_count; i++)
        yyjson_doc_free(world->docs_owned[i]);
    world->doc_count = 0;
}

static struct answer read_answer(struct world *world, const char *target, const struct reply *reply)
{
    struct answer answer = {.status = reply->status, .is_repeat = world->is_repeating};
    answer.root = keep_reply(world, buffer_bytes(&reply->body));
    if (reply->error != OK) {
        answer.error = error_row(reply->error)->name;
        if (!error_has_type(target, reply->error, answer_text(answer, "__type")) ||
            reply->status != error_status(target, reply->error))
            world_give_up(world, "an error reply does not say its error");
    } else if (reply->status != 200) {
        world_give_up(world, "a good reply has a bad status");
    }
    return answer;
}

/* One try: true if the reply may be shown. */
static bool submit(struct world *world, struct answer *answer, const char *action, struct bytes body)
{
    char target[80];
    snprintf(target, sizeof(target), "%s%s", strchr(action, '.') == NULL ? "AmazonSQS." : "", action);
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = (struct request){.method = BYTES("POST"),
                                        .path = BYTES("/"),
                                        .host = BYTES("localhost"),
                                        .target = bytes_from_string(target),
                                        .body = body};
    if (world->address != NULL)
        exchange.request.address = bytes_from_string(world->address);
    if (world->worker != NULL)
        exchange.request.worker = bytes_from_string(world->worker);
    front_submit(world->front, &exchange, world->now_ms);
    if (exchange.state == EXCHANGE_WAITING)
        api_release_waiting(world->api);
    ASSERT(exchange.state == EXCHANGE_FINISHED);
    struct exchange *finished = front_take_finished(world->front);
    ASSERT(finished == &exchange);
    const uint64_t hold_sequence = exchange.hold_sequence;
    bool is_shown = world->is_together || world_flush(world);
    while (is_shown && !world->is_together && !api_reply_may_leave(world->api, &exchange, world->now_ms))
        is_shown = world_flush(world);
    history_note_reply(&exchange);
    if (is_shown) {
        /* Invariant R9. */
        ASSERT(world->is_together || hold_sequence <= namespace_durable(world->ns));
        *answer = read_answer(world, target, &exchange.reply);
    }
    exchange_deinit(&exchange);
    return is_shown;
}

__attribute__((format(printf, 2, 0))) static void format_body(struct buffer *body, const char *format,
                                                              va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    ASSERT(size >= 0);
    char *text = (char *)buffer_extend(body, (size_t)size + 1);
    vsnprintf(text, (size_t)size + 1, format, arguments);
    buffer_truncate(body, (size_t)size);
    for (int i = 0; i < size; i++)
        if (text[i] == '\'')
            text[i] = '"';
}

struct answer world_call(struct world *world, const char *action, const char *format, ...)
{
    struct buffer body;
    buffer_init(&body);
    va_list arguments;
    va_start(arguments, format);
    format_body(&body, format, arguments);
    va_end(arguments);
    const bool was_repeating = world->is_repeating;
    struct answer answer = {0};
    while (!submit(world, &answer, action, buffer_bytes(&body)))
        world->is_repeating = true;
    world->is_repeating = world->is_together ? was_repeating : false;
    buffer_deinit(&body);
    end_step(world);
    return answer;
}

bool world_try(struct world *world, struct answer *answer, const char *action, const char *format, ...)
{
    struct buffer body;
    buffer_init(&body);
    va_list arguments;
    va_start(arguments, format);
    format_body(&body, format, arguments);
    va_end(arguments);
    bool is_answered = submit(world, answer, action, buffer_bytes(&body));
    buffer_deinit(&body);
    if (is_answered)
        end_step(world);
    return is_answered;
}

const struct core *world_core(const struct world *world)
{
    return namespace_core(world->ns);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

const char *answer_text(struct answer answer, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(answer.root, name));
    return text == NULL ? "" : text;
}

uint64_t answer_number(struct answer answer, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(answer.root, name));
}

bool answer_is_true(struct answer answer, const char *name)
{
    return yyjson_get_bool(yyjson_obj_get(answer.root, name));
}

bool answer_has(struct answer answer, const char *name)
{
    return yyjson_obj_get(answer.root, name) != NULL;
}

bool answer_fails(struct answer answer, const char *error)
{
    return answer.error != NULL && strcmp(answer.error, error) == 0;
}
