#include "server/server.h"

#include "base/memory.h"
#include "server/connection.h"
#include "server/forward.h"
#include "server/listener.h"
#include "server/pace.h"

#include <stdio.h>
#include <stdlib.h>

#define SERVER_SWEEP_MS_MAX 1000u /* deadlines are checked at least this often */
#define SERVER_SWEEP_MS_MIN 20u
#define SERVER_HOLD_MS 5u             /* how often it asks again whether it may answer */
#define SERVER_MEMORY_ROOM_SHARE 16u  /* memory that was full has room again when this share of it is free */
#define SERVER_REPORT_PAUSE_MS 60000u /* the same trouble is reported again after this time */

struct server {
    struct hub hub;
    uv_loop_t *loop;
    struct listener listeners[LISTENER_KIND_COUNT];
    uv_prepare_t prepare; /* before the loop sleeps */
    uv_idle_t idle;       /* while a frame gathers: the loop checks for more requests without sleeping */
    uv_timer_t due;       /* the api's next own action */
    uv_timer_t sweep;     /* deadlines, the date, snapshots */
    uv_timer_t hold;      /* while a namespace may not answer */
    uv_async_t async;     /* from the log thread */
    uint64_t due_ms;      /* log time for which `due` is armed; UINT64_MAX: it is not */
    uint64_t rest_due_ms; /* when the first namespace at rest has something to do, or earlier; log time */
    uint64_t stop_by_ms;  /* loop time */
    struct pace pace;     /* what a request costs */
    uint64_t waited_ns;   /* how long the loop had waited when the last turn began */
    uint64_t bytes_seen;  /* bytes received until the last turn */
    bool is_woken;        /* the log has done something since the last turn */
    bool was_full;        /* memory, when it was last looked at */
    struct failure failure;
    char trouble[sizeof(((struct failure *)0)->text)]; /* what was reported last */
    uint64_t trouble_ms;
    uint64_t archive_trouble_ms; /* 0: there was none */
};

/* --- A turn of the loop ------------------------------------------------------------------------------------------- */

/* The busy one after `served`; for NULL the first one. NULL: that was the last. */
static struct served *server_next_busy(const struct server *server, const struct served *served)
{
    const struct list *busy = &server->hub.busy;
    struct list_link *link = served == NULL ? list_first(busy) : list_next(busy, &served->busy_link);
    return link == NULL ? NULL : CONTAINER_OF(link, struct served, busy_link);
}

static void server_report_warning(struct server *server, struct served *served)
{
    struct failure failure;
    if (!api_take_warning(&served->api, &failure))
        return;
    server->hub.options.report(server->hub.options.report_context, failure.text);
    server_note_event(server, served, "ScheduleFailed", failure.text);
}

void server_note_event(struct server *server, struct served *served, const char *action, const char *text)
{
    api_note_event(&served->api, clock_now_ms(server->hub.clock), action, text);
    served_note(served);
}

void server_notice(struct server *server, const char *action, const char *text)
{
    struct hub *hub = &server->hub;
    front_notice(hub->front, clock_now_ms(hub->clock), action, text);
    for (size_t i = 0; i < front_count(hub->front); i++)
        if (api_has_news(&hub_served(hub, i)->api))
            served_note(hub_served(hub, i));
}

static void server_note_all(struct server *server)
{
    for (size_t i = 0; i < front_count(server->hub.front); i++)
        served_note(hub_served(&server->hub, i));
}

/* Wakes the namespaces at rest that have something to do. */
static void server_note_due(struct server *server, uint64_t now_ms)
{
    if (now_ms < server->rest_due_ms)
        return;
    server->rest_due_ms = UINT64_MAX;
    for (size_t i = 0; i < front_count(server->hub.front); i++) {
        struct served *served = hub_served(&server->hub, i);
        if (list_is_linked(&served->busy_link))
            continue;
        if (served->due_ms <= now_ms)
            served_note(served);
        else if (served->due_ms < server->rest_due_ms)
            server->rest_due_ms = served->due_ms;
    }
}

static void on_due(uv_timer_t *handle)
{
    struct server *server = handle->data;
    server->due_ms = UINT64_MAX;
    server_note_due(server, clock_now_ms(server->hub.clock));
    struct served *served = NULL;
    while (!frame_backlog_is_exhausted(&server->hub.frames) && (served = server_next_busy(server, served)) != NULL) {
        api_tick(&served->api, clock_now_ms(server->hub.clock));
        server_report_warning(server, served);
    }
}

