/* tally health: is the server ready? Asks GET /ready, which needs no signature, and waits for it if it is told to. */
#include "base/assert.h"
#include "client/client.h"
#include "platform/monotonic.h"
#include "tally/output.h"

#include <stdio.h>

#define PAUSE_MS 200u
#define TRY_MS 5000u

struct settings {
    struct option_number wait;
};

static const struct setting settings_table[] = {
    {"wait", offsetof(struct settings, wait)},
};

/* One answer of the server, or none. */
struct answer {
    enum tally_status status;
    int http_status;
    struct buffer text;
};

static void ask(struct tally_client *client, struct answer *answer)
{
    buffer_truncate(&answer->text, 0);
    answer->http_status = 0;
    answer->status = client_get(client, "/ready", &answer->http_status, &answer->text);
}

static bool is_ready(const struct answer *answer)
{
    return answer->status == TALLY_OK && answer->http_status == 200;
}

static void complain_reasons(yyjson_val *root, const struct answer *answer)
{
    size_t index, count;
    yyjson_val *reason, *reasons = yyjson_obj_get(root, "reasons");
    yyjson_arr_foreach(reasons, index, count, reason)
    {
        if (yyjson_is_str(reason))
            complain("not ready: %s", yyjson_get_str(reason));
    }
    if (yyjson_arr_size(reasons) == 0)
        complain("not ready: it answered HTTP %d", answer->http_status);
}

/* Shows what came, and returns the exit status for it. */
static int show(const struct invocation *invocation, const struct answer *answer)
{
    if (answer->status != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    yyjson_doc *doc = json_read(answer->text.data_owned, answer->text.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (invocation->is_json && yyjson_is_obj(root))
        output_value(root);
    else if (is_ready(answer))
        puts(output_text_of(root, "status"));
    if (!is_ready(answer))
        complain_reasons(root, answer);
    yyjson_doc_free(doc);
    return is_ready(answer) ? EXIT_DONE : EXIT_REFUSED;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const uint64_t end_ms = monotonic_ms() + settings->wait.value * 1000;
    struct answer answer;
    int status = invocation_connect_for(invocation, TRY_MS);
    if (status != EXIT_DONE)
        return status;
    buffer_init(&answer.text);
    for (ask(invocation->client, &answer); !is_ready(&answer) && monotonic_ms() < end_ms;
         ask(invocation->client, &answer))
        sleep_for(PAUSE_MS);
    status = show(invocation, &answer);
    buffer_deinit(&answer.text);
    return status;
}

const struct command command_health = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
