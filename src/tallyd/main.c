/* tallyd: reads the configuration, connects namespaces and server on one loop, and turns signals into a clean stop.
 *
 * Exit status: 0 after a clean stop; 1 if it could not start, its log failed, or its database turned out to be another
 * cluster's; 2 if the command line or the configuration is wrong. */
#include "base/accounted.h"
#include "base/assert.h"
#include "base/memory.h"
#include "log/flusher.h"
#include "server/metric.h"
#include "server/server.h"
#include "tallyd/archive.h"
#include "tallyd/backups.h"
#include "tallyd/cluster.h"
#include "tallyd/config_check.h"
#include "tallyd/config_help.h"
#include "tallyd/description.h"
#include "tallyd/descriptors.h"
#include "tallyd/folders.h"
#include "tallyd/inspect.h"
#include "tallyd/listeners.h"
#include "tallyd/manual.h"
#include "tallyd/message_log.h"
#include "tallyd/namespaces.h"
#include "tallyd/notifier.h"
#include "tallyd/ownership.h"
#include "tallyd/parent.h"
#include "tallyd/process_metrics.h"
#include "tallyd/relays.h"
#include "tallyd/reload.h"
#include "tallyd/renewal.h"
#include "tallyd/restore.h"
#include "tallyd/temporary.h"
#include "tallyd/upgrade.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the last lines may wait for a reader when the daemon begins or ends. */
#define LAST_WORDS_MS 1000u

#define STATUS_FAILED 1
#define STATUS_MISUSED 2

struct daemon {
    struct message_log *errors; /* standard error */
    struct message_log *output; /* standard output, except what is printed instead of serving */
    struct config config;
    struct reload reload;
    struct listeners listeners;
    struct description description; /* for DescribeServer */
    struct renewal renewal;         /* of the credentials */
    struct descriptors descriptors;
    struct notifier notifier; /* of systemd */
    struct namespaces namespaces;
    char first[NAMESPACE_NAME_SIZE + 1]; /* of them, as at the start */
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct parent parent;       /* with exit-with-stdin */
    struct temporary temporary; /* with temporary-data */
    struct clock clock;
    struct front *front; /* NULL: it does not serve yet */
    struct flushers *flushers;
    struct server *server;
    struct cluster cluster;
    struct forwarder *forwarder; /* NULL: this node passes nothing on */
    struct relays *relays;
    struct backups *backups; /* NULL: logs are in PostgreSQL */
    struct backup_control backup_control;
    struct ownership *ownership; /* of logs in PostgreSQL; NULL: they are in folders */
    struct failure failure;      /* why it can't serve with them */
    bool are_relays_begun;
    bool is_standing_by; /* for logs in PostgreSQL that other nodes have */
    bool is_asked_to_stop;
    bool is_stopping; /* the server is; before, the relays are */
};

static void complain(void *context, const char *text)
{
    const struct daemon *daemon = context;
    message_log_say(daemon->errors, "tallyd: %s", text);
}

static void complain_failure(struct daemon *daemon, const struct failure *failure)
{
    complain(daemon, failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text);
}

/* The daemon does not start, or ends. */
static void give_up(struct daemon *daemon, const struct failure *failure)
{
    message_log_tell(daemon->errors, MESSAGE_ERROR, "tallyd: %s",
                     failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text);
}

static void tell_audit(void *context, const char *text)
{
    const struct daemon *daemon = context;
    message_log_tell(daemon->errors, MESSAGE_NOTICE, "tallyd: %s", text);
}

static void write_metrics(void *context, struct buffer *text)
{
    const struct daemon *daemon = context;
    const size_t descriptors = descriptors_open(&daemon->descriptors);
    process_metrics_write(&(struct process_facts){.descriptors_open = descriptors,
                                                  .descriptors_limit = daemon->descriptors.limit,
                                                  .started_at_ms = daemon->description.started_at_ms},
                          text);
    metric_write(text, "tally_descriptors_open", "gauge", "File descriptors that are open.", descriptors);
    metric_write(text, "tally_descriptors_limit", "gauge", "How many the process may open (ulimit -n).",
                 daemon->descriptors.limit);
    metric_write(text, "tally_descriptors_of_relays", "gauge", "How many the running relays may open at most.",
                 daemon->descriptors.relays);
    buffer_append_format(text,
                         "# HELP tally_lines_dropped_total Lines that standard error or standard output did not take.\n"
                         "# TYPE tally_lines_dropped_total counter\n"
                         "tally_lines_dropped_total{stream=\"stderr\"} %llu\n"
                         "tally_lines_dropped_total{stream=\"stdout\"} %llu\n",
                         (unsigned long long)message_log_dropped_count(daemon->errors),
                         (unsigned long long)message_log_dropped_count(daemon->output));
    if (daemon->ownership != NULL)
        ownership_write_metrics(daemon->ownership, text);
    cluster_write_metrics(&daemon->cluster, text);
    if (daemon->forwarder != NULL)
        forwarder_write_metrics(daemon->forwarder, text);
}

