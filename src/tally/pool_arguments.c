#include "tally/pool_arguments.h"

#include "base/assert.h"
#include "matcher/simulation.h"
#include "tally/input.h"
#include <string.h>

#define FILE_SIZE_MAX (1u << 20)

/* A member of the file, and its name in the request. */
struct word {
    const char *name;
    const char *member;
    uint64_t unit_ms; /* the unit in the request, if it is a duration */
};

static const struct word known[] = {
    {"pool", "PoolName", 0},
    {"attrs", "Attributes", 0},
    {"rules", "Rules", 0},
    {"size", "Size", 0},
    {"teams", "Teams", 0},
    {"pick", "Pick", 0},
    {"result", "ResultQueueUrl", 0},
    {"on_ttl", "OnExpiryQueueUrl", 0},
    {"matcher", "Matcher", 0},
    {"verify", "Verify", 0},
    {"results_max", "ResultsMax", 0},
    {"window", "WindowMilliseconds", 1},
    {"ttl", "TicketTtlSeconds", 1000},
    {"confirm", "ConfirmSeconds", 1000},
    {"retention", "RetentionSeconds", 1000},
};

/* Other members of DescribePool. They are accepted, so that its answer can be edited and given back. */
static const char *const told[] = {"RulesVersion", "Plan",     "Warnings",  "Sequence", "Tickets",         "Weight",
                                   "Matches",      "PutBacks", "Conflicts", "Stale",    "Probes",          "Candidates",
                                   "BudgetStops",  "Seeds",    "WaitedMs",  "Levels",   "ExpressionErrors"};

/* --- The file ----------------------------------------------------------------------------------------------------- */

static bool is_only_described(const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(told); i++)
        if (strcmp(told[i], name) == 0)
            return true;
    return false;
}

/* Has it only members of a pool, each once? */
static bool check_names(const char *path, yyjson_val *file)
{
    const char *seen[ARRAY_LENGTH(known)] = {NULL};
    size_t i, max, index;
    yyjson_val *key, *value;
    yyjson_obj_foreach(file, i, max, key, value)
    {
        const char *name = yyjson_get_str(key);
        for (index = 0; index < ARRAY_LENGTH(known); index++)
            if (strcmp(known[index].name, name) == 0 || strcmp(known[index].member, name) == 0)
                break;
        if (index == ARRAY_LENGTH(known) && !is_only_described(name)) {
            complain("%s: a pool has no \"%s\"; it has attrs, rules, size or teams, pick, result, window, ttl, on_ttl, "
                     "confirm, verify, matcher, results_max and retention",
                     path, name);
            return false;
        }
        if (index < ARRAY_LENGTH(known) && seen[index] != NULL) {
            complain("%s: \"%s\" and \"%s\" say the same; leave one of them out", path, seen[index], name);
            return false;
        }
        if (index < ARRAY_LENGTH(known))
            seen[index] = name;
    }
    return true;
}

yyjson_doc *pool_arguments_read_file(const char *path)
{
    struct buffer text;
    yyjson_read_err error = {.msg = NULL};
    yyjson_doc *doc = NULL;
    bool is_good = false;
    buffer_init(&text);
    if (input_read_file(path, &text, FILE_SIZE_MAX)) {
        doc = yyjson_read_opts((char *)text.data_owned, text.size, YYJSON_READ_NOFLAG, NULL, &error);
        if (doc == NULL)
            complain("%s is no JSON: %s at byte %zu", path, error.msg, error.pos);
        else if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
            complain("%s is no JSON object", path);
        else
            is_good = check_names(path, yyjson_doc_get_root(doc));
    }
    buffer_deinit(&text);
    if (is_good)
        return doc;
    yyjson_doc_free(doc);
    return NULL;
}

static const struct word *find_word(const char *name)
{
    size_t i = 0;
    while (strcmp(known[i].name, name) != 0) {
        i++;
        ASSERT(i < ARRAY_LENGTH(known));
    }
    return &known[i];
}

static yyjson_val *value_of(yyjson_val *file, const char *name)
{
    yyjson_val *value = yyjson_obj_get(file, name);
    return value != NULL ? value : yyjson_obj_get(file, find_word(name)->member);
}

/* --- Durations ---------------------------------------------------------------------------------------------------- */

/* "10m", or digits that mean seconds. */
static bool read_duration(const char *text, uint64_t *ms)
{
    uint64_t seconds;
    if (simulation_duration(bytes_from_string(text), ms))
        return true;
    if (!bytes_to_u64(bytes_from_string(text), &seconds) || seconds > UINT32_MAX)
        return false;
    *ms = seconds * 1000;
    return true;
}