/* When a namespace next has something to do. Namespaces without work come to rest. */
static uint64_t server_next_due_ms(struct server *server)
{
    uint64_t due_ms = UINT64_MAX;
    struct served *next = server_next_busy(server, NULL);
    for (struct served *served; (served = next) != NULL;) {
        next = server_next_busy(server, served);
        if (!served_rest(served)) {
            const uint64_t served_due_ms = served_next_ms(served);
            due_ms = served_due_ms < due_ms ? served_due_ms : due_ms;
        } else if (served->due_ms < server->rest_due_ms) {
            server->rest_due_ms = served->due_ms;
        }
    }
    return server->rest_due_ms < due_ms ? server->rest_due_ms : due_ms;
}

static void server_arm_due(struct server *server)
{
    /* Due work writes, too, so it also waits for the disk. When the disk has caught up, the loop is woken and comes
     * here again. */
    if (frame_backlog_is_exhausted(&server->hub.frames))
        return;
    const uint64_t due_ms = server_next_due_ms(server);
    if (due_ms >= server->due_ms)
        return; /* the timer fires in time; if it fires early it is armed again */
    uint64_t now_ms = clock_now_ms(server->hub.clock);
    server->due_ms = due_ms;
    /* At least a millisecond, because due work stays due while it waits for the log or for room. */
    uv_timer_start(&server->due, on_due, due_ms > now_ms ? due_ms - now_ms : 1, 0);
}

/* Trouble that repeats is reported only now and then. */
static void server_report_trouble(struct server *server, const char *what, const struct failure *failure)
{
    uint64_t now_ms = uv_now(server->loop);
    bool is_new = strcmp(failure->text, server->trouble) != 0;
    if (!is_new && now_ms - server->trouble_ms < SERVER_REPORT_PAUSE_MS)
        return;
    memcpy(server->trouble, failure->text, sizeof(failure->text));
    server->trouble_ms = now_ms;
    char text[sizeof(failure->text) + 64];
    snprintf(text, sizeof(text), "%s: %s", what, failure->text);
    server->hub.options.report(server->hub.options.report_context, text);
}

static void server_note_snapshot(struct server *server, struct served *served)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "A snapshot was written: %llu bytes.",
                   (unsigned long long)namespace_snapshot(served->ns).size);
    server_note_event(server, served, "SnapshotWritten", text);
}

/* Each namespace names another file, so the text does not tell what repeats. */
static void server_report_archive(struct server *server, const struct failure *failure)
{
    const uint64_t now_ms = uv_now(server->loop);
    if (server->archive_trouble_ms == 0 || now_ms - server->archive_trouble_ms >= SERVER_REPORT_PAUSE_MS) {
        server->archive_trouble_ms = now_ms;
        server_report_trouble(server, "the archive", failure);
    }
}

static void server_note_snapshot_failure(struct server *server, struct served *served, const struct failure *failure)
{
    const bool is_unarchived = namespace_snapshot(served->ns).is_unarchived;
    if (is_unarchived)
        server_report_archive(server, failure);
    else
        server_report_trouble(server, "the disk", failure);
    server_note_event(server, served, is_unarchived ? "ArchiveFailed" : "SnapshotFailed", failure->text);
}

static void server_step_snapshot(struct server *server)
{
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;) {
        const uint64_t taken = namespace_snapshot(served->ns).taken;
        struct failure failure;
        failure_init(&failure);
        if (namespace_snapshot_step(served->ns, false, &failure) != OK)
            server_note_snapshot_failure(server, served, &failure);
        if (namespace_snapshot(served->ns).taken != taken)
            server_note_snapshot(server, served);
    }
}

static void server_step_disk(struct server *server)
{
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;) {
        struct failure failure;
        failure_init(&failure);
        if (api_is_withdrawn(&served->api))
            continue; /* the cleaner would write on and on */
        if (namespace_disk_step(served->ns, clock_now_ms(server->hub.clock), &failure) != OK) {
            server_report_trouble(server, "the log can't be cleaned", &failure);
            server_note_event(server, served, "CleaningFailed", failure.text);
        }
        if (namespace_disk_news(served->ns, &failure)) {
            const bool is_ample = namespace_disk_level(served->ns) == DISK_AMPLE;
            server_report_trouble(server, "the disk", &failure);
            server_note_event(server, served, is_ample ? "DiskHasRoom" : "DiskIsShort", failure.text);
        }
    }
}