/* --- The configuration -------------------------------------------------------------------------------------------- */

/* --init: the tables of a log in PostgreSQL. */
static int init_log(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    bool is_there = false;
    const struct pg_options options = namespaces_postgres(&daemon->config, "");
    if (!namespaces_are_in_postgres(&daemon->config)) {
        complain(daemon, "--init makes the tables of a log in PostgreSQL: say which with --log postgres://....");
        return STATUS_MISUSED;
    }
    if (disk_postgres_init_schema(&options, &is_there, &failure) != OK) {
        complain_failure(daemon, &failure);
        return STATUS_FAILED;
    }
    message_log_say(daemon->output, is_there ? "tallyd: the tables of the log are there already."
                                             : "tallyd: the tables of the log are made.");
    return 0;
}

/* --verify, with a folder or without. */
static int verify(struct daemon *daemon)
{
    if (daemon->config.verify_owned[0] != '\0')
        return inspect_verify(daemon->config.verify_owned);
    if (namespaces_are_in_postgres(&daemon->config)) {
        const struct pg_options options = namespaces_postgres(&daemon->config, "");
        return inspect_verify_postgres(&options);
    }
    complain(daemon, "--verify needs a folder, or the logs in PostgreSQL that --log postgres://... names.");
    return STATUS_MISUSED;
}

/* From here on lines have their form. config_check_values() refuses one that there is not. */
static void set_log_format(const struct daemon *daemon)
{
    struct message_format errors = {.is_for_journal = message_is_for_journal(STDERR_FILENO)};
    if (!message_form_find(config_text(&daemon->config, CONFIG_LOG_FORMAT), &errors.form))
        return;
    const struct message_format output = {.form = errors.form, .is_for_journal = message_is_for_journal(STDOUT_FILENO)};
    message_log_set_format(daemon->errors, &errors);
    message_log_set_format(daemon->output, &output);
}

static enum error check_config(struct daemon *daemon, struct failure *failure)
{
    set_log_format(daemon); /* what is wrong is told in it, too */
    enum error error = config_check_values(&daemon->config, failure);
    error = error != OK ? error : listeners_read(&daemon->listeners, &daemon->config, failure);
    error = error != OK ? error : cluster_read(&daemon->cluster, &daemon->config, failure);
    if (error != OK)
        return error;
    daemon->renewal = (struct renewal){.config = &daemon->config, .errors = daemon->errors};
    return renewal_read(&daemon->renewal, failure);
}

/* --check-config */
static int check(struct daemon *daemon)
{
    config_check_all(&daemon->config, daemon->errors);
    struct bytes faults = buffer_bytes(&daemon->config.faults);
    if (faults.size == 0)
        message_log_say(daemon->output, "tallyd: nothing is wrong with the configuration.");
    while (faults.size > 0) {
        const size_t size = (size_t)((const uint8_t *)memchr(faults.ptr, '\n', faults.size) - faults.ptr);
        fprintf(stderr, "tallyd: %.*s\n", (int)size, (const char *)faults.ptr);
        faults = bytes_skip(faults, size + 1);
    }
    return daemon->config.faults.size == 0 ? 0 : STATUS_FAILED;
}

/* --manual, for the build */
static int write_manual(struct daemon *daemon)
{
    const int failed = manual_write_all(daemon->config.manual_owned);
    if (failed != 0)
        message_log_say(daemon->errors, "tallyd: can't write into %s: %s.", daemon->config.manual_owned,
                        strerror(failed));
    return failed == 0 ? 0 : STATUS_FAILED;
}

/* --- Putting it together ------------------------------------------------------------------------------------------ */

