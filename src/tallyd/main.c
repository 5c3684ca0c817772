/* tallyd: reads the configuration, joins disk, namespace, api and server on one loop, and turns signals into a clean stop.
 *
 * Exit status: 0 after a clean stop; 1 if it could not start or its log failed; 2 if it was told something wrong. */
#include "base/assert.h"
#include "log/log.h"
#include "server/server.h"
#include "tallyd/config.h"
#include "tallyd/credentials_file.h"
#include "tallyd/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define NAMESPACE_NAME "000000000000"

/* A frame has room for what a busy moment gathers, and then for the events of one decision as large as can be: a request's
 * body and as much again for its framing, or the body and the completion messages of a whole chain of nested batches (32 levels,
 * three targets of 64 KiB each). A segment must hold two frames, or its end would go to waste. */
#define FRAME_GATHERED_SIZE (UINT64_C(2) * 1024 * 1024)
#define FRAME_CHAIN_SIZE (UINT64_C(7) * 1024 * 1024)
#define FRAMES_PER_SEGMENT 2
#define SEGMENT_OVERHEAD_SIZE 4096
#define SEGMENT_UNIT UINT64_C(4096)

/* So that what snapshots cost stays a bounded part of what the log costs, however much is waiting. */
#define SNAPSHOT_WORTH 2

/* File descriptors beside the connections: the log's files, the loop's own, standard streams. */
#define DESCRIPTORS_RESERVED 256u

#define STATUS_FAILED 1
#define STATUS_MISUSED 2

struct daemon {
    struct config config;
    struct listeners listeners;
    struct credentials *credentials; /* NULL: none are configured */
    char *folder_owned;              /* of the namespace */
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct clock clock;
    struct disk *disk;
    struct server *server;
    struct namespace *ns;
    struct api *api;
};

static void complain(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "tallyd: %s\n", text);
}

static void complain_failure(const struct failure *failure)
{
    complain(NULL, failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text);
}

/* --- What was asked for ------------------------------------------------------------------------------------------- */

static enum error check_log(const struct daemon *daemon, struct failure *failure)
{
    const char *log = config_text(&daemon->config, CONFIG_LOG);
    if (strcmp(log, "file") == 0)
        return OK;
    char described[256];
    config_describe(&daemon->config, CONFIG_LOG, described, sizeof(described));
    struct bytes text = bytes_from_string(log);
    if (bytes_starts_with(text, BYTES("postgres://")) || bytes_starts_with(text, BYTES("postgresql://"))) {
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "%s asks for PostgreSQL, which is not available in this version: leave the key out to keep the "
            "log in files under the data folder.",
            described);
    }
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is \"%s\": it must be file.", described, log);
}

static enum error check_public_url(const struct daemon *daemon, struct failure *failure)
{
    struct bytes url = bytes_from_string(config_text(&daemon->config, CONFIG_PUBLIC_URL));
    bool has_scheme = bytes_starts_with(url, BYTES("http://")) || bytes_starts_with(url, BYTES("https://"));
    if (url.size == 0 || (has_scheme && !bytes_ends_with(url, BYTES("/"))))
        return OK;
    char described[256];
    config_describe(&daemon->config, CONFIG_PUBLIC_URL, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is \"%.*s\": it must be scheme and host without a closing slash, such as "
                       "https://queues.example.com.",
                       described, BYTES_FORMAT(url));
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

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static uint64_t segment_size(const struct config *config)
{
    return round_up(config_number(config, CONFIG_SEGMENT_SIZE), SEGMENT_UNIT);
}

/* What a frame must hold so that no request is too large for it. */
static uint64_t frame_size_least(const struct config *config)
{
    return round_up(FRAME_GATHERED_SIZE + 2 * config_number(config, CONFIG_BODY_MAX), SEGMENT_UNIT);
}

/* As much as a frame may need, as far as small segments leave room for it. */
static uint64_t frame_size_max(const struct config *config)
{
    uint64_t body_max = config_number(config, CONFIG_BODY_MAX);
    uint64_t wanted = round_up(FRAME_GATHERED_SIZE + FRAME_CHAIN_SIZE + body_max + body_max / 2, SEGMENT_UNIT);
    uint64_t possible =
        (segment_size(config) - SEGMENT_OVERHEAD_SIZE) / FRAMES_PER_SEGMENT / SEGMENT_UNIT * SEGMENT_UNIT;
    wanted = wanted > frame_size_least(config) ? wanted : frame_size_least(config);
    return wanted < possible ? wanted : possible;
}

static enum error check_segment_size(const struct daemon *daemon, struct failure *failure)
{
    const struct config *config = &daemon->config;
    uint64_t least = FRAMES_PER_SEGMENT * frame_size_least(config) + SEGMENT_OVERHEAD_SIZE;
    if (segment_size(config) >= least)
        return OK;
    char described[256];
    config_describe(config, CONFIG_SEGMENT_SIZE, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is %s: with a body-max of %s it must be at least %llu bytes. Raise it or lower body-max.",
                       described, config_text(config, CONFIG_SEGMENT_SIZE), config_text(config, CONFIG_BODY_MAX),
                       (unsigned long long)round_up(least, SEGMENT_UNIT));
}

/* Reads the file of credentials, if there is to be one, in place of what was read before. */
static enum error read_credentials(struct daemon *daemon, struct failure *failure)
{
    const char *path = config_text(&daemon->config, CONFIG_CREDENTIALS);
    struct credentials *credentials = NULL;
    bool is_exposed = false;
    enum error error = path[0] == '\0' ? OK : credentials_file_read(path, &credentials, &is_exposed, failure);
    if (error != OK)
        return error;
    if (is_exposed)
        fprintf(stderr, "tallyd: every user of this machine may read the secrets in %s: chmod o-r %s\n", path, path);
    if (daemon->api != NULL)
        api_set_credentials(daemon->api, credentials);
    credentials_destroy(daemon->credentials);
    daemon->credentials = credentials;
    return OK;
}

static enum error check_config(struct daemon *daemon, struct failure *failure)
{
    enum error error = listeners_read(&daemon->listeners, &daemon->config, failure);
    error = error != OK ? error : check_log(daemon, failure);
    error = error != OK ? error : check_public_url(daemon, failure);
    error = error != OK ? error : check_region(daemon, failure);
    error = error != OK ? error : check_segment_size(daemon, failure);
    error = error != OK ? error : check_data(daemon, failure);
    return error != OK ? error : read_credentials(daemon, failure);
}

/* --- Putting it together ------------------------------------------------------------------------------------------ */

/* Each connection needs a file descriptor, and the usual soft limit is 1,024. */
static void raise_descriptor_limit(struct daemon *daemon, struct server_options *options)
{
    struct rlimit limit;
    rlim_t wanted = options->connections_max + DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) {
        size_t possible = limit.rlim_cur > 2 * DESCRIPTORS_RESERVED ? limit.rlim_cur - DESCRIPTORS_RESERVED
                                                                    : (size_t)limit.rlim_cur / 2;
        fprintf(stderr,
                "tallyd: connections-max is %llu, but the limit of open files is %llu: at most %zu connections are "
                "served. Raise the limit (ulimit -n, LimitNOFILE=) to %llu.\n",
                (unsigned long long)config_number(&daemon->config, CONFIG_CONNECTIONS_MAX),
                (unsigned long long)limit.rlim_cur, possible, (unsigned long long)wanted);
        options->connections_max = possible;
    }
}

