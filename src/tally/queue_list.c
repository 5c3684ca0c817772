/* tally queue list: the queues, and how many messages they have. */
#include "base/assert.h"
#include "tally/output.h"
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
    const char *attribute;
    const char *member; /* with --json */
} counts[] = {
    {"ApproximateNumberOfMessages", "Ready"},
    {"ApproximateNumberOfMessagesNotVisible", "InFlight"},
    {"ApproximateNumberOfMessagesDelayed", "Delayed"},
};

static void print_header(void)
{
    printf("%12s %12s %12s %8s  %s\n", "READY", "IN FLIGHT", "DELAYED", "OLDEST", "QUEUE");
}

static void print_line(const char *url, yyjson_val *attributes)
{
    char age[OUTPUT_AGE_SIZE] = "-"; /* there is no message, or the server does not say */
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        printf("%12llu ", (unsigned long long)json_number(attributes, counts[i].attribute));
    if (json_text(attributes, "Tally.OldestMessageAge") != NULL)
        output_age(json_number(attributes, "Tally.OldestMessageAge"), age);
    printf("%8s  %s%s\n", age, name_of(url), json_text(attributes, "Tally.Paused") == NULL ? "" : " (paused)");
}

static void print_json(const char *url, yyjson_val *attributes)
{
    struct json_body line;
    json_body_init(&line);
    json_add_text(&line, line.root, "Queue", name_of(url));
    json_add_text(&line, line.root, "QueueUrl", url);
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        json_add_number(&line, line.root, counts[i].member, json_number(attributes, counts[i].attribute));
    if (json_text(attributes, "Tally.OldestMessageAge") != NULL)
        json_add_number(&line, line.root, "OldestSeconds", json_number(attributes, "Tally.OldestMessageAge"));
    yyjson_mut_obj_add_bool(line.doc_owned, line.root, "Paused", json_text(attributes, "Tally.Paused") != NULL);
    output_document(line.doc_owned);
    yyjson_mut_doc_free(line.doc_owned);
}

/* A queue that was deleted a moment ago has no line. */
static int show_queue(const struct listing *listing, const char *url)
{
    struct tally_client *client = listing->invocation->client;
    struct json_body body;
    struct tally_reply reply;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", url);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), "All");
    if (json_body_call(&body, client, "AmazonSQS.GetQueueAttributes", &reply) != TALLY_OK)
        return strcmp(tally_client_error(client)->code, "QueueDoesNotExist") == 0
                   ? EXIT_DONE
                   : invocation_failed(listing->invocation, client);
    yyjson_val *attributes = yyjson_obj_get(json_root(&reply), "Attributes");
    if (listing->invocation->is_json)
        print_json(url, attributes);
    else
        print_line(url, attributes);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

/* ---- Pages ------------------------------------------------------------------------------------------------------- */

static int take_url(struct listing *listing, const char *url)
{
    if (listing->is_long)
        return show_queue(listing, url);
    if (listing->invocation->is_json)
        yyjson_mut_arr_add_strcpy(listing->answer.doc_owned, listing->urls, url);
    else
        puts(listing->settings->has_urls ? url : name_of(url));
    return EXIT_DONE;
}

/* Copies the token of the next page, "" if there is none. */
static int take_page(struct listing *listing, const struct tally_reply *reply, char *token, size_t token_size)
{
    yyjson_val *root = json_root(reply);
    int status = EXIT_DONE;
    size_t i, max;
    yyjson_val *value;

    yyjson_arr_foreach(yyjson_obj_get(root, "QueueUrls"), i, max, value)
    {
        if (status == EXIT_DONE && yyjson_is_str(value))
            status = take_url(listing, yyjson_get_str(value));
    }
    json_copy(root, "NextToken", token, token_size);
    return status;
}

static int list(struct listing *listing)
{
    struct tally_client *client = listing->invocation->client;
    char token[4096] = "";
    int status = EXIT_DONE;

    do {
        struct json_body body;
        struct tally_reply reply;
        json_body_init(&body);
        json_add_text(&body, body.root, "QueueNamePrefix", listing->settings->prefix);
        json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
        json_add_number(&body, body.root, "MaxResults", 1000);
        if (json_body_call(&body, client, "AmazonSQS.ListQueues", &reply) != TALLY_OK)
            return invocation_failed(listing->invocation, client);
        status = take_page(listing, &reply, token, sizeof token);
        tally_reply_deinit(&reply);
    } while (status == EXIT_DONE && *token != '\0');
    return status;
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