/* How many connections and relays are possible. */
static enum error count_descriptors(struct daemon *daemon, struct failure *failure)
{
    size_t count;
    free(renewal_namespaces(&daemon->renewal, &count));
    if (cluster_lets_rest(&daemon->cluster, &daemon->config))
        count = RESERVED_MIN; /* ownership.h */
    const enum error error = descriptors_init(&daemon->descriptors, &daemon->config, count, failure);
    struct failure warning;
    if (error == OK && descriptors_warn(&daemon->descriptors, &warning))
        complain_failure(daemon, &warning);
    return error;
}

static void warn_of_open_address(struct daemon *daemon)
{
    struct failure warning;
    if (listeners_warn(&daemon->listeners, &daemon->config, &warning))
        complain_failure(daemon, &warning);
}

static enum permission may_answer(void *context, const struct served *served, struct failure *failure)
{
    const struct daemon *daemon = context;
    return ownership_may_answer(daemon->ownership, served, failure);
}

static void lose(void *context, struct served *served, enum permission why, const struct failure *failure)
{
    const struct daemon *daemon = context;
    ownership_lose(daemon->ownership, served, why, failure);
}

static struct presence presence(void *context)
{
    const struct daemon *daemon = context;
    return ownership_presence(daemon->ownership);
}

static bool is_elsewhere(void *context, struct bytes name)
{
    const struct daemon *daemon = context;
    return ownership_ask(daemon->ownership, name);
}

static void explain_absence(void *context, struct bytes name, char *text, size_t size)
{
    const struct daemon *daemon = context;
    ownership_explain(daemon->ownership, name, text, size);
}

static enum forward_owner find_owner(void *context, struct bytes name, struct forward_target *target)
{
    const struct daemon *daemon = context;
    return ownership_find(daemon->ownership, name, target);
}

static void server_options_fill(struct daemon *daemon, struct server_options *options)
{
    const struct config *config = &daemon->config;
    server_options_init(options);
    listeners_fill(&daemon->listeners, options);
    cluster_fill(&daemon->cluster, options);
    bool is_mode = ui_mode_find(config_text(config, CONFIG_UI), &options->ui);
    ASSERT(is_mode);
    options->metrics_are_local = config_metrics_are_local(config);
    options->connections_max = descriptors_for_connections(&daemon->descriptors);
    options->head_size_max = config_number(config, CONFIG_HEADER_MAX);
    options->body_size_max = config_number(config, CONFIG_BODY_MAX);
    options->input_memory_max = config_number(config, CONFIG_INPUT_MEMORY_MAX);
    options->reply_memory_max = config_number(config, CONFIG_REPLY_MEMORY_MAX);
    options->idle_timeout_ms = config_number(config, CONFIG_IDLE_TIMEOUT);
    options->request_timeout_ms = config_number(config, CONFIG_REQUEST_TIMEOUT);
    options->reply_timeout_ms = config_number(config, CONFIG_REPLY_TIMEOUT);
    options->stop_timeout_ms = config_number(config, CONFIG_STOP_TIMEOUT);
    options->slow_request_ms = config_number(config, CONFIG_SLOW_REQUEST);
    options->report = complain;
    options->report_context = daemon;
    if (namespaces_are_in_postgres(config)) {
        options->may_answer = may_answer;
        options->lose = lose;
        options->presence = presence;
        options->namespaces_context = daemon;
    }
    options->write_metrics = write_metrics;
    options->metrics_context = daemon;
}

/* Where the time-zone data is, for us as for the C library: TZDIR, or NULL, the usual folder. */
static const char *zones_folder(void)
{
    const char *folder = getenv("TZDIR");
    return folder == NULL || folder[0] == '\0' ? NULL : folder;
}

static void front_options_fill(struct daemon *daemon, struct front_options *options)
{
    const struct config *config = &daemon->config;
    const char *public_url = config_text(config, CONFIG_PUBLIC_URL);
    const char *metrics_queues = config_text(config, CONFIG_METRICS_QUEUES);
    *options = (struct front_options){
        .region = config_text(config, CONFIG_REGION),
        .public_url = public_url[0] == '\0' ? NULL : public_url,
        .enforce_purge_interval = config_number(config, CONFIG_PURGE_INTERVAL) != 0,
        .enforce_delete_interval = config_number(config, CONFIG_DELETE_INTERVAL) != 0,
        .memory_max = config_number(config, CONFIG_MEMORY_MAX),
        .relays = relays_control(daemon->relays),
        .backups = &daemon->backup_control,
        .zones_folder = zones_folder(),
        .metrics_queues = metrics_queues[0] == '\0' ? NULL : metrics_queues,
        .keeps_history = config_number(config, CONFIG_UI_HISTORY) != 0,
        .audit = tell_audit,
        .audit_context = daemon,
        .describe = description_fill,
        .describe_context = &daemon->description,
    };
    if (!namespaces_are_in_postgres(config))
        return;
    options->is_elsewhere = is_elsewhere;
    options->explain_absence = explain_absence;
    options->absence_context = daemon;
}