static void on_idle(uv_idle_t *handle)
{
    (void)handle; /* it needs only to be active: the loop then polls without waiting */
}

/* Does what the actions of this turn left to do before their frame goes. */
static void server_settle(struct server *server)
{
    struct hub *hub = &server->hub;
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;)
        if (api_is_settling(&served->api) && !frame_backlog_is_exhausted(&hub->frames))
            api_tick(&served->api, clock_now_ms(hub->clock));
    connection_take_finished(hub);
}

/* Hands open frames to their logs. While one gathers, requests are left that may begin, or metrics are being made, the
 * loop goes on without sleeping. */
static void server_flush(struct server *server, bool is_quiet)
{
    struct hub *hub = &server->hub;
    server_settle(server);
    bool is_gathering = admission_has_next(&hub->admission) || front_has_scrapes(hub->front);
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;)
        is_gathering |= served_flush(served, is_quiet, server->pace.request_ns);
    if (is_gathering)
        uv_idle_start(&server->idle, on_idle);
    else
        uv_idle_stop(&server->idle);
}

/* Requests that wait for room on the disk wait for a snapshot. */
static bool server_is_short(const struct server *server)
{
    bool is_short = false;
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;)
        is_short |= namespace_disk_level(served->ns) != DISK_AMPLE;
    return is_short;
}

/* Of the failures only a full disk is of use to clients. The others name files and nodes. */
static void server_word_loss(enum permission why, const struct failure *failure, char *text, size_t size)
{
    const char *what =
        why == PERMISSION_SILENT ? "The log of this server does not answer" : "This server has lost its log";
    (void)snprintf(text, size, "%s, so it does not know whether the request took effect. Try again.%s%s", what,
                   failure->error == ERROR_DISK_FULL ? " It said: " : "",
                   failure->error == ERROR_DISK_FULL ? failure->text : "");
}

#define SERVER_LOSS_SIZE (sizeof(((struct failure *)0)->text) + 256)

/* Nobody may be told anything of the namespace any more. Without anybody who goes on without it, the loop ends. */
static void server_lose(struct server *server, struct served *served, enum permission why,
                        const struct failure *failure)
{
    const struct server_options *options = &server->hub.options;
    if (options->lose == NULL) {
        server->failure = *failure;
        uv_stop(server->loop);
        return;
    }
    char text[SERVER_LOSS_SIZE];
    server_word_loss(why, failure, text, sizeof(text));
    connection_refuse_namespace(&server->hub, &served->api, text);
    if (!api_is_withdrawn(&served->api))
        served_withdraw(served);
    served_deinit(served);
    options->lose(options->namespaces_context, served, why, failure);
}

static void on_hold(uv_timer_t *handle)
{
    (void)handle; /* a turn follows, and asks again */
}

/* Which namespaces may answer in this turn? What was decided in one that may not goes to its log all the same, whose
 * thread finds out what became of it. */
static void server_ask(struct server *server)
{
    struct hub *hub = &server->hub;
    bool are_withheld = false;
    hub->turn++;
    struct served *next = server_next_busy(server, NULL);
    for (struct served *served; hub->options.may_answer != NULL && (served = next) != NULL;) {
        next = server_next_busy(server, served);
        struct failure failure;
        failure_init(&failure);
        const enum permission permission = served_ask(served, &hub->options, hub->turn, &failure);
        if (permission == PERMISSION_SILENT || permission == PERMISSION_LOST)
            server_lose(server, served, permission, &failure);
        are_withheld = are_withheld || permission == PERMISSION_PENDING;
    }
    if (are_withheld)
        uv_timer_start(&server->hold, on_hold, SERVER_HOLD_MS, 0);
}

