/* What all commands do with their invocation: connect, and report errors to the user. */
#include "base/memory.h"
#include "base/shown.h"
#include "client/json.h"
#include "tally/command.h"
#include "tally/suggestion.h"
#include "worker/standard_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMPLAINT_SIZE 4096
#define BRIEF_WAIT_MS 1000

/* How the user is told. Set once, before there are threads. */
static bool is_json;
static bool is_brief;

void complain_in_json(void)
{
    is_json = true;
}

void complain_briefly(void)
{
    is_brief = true;
}

/* Writes a whole line with its end in one piece, so that lines of threads do not mix. */
static void print_line(const char *line)
{
    size_t size = strlen(line);
    if (!is_brief) {
        fputs(line, stderr);
        return;
    }
    size_t done = standard_error_write(line, size, BRIEF_WAIT_MS);
    standard_error_lose(line + done, size - done);
}

/* Writes a line of JSON to standard error and frees the document. */
static void print_json(yyjson_mut_doc *doc)
{
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    size_t size = text == NULL ? 0 : strlen(text);
    char *line = memory_allocate(size + sizeof "{}\n");
    snprintf(line, size + sizeof "{}\n", "%s\n", text == NULL ? "{}" : text);
    print_line(line);
    free(line);
    free(text);
    yyjson_mut_doc_free(doc);
}

static void print_json_remark(const char *text)
{
    struct json_body remark;
    json_body_init(&remark);
    json_add_text(&remark, remark.root, "message", text);
    print_json(remark.doc_owned);
}

static void print_json_error(const struct tally_error *error, const char *suggestion)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "error", error->code);
    json_add_text(&body, body.root, "message", error->message);
    yyjson_mut_obj_add_int(body.doc_owned, body.root, "httpStatus", error->http_status);
    yyjson_mut_obj_add_bool(body.doc_owned, body.root, "outcomeUnknown", error->is_outcome_unknown);
    if (suggestion[0] != '\0')
        json_add_text(&body, body.root, "didYouMean", suggestion);
    print_json(body.doc_owned);
}

static void complain_plainly(const char *text)
{
    char line[COMPLAINT_SIZE + sizeof "\r\033[Ktally: \n"], clean[COMPLAINT_SIZE];
    snprintf(clean, sizeof clean, "%s", text); /* it may say what others wrote */
    shown_clean_lines(clean);
    /* A progress bar may be on the terminal's line. */
    snprintf(line, sizeof line, "%stally: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", clean);
    print_line(line);
}

static void remark(const char *text)
{
    if (is_json)
        print_json_remark(text);
    else
        complain_plainly(text);
}

static void report_lost(void)
{
    char text[128];
    uint64_t lost = standard_error_await(0) ? standard_error_take_lost() : 0;
    if (lost == 0)
        return;
    snprintf(text, sizeof text, "%llu %s missing here, because standard error was not read", (unsigned long long)lost,
             lost == 1 ? "line is" : "lines are");
    remark(text);
}

void complain(const char *format, ...)
{
    va_list arguments;
    char text[COMPLAINT_SIZE];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (is_brief)
        report_lost();
    remark(text);
}

int complain_usage(const struct invocation *invocation, const char *format, ...)
{
    struct tally_error error = {.status = TALLY_INVALID, .code = "Invalid"};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    if (is_json)
        print_json_error(&error, "");
    else if (invocation == NULL)
        complain_plainly(error.message);
    else
        complain("%s (tally %s --help)", error.message, invocation->row->name);
    return EXIT_USAGE;
}

static struct tally_client *create_client(const struct tally_options *options)
{
    struct tally_client *client;
    struct tally_error error;
    if (tally_client_create(options, &client, &error) == TALLY_OK)
        return client;
    if (is_json)
        print_json_error(&error, "");
    else
        complain_plainly(error.message);
    return NULL;
}

struct tally_client *invocation_client_create(const struct invocation *invocation)
{
    return create_client(&(struct tally_options){
        .endpoint = invocation->endpoint,
        .ca_file = invocation->ca_file,
        .timeout_ms = 40000, /* the longest long poll, doubled */
        .attempts_max = 2,
        .repeats_sends = true,
        .worker = invocation->worker[0] == '\0' ? NULL : invocation->worker,
    });
}

struct tally_client *invocation_connect_thread(void *invocation)
{
    return invocation_client_create(invocation);
}

void invocation_note(void *invocation, const char *text)
{
    (void)invocation;
    complain("%s", text);
}

int invocation_connect(struct invocation *invocation)
{
    return invocation_connect_for(invocation, 0);
}

int invocation_connect_for(struct invocation *invocation, unsigned timeout_ms)
{
    invocation->client = create_client(&(struct tally_options){
        .endpoint = invocation->endpoint, .ca_file = invocation->ca_file, .timeout_ms = timeout_ms});
    return invocation->client == NULL ? EXIT_USAGE : EXIT_DONE;
}

int invocation_name_worker(struct invocation *invocation, const char *name)
{
    char host[65] = "";
    const size_t size = name == NULL ? 1 : strlen(name);
    if (size < 1 || size >= sizeof invocation->worker)
        return complain_usage(invocation, "--name has %zu characters; it must have 1 to %d", size,
                              TALLY_WORKER_SIZE_MAX);
    for (size_t i = 0; name != NULL && i < size; i++)
        if (name[i] < ' ' || name[i] > '~')
            return complain_usage(invocation, "--name '%s' is not of printable ASCII", name);
    if (name == NULL && (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0'))
        snprintf(host, sizeof host, "localhost");
    if (name == NULL)
        snprintf(invocation->worker, sizeof invocation->worker, "%s/%ld", host, (long)getpid());
    else
        memcpy(invocation->worker, name, size + 1);
    return EXIT_DONE;
}

int invocation_failed(const struct invocation *invocation, const struct tally_client *client)
{
    return invocation_failed_with(invocation, tally_client_error(client));
}

int invocation_failed_with(const struct invocation *invocation, const struct tally_error *error)
{
    char suggestion[SUGGESTION_SIZE];
    if (!suggestion_find(invocation, error, suggestion))
        suggestion[0] = '\0';
    if (invocation->is_json)
        print_json_error(error, suggestion);
    else if (suggestion[0] != '\0')
        complain("%s: %s Did you mean '%s'?", error->code, error->message, suggestion);
    else if (error->status == TALLY_REFUSED)
        complain("%s: %s", error->code, error->message);
    else
        complain("%s", error->message);
    switch (error->status) {
    case TALLY_REFUSED:
        return EXIT_REFUSED;
    case TALLY_INVALID:
        return EXIT_USAGE;
    default:
        return EXIT_UNREACHABLE;
    }
}