static void server_options_fill(struct daemon *daemon, struct server_options *options)
{
    const struct config *config = &daemon->config;
    server_options_init(options);
    listeners_fill(&daemon->listeners, options);
    options->connections_max = config_number(config, CONFIG_CONNECTIONS_MAX);
    options->head_size_max = config_number(config, CONFIG_HEADER_MAX);
    options->body_size_max = config_number(config, CONFIG_BODY_MAX);
    options->idle_timeout_ms = config_number(config, CONFIG_IDLE_TIMEOUT);
    options->request_timeout_ms = config_number(config, CONFIG_REQUEST_TIMEOUT);
    options->reply_timeout_ms = config_number(config, CONFIG_REPLY_TIMEOUT);
    options->stop_timeout_ms = config_number(config, CONFIG_STOP_TIMEOUT);
    options->report = complain;
    raise_descriptor_limit(daemon, options);
}

static void api_options_fill(const struct daemon *daemon, struct api_options *options)
{
    const struct config *config = &daemon->config;
    const char *public_url = config_text(config, CONFIG_PUBLIC_URL);
    *options = (struct api_options){
        .region = config_text(config, CONFIG_REGION),
        .public_url = public_url[0] == '\0' ? NULL : public_url,
        .enforce_purge_interval = config_number(config, CONFIG_PURGE_INTERVAL) != 0,
        .enforce_delete_interval = config_number(config, CONFIG_DELETE_INTERVAL) != 0,
    };
}

/* The namespace's folder inside the data folder. The disk makes both, durably. */
static enum error name_folder(struct daemon *daemon, struct failure *failure)
{
    const char *data = config_text(&daemon->config, CONFIG_DATA);
    if (asprintf(&daemon->folder_owned, "%s/%s", data, NAMESPACE_NAME) < 0) {
        daemon->folder_owned = NULL;
        return failure_set(failure, ERROR_INTERNAL_FAILURE, "out of memory.");
    }
    return OK;
}

/* A folder keeps the segment size it was made with, whatever the configuration says by now. */
static enum error check_folder(const struct daemon *daemon, struct failure *failure)
{
    const struct log *log = namespace_log(daemon->ns);
    if (log_frame_size_max(log) >= frame_size_least(&daemon->config))
        return OK;
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s was made with segments of %llu bytes, too small for a body-max of %s: lower body-max, or start with a "
        "new data folder.",
        daemon->folder_owned, (unsigned long long)log_segment_size(log), config_text(&daemon->config, CONFIG_BODY_MAX));
}