/* What the configuration says has changed. */
static void adjust(struct daemon *daemon)
{
    struct server_options server_options;
    struct front_options front_options;
    server_options_fill(daemon, &server_options);
    front_options_fill(daemon, &front_options);
    server_adjust(daemon->server, &server_options);
    server_set_connections_max(daemon->server, server_options.connections_max);
    front_adjust(daemon->front, &front_options);
    set_log_format(daemon);
    description_renew(&daemon->description);
}

/* The newer configuration has been read. */
static void take_config(struct daemon *daemon)
{
    struct buffer taken, left;
    buffer_init(&taken);
    buffer_init(&left);
    reload_take(&daemon->reload, &taken, &left);
    if (taken.size > 0) {
        adjust(daemon);
        message_log_tell(daemon->errors, MESSAGE_INFO, "tallyd: new values are in force: %.*s",
                         BYTES_FORMAT(buffer_bytes(&taken)));
    }
    if (left.size > 0)
        message_log_say(daemon->errors, "tallyd: needs a restart: %.*s", BYTES_FORMAT(buffer_bytes(&left)));
    buffer_deinit(&taken);
    buffer_deinit(&left);
}

static void reload_config(struct daemon *daemon)
{
    struct reload *reload = &daemon->reload;
    struct failure failure;
    failure_init(&failure);
    enum error error = reload_read(reload, &failure);
    if (error == OK && reload_has_changed(reload, CONFIG_CONNECTIONS_MAX))
        error = descriptors_set_connections_max(&daemon->descriptors, &reload->newer, &failure);
    if (error == OK)
        take_config(daemon);
    else
        message_log_say(daemon->errors, "tallyd: the configuration in force stays: %s", failure.text);
    reload_end(reload);
}

/* SIGHUP: reads again everything that can change without a stop. If something can't be read, the old version stays in
 * force. */
static void reload(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    reload_config(daemon);
    if (server_reload(daemon->server, &failure) != OK) {
        message_log_say(daemon->errors, "tallyd: the certificate in force stays: %s", failure.text);
        server_notice(daemon->server, "CertificateRefused",
                      "A new certificate could not be used, and the one in force stays. Standard error says why.");
    }
    if (!daemon->is_asked_to_stop)
        renewal_ask(&daemon->renewal);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* A clean stop. The relays end first and settle the rows that they have in flight while the server still serves. A
 * second signal does not wait for them. */
static void stop_server(void *context)
{
    struct daemon *daemon = context;
    if (!daemon->is_stopping)
        server_stop(daemon->server);
    daemon->is_stopping = true;
}

static void say_stopping(const struct daemon *daemon, const char *why)
{
    size_t connections = server_connection_count(daemon->server), relays = relays_running_count(daemon->relays);
    notifier_tell_stopping(&daemon->notifier, "stopping");
    if (connections + relays == 0)
        message_log_say(daemon->output, "tallyd stopping: %s", why);
    else
        message_log_say(daemon->output,
                        "tallyd stopping: %s; waits for what is under way on %zu %s and in %zu %s, unless there is "
                        "another signal",
                        why, connections, connections == 1 ? "connection" : "connections", relays,
                        relays == 1 ? "relay" : "relays");
}

/* In a cluster the namespaces go first, each to a node that follows it. Meanwhile this one passes on what it is asked.
 * Where nobody is asked instead, the server goes on until its last reply has left. */
static void begin_stop(struct daemon *daemon)
{
    if (daemon->ownership != NULL && cluster_is_there(&daemon->cluster)) {
        ownership_stop(daemon->ownership, stop_server);
        return;
    }
    if (daemon->ownership != NULL)
        ownership_halt(daemon->ownership);
    relays_stop(daemon->relays, stop_server, daemon);
}

static void stop(struct daemon *daemon)
{
    if (daemon->is_stopping)
        server_stop(daemon->server);
    else if (daemon->is_asked_to_stop)
        stop_server(daemon);
    else
        begin_stop(daemon);
    daemon->is_asked_to_stop = daemon->renewal.is_ending = true;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number == SIGHUP) {
        reload(daemon);
        return;
    }
    if (!daemon->is_asked_to_stop)
        say_stopping(daemon, number == SIGINT ? "SIGINT" : "SIGTERM");
    stop(daemon);
}

