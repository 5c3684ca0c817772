/* tallyd: reads the configuration, connects namespaces and server on one loop, and turns signals into a clean stop.
 *
 * Exit status: 0 after a clean stop; 1 if it could not start or its log failed; 2 if the command line or the
 * configuration is wrong. */
#include "base/accounted.h"
#include "base/assert.h"
#include "base/memory.h"
#include "log/flusher.h"
#include "server/metric.h"
#include "server/server.h"
#include "tallyd/arrival.h"
#include "tallyd/cluster.h"
#include "tallyd/config.h"
#include "tallyd/credentials_file.h"
#include "tallyd/departure.h"
#include "tallyd/descriptors.h"
#include "tallyd/inspect.h"
#include "tallyd/listeners.h"
#include "tallyd/message_log.h"
#include "tallyd/namespaces.h"
#include "tallyd/relay_door.h"
#include "tallyd/relays.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The namespace that is served if no credentials name any. */
#define NAMESPACE_DEFAULT "000000000000"

/* How long the last lines may wait for a reader when the daemon begins or ends. */
#define LAST_WORDS_MS 1000u

/* How long a node that could not keep its logs waits before it wants them again: at first, and at most. */
#define STAND_BY_PAUSE_MS 100u
#define STAND_BY_PAUSE_MAX_MS 60000u
#define UNREACHED_PAUSE_MAX_MS 1000u /* where PostgreSQL did not answer, or has no room: nobody else serves, either */

#define STATUS_FAILED 1
#define STATUS_MISUSED 2

struct daemon {
    struct message_log *errors; /* standard error */
    struct message_log *output; /* standard output, except what is printed instead of serving */
    struct config config;
    struct listeners listeners;
    struct credentials *credentials;     /* NULL: none are configured */
    struct credentials *new_credentials; /* read, but not in force until their namespaces are served; NULL: none */
    struct arrival arrival;              /* of those namespaces */
    struct departure departure;          /* of those that the credentials name no more */
    bool wants_reload;                   /* a SIGHUP came that has to wait for one of the two */
    struct descriptors descriptors;
    struct namespaces namespaces;
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct clock clock;
    struct front *front; /* NULL: it does not serve yet */
    struct flushers *flushers;
    struct server *server;
    struct cluster cluster;
    struct forwarder *forwarder; /* NULL: this node passes nothing on */
    struct relays *relays;
    struct failure failure; /* of the first arrival */
    struct failure loss;    /* by which it lost the logs that it served last */
    bool is_serving;        /* its namespaces; before, it waits for another node that has their logs */
    bool has_begun;         /* to serve or stand by; this is not its first try */
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

static void write_metrics(void *context, struct buffer *text)
{
    const struct daemon *daemon = context;
    metric_write(text, "tally_descriptors_open", "gauge", "File descriptors that are open.",
                 descriptors_open(&daemon->descriptors));
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
    if (namespaces_are_in_postgres(&daemon->config))
        namespaces_write_log_metrics(&daemon->namespaces, daemon->is_serving, text);
    if (namespaces_are_in_postgres(&daemon->config) && !daemon->is_serving && arrival_is_under_way(&daemon->arrival))
        arrival_write_log_metrics(&daemon->arrival, text);
    if (daemon->forwarder != NULL)
        forwarder_write_metrics(daemon->forwarder, text);
}

/* --- The configuration -------------------------------------------------------------------------------------------- */

static enum error check_log(const struct daemon *daemon, struct failure *failure)
{
    const char *log = config_text(&daemon->config, CONFIG_LOG);
    if (strcmp(log, "file") == 0)
        return OK;
    char described[256];
    if (namespaces_are_in_postgres(&daemon->config))
        return OK;
    config_describe(&daemon->config, CONFIG_LOG, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is \"%s\": it must be file or postgres://....",
                       described, log);
}

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

static enum error check_region(const struct daemon *daemon, struct failure *failure)
{
    const char *region = config_text(&daemon->config, CONFIG_REGION);
    size_t size = strlen(region);
    if (size > 0 && size <= 64 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == size)
        return OK;
    char described[256];
    config_describe(&daemon->config, CONFIG_REGION, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is \"%s\": it must be up to 64 lower-case letters, digits and hyphens, such as us-east-1.",
                       described, region);
}

static enum error check_data(const struct daemon *daemon, struct failure *failure)
{
    if (config_text(&daemon->config, CONFIG_DATA)[0] != '\0')
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "data is empty: it must be a folder.");
}