/* A turn lasts from here to the next time here, less the time in which the loop waits. */
static void server_note_turn(struct server *server, uint64_t now_ns, uint64_t waited_ns)
{
    struct hub_times *times = &server->hub.times;
    const uint64_t passed_ns = now_ns - times->turned_ns, idle_ns = waited_ns - server->waited_ns;
    if (times->turned_ns != 0) {
        const uint64_t took_us = idle_ns < passed_ns ? (passed_ns - idle_ns) / 1000 : 0;
        histogram_add(&times->turn_us, took_us);
        times->turn_us_max = took_us > times->turn_us_max ? took_us : times->turn_us_max;
    }
    times->turned_ns = now_ns;
    server->waited_ns = waited_ns;
}

static void server_turn(struct server *server)
{
    struct hub *hub = &server->hub;
    if (server->failure.error != OK) {
        uv_stop(server->loop);
        return; /* nobody knows whether the held replies are true, so they are never shown */
    }
    hub->turn_ms = clock_now_ms(hub->clock);
    server_ask(server);
    const uint64_t now_ns = uv_hrtime(), waited_ns = uv_metrics_idle_time(server->loop);
    server_note_turn(server, now_ns, waited_ns);
    pace_note(&server->pace, now_ns, waited_ns, hub->counters.requests);
    bool is_quiet = hub->counters.bytes_received == server->bytes_seen;
    server->bytes_seen = hub->counters.bytes_received;
    server_flush(server, is_quiet); /* first, so that the log works while replies are written */
    admission_begin_turn(&hub->admission);
    connection_begin_put_off(hub);
    front_scrape_step(hub->front, clock_now_ms(hub->clock));
    do {
        connection_take_finished(hub);
        for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;)
            if (!served->is_withheld)
                connection_take_durable(served);
    } while (connection_serve_ready(hub));
    server_step_disk(server);
    server_flush(server, is_quiet); /* the requests that came after those replies, and the cleaner's work */
    if (hub->forwarder != NULL)
        forwarder_flush(hub->forwarder);
    if (server->is_woken || server_is_short(server)) {
        server->is_woken = false;
        server_step_snapshot(server);
    }
    server_arm_due(server);
}

/* --- Callbacks of the loop ---------------------------------------------------------------------------------------- */

static void on_prepare(uv_prepare_t *handle)
{
    struct server *server = handle->data;
    server_turn(server);
    if (server->hub.is_stopping && server->hub.connection_count == 0)
        uv_unref((uv_handle_t *)&server->sweep);
}

/* Has the log of a busy namespace failed? */
static void server_take_failures(struct server *server)
{
    struct served *next = server_next_busy(server, NULL);
    for (struct served *served; (served = next) != NULL && server->failure.error == OK;) {
        next = server_next_busy(server, served);
        struct failure failure;
        failure_init(&failure);
        if (namespace_failure(served->ns, &failure) != OK)
            server_lose(server, served, PERMISSION_LOST, &failure);
    }
}

/* Has memory become full, or is there clearly room again, since the last look? */
static void server_check_memory(struct server *server)
{
    const struct front_memory memory = front_memory(server->hub.front);
    const bool is_full = memory.max > 0 && memory.used >= memory.max;
    const bool has_room = memory.max == 0 || memory.used < memory.max - memory.max / SERVER_MEMORY_ROOM_SHARE;
    char text[160];
    if (server->was_full ? !has_room : !is_full)
        return;
    server->was_full = is_full;
    (void)snprintf(text, sizeof(text), "The state takes %llu bytes of memory, and memory-max is %llu: %s.",
                   (unsigned long long)memory.used, (unsigned long long)memory.max,
                   is_full ? "sends are refused" : "sends are taken again");
    server_notice(server, is_full ? "MemoryIsFull" : "MemoryHasRoom", text);
}

static void on_sweep(uv_timer_t *handle)
{
    struct server *server = handle->data;
    server_check_memory(server);
    hub_update_date(&server->hub);
    refusals_tell(&server->hub.refusals, uv_now(server->loop), &server->hub.options);
    connection_check_deadlines(&server->hub, uv_now(server->loop));
    server->is_woken = true; /* a snapshot's child process may have written or ended */
    server_note_all(server); /* checks each from time to time, also those with no other event */
    server_take_failures(server);
    if (server->hub.is_stopping && uv_now(server->loop) >= server->stop_by_ms)
        connection_close_all(&server->hub);
}