/* exit-with-stdin */
static void on_parent_gone(void *context)
{
    struct daemon *daemon = context;
    if (daemon->is_asked_to_stop)
        return;
    say_stopping(daemon, "standard input has ended");
    stop(daemon);
}

static void watch_signals(struct daemon *daemon)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    static_assert(ARRAY_LENGTH(numbers) == ARRAY_LENGTH(((struct daemon *)0)->signals), "a handle for each");
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&daemon->signals[i]);
    }
    if (config_number(&daemon->config, CONFIG_EXIT_WITH_STDIN) != 0)
        parent_watch(&daemon->parent, &daemon->loop, on_parent_gone, daemon);
}

static sigset_t our_signals(void)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    return ours;
}

/* From here on the process ends by itself. Another signal must not end it early with the signal's status. */
static void close_signals(struct daemon *daemon)
{
    const sigset_t ours = our_signals();
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(daemon->signals); i++)
        uv_close((uv_handle_t *)&daemon->signals[i], NULL);
    parent_close(&daemon->parent);
}

/* For `systemctl status`. */
static void write_status(void *context, struct buffer *status)
{
    const struct daemon *daemon = context;
    if (daemon->is_asked_to_stop)
        buffer_append_format(status, "stopping");
    else if (daemon->is_standing_by)
        buffer_append_format(status, "standing by");
    else
        buffer_append_format(
            status, "serving %zu queues, %llu messages, %zu connections", namespaces_queue_count(&daemon->namespaces),
            (unsigned long long)namespaces_message_count(&daemon->namespaces), server_connection_count(daemon->server));
}

/* It answers requests. One that stands by does so, too: it passes them on, or says who has the log. Were it not ready,
 * starting it would not end before another node does. */
static void notify_ready(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    if (notifier_begin(&daemon->notifier, &daemon->loop, write_status, daemon, &failure) != OK)
        complain_failure(daemon, &failure);
}

static void say_ready(struct daemon *daemon)
{
    struct buffer where;
    buffer_init(&where);
    daemon->is_standing_by = false;
    listeners_write(&daemon->listeners, daemon->server, &where);
    /* Trouble during the start is reported before it is ready, for readers of both. */
    (void)message_log_flush(daemon->errors, LAST_WORDS_MS);
    message_log_say(daemon->output, "tallyd ready on%.*s data=%s queues=%zu messages=%llu",
                    BYTES_FORMAT(buffer_bytes(&where)), config_data(&daemon->config),
                    namespaces_queue_count(&daemon->namespaces),
                    (unsigned long long)namespaces_message_count(&daemon->namespaces));
    buffer_deinit(&where);
    notify_ready(daemon);
}

/* Recovers the namespaces that the credentials name. */
static enum error open_namespaces(struct daemon *daemon, struct failure *failure)
{
    size_t count;
    const char *data = config_data(&daemon->config);
    struct bytes *names = renewal_namespaces(&daemon->renewal, &count);
    const struct upgrade upgrade = {.data = data,
                                    .min_free = config_number(&daemon->config, CONFIG_DISK_MIN_FREE),
                                    .report = complain,
                                    .context = daemon};
    enum error error = folders_check_whole(data, failure);
    error = error == OK ? upgrade_prepare(&upgrade, failure) : error;
    error = error == OK ? namespaces_open(&daemon->namespaces, names, count, failure) : error;
    free(names);
    if (error == OK)
        upgrade_finish(&upgrade);
    return error == OK ? archive_try(&daemon->config, failure) : error;
}

/* Recovery is never refused: what was acknowledged stays, whatever the limit is now. */
static void warn_of_memory(const struct daemon *daemon)
{
    uint64_t in_use = accounted_in_use(), max = config_number(&daemon->config, CONFIG_MEMORY_MAX);
    char described[256];
    if (max == 0 || in_use < max)
        return;
    config_describe(&daemon->config, CONFIG_MEMORY_MAX, described, sizeof(described));
    message_log_say(
        daemon->errors,
        "tallyd: what the log holds takes %llu bytes of memory, and %s is %llu: sends are refused until enough of "
        "it has been received and deleted. Raise it if there is more memory.",
        (unsigned long long)in_use, described, (unsigned long long)max);
}

