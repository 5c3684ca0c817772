#include "tallyd/config_check.h"

#include "api/front.h"
#include "base/assert.h"
#include "server/tls.h"
#include "tallyd/archive.h"
#include "tallyd/backups.h"
#include "tallyd/cluster.h"
#include "tallyd/listeners.h"
#include "tallyd/namespaces.h"
#include "tallyd/parent.h"
#include "tallyd/renewal.h"
#include "ui/ui.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIBED_SIZE 384

/* "KEY (from WHERE) is "VALUE": it must be EXPECTED." */
static enum error refuse(const struct config *config, enum config_key key, const char *expected,
                         struct failure *failure)
{
    char described[DESCRIBED_SIZE];
    config_describe(config, key, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is \"%.200s\": it must be %s", described,
                       config_text(config, key), expected);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static enum error check_log_format(const struct config *config, struct failure *failure)
{
    enum message_form form;
    return message_form_find(config_text(config, CONFIG_LOG_FORMAT), &form)
               ? OK
               : refuse(config, CONFIG_LOG_FORMAT, "plain, text or json.", failure);
}

static enum error check_log(const struct config *config, struct failure *failure)
{
    return strcmp(config_text(config, CONFIG_LOG), "file") == 0 || namespaces_are_in_postgres(config)
               ? OK
               : refuse(config, CONFIG_LOG, "file or postgres://....", failure);
}

static enum error check_region(const struct config *config, struct failure *failure)
{
    const char *region = config_text(config, CONFIG_REGION);
    size_t size = strlen(region);
    return size > 0 && size <= 64 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == size
               ? OK
               : refuse(config, CONFIG_REGION, "up to 64 lower-case letters, digits and hyphens, such as us-east-1.",
                        failure);
}

static enum error check_ui(const struct config *config, struct failure *failure)
{
    enum ui_mode mode;
    return ui_mode_find(config_text(config, CONFIG_UI), &mode)
               ? OK
               : refuse(config, CONFIG_UI, "on, read-only or off.", failure);
}

static enum error check_data(const struct config *config, struct failure *failure)
{
    const char *data = config_text(config, CONFIG_DATA);
    if (data[0] != '\0')
        return backups_refuse(data, failure) ? failure->error : OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "data is empty: it must be a folder.");
}

static enum error check_temporary(const struct config *config, struct failure *failure)
{
    char described[DESCRIBED_SIZE];
    if (config_number(config, CONFIG_TEMPORARY_DATA) == 0 || config_is_default(config, CONFIG_DATA))
        return OK;
    config_describe(config, CONFIG_DATA, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "temporary-data is on, and %s names a folder to keep: it must be one or the other.", described);
}

static enum error check_parent(const struct config *config, struct failure *failure)
{
    return config->wants_check || config_number(config, CONFIG_EXIT_WITH_STDIN) == 0 ? OK : parent_check(failure);
}

static enum error check_archive(const struct config *config, struct failure *failure)
{
    if (config_text(config, CONFIG_ARCHIVE)[0] == '\0' || !namespaces_are_in_postgres(config))
        return OK;
    return refuse(config, CONFIG_ARCHIVE, "empty where the log is in PostgreSQL, which has a WAL archive of its own.",
                  failure);
}

static enum error check_metrics(const struct config *config, struct failure *failure)
{
    const char *text = config_text(config, CONFIG_METRICS_QUEUES);
    char expected[160];
    if (text[0] == '\0' || metrics_are_patterns(bytes_from_string(text)))
        return OK;
    snprintf(expected, sizeof(expected),
             "1 to %u patterns of queue names with commas between, such as orders-*,mail. A pattern has A-Z a-z 0-9 _ "
             "- . and *.",
             METRICS_PATTERNS_MAX);
    return refuse(config, CONFIG_METRICS_QUEUES, expected, failure);
}

bool config_metrics_are_local(const struct config *config)
{
    return strcmp(config_text(config, CONFIG_METRICS_ACCESS), "loopback") == 0;
}

