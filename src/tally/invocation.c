/* What all commands do with their invocation: connect, and tell the user what went wrong. */
#include "tally/suggestion.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

void complain(const char *format, ...)
{
    va_list arguments;
    flockfile(stderr); /* one line, also among threads */
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* a progress bar may stand there */
    fputs("tally: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    funlockfile(stderr);
}

int complain_usage(const struct invocation *invocation, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain("%s (tally %s --help)", text, invocation->row->name);
    return EXIT_USAGE;
}

static struct tally_client *create_client(const struct tally_options *options)
{
    struct tally_client *client;
    struct tally_error error;
    if (tally_client_create(options, &client, &error) == TALLY_OK)
        return client;
    complain("%s", error.message);
    return NULL;
}

struct tally_client *invocation_client_create(const struct invocation *invocation)
{
    return create_client(&(struct tally_options){
        .endpoint = invocation->endpoint,
        .ca_file = invocation->ca_file,
        .timeout_ms = 40000, /* the longest long poll, and as much again */
        .attempts_max = 2,
        .repeats_sends = true,
    });
}

int invocation_connect(struct invocation *invocation)
{
    invocation->client =
        create_client(&(struct tally_options){.endpoint = invocation->endpoint, .ca_file = invocation->ca_file});
    return invocation->client == NULL ? EXIT_USAGE : EXIT_DONE;
}

static void print_json_error(const struct tally_error *error, const char *suggestion)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    char *text;
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "error", error->code);
    yyjson_mut_obj_add_str(doc, root, "message", error->message);
    yyjson_mut_obj_add_int(doc, root, "httpStatus", error->http_status);
    yyjson_mut_obj_add_bool(doc, root, "outcomeUnknown", error->is_outcome_unknown);
    if (suggestion[0] != '\0')
        yyjson_mut_obj_add_str(doc, root, "didYouMean", suggestion);
    text = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    fprintf(stderr, "%s\n", text == NULL ? "{}" : text);
    free(text);
    yyjson_mut_doc_free(doc);
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