static void warn_of_other_log(struct daemon *daemon, const struct opened_namespace *opened)
{
    char warning[1024];
    if (namespaces_find_other_log(&daemon->namespaces, opened, warning, sizeof(warning)))
        complain(daemon, warning);
}

/* --- serving from folders ----------------------------------------------------------------------------------------- */

/* The namespaces are there. */
static enum error begin_serving(struct daemon *daemon, struct failure *failure)
{
    const enum error error =
        relays_begin(daemon->relays, &daemon->loop, &daemon->namespaces, config_data(&daemon->config), failure);
    if (error != OK)
        return error;
    warn_of_memory(daemon);
    for (size_t i = 0; i < front_count(daemon->front); i++)
        warn_of_other_log(daemon, namespaces_at(&daemon->namespaces, i));
    renewal_begin(&daemon->renewal, &daemon->loop);
    backups_begin(daemon->backups);
    say_ready(daemon);
    return OK;
}

static enum error serve(struct daemon *daemon, struct failure *failure)
{
    front_set_credentials(daemon->front, daemon->renewal.credentials_owned);
    watch_signals(daemon); /* first: everybody who can connect may also stop it, cleanly */
    enum error error = server_listen(daemon->server, failure);
    error = error == OK ? begin_serving(daemon, failure) : error;
    if (error != OK) {
        close_signals(daemon);
        relays_close(daemon->relays);
        return error;
    }
    error = server_run(daemon->server, failure);
    daemon->is_asked_to_stop = daemon->is_stopping = true;
    renewal_end(&daemon->renewal,
                &daemon->loop); /* where the server ended because a log was lost, one may come still */
    close_signals(daemon);
    relays_close(daemon->relays);
    renewal_close(&daemon->renewal);
    return error;
}

/* --- serving from PostgreSQL -------------------------------------------------------------------------------------- */

static void say_standing_by(struct daemon *daemon)
{
    struct buffer where;
    buffer_init(&where);
    daemon->is_standing_by = true;
    listeners_write(&daemon->listeners, daemon->server, &where);
    message_log_say(daemon->output, "tallyd standing by on%.*s", BYTES_FORMAT(buffer_bytes(&where)));
    buffer_deinit(&where);
    notify_ready(daemon);
}

/* Relays begin with the first namespace that there is. */
static void on_served(void *context, struct opened_namespace *opened)
{
    struct daemon *daemon = context;
    struct failure failure;
    failure_init(&failure);
    enum error error = OK;
    if (daemon->are_relays_begun)
        relays_follow_namespaces(daemon->relays);
    else
        error =
            relays_begin(daemon->relays, &daemon->loop, &daemon->namespaces, config_data(&daemon->config), &failure);
    if (error != OK)
        complain_failure(daemon, &failure);
    else if (!daemon->are_relays_begun)
        warn_of_memory(daemon);
    daemon->are_relays_begun = daemon->are_relays_begun || error == OK;
    warn_of_other_log(daemon, opened);
}

/* One that stands by again begins anew in this, too, that it reads its credentials. */
static void on_change(void *context, bool is_ready)
{
    struct daemon *daemon = context;
    if (is_ready) {
        say_ready(daemon);
    } else if (!daemon->is_asked_to_stop) {
        say_standing_by(daemon);
        renewal_ask(&daemon->renewal);
    }
}

static void on_left(void *context, size_t count)
{
    struct daemon *daemon = context;
    renewal_note_departure(&daemon->renewal, count);
}

static void on_wrong_log(void *context, const struct failure *failure)
{
    struct daemon *daemon = context;
    daemon->failure = *failure;
    daemon->is_stopping = true;
    server_stop(daemon->server);
}

static void make_ownership(struct daemon *daemon)
{
    const struct ownership_options options = {.namespaces = &daemon->namespaces,
                                              .relays = daemon->relays,
                                              .cluster = &daemon->cluster,
                                              .descriptors = &daemon->descriptors,
                                              .loop = &daemon->loop,
                                              .report = complain,
                                              .served = on_served,
                                              .changed = on_change,
                                              .left = on_left,
                                              .failed = on_wrong_log,
                                              .context = daemon};
    daemon->ownership = daemon->renewal.ownership = ownership_create(&options);
    size_t count;
    struct bytes *names = renewal_namespaces(&daemon->renewal, &count);
    ownership_want(daemon->ownership, names, count);
    free(names);
}