/* The namespaces that the credentials name, for the caller to free. */
static struct bytes *list_namespaces(const struct credentials *credentials, size_t *count)
{
    struct bytes *names = memory_allocate(NAMESPACES_MAX * sizeof(*names));
    *count = credentials_namespaces(credentials, names, NAMESPACES_MAX);
    return names;
}

static enum error check_credentials(const struct daemon *daemon, const struct credentials *credentials,
                                    struct failure *failure)
{
    size_t count;
    struct bytes *names = list_namespaces(credentials, &count);
    enum error error = OK;
    if (count > NAMESPACES_MAX)
        error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                            "%s has credentials of more than %u namespaces; one daemon serves no more.",
                            config_text(&daemon->config, CONFIG_CREDENTIALS), NAMESPACES_MAX);
    for (size_t i = 0; i < count && error == OK; i++)
        if (relay_door_has_key(credentials, names[i]))
            error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                                "%s has the access key " RELAY_DOOR_KEY_PREFIX "%.*s: that is what relays of the "
                                "daemon call themselves. Choose another one.",
                                config_text(&daemon->config, CONFIG_CREDENTIALS), BYTES_FORMAT(names[i]));
    free(names);
    return error;
}

/* Reads the file of credentials, if one is configured. NULL: none is. */
static enum error read_credentials(struct daemon *daemon, struct credentials **credentials, struct failure *failure)
{
    const char *path = config_text(&daemon->config, CONFIG_CREDENTIALS);
    bool is_exposed = false;
    *credentials = NULL;
    enum error error = path[0] == '\0' ? OK : credentials_file_read(path, credentials, &is_exposed, failure);
    if (error != OK)
        return error;
    if (is_exposed)
        message_log_say(daemon->errors, "tallyd: every user of this machine may read the secrets in %s: chmod o-r %s",
                        path, path);
    error = check_credentials(daemon, *credentials, failure);
    if (error == OK)
        return OK;
    credentials_destroy(*credentials);
    *credentials = NULL;
    return error;
}

static enum error check_config(struct daemon *daemon, struct failure *failure)
{
    enum error error = listeners_read(&daemon->listeners, &daemon->config, failure);
    error = error != OK ? error : check_log(daemon, failure);
    error = error != OK ? error : check_region(daemon, failure);
    error = error != OK ? error : namespaces_check_sizes(&daemon->config, failure);
    error = error != OK ? error : check_data(daemon, failure);
    error = error != OK ? error : cluster_read(&daemon->cluster, &daemon->config, failure);
    return error != OK ? error : read_credentials(daemon, &daemon->credentials, failure);
}

/* --- Putting it together ------------------------------------------------------------------------------------------ */

/* How many connections and relays are possible. */
static enum error count_descriptors(struct daemon *daemon, struct failure *failure)
{
    size_t count;
    free(list_namespaces(daemon->credentials, &count));
    const enum error error = descriptors_init(&daemon->descriptors, &daemon->config, count > 0 ? count : 1, failure);
    struct failure warning;
    if (error == OK && descriptors_warn(&daemon->descriptors, &warning))
        complain_failure(daemon, &warning);
    return error;
}

static enum permission may_answer(void *context, struct failure *failure)
{
    struct daemon *daemon = context;
    return namespaces_may_answer(&daemon->namespaces, failure);
}

static void explain_absence(void *context, char *text, size_t size)
{
    const struct daemon *daemon = context;
    if (arrival_is_under_way(&daemon->arrival))
        arrival_explain(&daemon->arrival, text, size);
    const size_t used = strlen(text);
    if (daemon->loss.error == ERROR_DISK_FULL)
        (void)snprintf(text + used, size - used, " Before, this node served, and gave up: %s", daemon->loss.text);
}

/* Of a request that came while this node stood by it may be the owner itself by now: then it asks itself. Where it is
 * named as the owner and does not serve, it was that before it began anew. */
