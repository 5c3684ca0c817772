/* tally pool create and update: a pool and what it says about which tickets fit. */
#include "base/assert.h"
#include "tally/pool_words.h"
#include <stdio.h>

struct settings {
    struct pool_words words;
};

static const struct option_row options[] = {POOL_WORDS_OPTIONS(struct settings, words)};

/* What the server has to say about the rules goes to people; it is no error. */
static void print_warnings(yyjson_val *pool)
{
    size_t i, max;
    yyjson_val *warning;
    yyjson_arr_foreach(yyjson_obj_get(pool, "Warnings"), i, max, warning)
    {
        if (yyjson_is_str(warning))
            complain("note: %s", yyjson_get_str(warning));
    }
}

static int call(struct invocation *invocation, const char *action)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    int status = pool_words_write(invocation, &settings->words, &body);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE) {
        yyjson_mut_doc_free(body.doc_owned);
        return status;
    }
    return output_call(invocation, &body, action, print_warnings);
}

static int run_create(struct invocation *invocation)
{
    return call(invocation, "Tally.CreatePool");
}

static int run_update(struct invocation *invocation)
{
    return call(invocation, "Tally.UpdatePool");
}

const struct command command_pool_create = {
    .arguments = "NAME",
    .text =
        "Makes a pool: tickets that wait until some of them fit together. FILE says which do, as one JSON object:\n"
        "  {\"attrs\": {\"mode\": \"str\", \"mmr\": \"num\", \"maps\": \"set\"}, \"size\": 2, \"pick\": "
        "\"nearest:mmr\",\n"
        "   \"rules\": [{\"type\": \"equal\", \"attr\": \"mode\"},\n"
        "             {\"type\": \"near\", \"attr\": \"mmr\", \"max\": 50, \"expand\": [{\"after\": \"10s\", "
        "\"max\": 200}]}],\n"
        "   \"result\": \"duels\", \"ttl\": \"2m\", \"on_ttl\": \"unmatched\"}\n"
        "What `tally pool show --json` prints is such a file, too. Options stand for what the file says, and win. The\n"
        "queues must exist. docs/protocol.md has the whole language (\"The rule language\"); `tally pool simulate` "
        "tries\n"
        "rules on recorded tickets. The same command again changes nothing; rules that have to go through all tickets\n"
        "are noted on standard error.\n",
    .examples = "  tally queue create duels\n"
                "  tally pool create duel --rules duel.json --result duels\n"
                "  tally pool create rides --rules rides.json --matcher external --verify yes --ttl 10m\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_create,
};

const struct command command_pool_update = {
    .arguments = "NAME",
    .text = "Changes what file and options name, and nothing else. Attributes can only be added. New rules are asked "
            "of every\n"
            "ticket that waits; a match that was proposed under the old ones is held against the new, or refused.\n",
    .examples = "  tally pool show duel --json > duel.json && $EDITOR duel.json && tally pool update duel --rules "
                "duel.json\n"
                "  tally pool update duel --rules wider.json\n"
                "  tally pool update duel --ttl 5m --on-expiry unmatched\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_update,
};