/* Logs that other nodes want as well are opened while the server runs already: it says who has them. */
static enum error serve_owned(struct daemon *daemon, struct failure *failure)
{
    front_set_credentials(daemon->front, daemon->renewal.credentials_owned);
    make_ownership(daemon);
    watch_signals(daemon);
    enum error error = server_listen(daemon->server, failure);
    if (error == OK) {
        say_standing_by(daemon);
        error = server_run(daemon->server, failure);
    }
    daemon->is_stopping = true;
    close_signals(daemon);
    if (daemon->are_relays_begun)
        relays_close(daemon->relays);
    ownership_close(daemon->ownership);
    if (error == OK && daemon->failure.error != OK && !daemon->is_asked_to_stop) {
        *failure = daemon->failure;
        error = failure->error;
    }
    return error;
}

static void make_forwarder(struct daemon *daemon)
{
    if (!cluster_is_there(&daemon->cluster))
        return;
    const struct forward_options options = {.node = namespaces_node_name(&daemon->config),
                                            .secret = buffer_bytes(&daemon->cluster.secret),
                                            .front = daemon->front,
                                            .replies = server_replies(daemon->server),
                                            .tls = server_nodes_tls(daemon->server),
                                            .find_owner = find_owner,
                                            .report = complain,
                                            .context = daemon};
    daemon->forwarder = forwarder_create(&daemon->loop, &options);
    server_set_forwarder(daemon->server, daemon->forwarder);
}

static int compare_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* In PostgreSQL the first by name: all nodes know the same one. */
static void name_first(struct daemon *daemon)
{
    size_t count;
    struct bytes *names = renewal_namespaces(&daemon->renewal, &count);
    if (namespaces_are_in_postgres(&daemon->config))
        qsort(names, count, sizeof(*names), compare_names);
    ASSERT(count > 0 && names[0].size < sizeof(daemon->first));
    (void)snprintf(daemon->first, sizeof(daemon->first), "%.*s", BYTES_FORMAT(names[0]));
    free(names);
}

/* Makes the server, without a namespace yet. */
static void make_server(struct daemon *daemon)
{
    struct server_options server_options;
    struct front_options front_options;
    server_options_fill(daemon, &server_options);
    clock_init(&daemon->clock);
    daemon->relays = relays_create(&daemon->descriptors, complain, daemon);
    if (!namespaces_are_in_postgres(&daemon->config))
        daemon->backups = backups_create(&daemon->namespaces, &daemon->loop, complain, daemon);
    daemon->backup_control = backups_control(daemon->backups);
    front_options_fill(daemon, &front_options);
    daemon->front = front_create(&front_options);
    daemon->flushers = flushers_create();
    if (namespaces_are_in_postgres(&daemon->config))
        flushers_check_often(daemon->flushers, DISK_POSTGRES_LOOK_MS);
    daemon->server = server_create(&daemon->loop, &server_options, daemon->front, &daemon->clock);
    description_init(&daemon->description, &daemon->config, &daemon->cluster, daemon->server);
    make_forwarder(daemon);
    name_first(daemon);
    daemon->namespaces = (struct namespaces){.config = &daemon->config,
                                             .front = daemon->front,
                                             .flushers = daemon->flushers,
                                             .server = daemon->server,
                                             .clock = &daemon->clock,
                                             .output = daemon->output,
                                             .notifier = &daemon->notifier,
                                             .first = daemon->first};
    struct renewal *renewal = &daemon->renewal;
    renewal->front = daemon->front;
    renewal->server = daemon->server;
    renewal->relays = daemon->relays;
    renewal->descriptors = &daemon->descriptors;
    renewal->namespaces = &daemon->namespaces;
}

static enum error make_temporary(struct daemon *daemon, struct failure *failure)
{
    if (config_number(&daemon->config, CONFIG_TEMPORARY_DATA) == 0)
        return OK;
    const enum error error = temporary_make(&daemon->temporary, failure);
    daemon->config.temporary_data = error == OK ? daemon->temporary.path : NULL;
    return error;
}

