/* tally health: is the server ready? Asks GET /ready, which needs no signature, and waits for it if it is told to. */
#include "base/assert.h"
#include "client/client.h"
#include "platform/monotonic.h"
#include "tally/output.h"

#include <stdio.h>

#define PAUSE_MS 200u
#define TRY_MS 5000u
#define LAST_TRY_MS 100u /* so long the last answer may take, when the time is over */

struct settings {
    struct option_number wait;
};

static const struct setting settings_table[] = {
    {"wait", offsetof(struct settings, wait)},
};

/* One answer, or none. */
struct answer {
    enum tally_status status;
    int http_status;
    struct buffer text;
    yyjson_doc *doc_owned; /* what the text says */
};

static yyjson_val *root_of(const struct answer *answer)
{
    return yyjson_doc_get_root(answer->doc_owned);
}

/* Something else that listens there may answer 200 to whatever it is asked. */
static bool is_of_tally(const struct answer *answer)
{
    return answer->status == TALLY_OK && json_text(root_of(answer), "status") != NULL;
}

/* Waits for the answer for `patience_ms` at most. */
static void ask(struct tally_client *client, uint64_t patience_ms, struct answer *answer)
{
    transport_set_timeout(client->transport_owned, (unsigned)(patience_ms < TRY_MS ? patience_ms : TRY_MS));
    buffer_truncate(&answer->text, 0);
    yyjson_doc_free(answer->doc_owned);
    answer->http_status = 0;
    answer->status = client_get(client, "/ready", &answer->http_status, &answer->text);
    answer->doc_owned = json_read(answer->text.data_owned, answer->text.size);
}

static bool is_ready(const struct answer *answer)
{
    return is_of_tally(answer) && answer->http_status == 200;
}

static void complain_reasons(const struct answer *answer)
{
    size_t index, count, said = 0;
    yyjson_val *reason;
    yyjson_arr_foreach(yyjson_obj_get(root_of(answer), "reasons"), index, count, reason)
    {
        if (!yyjson_is_str(reason))
            continue;
        complain("not ready: %s", yyjson_get_str(reason));
        said++;
    }
    if (said == 0)
        complain("not ready: it answered HTTP %d%s", answer->http_status,
                 is_of_tally(answer) ? "" : ", and not as a Tally does");
}

/* Shows what came, and returns the exit status for it. */
static int show(const struct invocation *invocation, const struct answer *answer)
{
    if (answer->status != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json && is_of_tally(answer)) {
        output_value(root_of(answer));
    } else if (is_ready(answer)) {
        output_in_line("", json_text(root_of(answer), "status"));
        puts("");
    }
    if (!is_ready(answer))
        complain_reasons(answer);
    return is_ready(answer) ? EXIT_DONE : EXIT_REFUSED;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const uint64_t end_ms = monotonic_ms() + settings->wait.value * 1000;
    struct answer answer = {.doc_owned = NULL};
    int status = invocation_connect_for(invocation, TRY_MS);
    if (status != EXIT_DONE)
        return status;
    buffer_init(&answer.text);
    ask(invocation->client, settings->wait.value == 0 ? TRY_MS : settings->wait.value * 1000, &answer);
    for (uint64_t now_ms; !is_ready(&answer) && (now_ms = monotonic_ms()) < end_ms;) {
        sleep_for(end_ms - now_ms < PAUSE_MS ? end_ms - now_ms : PAUSE_MS);
        now_ms = monotonic_ms();
        ask(invocation->client, now_ms + LAST_TRY_MS < end_ms ? end_ms - now_ms : LAST_TRY_MS, &answer);
    }
    status = show(invocation, &answer);
    yyjson_doc_free(answer.doc_owned);
    buffer_deinit(&answer.text);
    return status;
}

const struct command command_health = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
