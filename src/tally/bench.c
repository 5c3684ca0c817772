/* tally bench: how fast is the server. */
#include "base/assert.h"
#include "tally/load.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct option_number connections;
    struct option_number seconds;
    struct option_number size;
    const char *mode;
    const char *queue;
};

static const struct option_row options[] = {
    {"connections", "N", "open so many connections", OPTION_NUMBER, offsetof(struct settings, connections), 1, 10000,
     "64"},
    {"seconds", "N", "measure so long", OPTION_NUMBER, offsetof(struct settings, seconds), 1, 3600, "5"},
    {"size", "BYTES", "body of each message", OPTION_NUMBER, offsetof(struct settings, size), 1, 100000, "200"},
    {"mode", "send|batch|life", "what a connection does; see above", OPTION_TEXT, offsetof(struct settings, mode), 0, 0,
     "send"},
    {"queue", "NAME", "use this queue and leave it there; else one is made and deleted", OPTION_TEXT,
     offsetof(struct settings, queue), 0, 0, NULL},
};

static const char *const mode_names[] = {[LOAD_SEND] = "send", [LOAD_BATCH] = "batch", [LOAD_LIFE] = "life"};

static const struct quantile {
    const char *name;
    const char *json_name;
    double part;
} quantiles[] = {{"p50", "p50Ms", 0.5}, {"p99", "p99Ms", 0.99}, {"p99.9", "p999Ms", 0.999}};

static void print_json(const struct load_options *load, const struct load_result *result)
{
    struct json_body answer;
    json_body_init(&answer);
    json_add_text(&answer, answer.root, "mode", mode_names[load->mode]);
    json_add_number(&answer, answer.root, "connections", load->connections);
    json_add_number(&answer, answer.root, "bodySize", load->body_size);
    yyjson_mut_obj_add_real(answer.doc_owned, answer.root, "seconds", result->seconds);
    json_add_number(&answer, answer.root, "requests", result->requests);
    json_add_number(&answer, answer.root, "messages", result->messages);
    yyjson_mut_obj_add_real(answer.doc_owned, answer.root, "requestsPerSecond",
                            (double)result->requests / result->seconds);
    yyjson_mut_obj_add_real(answer.doc_owned, answer.root, "messagesPerSecond",
                            (double)result->messages / result->seconds);
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles); i++)
        yyjson_mut_obj_add_real(answer.doc_owned, answer.root, quantiles[i].json_name,
                                (double)histogram_quantile(&result->latency, quantiles[i].part) / 1000);
    yyjson_mut_obj_add_real(answer.doc_owned, answer.root, "maxMs", (double)result->latency.max_us / 1000);
    json_add_number(&answer, answer.root, "errors", result->errors);
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

static void print_text(const struct load_options *load, const struct load_result *result)
{
    printf("%s: %u connections, %.1f s, bodies of %u bytes\n", mode_names[load->mode], load->connections,
           result->seconds, load->body_size);
    printf("requests  %12.0f/s\n", (double)result->requests / result->seconds);
    printf("messages  %12.0f/s%s\n", (double)result->messages / result->seconds,
           load->mode == LOAD_LIFE ? " sent, received and deleted" : " sent");
    printf("latency of a request ");
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles); i++)
        printf("  %s %.2f ms", quantiles[i].name,
               (double)histogram_quantile(&result->latency, quantiles[i].part) / 1000);
    printf("  max %.2f ms\n", (double)result->latency.max_us / 1000);
}

static bool find_mode(const char *name, enum load_mode *mode)
{
    for (size_t i = 0; i < ARRAY_LENGTH(mode_names); i++) {
        if (strcmp(mode_names[i], name) == 0) {
            *mode = (enum load_mode)i;
            return true;
        }
    }
    return false;
}

static int measure(const struct invocation *invocation, const struct load_options *load)
{
    struct load_result result;
    if (!load_run(load, &result)) {
        complain("%s: %s", load->endpoint, result.first_error);
        return EXIT_UNREACHABLE;
    }
    if (invocation->is_json)
        print_json(load, &result);
    else
        print_text(load, &result);
    if (result.errors == 0)
        return EXIT_DONE;
    complain("%llu requests failed; the first: %s", (unsigned long long)result.errors, result.first_error);
    return EXIT_REFUSED;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    char own_queue[40];
    struct load_options load = {
        .queue = settings->queue == NULL ? own_queue : settings->queue,
        .connections = (unsigned)settings->connections.value,
        .seconds = (unsigned)settings->seconds.value,
        .body_size = (unsigned)settings->size.value,
    };
    int status;

    if (!find_mode(settings->mode, &load.mode))
        return complain_usage(invocation, "--mode is send, batch or life, not \"%s\"", settings->mode);
    status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    load.endpoint = tally_client_endpoint(invocation->client);
    if (strncmp(load.endpoint, "http://", 7) != 0)
        return complain_usage(invocation, "this works over http:// only, not with %s", load.endpoint);
    snprintf(own_queue, sizeof own_queue, "tally-bench-%ld", (long)getpid());
    if (tally_queue_create(invocation->client, load.queue, NULL, 0, NULL) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    struct signature signature;
    if (signature_init(&signature)) /* libtally has seen that there is not only one of both keys */
        load.signature = &signature;
    status = measure(invocation, &load);
    if (load.signature != NULL)
        signature_deinit(&signature);
    if (settings->queue == NULL && tally_queue_delete(invocation->client, own_queue) != TALLY_OK && status == EXIT_DONE)
        status = invocation_failed(invocation, invocation->client);
    return status;
}

const struct command command_bench = {
    .arguments = "",
    .text =
        "Measures the server with many connections from one thread, each with one request on the way at a time, and "
        "prints\n"
        "rates and the latency of requests. Modes:\n"
        "  send   SendMessage\n"
        "  batch  SendMessageBatch with ten messages\n"
        "  life   ten messages sent, received and deleted, a request each\n"
        "Requests are signed when AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set; what is repeated is signed once "
        "for\n"
        "all. Run it on another processor or machine than the server's, or they measure each other; `make bench` in "
        "Tally's\n"
        "source does it with references beside it.\n",
    .examples = "  tally bench\n"
                "  tally bench --mode life --connections 16 --seconds 10 --json\n"
                "  taskset -c 1 tally bench --mode batch --size 1000\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