static enum forward_owner find_owner(void *context, struct forward_target *target)
{
    const struct daemon *daemon = context;
    if (daemon->is_serving) {
        (void)snprintf(target->address, sizeof(target->address), "%s", daemon->cluster.address);
        (void)snprintf(target->said, sizeof(target->said), "%s", namespaces_node_name(&daemon->config));
        return FORWARD_TO_ADDRESS;
    }
    if (!arrival_is_under_way(&daemon->arrival))
        return FORWARD_LATER;
    const struct pg_node owner = arrival_owner(&daemon->arrival);
    if (owner.name[0] == '\0')
        return FORWARD_LATER;
    (void)snprintf(target->said, sizeof(target->said), "%s", owner.name);
    struct peer_address address;
    if (!peer_address_parse(owner.address, &address))
        return FORWARD_TO_NOBODY;
    (void)snprintf(target->address, sizeof(target->address), "%s", owner.address);
    (void)snprintf(target->said, sizeof(target->said), "%s (%s)", owner.name, owner.address);
    const bool was_me = strcmp(owner.address, daemon->cluster.address) == 0;
    return was_me ? FORWARD_LATER : FORWARD_TO_ADDRESS;
}

static void server_options_fill(struct daemon *daemon, struct server_options *options)
{
    const struct config *config = &daemon->config;
    server_options_init(options);
    listeners_fill(&daemon->listeners, options);
    cluster_fill(&daemon->cluster, options);
    options->connections_max = descriptors_for_connections(&daemon->descriptors);
    options->head_size_max = config_number(config, CONFIG_HEADER_MAX);
    options->body_size_max = config_number(config, CONFIG_BODY_MAX);
    options->input_memory_max = config_number(config, CONFIG_INPUT_MEMORY_MAX);
    options->reply_memory_max = config_number(config, CONFIG_REPLY_MEMORY_MAX);
    options->idle_timeout_ms = config_number(config, CONFIG_IDLE_TIMEOUT);
    options->request_timeout_ms = config_number(config, CONFIG_REQUEST_TIMEOUT);
    options->reply_timeout_ms = config_number(config, CONFIG_REPLY_TIMEOUT);
    options->stop_timeout_ms = config_number(config, CONFIG_STOP_TIMEOUT);
    options->report = complain;
    options->report_context = daemon;
    if (namespaces_are_in_postgres(config)) {
        options->may_answer = may_answer;
        options->may_answer_context = daemon;
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
    *options = (struct front_options){
        .region = config_text(config, CONFIG_REGION),
        .public_url = public_url[0] == '\0' ? NULL : public_url,
        .enforce_purge_interval = config_number(config, CONFIG_PURGE_INTERVAL) != 0,
        .enforce_delete_interval = config_number(config, CONFIG_DELETE_INTERVAL) != 0,
        .memory_max = config_number(config, CONFIG_MEMORY_MAX),
        .relays = relays_control(daemon->relays),
        .explain_absence = explain_absence,
        .absence_context = daemon,
        .zones_folder = zones_folder(),
    };
}

/* --- Reading again ------------------------------------------------------------------------------------------------ */

static void reload_credentials(struct daemon *daemon);

/* The new credentials can't be used. */
static void keep_credentials(struct daemon *daemon, const struct failure *failure)
{
    message_log_say(daemon->errors, "tallyd: the credentials in force stay: %s", failure->text);
    credentials_destroy(daemon->new_credentials);
    daemon->new_credentials = NULL;
}

/* Is the name among these? Looks first behind the last one that was found: both lists mostly have the same order. */
static bool is_named(struct bytes name, const struct bytes *names, size_t count, size_t *next)
{
    for (size_t i = 0; i < count; i++) {
        const size_t index = (*next + i) % count;
        if (!bytes_equal(name, names[index]))
            continue;
        *next = index + 1;
        return true;
    }
    return false;
}

/* Makes the namespaces leave that the credentials no longer name, except the first: requests that name none are about
 * that, and the relays' socket is called by it (relay_door.h). */
static void begin_departures(struct daemon *daemon)
{
    size_t count, next = 0;
    struct bytes *names = list_namespaces(daemon->credentials, &count);
    for (size_t i = 1; i < front_count(daemon->front); i++) {
        struct opened_namespace *opened = namespaces_at(&daemon->namespaces, i);
        const struct bytes name = bytes_from_string(opened->name_owned);
        if (!is_named(name, names, count, &next) && !opened->is_leaving)
            departure_begin(&daemon->departure, opened);
    }
    free(names);
}

/* So many more have gone, and their folders are closed. */
static void on_departure(void *context, size_t count)
{
    struct daemon *daemon = context;
    descriptors_remove_namespaces(&daemon->descriptors, count);
    server_set_connections_max(daemon->server, descriptors_for_connections(&daemon->descriptors));
    message_log_say(daemon->errors, "tallyd: namespaces that the credentials name no more: %zu closed, %zu are served.",
                    count, front_count(daemon->front));
    if (daemon->wants_reload && !daemon->is_asked_to_stop)
        reload_credentials(daemon);
}

/* All namespaces of the new credentials are served. */
static void replace_credentials(struct daemon *daemon)
{
    front_set_credentials(daemon->front, daemon->new_credentials);
    credentials_destroy(daemon->credentials);
    daemon->credentials = daemon->new_credentials;
    daemon->new_credentials = NULL;
    if (daemon->credentials != NULL)
        message_log_say(daemon->errors, "tallyd: credentials in force: %zu.", credentials_count(daemon->credentials));
    if (daemon->credentials != NULL)
        begin_departures(daemon);
}

/* The namespaces of the new credentials that are not served yet, for the caller to free. */
static struct bytes *list_new_namespaces(const struct daemon *daemon, size_t *count)
{
    size_t all_count;
    struct bytes *names = list_namespaces(daemon->new_credentials, &all_count);
    *count = 0;
    for (size_t i = 0; i < all_count; i++)
        if (front_find(daemon->front, names[i]) == NULL)
            names[(*count)++] = names[i];
    return names;
}

static enum error begin_serving(struct daemon *daemon, struct failure *failure);

/* Those that the daemon began with. */
static void on_first_arrival(struct daemon *daemon)
{
    failure_init(&daemon->failure);
    enum error error = arrival_end(&daemon->arrival, daemon->is_asked_to_stop, &daemon->failure);
    if (error == OK)
        error = begin_serving(daemon, &daemon->failure);
    if (error != OK)
        server_stop(daemon->server);
    else if (daemon->wants_reload)
        reload_credentials(daemon);
}

static bool is_ending(const struct daemon *daemon)
{
    return daemon->is_asked_to_stop || daemon->is_stopping;
}

/* The logs of new namespaces have been read. */
static void on_arrival(void *context)
{
    struct daemon *daemon = context;
    if (!daemon->is_serving) {
        on_first_arrival(daemon);
        return;
    }
    struct failure failure;
    failure_init(&failure);
    size_t count;
    free(list_new_namespaces(daemon, &count));
    enum error error = arrival_end(&daemon->arrival, is_ending(daemon), &failure);
    if (error != OK) {
        descriptors_remove_namespaces(&daemon->descriptors, count);
        server_set_connections_max(daemon->server, descriptors_for_connections(&daemon->descriptors));
    } else {
        error = relays_follow_namespaces(daemon->relays, &failure);
    }
    if (error == OK)
        replace_credentials(daemon);
    else
        keep_credentials(daemon, &failure);
    if (daemon->wants_reload && !is_ending(daemon))
        reload_credentials(daemon);
}

static enum error begin_arrival(struct daemon *daemon, const struct bytes *names, size_t count, struct failure *failure)
{
    if (front_count(daemon->front) + count > NAMESPACES_MAX)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%zu namespaces are served and %zu are new, and one daemon serves no more than %u. Take "
                           "some out of the credentials first.",
                           front_count(daemon->front), count, NAMESPACES_MAX);
    enum error error =
        descriptors_add_namespaces(&daemon->descriptors, count, server_connection_count(daemon->server), failure);
    if (error != OK)
        return error;
    error = arrival_begin(&daemon->arrival, names, count, failure);
    if (error != OK)
        descriptors_remove_namespaces(&daemon->descriptors, count);
    server_set_connections_max(daemon->server, descriptors_for_connections(&daemon->descriptors));
    return error;
}

