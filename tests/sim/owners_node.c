#include "owners_node.h"

#include "base/memory.h"
#include "core/identity.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "fail.h"
#include "log/flusher.h"
#include "log/log.h"
#include "owners.h"
#include "owners_libpq.h"
#include "owners_plants.h"
#include "postgres/disk_postgres.h"
#include "server/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_US 20000u /* without anything to do */
#define HOLD_US 5000u  /* while nothing may be answered */
#define QUEUE BYTES("q")

/* How long a node that could not keep its log waits before it wants it again: as tallyd does. */
#define PAUSE_MS 100u
#define PAUSE_MAX_MS 60000u
#define UNREACHED_PAUSE_MAX_MS 1000u

void node_init(struct node *node, int index, const struct node_settings *settings, struct disk *folder)
{
    *node = (struct node){.index = index, .settings = settings, .folder = folder, .process.pid = 1000 * (index + 1)};
    (void)snprintf(node->name, sizeof(node->name), "n%d", index);
    node->options = (struct pg_options){
        .conninfo = "postgres://simulated", .log = "000000000000", .node = node->name, .lease_ms = settings->lease_ms};
}

static uint64_t node_now_ms(const struct node *node)
{
    return node->log_ms + (pg_now_ms() - node->log_read_ms);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void end_request(struct node_request *request, enum request_state state)
{
    request->state = state;
    if (request->client != NULL)
        fiber_wake(request->client);
}

static void end_all(struct node_request **list, enum request_state state)
{
    while (*list != NULL) {
        struct node_request *request = *list;
        *list = request->next;
        end_request(request, state);
    }
}

static void append_request(struct node_request **list, struct node_request *request)
{
    while (*list != NULL)
        list = &(*list)->next;
    request->next = NULL;
    *list = request;
}

void node_ask(struct node *node, struct node_request *request)
{
    if (node->state == NODE_DOWN || node->state == NODE_STALLS || node->state == NODE_PAUSES) {
        end_request(request, REQUEST_REFUSED);
        return;
    }
    append_request(&node->waiting, request);
    fiber_wake(node->fiber);
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

static struct queue *find_queue(struct core *core)
{
    struct queue *queue = core_find_queue(core, QUEUE);
    const struct queue_settings settings = {
        .message_size_max = 1048576, .retention_s = 1209600, .visibility_timeout_s = 30, .dead_letter_arn = BYTES("")};
    return queue == NULL ? decide_create_queue(core, QUEUE, &settings) : queue;
}

static void decide_a_send(struct node *node, const struct node_request *request)
{
    char *body = memory_allocate(request->body_size + 1);
    memset(body, 'a' + (int)(request->tag % 26), request->body_size);
    (void)snprintf(body, 16, "m%010" PRIu32, request->tag);
    body[11] = ':';
    struct core *core = namespace_begin(node->ns, node_now_ms(node));
    const struct send_command command = {
        .queue = find_queue(core),
        .content = {.body = bytes_make(body, request->body_size), .sender = core_name(core)},
        .priority = PRIORITY_DEFAULT};
    struct send_result result;
    if (decide_send(core, &command, &result) != OK)
        fail("a send is refused");
    free(body);
}

/* The tag in a message's body. */
static uint32_t read_tag(struct node *node, const struct received_message *message)
{
    const uint8_t *bytes = namespace_read(node->ns, message->position, message->content_size);
    struct content content;
    if (bytes == NULL || !content_decode(bytes_make(bytes, message->content_size), &content))
        fail("K11: node %d gives a message whose content can't be read, at position %" PRIu64, node->index,
             message->position);
    return content.body.size < 12 ? NO_TAG : (uint32_t)strtoul((const char *)content.body.ptr + 1, NULL, 10);
}

/* Receives the oldest message and deletes it. */
static uint32_t decide_a_take(struct node *node)
{
    struct core *core = namespace_begin(node->ns, node_now_ms(node));
    struct queue *queue = core_find_queue(core, QUEUE);
    struct received_message messages[RECEIVE_MAX];
    unsigned count = 0;
    if (queue == NULL || decide_receive(core, queue, 1, 30000, 1000, messages, &count) != OK || count == 0)
        return NO_TAG;
    const uint32_t tag = read_tag(node, &messages[0]);
    char handle[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(core), &messages[0].handle, handle);
    if (decide_delete(core, queue, bytes_make(handle, sizeof(handle)), NULL) != OK)
        fail("a message that was just received can't be deleted");
    judge_decide_take(tag);
    return tag;
}

static void answer(struct node *node, struct node_request *request)
{
    const struct judge_reply reply = {.node = node->index,
                                      .request = request->number,
                                      .tag = request->tag,
                                      .sequence = request->sequence,
                                      .first = node->first,
                                      .epoch = log_epoch(namespace_log(node->ns)),
                                      .proved_at = node->proved_at,
                                      .broken_at = network_broken_at(&node->process)};
    judge_answer(&reply);
    end_request(request, REQUEST_ANSWERED);
}

static void serve_request(struct node *node, struct node_request *request)
{
    if (request->kind == REQUEST_SEND)
        decide_a_send(node, request);
    else if (request->kind == REQUEST_TAKE)
        request->tag = decide_a_take(node);
    request->sequence = namespace_hold_sequence(node->ns);
    if (namespace_durable(node->ns) >= request->sequence || owners_plant_is(ANSWERS_FROM_MEMORY))
        answer(node, request);
    else
        append_request(&node->held, request);
}

static void serve_requests(struct node *node)
{
    while (node->waiting != NULL) {
        struct node_request *request = node->waiting;
        node->waiting = request->next;
        serve_request(node, request);
    }
}

static void answer_durable(struct node *node)
{
    const uint64_t durable = namespace_durable(node->ns);
    for (struct node_request **at = &node->held; *at != NULL;) {
        struct node_request *request = *at;
        if (request->sequence > durable) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        answer(node, request);
    }
}

/* --- serving ------------------------------------------------------------------------------------------------------ */

/* As namespaces_may_answer() has it. */
static enum permission may_answer(const struct node *node, struct failure *failure)
{
    const uint64_t now_ms = pg_now_ms(), proved_ms = disk_postgres_proved_ms(node->disk);
    const bool is_silent = now_ms > proved_ms && now_ms - proved_ms >= node->settings->lease_ms;
    if (owners_plant_is(NO_LEASE))
        return PERMISSION_GIVEN;
    if (is_silent) {
        (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the log took nothing for %" PRIu64 " ms",
                          now_ms - proved_ms);
        return PERMISSION_SILENT;
    }
    return disk_postgres_is_whole(node->disk) || owners_plant_is(BROKEN_LINK_ANSWERS) ? PERMISSION_GIVEN
                                                                                      : PERMISSION_PENDING;
}

/* As server_hold() has it. */
static enum error hold(struct node *node, struct failure *failure)
{
    const enum error error = namespace_flush(node->ns, failure);
    if (error == OK)
        fiber_wait(sim_now() + HOLD_US);
    return error;
}

/* As look_after_stalled() of ownership.c has it: nobody waits any more, and when PostgreSQL answers, the node goes on
 * as it is. */
static enum error stall(struct node *node, struct failure *failure)
{
    owners_trace("node %d stalls: %s", node->index, failure->text);
    node->state = NODE_STALLS;
    end_all(&node->waiting, REQUEST_BROKEN);
    end_all(&node->held, REQUEST_BROKEN);
    enum error error = OK;
    while (error == OK && may_answer(node, failure) != PERMISSION_GIVEN) {
        fiber_wait(sim_now() + HOLD_US);
        error = namespace_failure(node->ns, failure);
    }
    if (error != OK)
        return error;
    owners_trace("node %d goes on", node->index);
    node->state = NODE_SERVES;
    node->resumed++;
    namespace_resume(node->ns, node_now_ms(node));
    return OK;
}

/* One turn of the loop, as server_turn() has it. */
static enum error turn(struct node *node, struct failure *failure)
{
    const enum permission permission = may_answer(node, failure);
    if (permission == PERMISSION_SILENT)
        return stall(node, failure);
    if (permission == PERMISSION_PENDING)
        return hold(node, failure);
    enum error error = namespace_flush(node->ns, failure);
    if (error != OK)
        return error;
    answer_durable(node);
    serve_requests(node);
    struct failure ignored;
    failure_init(&ignored);
    (void)namespace_disk_step(node->ns, node_now_ms(node), &ignored);
    error = namespace_flush(node->ns, failure);
    if (error == OK && namespace_snapshot_step(node->ns, false, &ignored) != OK)
        owners_trace("node %d: %s", node->index, ignored.text);
    return error;
}

static enum error serve(struct node *node, struct failure *failure)
{
    enum error error = OK;
    node->state = NODE_SERVES;
    node->served++;
    disk_postgres_bear_silence(node->disk, true);
    owners_trace("node %d serves, epoch %" PRIu64 " of the log", node->index, log_epoch(namespace_log(node->ns)));
    while (error == OK) {
        error = turn(node, failure);
        if (error == OK && !namespace_can_flush(node->ns) && node->waiting == NULL)
            fiber_wait(sim_now() + TURN_US);
    }
    return error;
}

/* Something became durable, or the log has failed. */
static void on_wake(void *context)
{
    const struct node *node = context;
    fiber_wake(node->fiber);
}

static enum error take_over(struct node *node, struct failure *failure)
{
    static const uint8_t key[CORE_KEY_SIZE] = "sixteen bytes...";
    node->log_ms = disk_postgres_now_ms(node->disk);
    node->log_read_ms = pg_now_ms();
    node->first = log_next_point(namespace_log(node->ns)).sequence;
    const enum error error = namespace_take_over(node->ns, node->log_ms, key, failure);
    const uint64_t time_ms = namespace_time(node->ns);
    if (time_ms > node_now_ms(node)) {
        node->log_ms = time_ms;
        node->log_read_ms = pg_now_ms();
    }
    return error;
}

/* A bug on purpose: what was read of the log is answered before this owner has written to it. */
static void answer_too_early(struct node *node)
{
    node->first = log_next_point(namespace_log(node->ns)).sequence;
    for (struct node_request *request = node->waiting; request != NULL; request = node->waiting) {
        node->waiting = request->next;
        if (request->kind == REQUEST_READ) {
            request->sequence = node->first - 1;
            answer(node, request);
        } else {
            end_request(request, REQUEST_REFUSED);
        }
    }
}

/* Once: until the log is lost. */
static enum error live(struct node *node, struct failure *failure)
{
    struct namespace_options options = node->settings->namespace_options;
    options.flushers = node->flushers;
    options.wake = on_wake;
    options.wake_context = node;
    node->disk = disk_postgres_create(&node->options, node->name);
    node->ns = NULL;
    node->state = NODE_STANDS_BY;
    enum error error = namespace_recover(node->disk, &options, &node->ns, failure);
    if (error == OK && owners_plant_is(SERVES_AT_ONCE))
        answer_too_early(node);
    if (error == OK)
        error = take_over(node, failure);
    if (error == OK)
        error = serve(node, failure);
    node->state = NODE_PAUSES;
    end_all(&node->waiting, REQUEST_BROKEN);
    end_all(&node->held, REQUEST_BROKEN);
    disk_postgres_bear_silence(node->disk, false);
    if (node->ns != NULL)
        namespace_close(node->ns);
    node->disk->operations->destroy(node->disk);
    return error;
}

static void pause_node(unsigned pause_ms)
{
    const uint64_t until = sim_now() + pause_ms * MS;
    while (sim_now() < until)
        fiber_wait(until);
}

static void run(void *context)
{
    struct node *node = context;
    node->flushers = flushers_create();
    const bool looks_seldom = owners_plant_is(BROKEN_LINK_ANSWERS) || owners_plant_is(NO_LEASE);
    flushers_check_often(node->flushers, looks_seldom ? node->settings->lease_ms / 4 : DISK_POSTGRES_LOOK_MS);
    for (unsigned pause_ms = PAUSE_MS;;) {
        struct failure failure;
        failure_init(&failure);
        const uint64_t served = node->served;
        const enum error error = live(node, &failure);
        judge_failure(node->index, &failure);
        pause_ms = node->served > served ? PAUSE_MS : pause_ms < PAUSE_MAX_MS / 2 ? 2 * pause_ms : PAUSE_MAX_MS;
        if (error == ERROR_SERVICE_UNAVAILABLE && pause_ms > UNREACHED_PAUSE_MAX_MS)
            pause_ms = UNREACHED_PAUSE_MAX_MS;
        pause_node(pause_ms);
    }
}

/* Who stands by refuses requests while its loop waits for the log. */
static void refuse_requests(void *context, uint64_t pid)
{
    struct node *node = context;
    if (node->state == NODE_DOWN || (uint64_t)node->process.pid != pid)
        return;
    if (node->state == NODE_STANDS_BY && node->process.stopped_until <= sim_now())
        end_all(&node->waiting, REQUEST_REFUSED);
    sim_at(sim_now() + TURN_US, refuse_requests, node, pid);
}

void node_start(struct node *node)
{
    ASSERT(node->state == NODE_DOWN);
    node->process.pid++;
    node->process.stopped_until = 0;
    node->state = NODE_STANDS_BY;
    node->fiber = fiber_start(&node->process, run, node);
    sim_at(sim_now() + TURN_US, refuse_requests, node, (uint64_t)node->process.pid);
    owners_trace("node %d starts", node->index);
}

/* Its fibers end with it: its own, that of its log, and its child. */
void node_kill(struct node *node)
{
    ASSERT(node->state != NODE_DOWN);
    owners_trace("node %d is killed", node->index);
    fiber_kill_all(&node->process);
    owners_child_kill(&node->process);
    network_kill(&node->process);
    node->state = NODE_DOWN;
    end_all(&node->waiting, REQUEST_BROKEN);
    end_all(&node->held, REQUEST_BROKEN);
}