static enum error run(struct daemon *daemon, struct failure *failure)
{
    enum error error = count_descriptors(daemon, failure);
    if (error == OK)
        error = make_temporary(daemon, failure);
    if (error != OK)
        return error;
    warn_of_open_address(daemon);
    make_server(daemon);
    if (namespaces_are_in_postgres(&daemon->config))
        error = serve_owned(daemon, failure);
    else
        error = open_namespaces(daemon, failure);
    if (error == OK && daemon->ownership == NULL)
        error = serve(daemon, failure);
    if (daemon->ownership == NULL)
        namespaces_close(&daemon->namespaces); /* also those that were opened before something failed */
    if (daemon->backups != NULL)
        backups_end(daemon->backups);
    flushers_destroy(daemon->flushers);
    if (daemon->forwarder != NULL)
        forwarder_close(daemon->forwarder);
    notifier_end(&daemon->notifier);
    server_destroy(daemon->server); /* after the logs, whose threads wake it until the end */
    if (daemon->ownership != NULL)
        ownership_destroy(daemon->ownership);
    if (daemon->forwarder != NULL)
        forwarder_destroy(daemon->forwarder);
    daemon->forwarder = NULL;
    front_destroy(daemon->front);
    daemon->front = NULL;
    description_deinit(&daemon->description);
    relays_destroy(daemon->relays);
    if (daemon->backups != NULL)
        backups_destroy(daemon->backups);
    return error;
}

static int start(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    if (!cluster_join(&daemon->cluster, &daemon->config, complain, daemon))
        return STATUS_FAILED;
    int status = uv_loop_init(&daemon->loop);
    if (status != 0) {
        message_log_say(daemon->errors, "tallyd: can't make an event loop: %s.", uv_strerror(status));
        return STATUS_FAILED;
    }
    if (notifier_init(&daemon->notifier, &failure) != OK)
        complain_failure(daemon, &failure);
    notifier_tell(&daemon->notifier, "starting");
    const enum error error = run(daemon, &failure);
    temporary_remove(&daemon->temporary);
    notifier_deinit(&daemon->notifier);
    if (error != OK)
        give_up(daemon, &failure);
    status = uv_loop_close(&daemon->loop);
    ASSERT(status == 0); /* every handle was closed */
    return error == OK && !daemon->cluster.is_refused ? 0 : STATUS_FAILED;
}

/* If a standard stream is closed, the next file or socket that we open would take its place and receive what we print.
 * This descriptor can't be written to, either, so a program that checks for errors notices. */
static void open_standard_streams(void)
{
    int descriptor;
    while ((descriptor = open("/dev/null", O_RDONLY)) >= 0 && descriptor <= STDERR_FILENO)
        continue;
    close(descriptor);
}

int main(int argc, char **argv)
{
    struct daemon daemon = {0};
    struct failure failure;
    failure_init(&failure);
    int status = 0;
    open_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* if a client goes away, only one write fails */
    signal(SIGCHLD,
           SIG_DFL); /* the parent process may have ignored it; then we would not learn how a snapshot's child ended */
    daemon.errors = message_log_create(STDERR_FILENO, "standard error");
    daemon.output = message_log_create(STDOUT_FILENO, "standard output");
    bool is_sound = config_load(&daemon.config, argc, argv, &failure) == OK;
    reload_init(&daemon.reload, &daemon.config, argc, argv);
    if (is_sound && daemon.config.wants_help) {
        config_help_print(stdout);
    } else if (is_sound && daemon.config.wants_version) {
        printf("tallyd %s\n", TALLY_VERSION);
    } else if (is_sound && daemon.config.manual_owned != NULL) {
        status = write_manual(&daemon);
    } else if (is_sound && daemon.config.wants_check) {
        status = check(&daemon);
    } else if (is_sound && daemon.config.verify_owned != NULL) {
        status = verify(&daemon);
    } else if (is_sound && daemon.config.restore_owned != NULL) {
        status = restore_run(&(struct restore_request){.folder = daemon.config.restore_owned,
                                                       .archive = config_restore_archive(&daemon.config),
                                                       .to = daemon.config.to_owned,
                                                       .until = daemon.config.until_owned});
    } else if (is_sound && daemon.config.salvage_owned != NULL) {
        status = inspect_salvage(daemon.config.salvage_owned, daemon.config.to_owned);
    } else if (!is_sound || check_config(&daemon, &failure) != OK) {
        give_up(&daemon, &failure);
        status = STATUS_MISUSED;
    } else if (daemon.config.wants_print) {
        config_print(&daemon.config, stdout);
    } else if (daemon.config.wants_init) {
        status = init_log(&daemon);
    } else {
        status = start(&daemon);
    }
    credentials_destroy(daemon.renewal.credentials_owned);
    cluster_deinit(&daemon.cluster);
    reload_deinit(&daemon.reload);
    config_deinit(&daemon.config);
    message_log_destroy(daemon.output, LAST_WORDS_MS);
    message_log_destroy(daemon.errors, LAST_WORDS_MS);
    return status;
}
