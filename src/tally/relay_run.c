/* tally relay run: a relay in the foreground. */
#include "base/assert.h"
#include "base/memory.h"
#include "relay/relay.h"
#include "tally/command.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#define SECRET_SIZE_MAX 4096u

struct settings {
    const char *source;
    const char *sink;
    const char *name;
    struct option_number lease;
    const char *order;
    const char *mode;
    const char *secret_file;
    const char *doubts;
    const char *refused;
    const char *pooler;
    const char *table;
};

static const struct option_row options[] = {
    {"source", "postgres://…|sqlite:PATH|queue:NAME", "where the rows come from; required", OPTION_TEXT,
     offsetof(struct settings, source), 0, 0, NULL},
    {"sink", "queue[:NAME]|sqs:URL|http://…|https://…",
     "where they go; \"queue\": to the queue that each row names; required", OPTION_TEXT,
     offsetof(struct settings, sink), 0, 0, NULL},
    {"name", "NAME", "what it calls itself in what it prints", OPTION_TEXT, offsetof(struct settings, name), 0, 0,
     "relay"},
    {"lease", "SECONDS", "when another relay is cut off, take over after so long", OPTION_NUMBER,
     offsetof(struct settings, lease), 1, 60, NULL},
    {"order", "group|strict", "keep the order within each group, or that of all rows", OPTION_TEXT,
     offsetof(struct settings, order), 0, 0, NULL},
    {"mode", "at-least-once|at-most-once", "http: repeat a request that may have arrived, or never", OPTION_TEXT,
     offsetof(struct settings, mode), 0, 0, NULL},
    {"secret-file", "FILE", "http: sign the bodies with the secret in this file", OPTION_TEXT,
     offsetof(struct settings, secret_file), 0, 0, NULL},
    {"doubts", "send|park", "sqs: what to do with a row that may have been delivered too long ago", OPTION_TEXT,
     offsetof(struct settings, doubts), 0, 0, NULL},
    {"refused", "park|block", "set a refused row aside, or let it hold its group", OPTION_TEXT,
     offsetof(struct settings, refused), 0, 0, NULL},
    {"pooler", "session|transaction", "postgres: how the PgBouncer before it works", OPTION_TEXT,
     offsetof(struct settings, pooler), 0, 0, NULL},
    {"table", "SCHEMA", "the schema of the outbox (postgres), or what its tables' names begin with (sqlite)",
     OPTION_TEXT, offsetof(struct settings, table), 0, 0, NULL},
};

/* --- from options to a spec ---------------------------------------------------------------------------------------- */

/* Each way to write a source or sink: what it begins with, its type, and the member that takes the rest. */
struct form {
    const char *prefix;
    const char *type;
    const char *member; /* NULL: there is no rest */
    bool keeps_prefix;  /* the rest is the whole text */
};

static const struct form source_forms[] = {
    {"postgres://", "postgres", "Connection", true}, {"postgresql://", "postgres", "Connection", true},
    {"postgres:", "postgres", "Connection", false},  {"sqlite:", "sqlite", "Connection", false},
    {"queue:", "queue", "QueueUrl", false},
};

static const struct form sink_forms[] = {
    {"queue:", "queue", "QueueUrl", false}, {"queue", "queue", NULL, false},   {"sqs:", "sqs", "QueueUrl", false},
    {"http://", "http", "Url", true},       {"https://", "http", "Url", true},
};

/* The object for a text, with the member Type; NULL if it has none of the forms. */
static yyjson_mut_val *read_form(yyjson_mut_doc *doc, const char *text, const struct form *forms, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(forms[i].prefix);
        bool is_it = strncmp(text, forms[i].prefix, size) == 0 && (forms[i].member != NULL || text[size] == '\0');
        if (!is_it)
            continue;
        yyjson_mut_val *object = yyjson_mut_obj(doc);
        yyjson_mut_obj_add_str(doc, object, "Type", forms[i].type);
        if (forms[i].member != NULL)
            yyjson_mut_obj_add_str(doc, object, forms[i].member, forms[i].keeps_prefix ? text : text + size);
        return object;
    }
    return NULL;
}

/* An option that is not given adds nothing; one that the type does not have is refused when the spec is read. */
static void add(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *value)
{
    if (value != NULL)
        yyjson_mut_obj_add_str(doc, object, name, value);
}

