/* tally relay run: a relay in the foreground. */
#include "base/assert.h"
#include "base/memory.h"
#include "relay/relay.h"
#include "tally/relay_arguments.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

struct settings {
    const char *name;
    struct relay_arguments words;
};

static const struct setting settings_table[] = {
    {"name", offsetof(struct settings, name)},
    RELAY_WORDS_SETTINGS(struct settings, words),
};

/* EXIT_DONE, or the exit status after telling the user. */
static int make_spec(const struct invocation *invocation, struct relay_spec *spec)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    struct fault fault;
    int status;
    json_body_init(&body);
    if (relay_arguments_write(invocation, &settings->words, &body, &status)) {
        yyjson_doc *doc = yyjson_mut_doc_imut_copy(body.doc_owned, NULL);
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (!relay_spec_read(spec, yyjson_obj_get(root, "Source"), yyjson_obj_get(root, "Sink"), settings->words.order,
                             &fault))
            status = complain_usage(invocation, "%s", fault.text);
        yyjson_doc_free(doc);
    }
    yyjson_mut_doc_free(body.doc_owned);
    return status;
}

static char *duplicate(const char *text)
{
    return text == NULL ? NULL : memory_duplicate_string(text);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Makes it one line, whatever a database put into its error. */
static void print_status(const char *name, const struct relay_status *status)
{
    char text[FAULT_TEXT_SIZE];
    snprintf(text, sizeof text, "%s", status->last_error);
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    printf("relay %s: %s", name, relay_state_name(status->state));
    if (status->state == RELAY_ACTIVE && status->epoch > 0) /* a queue as the source has no lease, so no epochs */
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

/* Runs in a thread of the relay. The main thread sleeps until a signal, so a signal wakes it. */
static void wake(void *context)
{
    (void)context;
    kill(getpid(), SIGUSR1);
}

/* Prints each change of state until a signal stops it. */
static void watch(struct relay *relay, const char *name, const sigset_t *signals)
{
    struct relay_status printed = {.state = RELAY_STARTING}, now;
    for (;;) {
        relay_get_status(relay, &now);
        if (is_news(&printed, &now))
            print_status(name, &now);
        if (now.alarms != printed.alarms)
            fprintf(stderr, "relay %s, %s: %s\n", name, relay_state_name(now.state), now.health.warning);
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
            setenv("TALLY_CA_FILE", invocation->ca_file, 1); /* libtally reads it from there; there is no other thread
                                                              * yet */
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
        signal(SIGUSR1, SIG_IGN); /* the last ones may still be pending */
        pthread_sigmask(SIG_SETMASK, &original, NULL);
    }
    relay_spec_deinit(&spec);
    return status;
}

const struct command command_relay_run = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
