#include "tally/pool_words.h"

#include "base/assert.h"
#include "match/rehearsal.h"
#include "tally/input.h"
#include <string.h>

#define FILE_SIZE_MAX (1u << 20)

yyjson_doc *pool_words_read_file(const char *path)
{
    struct buffer text;
    yyjson_read_err error = {.msg = NULL};
    yyjson_doc *doc = NULL;
    buffer_init(&text);
    if (input_read_file(path, &text, FILE_SIZE_MAX)) {
        doc = yyjson_read_opts((char *)text.data_owned, text.size, YYJSON_READ_NOFLAG, NULL, &error);
        if (doc == NULL)
            complain("%s is no JSON: %s at byte %zu", path, error.msg, error.pos);
        else if (!yyjson_is_obj(yyjson_doc_get_root(doc))) {
            complain("%s is no JSON object", path);
            yyjson_doc_free(doc);
            doc = NULL;
        }
    }
    buffer_deinit(&text);
    return doc;
}

/* "10m", or digits that are seconds. */
static bool read_duration(const char *text, uint64_t *ms)
{
    uint64_t seconds;
    if (rehearsal_duration(bytes_from_string(text), ms))
        return true;
    if (!bytes_to_u64(bytes_from_string(text), &seconds) || seconds > UINT32_MAX)
        return false;
    *ms = seconds * 1000;
    return true;
}

/* One word that says how long, from an option or from the file: `unit_ms` is that of the request's member. */
struct duration_row {
    const char *name;   /* in the file */
    const char *option; /* NULL: not given */
    const char *member; /* of the request */
    uint64_t unit_ms;
};

static int write_duration(const struct invocation *invocation, yyjson_val *file, const struct duration_row *row,
                          struct json_body *body)
{
    yyjson_val *value = yyjson_obj_get(file, row->name);
    const char *text = row->option != NULL ? row->option : yyjson_get_str(value);
    uint64_t ms;
    if (row->option == NULL && value == NULL)
        return EXIT_DONE;
    if (text == NULL || !read_duration(text, &ms))
        return complain_usage(invocation, "%s takes a duration like 500ms, 90s or 10m, not %s%s%s", row->name,
                              text == NULL ? "" : "\"", text == NULL ? "that" : text, text == NULL ? "" : "\"");
    if (ms % row->unit_ms != 0)
        return complain_usage(invocation, "%s takes whole seconds, not \"%s\"", row->name, text);
    json_add_number(body, body->root, row->member, ms / row->unit_ms);
    return EXIT_DONE;
}

static int write_durations(const struct invocation *invocation, const struct pool_words *words, yyjson_val *file,
                           struct json_body *body)
{
    const struct duration_row rows[] = {{"window", words->window, "WindowMilliseconds", 1},
                                        {"ttl", words->ttl, "TicketTtlSeconds", 1000},
                                        {"confirm", words->confirm, "ConfirmSeconds", 1000},
                                        {"retention", words->retention, "RetentionSeconds", 1000}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (write_duration(invocation, file, &rows[i], body) != EXIT_DONE)
            return EXIT_USAGE;
    return EXIT_DONE;
}

/* What is copied from the file as it stands: the server judges it. */
static void copy_members(yyjson_val *file, const struct pool_words *words, struct json_body *body)
{
    const struct {
        const char *name;
        const char *option; /* stands for it, if given */
        const char *member;
    } rows[] = {{"attrs", NULL, "Attributes"},
                {"rules", NULL, "Rules"},
                {"teams", NULL, "Teams"},
                {"result", words->result, "ResultQueueUrl"},
                {"on_ttl", words->on_expiry, "OnExpiryQueueUrl"},
                {"pick", words->pick, "Pick"},
                {"matcher", words->matcher, "Matcher"}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *value = yyjson_obj_get(file, rows[i].name);
        if (rows[i].option != NULL)
            json_add_text(body, body->root, rows[i].member, rows[i].option);
        else if (value != NULL)
            yyjson_mut_obj_add_val(body->doc_owned, body->root, rows[i].member,
                                   yyjson_val_mut_copy(body->doc_owned, value));
    }
}

static void write_number(yyjson_val *file, const char *name, const struct option_number *option, const char *member,
                         struct json_body *body)
{
    yyjson_val *value = yyjson_obj_get(file, name);
    if (option->is_given)
        json_add_number(body, body->root, member, option->value);
    else if (value != NULL)
        yyjson_mut_obj_add_val(body->doc_owned, body->root, member, yyjson_val_mut_copy(body->doc_owned, value));
}

static int write_verify(const struct invocation *invocation, const char *word, yyjson_val *file, struct json_body *body)
{
    yyjson_val *value = yyjson_obj_get(file, "verify");
    if (word != NULL && strcmp(word, "yes") != 0 && strcmp(word, "no") != 0)
        return complain_usage(invocation, "--verify takes yes or no, not \"%s\"", word);
    if (word != NULL)
        yyjson_mut_obj_add_bool(body->doc_owned, body->root, "Verify", strcmp(word, "yes") == 0);
    else if (value != NULL)
        yyjson_mut_obj_add_val(body->doc_owned, body->root, "Verify", yyjson_val_mut_copy(body->doc_owned, value));
    return EXIT_DONE;
}

int pool_words_write(const struct invocation *invocation, const struct pool_words *words, struct json_body *body)
{
    yyjson_doc *doc = NULL;
    if (words->file != NULL && (doc = pool_words_read_file(words->file)) == NULL)
        return EXIT_LOCAL;
    yyjson_val *file = yyjson_doc_get_root(doc);
    copy_members(file, words, body);
    write_number(file, "size", &words->size, "Size", body);
    write_number(file, "results_max", &words->results_max, "ResultsMax", body);
    int status = write_durations(invocation, words, file, body);
    if (status == EXIT_DONE)
        status = write_verify(invocation, words->verify, file, body);
    yyjson_doc_free(doc);
    return status;
}