/* The first line of the file, in fresh memory; NULL after telling the user. */
static char *read_secret(const char *path)
{
    char *secret = memory_allocate_zeroed(SECRET_SIZE_MAX + 2);
    FILE *file = fopen(path, "re");
    size_t size = file == NULL ? 0 : fread(secret, 1, SECRET_SIZE_MAX + 1, file);
    bool is_read = file != NULL && ferror(file) == 0;
    if (!is_read)
        complain("can't read %s: %s", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    secret[strcspn(secret, "\r\n")] = '\0';
    if (is_read && size > 0 && size <= SECRET_SIZE_MAX && *secret != '\0')
        return secret;
    if (is_read)
        complain("%s must hold a secret of 1 to %u bytes in its first line", path, SECRET_SIZE_MAX);
    free(secret);
    return NULL;
}

static bool read_spec(const struct settings *settings, yyjson_mut_doc *doc, yyjson_mut_val *source,
                      yyjson_mut_val *sink, struct relay_spec *spec, struct fault *fault)
{
    if (settings->lease.is_given)
        yyjson_mut_obj_add_uint(doc, source, "LeaseSeconds", settings->lease.value);
    add(doc, source, "Table", settings->table);
    add(doc, source, "Pooler", settings->pooler);
    add(doc, sink, "Mode", settings->mode);
    add(doc, sink, "Doubts", settings->doubts);
    add(doc, sink, "Refused", settings->refused);
    yyjson_doc *read_source = yyjson_mut_val_imut_copy(source, NULL);
    yyjson_doc *read_sink = yyjson_mut_val_imut_copy(sink, NULL);
    bool is_read =
        relay_spec_read(spec, yyjson_doc_get_root(read_source), yyjson_doc_get_root(read_sink), settings->order, fault);
    yyjson_doc_free(read_source);
    yyjson_doc_free(read_sink);
    return is_read;
}

/* EXIT_DONE, or what to exit with after telling the user. */
static int make_spec(const struct invocation *invocation, struct relay_spec *spec)
{
    const struct settings *settings = invocation->settings;
    if (settings->source == NULL || settings->sink == NULL)
        return complain_usage(invocation, "%s is missing", settings->source == NULL ? "--source" : "--sink");
    char *secret = settings->secret_file == NULL ? NULL : read_secret(settings->secret_file);
    if (settings->secret_file != NULL && secret == NULL)
        return EXIT_USAGE;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *source = read_form(doc, settings->source, source_forms, ARRAY_LENGTH(source_forms));
    yyjson_mut_val *sink = read_form(doc, settings->sink, sink_forms, ARRAY_LENGTH(sink_forms));
    struct fault fault;
    int status = EXIT_DONE;
    if (source == NULL)
        status = complain_usage(invocation, "--source takes postgres://…, sqlite:PATH or queue:NAME, not \"%s\"",
                                settings->source);
    else if (sink == NULL)
        status = complain_usage(invocation, "--sink takes queue, queue:NAME, sqs:URL or http://…, not \"%s\"",
                                settings->sink);
    else {
        add(doc, sink, "Secret", secret);
        if (!read_spec(settings, doc, source, sink, spec, &fault))
            status = complain_usage(invocation, "%s", fault.text);
    }
    yyjson_mut_doc_free(doc);
    free(secret);
    return status;
}

static char *duplicate(const char *text)
{
    return text == NULL ? NULL : (char *)memory_duplicate(bytes_make(text, strlen(text) + 1)).ptr;
}

/* --- running ------------------------------------------------------------------------------------------------------- */

/* One line, whatever a database put into its error. */
static void print_status(const char *name, const struct relay_status *status)
{
    char text[FAULT_TEXT_SIZE];
    snprintf(text, sizeof text, "%s", status->last_error);
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    printf("relay %s: %s", name, relay_state_name(status->state));
    if (status->state == RELAY_ACTIVE)
        printf(", epoch %llu", (unsigned long long)status->epoch);
    if (status->state == RELAY_BLOCKED || status->state == RELAY_FAILED)
        printf(": %s", text);
    printf("\n");
    fflush(stdout);
}

static bool is_news(const struct relay_status *before, const struct relay_status *now)
{
    bool has_reason = now->state == RELAY_BLOCKED || now->state == RELAY_FAILED;
    return before->state != now->state || (now->state == RELAY_ACTIVE && before->epoch != now->epoch) ||
           (has_reason && strcmp(before->last_error, now->last_error) != 0);
}

/* From a thread of the relay: the main one sleeps for signals, so it is woken by one. */
static void wake(void *context)
{
    (void)context;
    kill(getpid(), SIGUSR1);
}

/* Prints each change of state until a signal says to stop. */
static void watch(struct relay *relay, const char *name, const sigset_t *signals)
{
    struct relay_status printed = {.state = RELAY_STARTING}, now;
    for (;;) {
        relay_get_status(relay, &now);
        if (is_news(&printed, &now))
            print_status(name, &now);
        printed = now;
        int received = sigtimedwait(signals, NULL, &(struct timespec){.tv_sec = 1});
        if (received == SIGTERM || received == SIGINT || received == SIGHUP)
            return;
    }
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct relay_spec spec;
    sigset_t signals, original;
    relay_spec_init(&spec);
    spec.name_owned = duplicate(settings->name);
    spec.endpoint_owned = duplicate(invocation->endpoint);
    int status = make_spec(invocation, &spec);
    if (status == EXIT_DONE) {
        if (invocation->ca_file != NULL)
            setenv("TALLY_CA_FILE", invocation->ca_file, 1); /* where libtally looks; there is no other thread yet */
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        sigaddset(&signals, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &signals, &original);
        struct relay *relay = relay_start(&(struct relay_options){.spec = &spec, .wake = wake});
        watch(relay, settings->name, &signals);
        relay_stop(relay);
        relay_join(relay);
        pthread_sigmask(SIG_SETMASK, &original, NULL);
    }
    relay_spec_deinit(&spec);
    return status;
}

const struct command command_relay_run = {
    .arguments = "--source SOURCE --sink SINK",
    .text =
        "Runs a relay in the foreground until it is told to stop: it takes the rows of an outbox (tally relay schema), "
        "delivers\n"
        "them, and deletes each when it is durably there. Start as many as you like for one outbox: one works, and the "
        "others\n"
        "stand by and take over when it is gone. It prints a line when its state changes: standby, active, blocked or "
        "failed,\n"
        "the last two with the reason.\n"
        "\n"
        "Keys for an SQS endpoint are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.\n"
        "\n"
        "SIGTERM, SIGINT (Ctrl-C) or SIGHUP stops it; what is on its way is settled first. Exit status 0.\n",
    .examples = "  tally relay run --source postgres://relay@db/shop --sink queue\n"
                "  tally relay run --source sqlite:shop.db --sink queue:orders --order strict\n"
                "  tally relay run --source queue:done --sink https://example.com/hook --secret-file hook.secret\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