/* Do the new credentials name a namespace that is leaving? */
static bool must_wait_for_departure(const struct daemon *daemon)
{
    size_t count;
    struct bytes *names = list_namespaces(daemon->new_credentials, &count);
    bool must_wait = false;
    for (size_t i = 0; i < count && !must_wait; i++)
        must_wait = departure_has(&daemon->departure, names[i]);
    free(names);
    return must_wait;
}

/* New credentials are in force once all their namespaces are served. */
static void reload_credentials(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    daemon->wants_reload = arrival_is_under_way(&daemon->arrival) || !daemon->is_serving;
    if (daemon->wants_reload)
        return;
    if (read_credentials(daemon, &daemon->new_credentials, &failure) != OK) {
        keep_credentials(daemon, &failure);
        return;
    }
    if (must_wait_for_departure(daemon)) {
        message_log_say(daemon->errors,
                        "tallyd: the new credentials name a namespace that is still leaving. They come into "
                        "force when it has left.");
        credentials_destroy(daemon->new_credentials);
        daemon->new_credentials = NULL;
        daemon->wants_reload = true;
        return;
    }
    size_t count;
    struct bytes *names = list_new_namespaces(daemon, &count);
    if (count == 0)
        replace_credentials(daemon);
    else if (begin_arrival(daemon, names, count, &failure) != OK)
        keep_credentials(daemon, &failure);
    free(names);
}

