/* tally queue list: the queues, and how many messages they have. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct settings {
    const char *prefix;
    bool has_urls;
    bool is_long;
};

static const struct setting settings_table[] = {
    {"prefix", offsetof(struct settings, prefix)},
    {"long", offsetof(struct settings, is_long)},
    {"urls", offsetof(struct settings, has_urls)},
};

/* The requests, and room for their answers. */
struct listing {
    struct invocation *invocation;
    const struct settings *settings;
    bool is_long;
    struct json_body answer; /* with --json, and not --long */
    yyjson_mut_val *urls;    /* in the answer */
};

static const char *name_of(const char *url)
{
    const char *slash = strrchr(url, '/');
    return slash == NULL ? url : slash + 1;
}

/* ---- A queue's line ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *member; /* of the answer */
    const char *shown;  /* with --json */
} counts[] = {{"Visible", "Ready"}, {"InFlight", "InFlight"}, {"Delayed", "Delayed"}};

static void print_header(void)
{
    printf("%12s %12s %12s %8s  %s\n", "READY", "IN FLIGHT", "DELAYED", "OLDEST", "QUEUE");
}

static bool has_messages(yyjson_val *queue)
{
    return yyjson_obj_get(queue, "OldestMessageAge") != NULL;
}

static void print_line(yyjson_val *queue)
{
    char age[OUTPUT_AGE_SIZE] = "-";
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        printf("%12llu ", (unsigned long long)json_number(queue, counts[i].member));
    if (has_messages(queue))
        output_age(json_number(queue, "OldestMessageAge"), age);
    printf("%8s  %s%s\n", age, output_text_of(queue, "QueueName"), json_is_true(queue, "Paused") ? " (paused)" : "");
}

static void print_json(yyjson_val *queue)
{
    struct json_body line;
    json_body_init(&line);
    json_add_text(&line, line.root, "Queue", output_text_of(queue, "QueueName"));
    json_add_text(&line, line.root, "QueueUrl", output_text_of(queue, "QueueUrl"));
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        json_add_number(&line, line.root, counts[i].shown, json_number(queue, counts[i].member));
    if (has_messages(queue))
        json_add_number(&line, line.root, "OldestSeconds", json_number(queue, "OldestMessageAge"));
    yyjson_mut_obj_add_bool(line.doc_owned, line.root, "Paused", json_is_true(queue, "Paused"));
    output_document(line.doc_owned);
    yyjson_mut_doc_free(line.doc_owned);
}

/* ---- Pages ------------------------------------------------------------------------------------------------------- */

/* A URL, or with is_long what ListQueueStats says of a queue. */
static void take_queue(void *context, yyjson_val *queue)
{
    struct listing *listing = context;
    const bool is_json = listing->invocation->is_json;
    const char *url = yyjson_get_str(queue);
    if (listing->is_long && is_json)
        print_json(queue);
    else if (listing->is_long)
        print_line(queue);
    else if (is_json && url != NULL)
        yyjson_mut_arr_add_strcpy(listing->answer.doc_owned, listing->urls, url);
    else if (url != NULL)
        puts(listing->settings->has_urls ? url : name_of(url));
}

static void ask(void *context, struct json_body *body)
{
    const struct listing *listing = context;
    json_add_text(body, body->root, "QueueNamePrefix", listing->settings->prefix);
}

static int list(struct listing *listing)
{
    return pages_run(&(struct pages){.invocation = listing->invocation,
                                     .action = listing->is_long ? "Tally.ListQueueStats" : "AmazonSQS.ListQueues",
                                     .list = listing->is_long ? "Queues" : "QueueUrls",
                                     .ask = ask,
                                     .take = take_queue,
                                     .context = listing});
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    bool is_for_people = isatty(STDOUT_FILENO) == 1 && !invocation->is_json && !settings->has_urls;
    struct listing listing = {
        .invocation = invocation, .settings = settings, .is_long = settings->is_long || is_for_people};
    int status;

    if (settings->is_long && settings->has_urls)
        return complain_usage(invocation, "--long and --urls do not go together");
    status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&listing.answer);
    listing.urls = json_add_array(&listing.answer, listing.answer.root, "QueueUrls");
    if (listing.is_long && !invocation->is_json)
        print_header();
    status = list(&listing);
    if (status == EXIT_DONE && invocation->is_json && !listing.is_long)
        output_document(listing.answer.doc_owned);
    yyjson_mut_doc_free(listing.answer.doc_owned);
    return status;
}

const struct command command_queue_list = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