static enum error open_namespace(struct daemon *daemon, struct failure *failure)
{
    const struct config *config = &daemon->config;
    struct namespace_options options = {
        .name = NAMESPACE_NAME,
        .segment_size = segment_size(config),
        .frame_size_max = frame_size_max(config),
        .snapshot_bytes = config_number(config, CONFIG_SNAPSHOT_BYTES),
        .snapshot_worth = SNAPSHOT_WORTH,
        .in_flight_max = (uint32_t)config_number(config, CONFIG_IN_FLIGHT_MAX),
        .has_flusher = true,
        .wake = server_wake,
        .wake_context = daemon->server,
    };
    uint8_t key[CORE_KEY_SIZE];
    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return failure_set(failure, ERROR_INTERNAL_FAILURE, "the system gave no random bytes: %s.", strerror(errno));
    daemon->disk = disk_posix_create(daemon->folder_owned);
    clock_init(&daemon->clock);
    enum error error = namespace_open(daemon->disk, &options, clock_now_ms(&daemon->clock), key, &daemon->ns, failure);
    if (error == OK)
        clock_raise(&daemon->clock, namespace_time(daemon->ns));
    return error;
}

/* SIGHUP: reads again what is read again without a stop. What can't be read leaves the old in force. */
static void reload(struct daemon *daemon)
{
    struct failure failure = {0};
    if (server_reload(daemon->server, &failure) != OK)
        fprintf(stderr, "tallyd: the certificate in force stays: %s\n", failure.text);
    if (read_credentials(daemon, &failure) != OK)
        fprintf(stderr, "tallyd: the credentials in force stay: %s\n", failure.text);
    else if (daemon->credentials != NULL)
        fprintf(stderr, "tallyd: credentials in force: %zu.\n", credentials_count(daemon->credentials));
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number == SIGHUP)
        reload(daemon);
    else
        server_stop(daemon->server);
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

/* From here on the process ends by itself, and another signal must not end it in the middle with its status. */
static void close_signals(struct daemon *daemon)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(daemon->signals); i++)
        uv_close((uv_handle_t *)&daemon->signals[i], NULL);
}

static void say_ready(const struct daemon *daemon)
{
    const struct core *core = namespace_core(daemon->ns);
    printf("tallyd ready on");
    listeners_print(&daemon->listeners, daemon->server, stdout);
    printf(" data=%s queues=%zu messages=%llu\n", config_text(&daemon->config, CONFIG_DATA), core_queue_count(core),
           (unsigned long long)core_metrics(core).messages);
    fflush(stdout);
}

static enum error serve(struct daemon *daemon, struct failure *failure)
{
    struct api_options options;
    api_options_fill(daemon, &options);
    daemon->api = api_create(daemon->ns, &options);
    api_set_credentials(daemon->api, daemon->credentials);
    watch_signals(daemon); /* first: who can connect may also stop it, cleanly */
    enum error error = server_listen(daemon->server, &daemon->api, 1, &daemon->clock, failure);
    if (error == OK) {
        say_ready(daemon);
        error = server_run(daemon->server, failure);
    }
    close_signals(daemon);
    api_destroy(daemon->api);
    return error;
}

static enum error run(struct daemon *daemon, struct failure *failure)
{
    struct server_options options;
    server_options_fill(daemon, &options);
    daemon->server = server_create(&daemon->loop, &options);
    enum error error = name_folder(daemon, failure);
    if (error == OK)
        error = open_namespace(daemon, failure);
    if (error == OK) {
        error = check_folder(daemon, failure);
        error = error != OK ? error : serve(daemon, failure);
        namespace_close(daemon->ns);
    }
    /* Behind namespace_close(): its log thread wakes the server up to the end. */
    server_destroy(daemon->server);
    if (daemon->disk != NULL)
        disk_posix_destroy(daemon->disk);
    free(daemon->folder_owned);
    return error;
}

static int start(struct daemon *daemon)
{
    struct failure failure = {0};
    int status = uv_loop_init(&daemon->loop);
    if (status != 0) {
        fprintf(stderr, "tallyd: can't make an event loop: %s.\n", uv_strerror(status));
        return STATUS_FAILED;
    }
    enum error error = run(daemon, &failure);
    if (error != OK)
        complain_failure(&failure);
    status = uv_loop_close(&daemon->loop);
    ASSERT(status == 0); /* every handle was closed */
    return error == OK ? 0 : STATUS_FAILED;
}

/* Where a standard stream is closed, the next file or socket we open would take its place, and what we print would go there.
 * Into this one nothing can be written either, so that whoever looks at errors finds out. */
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
    struct failure failure = {0};
    int status = 0;
    open_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a client that goes away is an error of one write */
    bool is_sound = config_load(&daemon.config, argc, argv, &failure) == OK;
    if (is_sound && daemon.config.wants_help) {
        config_help_print(stdout);
    } else if (is_sound && daemon.config.wants_version) {
        printf("tallyd %s\n", TALLY_VERSION);
    } else if (!is_sound || check_config(&daemon, &failure) != OK) {
        complain_failure(&failure);
        status = STATUS_MISUSED;
    } else if (daemon.config.wants_print) {
        config_print(&daemon.config, stdout);
    } else {
        status = start(&daemon);
    }
    credentials_destroy(daemon.credentials);
    config_deinit(&daemon.config);
    return status;
}