/* SIGHUP: reads again everything that can change without a stop. If something can't be read, the old version stays in
 * force. */
static void reload(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    if (server_reload(daemon->server, &failure) != OK)
        message_log_say(daemon->errors, "tallyd: the certificate in force stays: %s", failure.text);
    if (daemon->is_asked_to_stop)
        return;
    reload_credentials(daemon);
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

static void say_stopping(const struct daemon *daemon, int number)
{
    size_t connections = server_connection_count(daemon->server), relays = relays_running_count(daemon->relays);
    const char *signal_name = number == SIGINT ? "SIGINT" : "SIGTERM";
    if (connections + relays == 0)
        message_log_say(daemon->output, "tallyd stopping: %s", signal_name);
    else
        message_log_say(daemon->output,
                        "tallyd stopping: %s; waits for what is under way on %zu %s and in %zu %s, unless there is "
                        "another signal",
                        signal_name, connections, connections == 1 ? "connection" : "connections", relays,
                        relays == 1 ? "relay" : "relays");
}

/* It may be waiting for another node, without end. */
static void stop_arrival(struct daemon *daemon)
{
    if (arrival_is_under_way(&daemon->arrival))
        arrival_stop(&daemon->arrival);
}

static void stop(struct daemon *daemon)
{
    if (daemon->is_stopping)
        server_stop(daemon->server);
    else if (daemon->is_asked_to_stop)
        stop_server(daemon);
    else
        relays_stop(daemon->relays, stop_server, daemon);
    daemon->is_asked_to_stop = true;
    stop_arrival(daemon);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number == SIGHUP) {
        reload(daemon);
        return;
    }
    if (!daemon->is_asked_to_stop)
        say_stopping(daemon, number);
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
}

static void say_ready(struct daemon *daemon)
{
    struct buffer where;
    buffer_init(&where);
    listeners_write(&daemon->listeners, daemon->server, &where);
    /* Trouble during the start is reported before it is ready, for readers of both. */
    (void)message_log_flush(daemon->errors, LAST_WORDS_MS);
    message_log_say(daemon->output, "tallyd ready on%.*s data=%s queues=%zu messages=%llu",
                    BYTES_FORMAT(buffer_bytes(&where)), config_text(&daemon->config, CONFIG_DATA),
                    namespaces_queue_count(&daemon->namespaces),
                    (unsigned long long)namespaces_message_count(&daemon->namespaces));
    buffer_deinit(&where);
}

/* Those to begin with: what the credentials name, or the one that is served without any. For the caller to free. */
static struct bytes *list_first_namespaces(const struct daemon *daemon, size_t *count)
{
    struct bytes *names = list_namespaces(daemon->credentials, count);
    if (daemon->credentials == NULL)
        names[(*count)++] = BYTES(NAMESPACE_DEFAULT);
    return names;
}