static void on_async(uv_async_t *handle)
{
    struct server *server = handle->data;
    if (list_is_empty(&server->hub.busy))
        server_note_all(server); /* a log without a writer may report one thing: that it has failed */
    for (struct served *served = NULL; (served = server_next_busy(server, served)) != NULL;) {
        server->is_woken = true;
        const uint64_t took_ns = served_note_flush(served);
        if (took_ns > 0)
            histogram_add(&server->hub.times.flush_us, took_ns / 1000);
    }
    server_take_failures(server);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct server *server = stream->data;
    const struct listener *listener = CONTAINER_OF(stream, struct listener, handle.stream);
    if (status == 0)
        connection_accept(&server->hub, stream, listener->kind);
}

void server_wake(void *server)
{
    uv_async_send(&((struct server *)server)->async);
}

struct frame_backlog *server_backlog(struct server *server)
{
    return &server->hub.frames;
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

static uint64_t server_sweep_ms(const struct server_options *options)
{
    uint64_t timeouts_ms[] = {options->idle_timeout_ms, options->request_timeout_ms, options->reply_timeout_ms,
                              options->linger_timeout_ms, options->stop_timeout_ms};
    uint64_t sweep_ms = SERVER_SWEEP_MS_MAX;
    for (size_t i = 0; i < ARRAY_LENGTH(timeouts_ms); i++)
        if (timeouts_ms[i] / 4 < sweep_ms)
            sweep_ms = timeouts_ms[i] / 4;
    return sweep_ms < SERVER_SWEEP_MS_MIN ? SERVER_SWEEP_MS_MIN : sweep_ms;
}

/* Marks a handle as ours: it finds the server, and does not keep the loop alive. */
static void server_own(struct server *server, void *handle)
{
    ((uv_handle_t *)handle)->data = server;
    uv_unref(handle);
}

struct server *server_create(uv_loop_t *loop, const struct server_options *options, struct front *front,
                             const struct clock *clock)
{
    ASSERT(options->report != NULL);
    struct server *server = memory_allocate_zeroed(sizeof(*server));
    hub_init(&server->hub, options, front, clock);
    server->loop = loop;
    server->due_ms = server->rest_due_ms = UINT64_MAX;
    int status = uv_async_init(loop, &server->async, on_async);
    ASSERT(status == 0); /* fails only if the loop itself could not be made */
    status = uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    ASSERT(status == 0); /* libuv knows it since 1.39 */
    uv_prepare_init(loop, &server->prepare);
    uv_idle_init(loop, &server->idle);
    uv_timer_init(loop, &server->due);
    uv_timer_init(loop, &server->sweep);
    uv_timer_init(loop, &server->hold);
    server_own(server, &server->async);
    server_own(server, &server->prepare);
    server_own(server, &server->idle);
    server_own(server, &server->due);
    server_own(server, &server->sweep);
    server_own(server, &server->hold);
    return server;
}

static void server_close_listeners(struct server *server)
{
    for (size_t i = 0; i < ARRAY_LENGTH(server->listeners); i++)
        listener_close(&server->listeners[i]);
}

void server_destroy(struct server *server)
{
    ASSERT(server->hub.connection_count == 0);
    uv_close((uv_handle_t *)&server->async, NULL);
    uv_close((uv_handle_t *)&server->prepare, NULL);
    uv_close((uv_handle_t *)&server->idle, NULL);
    uv_close((uv_handle_t *)&server->due, NULL);
    uv_close((uv_handle_t *)&server->sweep, NULL);
    uv_close((uv_handle_t *)&server->hold, NULL);
    server_close_listeners(server);
    uv_run(server->loop, UV_RUN_DEFAULT);
    hub_deinit(&server->hub);
    free(server);
}

void server_set_forwarder(struct server *server, struct forwarder *forwarder)
{
    server->hub.forwarder = forwarder;
}

struct reply_budget *server_replies(struct server *server)
{
    return &server->hub.replies;
}

const struct tls_context *server_nodes_tls(const struct server *server)
{
    const bool has_any = server->hub.options.listeners[LISTENER_NODES].address != NULL;
    return has_any ? server->hub.nodes_context_owned : NULL;
}

static enum error server_open_listeners(struct server *server, struct failure *failure)
{
    const struct server_options *options = &server->hub.options;
    enum error error = OK;
    for (size_t i = 0; i < LISTENER_KIND_COUNT && error == OK; i++)
        if (options->listeners[i].address != NULL)
            error = listener_open(&server->listeners[i], server->loop, (enum listener_kind)i, &options->listeners[i],
                                  on_connection, server, failure);
    return error;
}

void server_serve(struct server *server, struct served *served, struct namespace *ns)
{
    served_init(served, server->hub.front, ns, server->hub.clock, &server->hub.busy);
    if (server->hub.forwarder != NULL)
        forwarder_note_served(server->hub.forwarder);
}

void server_retire(struct server *server, struct served *served)
{
    ASSERT(served_is_over(served));
    connection_forget_namespace(&server->hub, &served->api);
    served_deinit(served);
    namespace_retire(served->ns);
}

enum error server_listen(struct server *server, struct failure *failure)
{
    const struct server_options *options = &server->hub.options;
    enum error error = server_reload(server, failure);
    if (error == OK)
        error = server_open_listeners(server, failure);
    if (error != OK)
        return error;
    uint64_t sweep_ms = server_sweep_ms(options);
    uv_prepare_start(&server->prepare, on_prepare);
    uv_timer_start(&server->sweep, on_sweep, sweep_ms, sweep_ms);
    return OK;
}

enum error server_open_private(struct server *server, const char *path, struct failure *failure)
{
    struct listener *listener = &server->listeners[LISTENER_PRIVATE];
    const struct listener_options options = {.address = path};
    ASSERT(!listener->is_open);
    if (server->hub.is_stopping || server->failure.error != OK)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the server is stopping.");
    enum error error =
        listener_open(listener, server->loop, LISTENER_PRIVATE, &options, on_connection, server, failure);
    if (error != OK)
        listener_close(listener);
    return error;
}

enum error server_reload(struct server *server, struct failure *failure)
{
    return hub_load_certificates(&server->hub, failure);
}

int64_t server_certificate_expires_at_s(const struct server *server)
{
    const int64_t clients_s = tls_context_expires_s(server->hub.tls_context_owned);
    const int64_t nodes_s = tls_context_expires_s(server->hub.nodes_context_owned);
    if (clients_s == 0 || nodes_s == 0)
        return clients_s + nodes_s;
    return clients_s < nodes_s ? clients_s : nodes_s;
}

void server_adjust(struct server *server, const struct server_options *options)
{
    server->hub.options.ui = options->ui;
    server->hub.options.metrics_are_local = options->metrics_are_local;
    server->hub.options.slow_request_ms = options->slow_request_ms;
}

void server_set_connections_max(struct server *server, size_t connections_max)
{
    server->hub.options.connections_max = connections_max;
}

size_t server_connection_count(const struct server *server)
{
    return server->hub.connection_count - server->hub.private_count;
}

uint16_t server_port(const struct server *server, enum listener_kind kind)
{
    return server->listeners[kind].port;
}

void server_stop(struct server *server)
{
    struct hub *hub = &server->hub;
    if (hub->is_stopping) {
        connection_close_all(hub);
        return;
    }
    hub->is_stopping = true;
    server->stop_by_ms = uv_now(server->loop) + hub->options.stop_timeout_ms;
    server_close_listeners(server);
    uv_ref((uv_handle_t *)&server->sweep); /* a connection that only waits for the log does not keep the loop alive */
    for (size_t i = 0; i < front_count(hub->front); i++) {
        api_release_waiting(front_at(hub->front, i));
        served_note(hub_served(hub, i));
    }
    connection_stop_all(hub);
}

static void server_refuse_all(struct server *server)
{
    char text[SERVER_LOSS_SIZE];
    server_word_loss(PERMISSION_LOST, &server->failure, text, sizeof(text));
    connection_fail_all(&server->hub, text);
}

enum error server_run(struct server *server, struct failure *failure)
{
    uv_run(server->loop, UV_RUN_DEFAULT);
    if (server->failure.error == OK)
        return OK;
    server_refuse_all(server);
    connection_close_all(&server->hub);
    server_close_listeners(server);
    uv_unref((uv_handle_t *)&server->sweep);
    uv_run(server->loop, UV_RUN_DEFAULT);
    *failure = server->failure;
    return failure->error;
}