static enum error check_metrics_access(const struct config *config, struct failure *failure)
{
    return config_metrics_are_local(config) || strcmp(config_text(config, CONFIG_METRICS_ACCESS), "open") == 0
               ? OK
               : refuse(config, CONFIG_METRICS_ACCESS, "open or loopback.", failure);
}

enum error config_check_values(struct config *config, struct failure *failure)
{
    static enum error (*const checks[])(const struct config *config, struct failure *failure) = {
        check_log_format, check_log,     check_region,         check_ui,        namespaces_check_sizes, check_data,
        check_archive,    check_metrics, check_metrics_access, check_temporary, check_parent,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(checks); i++) {
        const enum error error = checks[i](config, failure);
        if (error != OK && !config_note(config, failure))
            return error;
    }
    return OK;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Notes what is wrong with what the key names. */
static void note_file(struct config *config, enum config_key key, const char *what)
{
    char described[DESCRIBED_SIZE];
    struct failure failure;
    failure_init(&failure);
    config_describe(config, key, described, sizeof(described));
    (void)failure_set(&failure, ERROR_INVALID_PARAMETER_VALUE, "%s: %s", described, what);
    (void)config_note(config, &failure);
}

/* A certificate, with its key, as the server would load it. */
static void check_certificate(struct config *config, enum config_key key, enum tls_use use,
                              const struct tls_files *files)
{
    struct failure failure;
    failure_init(&failure);
    struct tls_context *context = tls_context_create(use);
    if (tls_context_load(context, files, &failure) != OK)
        note_file(config, key, failure.text);
    tls_context_destroy(context);
}

static void check_listeners(struct config *config)
{
    struct listeners listeners;
    struct failure failure;
    failure_init(&failure);
    if (listeners_read(&listeners, config, &failure) != OK)
        (void)config_note(config, &failure);
    else if (listeners.has_tls)
        check_certificate(config, CONFIG_TLS_CERTIFICATE, TLS_FOR_CLIENTS,
                          &(struct tls_files){.certificate = listeners.certificate, .key = listeners.key});
}

static void check_cluster(struct config *config)
{
    struct cluster cluster = {0};
    struct failure failure;
    failure_init(&failure);
    if (cluster_read(&cluster, config, &failure) != OK)
        (void)config_note(config, &failure);
    else if (cluster_has_tls(&cluster))
        check_certificate(config, CONFIG_CLUSTER_CERTIFICATE, TLS_FOR_NODES, &cluster.files);
    cluster_deinit(&cluster);
}

static void check_credentials(struct config *config, struct message_log *errors)
{
    struct failure failure;
    failure_init(&failure);
    struct renewal renewal = {.config = config, .errors = errors};
    if (renewal_read(&renewal, &failure) != OK)
        note_file(config, CONFIG_CREDENTIALS, failure.text);
    credentials_destroy(renewal.credentials_owned);
}

/* The folder may be missing: a start makes it. */
static void check_folder(struct config *config)
{
    const char *path = config_text(config, CONFIG_DATA);
    struct stat status;
    if (stat(path, &status) != 0) {
        if (errno != ENOENT)
            note_file(config, CONFIG_DATA, strerror(errno));
    } else if (!S_ISDIR(status.st_mode)) {
        note_file(config, CONFIG_DATA, "it is no folder.");
    } else if (access(path, R_OK | W_OK | X_OK) != 0) {
        note_file(config, CONFIG_DATA, strerror(errno));
    }
}

static void check_archive_folder(struct config *config)
{
    struct failure failure;
    failure_init(&failure);
    if (!namespaces_are_in_postgres(config) && archive_check(config, &failure) != OK)
        (void)config_note(config, &failure);
}

void config_check_all(struct config *config, struct message_log *errors)
{
    struct failure failure;
    failure_init(&failure);
    ASSERT(config->wants_check);
    (void)config_check_values(config, &failure);
    check_listeners(config);
    check_cluster(config);
    check_credentials(config, errors);
    check_folder(config);
    check_archive_folder(config);
}