/* Recovers the namespaces that the credentials name. */
static enum error open_namespaces(struct daemon *daemon, struct failure *failure)
{
    size_t count;
    struct bytes *names = list_first_namespaces(daemon, &count);
    const enum error error = namespaces_open(&daemon->namespaces, names, count, failure);
    free(names);
    return error;
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

static void warn_of_other_logs(struct daemon *daemon)
{
    char warning[1024];
    for (size_t i = 0; i < front_count(daemon->front); i++)
        if (namespaces_find_other_log(&daemon->namespaces, i, warning, sizeof(warning)))
            complain(daemon, warning);
}

/* The namespaces are there. */
static enum error begin_serving(struct daemon *daemon, struct failure *failure)
{
    const enum error error = relays_begin(daemon->relays, &daemon->loop, &daemon->namespaces,
                                          config_text(&daemon->config, CONFIG_DATA), failure);
    if (error != OK)
        return error;
    warn_of_memory(daemon);
    warn_of_other_logs(daemon);
    departure_init(&daemon->departure, daemon->relays, &daemon->loop, on_departure, daemon);
    daemon->is_serving = true;
    say_ready(daemon);
    return OK;
}

static void say_standing_by(struct daemon *daemon)
{
    struct buffer where;
    buffer_init(&where);
    listeners_write(&daemon->listeners, daemon->server, &where);
    message_log_say(daemon->output, "tallyd standing by on%.*s", BYTES_FORMAT(buffer_bytes(&where)));
    buffer_deinit(&where);
}

static int compare_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Logs that other nodes want as well are opened while the server runs already: it says who has them. The first by name
 * decides for all on every node, so that no two nodes have some each and wait for the rest. */
static enum error begin_standing_by(struct daemon *daemon, struct failure *failure)
{
    size_t count;
    struct bytes *names = list_first_namespaces(daemon, &count);
    qsort(names, count, sizeof(*names), compare_names);
    const enum error error = arrival_begin(&daemon->arrival, names, count, failure);
    free(names);
    if (error == OK)
        say_standing_by(daemon);
    return error;
}

static enum error serve(struct daemon *daemon, struct failure *failure)
{
    front_set_credentials(daemon->front, daemon->credentials);
    watch_signals(daemon); /* first: everybody who can connect may also stop it, cleanly */
    arrival_init(&daemon->arrival, &daemon->namespaces, &daemon->loop, on_arrival, daemon);
    enum error error = server_listen(daemon->server, failure);
    if (error == OK)
        error = front_count(daemon->front) > 0 ? begin_serving(daemon, failure) : begin_standing_by(daemon, failure);
    if (error == OK) {
        error = server_run(daemon->server, failure);
        daemon->is_asked_to_stop = daemon->is_asked_to_stop || !namespaces_are_in_postgres(&daemon->config);
    }
    daemon->is_stopping = true;
    stop_arrival(daemon);
    while (arrival_is_under_way(&daemon->arrival)) /* where the server ended because a log was lost */
        (void)uv_run(&daemon->loop, UV_RUN_ONCE);
    if (error == OK && daemon->failure.error != OK && !daemon->is_asked_to_stop) {
        *failure = daemon->failure;
        error = failure->error;
    }
    arrival_deinit(&daemon->arrival);
    close_signals(daemon);
    relays_close(daemon->relays);
    if (daemon->is_serving)
        departure_deinit(&daemon->departure);
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

/* Makes the server, without a namespace yet. */
static void make_server(struct daemon *daemon)
{
    struct server_options server_options;
    struct front_options front_options;
    server_options_fill(daemon, &server_options);
    clock_init(&daemon->clock);
    daemon->relays = relays_create(&daemon->descriptors, complain, daemon);
    front_options_fill(daemon, &front_options);
    daemon->front = front_create(&front_options);
    daemon->flushers = flushers_create();
    if (namespaces_are_in_postgres(&daemon->config))
        flushers_check_often(daemon->flushers, DISK_POSTGRES_LOOK_MS);
    daemon->server = server_create(&daemon->loop, &server_options, daemon->front, &daemon->clock);
    make_forwarder(daemon);
    daemon->namespaces = (struct namespaces){.config = &daemon->config,
                                             .front = daemon->front,
                                             .flushers = daemon->flushers,
                                             .server = daemon->server,
                                             .clock = &daemon->clock,
                                             .output = daemon->output,
                                             .is_patient = daemon->has_begun};
}

static enum error run(struct daemon *daemon, struct failure *failure)
{
    enum error error = count_descriptors(daemon, failure);
    if (error != OK)
        return error;
    make_server(daemon);
    if (!namespaces_are_in_postgres(&daemon->config))
        error = open_namespaces(daemon, failure);
    if (error == OK) {
        error = serve(daemon, failure);
        namespaces_close(&daemon->namespaces);
    }
    flushers_destroy(daemon->flushers);
    if (daemon->forwarder != NULL)
        forwarder_close(daemon->forwarder);
    server_destroy(daemon->server); /* after the logs, whose threads wake it until the end */
    if (daemon->forwarder != NULL)
        forwarder_destroy(daemon->forwarder);
    daemon->forwarder = NULL;
    front_destroy(daemon->front);
    daemon->front = NULL;
    relays_destroy(daemon->relays);
    return error;
}

static int run_once(struct daemon *daemon, enum error *error)
{
    struct failure failure;
    failure_init(&failure);
    int status = uv_loop_init(&daemon->loop);
    if (status != 0) {
        message_log_say(daemon->errors, "tallyd: can't make an event loop: %s.", uv_strerror(status));
        return STATUS_FAILED;
    }
    *error = run(daemon, &failure);
    if (*error != OK)
        complain_failure(daemon, &failure);
    if (daemon->is_serving)
        daemon->loss = failure;
    status = uv_loop_close(&daemon->loop);
    ASSERT(status == 0); /* every handle was closed */
    return *error == OK ? 0 : STATUS_FAILED;
}

/* False: a signal came that ends the daemon. Another one ends the pause. */
static bool pause_between(unsigned pause_ms)
{
    const sigset_t ours = our_signals();
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = (long)(pause_ms % 1000) * 1000000};
    const int number = sigtimedwait(&ours, NULL, &pause);
    (void)pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    return number != SIGTERM && number != SIGINT;
}

/* One that could serve begins with the shortest again; but not where it served only until something had to be stored,
 * and PostgreSQL has no room: then the logs would go to and fro. */
static unsigned next_pause_ms(unsigned pause_ms, bool has_served, enum error error)
{
    if (has_served && error != ERROR_DISK_FULL)
        return STAND_BY_PAUSE_MS;
    const bool is_nobodys = error == ERROR_SERVICE_UNAVAILABLE || error == ERROR_DISK_FULL;
    const unsigned most = is_nobodys ? UNREACHED_PAUSE_MAX_MS : STAND_BY_PAUSE_MAX_MS;
    return pause_ms < most / 2 ? 2 * pause_ms : most;
}

/* As at a start. What can't be read stays as it was. */
static void read_credentials_again(struct daemon *daemon)
{
    struct failure failure;
    failure_init(&failure);
    if (read_credentials(daemon, &daemon->new_credentials, &failure) != OK) {
        keep_credentials(daemon, &failure);
        return;
    }
    credentials_destroy(daemon->credentials);
    daemon->credentials = daemon->new_credentials;
    daemon->new_credentials = NULL;
}

/* A node that has lost its logs in PostgreSQL, or can't reach them, begins again, and stands by. It waits a little
 * longer each time, so that one that can't keep them does not take them from one that can. */
static int start(struct daemon *daemon)
{
    const bool is_shared = namespaces_are_in_postgres(&daemon->config);
    bool has_served = false;
    for (unsigned pause_ms = STAND_BY_PAUSE_MS;;) {
        enum error error = OK;
        const int status = run_once(daemon, &error);
        has_served = has_served || daemon->is_serving;
        daemon->has_begun = true;
        /* Of a log that another node has it is not an error; that is said of the folder. */
        const bool is_wrong =
            error == ERROR_INVALID_PARAMETER_VALUE || error == ERROR_LOG_DAMAGED || error == ERROR_LOG_LOCKED;
        if (error == OK || !is_shared || daemon->is_asked_to_stop || (is_wrong && !has_served))
            return status;
        pause_ms = next_pause_ms(pause_ms, daemon->is_serving, error);
        daemon->is_serving = daemon->is_stopping = daemon->wants_reload = false;
        failure_init(&daemon->failure);
        if (!pause_between(pause_ms))
            return 0;
        read_credentials_again(daemon);
    }
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
    if (is_sound && daemon.config.wants_help) {
        config_help_print(stdout);
    } else if (is_sound && daemon.config.wants_version) {
        printf("tallyd %s\n", TALLY_VERSION);
    } else if (is_sound && daemon.config.verify_owned != NULL) {
        status = verify(&daemon);
    } else if (is_sound && daemon.config.salvage_owned != NULL) {
        status = inspect_salvage(daemon.config.salvage_owned, daemon.config.to_owned);
    } else if (!is_sound || check_config(&daemon, &failure) != OK) {
        complain_failure(&daemon, &failure);
        status = STATUS_MISUSED;
    } else if (daemon.config.wants_print) {
        config_print(&daemon.config, stdout);
    } else if (daemon.config.wants_init) {
        status = init_log(&daemon);
    } else {
        status = start(&daemon);
    }
    credentials_destroy(daemon.credentials);
    cluster_deinit(&daemon.cluster);
    config_deinit(&daemon.config);
    message_log_destroy(daemon.output, LAST_WORDS_MS);
    message_log_destroy(daemon.errors, LAST_WORDS_MS);
    return status;
}