/* NULL is not a text. False, after telling the user, if it is not a duration or the request can't express it. */
static bool read_text(const struct word *word, const char *text, uint64_t *ms)
{
    if (text == NULL || !read_duration(text, ms)) {
        complain("%s takes a duration like 500ms, 90s or 10m, not %s%s%s", word->name, text == NULL ? "" : "\"",
                 text == NULL ? "that" : text, text == NULL ? "" : "\"");
        return false;
    }
    if (*ms % word->unit_ms != 0)
        complain("%s takes whole seconds, not \"%s\"", word->name, text);
    return *ms % word->unit_ms == 0;
}

bool pool_arguments_duration(yyjson_val *file, const char *name, uint64_t *ms)
{
    const struct word *word = find_word(name);
    yyjson_val *value = yyjson_obj_get(file, word->name), *number = yyjson_obj_get(file, word->member);
    *ms = 0;
    if (value != NULL)
        return read_text(word, yyjson_get_str(value), ms);
    if (number == NULL)
        return true;
    *ms = yyjson_get_uint(number) * word->unit_ms;
    if (!yyjson_is_uint(number) || yyjson_get_uint(number) > UINT32_MAX)
        complain("%s takes a whole number", word->member);
    return yyjson_is_uint(number) && yyjson_get_uint(number) <= UINT32_MAX;
}

static int write_durations(const struct pool_arguments *words, yyjson_val *file, struct json_body *body)
{
    const struct {
        const char *name;
        const char *option; /* if given, it replaces the member of the file */
    } rows[] = {
        {"window", words->window}, {"ttl", words->ttl}, {"confirm", words->confirm}, {"retention", words->retention}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct word *word = find_word(rows[i].name);
        uint64_t ms;
        if (rows[i].option == NULL && value_of(file, word->name) == NULL)
            continue;
        if (rows[i].option != NULL ? !read_text(word, rows[i].option, &ms)
                                   : !pool_arguments_duration(file, word->name, &ms))
            return EXIT_USAGE;
        json_add_number(body, body->root, word->member, ms / word->unit_ms);
    }
    return EXIT_DONE;
}

/* --- The request -------------------------------------------------------------------------------------------------- */

/* Copied as it is: the server checks it. */
static void copy_member(yyjson_val *file, const char *name, struct json_body *body)
{
    yyjson_val *value = value_of(file, name);
    if (value != NULL)
        yyjson_mut_obj_add_val(body->doc_owned, body->root, find_word(name)->member,
                               yyjson_val_mut_copy(body->doc_owned, value));
}

static void copy_members(yyjson_val *file, const struct pool_arguments *words, struct json_body *body)
{
    const struct {
        const char *name;
        const char *option; /* stands for it, if given */
    } rows[] = {{"attrs", NULL},
                {"rules", NULL},
                {"teams", NULL},
                {"result", words->result},
                {"on_ttl", words->on_expiry},
                {"pick", words->pick},
                {"matcher", words->matcher}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (rows[i].option != NULL)
            json_add_text(body, body->root, find_word(rows[i].name)->member, rows[i].option);
        else
            copy_member(file, rows[i].name, body);
}

static void write_number(yyjson_val *file, const char *name, const struct option_number *option, struct json_body *body)
{
    if (option->is_given)
        json_add_number(body, body->root, find_word(name)->member, option->value);
    else
        copy_member(file, name, body);
}

static int write_verify(const struct invocation *invocation, const char *word, yyjson_val *file, struct json_body *body)
{
    if (word != NULL && strcmp(word, "yes") != 0 && strcmp(word, "no") != 0)
        return complain_usage(invocation, "--verify takes yes or no, not \"%s\"", word);
    if (word != NULL)
        yyjson_mut_obj_add_bool(body->doc_owned, body->root, "Verify", strcmp(word, "yes") == 0);
    else
        copy_member(file, "verify", body);
    return EXIT_DONE;
}

int pool_arguments_write(const struct invocation *invocation, const struct pool_arguments *words,
                         struct json_body *body)
{
    yyjson_doc *doc = NULL;
    if (words->file != NULL && (doc = pool_arguments_read_file(words->file)) == NULL)
        return EXIT_LOCAL;
    yyjson_val *file = yyjson_doc_get_root(doc);
    copy_members(file, words, body);
    write_number(file, "size", &words->size, body);
    write_number(file, "results_max", &words->results_max, body);
    int status = write_durations(words, file, body);
    if (status == EXIT_DONE)
        status = write_verify(invocation, words->verify, file, body);
    yyjson_doc_free(doc);
    return status;
}
