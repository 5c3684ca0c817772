/* Relays of the server: tally relay create, list, show, pause, resume, delete, doubts and resolve. */
#include "base/assert.h"
#include "base/bytes.h"
#include "platform/monotonic.h"
#include "tally/output.h"
#include "tally/relay_arguments.h"
#include <stdio.h>
#include <string.h>

#define PAUSE_PATIENCE_MS 10000u
#define PAUSE_LOOK_MS 50u

/* --- list and show ------------------------------------------------------------------------------------------------ */

/* Does its last error hold now? */
static bool is_in_trouble(const char *state)
{
    return state != NULL && (strcmp(state, "failed") == 0 || strcmp(state, "blocked") == 0);
}

static void print_line(yyjson_val *relay)
{
    const char *state = output_text_of(relay, "State"), *error = json_text(relay, "LastError");
    printf("%-10s %s %s to %s, %llu waiting", state, output_text_of(relay, "RelayName"),
           output_text_of(yyjson_obj_get(relay, "Source"), "Type"),
           output_text_of(yyjson_obj_get(relay, "Sink"), "Type"),
           (unsigned long long)json_number(yyjson_obj_get(relay, "Lag"), "Rows"));
    if (json_number(relay, "Parked") > 0)
        printf(", %llu parked", (unsigned long long)json_number(relay, "Parked"));
    if (is_in_trouble(state) && error != NULL)
        output_in_line(": ", error);
    puts("");
}

static void print_relay(yyjson_val *relay)
{
    static const char *const texts[][2] = {{"relay", "RelayName"}, {"state", "State"}, {"order", "Order"}};
    static const char *const source[][2] = {
        {"source", "Type"}, {"connection", "Connection"}, {"table", "Table"}, {"from", "QueueUrl"}};
    static const char *const sink[][2] = {
        {"sink", "Type"}, {"queue", "QueueUrl"}, {"region", "Region"}, {"url", "Url"}, {"mode", "Mode"}};
    static const char *const lag[][2] = {{"waiting", "Rows"}, {"lag s", "Seconds"}};
    static const char *const counts[][2] = {
        {"epoch", "Epoch"},     {"position", "Position"}, {"delivered", "Delivered"}, {"duplicates", "Duplicates"},
        {"retries", "Retries"}, {"parked", "Parked"},     {"in doubt", "InDoubt"},    {"takeovers", "Takeovers"}};
    static const char *const troubles[][2] = {{"error", "LastError"}, {"warning", "Warning"}};
    /* The newest error stays where it was seen when it is over. */
    static const char *const past_troubles[][2] = {{"last error", "LastError"}, {"warning", "Warning"}};
    const bool is_over = !is_in_trouble(json_text(relay, "State"));
    output_members(relay, texts, ARRAY_LENGTH(texts));
    output_time("since", json_real(relay, "Since"));
    output_members(yyjson_obj_get(relay, "Source"), source, ARRAY_LENGTH(source));
    output_members(yyjson_obj_get(relay, "Sink"), sink, ARRAY_LENGTH(sink));
    output_numbers(yyjson_obj_get(relay, "Lag"), lag, ARRAY_LENGTH(lag));
    output_numbers(relay, counts, ARRAY_LENGTH(counts));
    output_members(relay, is_over ? past_troubles : troubles, ARRAY_LENGTH(troubles));
    output_time(is_over ? "last error at" : "error at", json_real(relay, "LastErrorAt"));
}

/* --- doubts and resolve ------------------------------------------------------------------------------------------- */

static void print_doubt(yyjson_val *doubt)
{
    const char *queue = json_text(doubt, "QueueName");
    printf("%s %-8s ", json_text(doubt, "Uid"), json_is_true(doubt, "IsInDoubt") ? "doubted" : "refused");
    output_in_line("", queue == NULL ? "-" : queue); /* it need not be the name of a queue */
    output_in_line(": ", output_text_of(doubt, "Error"));
    puts("");
}

static int run_doubts(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *doubt;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (json_body_call(&body, invocation->client, "Tally.ListDoubts", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Doubts"), i, max, doubt)
    {
        if (invocation->is_json)
            output_value(doubt);
        else
            print_doubt(doubt);
    }
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run_resolve(struct invocation *invocation)
{
    struct json_body body;
    uint64_t id;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (bytes_to_u64(bytes_from_string(invocation->arguments[1]), &id))
        json_add_number(&body, body.root, "Id", id);
    else
        json_add_text(&body, body.root, "Uid", invocation->arguments[1]);
    json_add_text(&body, body.root, "Action", invocation->arguments[2]);
    return output_call(invocation, &body, "Tally.ResolveDoubt", NULL);
}

/* --- create ------------------------------------------------------------------------------------------------------- */

struct settings {
    struct relay_arguments words;
};

static const struct setting settings_table[] = {
    RELAY_WORDS_SETTINGS(struct settings, words),
};

static int run_create(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    int status;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (relay_arguments_write(invocation, &settings->words, &body, &status))
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        return output_call(invocation, &body, "Tally.CreateRelay", NULL);
    yyjson_mut_doc_free(body.doc_owned);
    return status;
}

/* --- pause -------------------------------------------------------------------------------------------------------- */

/* Has it stopped? True, too, of one that can't work, and of one that may not be asked about. */
static bool is_at_rest(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (json_body_call(&body, invocation->client, "Tally.DescribeRelay", &reply) != TALLY_OK)
        return true;
    const char *state = json_text(json_root(&reply), "State");
    const bool is_it = state == NULL || strcmp(state, "paused") == 0 || strcmp(state, "failed") == 0 ||
                       !json_is_true(json_root(&reply), "Paused");
    tally_reply_deinit(&reply);
    return is_it;
}

/* The server notes the pause and answers; the relay settles what is on its way, and stops then. */
static int run_pause(struct invocation *invocation)
{
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    status = output_call(invocation, &body, "Tally.PauseRelay", NULL);
    if (status != EXIT_DONE)
        return status;
    const uint64_t end_ms = monotonic_ms() + PAUSE_PATIENCE_MS;
    while (!is_at_rest(invocation)) {
        if (monotonic_ms() >= end_ms) {
            complain("%s will pause, and still settles what is on its way: `tally relay show %s` says paused when it "
                     "has stopped",
                     invocation->arguments[0], invocation->arguments[0]);
            break;
        }
        sleep_for(PAUSE_LOOK_MS);
    }
    return EXIT_DONE;
}

/* --- Commands ----------------------------------------------------------------------------------------------------- */

const struct command command_relay_create = {.settings = settings_table,
                                             .setting_count = ARRAY_LENGTH(settings_table),
                                             .settings_size = sizeof(struct settings),
                                             .run = run_create};
const struct command command_relay_list = {.action = "Tally.ListRelays", .list = "Relays", .print = print_line};
const struct command command_relay_show = {
    .action = "Tally.DescribeRelay", .members = {"RelayName"}, .print = print_relay};
const struct command command_relay_pause = {.run = run_pause};
const struct command command_relay_resume = {.action = "Tally.ResumeRelay", .members = {"RelayName"}};
const struct command command_relay_delete = {.action = "Tally.DeleteRelay", .members = {"RelayName"}};
const struct command command_relay_doubts = {.run = run_doubts};
const struct command command_relay_resolve = {.run = run_resolve};
