/* tally queue list: the queues, and how many messages they have. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/pages.h"
#include "tally/queue_arn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    const char *prefix;
    const char *sort;
    bool has_urls;
    bool is_long;
};

static const struct setting settings_table[] = {
    {"prefix", offsetof(struct settings, prefix)},
    {"sort", offsetof(struct settings, sort)},
    {"long", offsetof(struct settings, is_long)},
    {"urls", offsetof(struct settings, has_urls)},
};

/* Queues that are to be printed in another order than they come in. */
struct ranking {
    struct ranked_queue {
        uint64_t rank; /* the highest comes first */
        size_t place;  /* of equal ones that which came first */
        yyjson_doc *queue_owned;
    } * queues_owned;
    size_t count;
    size_t capacity;
};

/* The requests, and room for their answers. */
struct listing {
    struct invocation *invocation;
    const struct settings *settings;
    bool is_long;
    struct ranking ranking;
    struct json_body answer; /* with --json, and not --long */
    yyjson_mut_val *urls;    /* in the answer */
};

/* ---- A queue's line ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *member; /* of the answer */
    const char *shown;  /* with --json */
} counts[] = {{"Visible", "Ready"}, {"InFlight", "InFlight"}, {"Delayed", "Delayed"}, {"Blocked", "Blocked"}},
  ages[] = {{"OldestMessageAge", "OldestSeconds"}, {"OldestDeliverableAge", "ReadySeconds"}};

#define COLUMNS 3u /* of the counts, those that a line for people has */

static void print_header(void)
{
    printf("%12s %12s %12s %8s %9s  %s\n", "READY", "IN FLIGHT", "DELAYED", "OLDEST", "READY FOR", "QUEUE");
}

/* An age of the queue, or "-". */
static void age_of(yyjson_val *queue, const char *member, char text[OUTPUT_AGE_SIZE])
{
    snprintf(text, OUTPUT_AGE_SIZE, "-");
    if (yyjson_obj_get(queue, member) != NULL)
        output_age(json_number(queue, member), text);
}

static void print_line(yyjson_val *queue)
{
    char oldest[OUTPUT_AGE_SIZE], ready[OUTPUT_AGE_SIZE];
    const unsigned long long held = json_number(queue, "HeldGroups");
    for (size_t i = 0; i < COLUMNS; i++)
        printf("%12llu ", (unsigned long long)json_number(queue, counts[i].member));
    age_of(queue, "OldestMessageAge", oldest);
    age_of(queue, "OldestDeliverableAge", ready);
    printf("%8s %9s  %s%s", oldest, ready, output_text_of(queue, "QueueName"),
           json_is_true(queue, "Paused") ? " (paused)" : "");
    if (held > 0)
        printf(held == 1 ? " (%llu group is held)" : " (%llu groups are held)", held);
    puts("");
}

static void print_json(yyjson_val *queue)
{
    struct json_body line;
    json_body_init(&line);
    json_add_text(&line, line.root, "Queue", output_text_of(queue, "QueueName"));
    json_add_text(&line, line.root, "QueueUrl", output_text_of(queue, "QueueUrl"));
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        json_add_number(&line, line.root, counts[i].shown, json_number(queue, counts[i].member));
    for (size_t i = 0; i < ARRAY_LENGTH(ages); i++)
        if (yyjson_obj_get(queue, ages[i].member) != NULL)
            json_add_number(&line, line.root, ages[i].shown, json_number(queue, ages[i].member));
    json_add_number(&line, line.root, "HeldGroups", json_number(queue, "HeldGroups"));
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
        puts(listing->settings->has_urls ? url : queue_name_in(url));
}

/* The order of names is the server's. */
static bool is_ranked(const struct settings *settings)
{
    return settings->sort != NULL && strcmp(settings->sort, "name") != 0;
}

static uint64_t rank_of(const struct settings *settings, yyjson_val *queue)
{
    if (strcmp(settings->sort, "visible") == 0)
        return json_number(queue, "Visible");
    const char *age = strcmp(settings->sort, "oldest") == 0 ? "OldestMessageAge" : "OldestDeliverableAge";
    return yyjson_obj_get(queue, age) == NULL ? 0 : json_number(queue, age) + 1;
}

static int compare_ranks(const void *left, const void *right)
{
    const struct ranked_queue *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static yyjson_doc *copy_of(yyjson_val *value)
{
    size_t size;
    char *text = json_write_value(value, &size);
    yyjson_doc *copy = json_read(text, size);
    free(text);
    return copy;
}

static void rank_queue(void *context, yyjson_val *queue)
{
    struct listing *listing = context;
    struct ranking *ranking = &listing->ranking;
    ARRAY_GROW(ranking->queues_owned, ranking->count, ranking->capacity);
    ranking->queues_owned[ranking->count] = (struct ranked_queue){
        .rank = rank_of(listing->settings, queue), .place = ranking->count, .queue_owned = copy_of(queue)};
    ranking->count++;
}

static void print_ranking(struct listing *listing)
{
    struct ranking *ranking = &listing->ranking;
    if (ranking->count > 0)
        qsort(ranking->queues_owned, ranking->count, sizeof(*ranking->queues_owned), compare_ranks);
    for (size_t i = 0; i < ranking->count; i++) {
        take_queue(listing, yyjson_doc_get_root(ranking->queues_owned[i].queue_owned));
        yyjson_doc_free(ranking->queues_owned[i].queue_owned);
    }
    free(ranking->queues_owned);
}

static void ask(void *context, struct json_body *body)
{
    const struct listing *listing = context;
    json_add_text(body, body->root, "QueueNamePrefix", listing->settings->prefix);
    json_add_text(body, body->root, "SortBy", listing->settings->sort);
}

static int list(struct listing *listing)
{
    const int status =
        pages_run(&(struct pages){.invocation = listing->invocation,
                                  .action = listing->is_long ? "Tally.ListQueueStats" : "AmazonSQS.ListQueues",
                                  .list = listing->is_long ? "Queues" : "QueueUrls",
                                  .ask = ask,
                                  .take = is_ranked(listing->settings) ? rank_queue : take_queue,
                                  .context = listing});
    print_ranking(listing);
    return status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    bool is_for_people = isatty(STDOUT_FILENO) == 1 && !invocation->is_json && !settings->has_urls;
    struct listing listing = {
        .invocation = invocation,
        .settings = settings,
        .is_long = settings->is_long || settings->sort != NULL || is_for_people,
    };
    int status;

    if (settings->is_long && settings->has_urls)
        return complain_usage(invocation, "--long and --urls do not go together");
    if (settings->sort != NULL && settings->has_urls)
        return complain_usage(invocation, "--sort and --urls do not go together");
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
