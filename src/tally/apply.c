/* tally apply: makes and changes what a document of definitions says (tally/definitions.h), and deletes nothing.
 *
 * Queues come first, since the others name them. */
#include "tally/apply.h"
#include "base/assert.h"
#include "base/memory.h"
#include "tally/input.h"
#include "tally/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT_SIZE_MAX (256u << 20)

struct settings {
    bool is_dry_run;
};

static const struct setting settings_table[] = {
    {"dry-run", offsetof(struct settings, is_dry_run)},
};

/* --- telling ------------------------------------------------------------------------------------------------------ */

int apply_refuse(const struct apply_work *work)
{
    const int status = invocation_failed(work->invocation, work->invocation->client);
    complain("%s[%zu] (%s) is where it stopped: what stands above was done, and the rest was not", work->kind->list,
             work->index, work->name);
    return status;
}

void apply_tell(struct apply_work *work, const char *what, const char *details)
{
    struct json_body line;
    work->is_touched = true;
    if (!work->invocation->is_json) {
        printf("%-6s %s", what, work->kind->title);
        output_in_line(" ", work->name);
        output_in_line(*details == '\0' ? "" : ": ", details);
        puts("");
        return;
    }
    json_body_init(&line);
    json_add_text(&line, line.root, "Outcome", what);
    json_add_text(&line, line.root, "Kind", work->kind->title);
    json_add_text(&line, line.root, "Name", work->name);
    json_add_text(&line, line.root, "Changes", *details == '\0' ? NULL : details);
    output_document(line.doc_owned);
    yyjson_mut_doc_free(line.doc_owned);
}

void apply_add_name(struct buffer *names, const char *name)
{
    buffer_append_format(names, "%s%s", names->size == 0 ? "" : ", ", name);
}

const char *apply_names(struct buffer *names)
{
    *buffer_reserve(names, 1) = '\0';
    return (const char *)names->data_owned;
}

int apply_act(struct apply_work *work, const char *action, struct json_body *body)
{
    struct tally_reply reply;
    if (json_body_call(body, work->invocation->client, action, &reply) != TALLY_OK)
        return apply_refuse(work);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

/* A request that only names the thing. */
static int act_on_name(struct apply_work *work, const char *action, const char *member)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, member, work->name);
    return apply_act(work, action, &body);
}

/* --- one definition ----------------------------------------------------------------------------------------------- */

void apply_begin(struct apply_work *work, const struct apply_work *common, yyjson_val *item, size_t index)
{
    *work = *common;
    work->index = index;
    work->wanted = item;
    work->name = json_text(item, work->kind->name);
    work->doc_owned = json_document();
}

void apply_end(struct apply_work *work)
{
    yyjson_mut_doc_free(work->doc_owned);
}

int apply_read(struct apply_work *work)
{
    const int status = definition_read(work->invocation, work->kind, work->name, work->doc_owned, &work->there);
    if (status != EXIT_DONE)
        complain("%s[%zu] (%s) is where it stopped", work->kind->list, work->index, work->name);
    return status;
}

/* --- pauses ------------------------------------------------------------------------------------------------------- */

/* "Paused" of the document, if it says something else than there is. */
int apply_pause(struct apply_work *work)
{
    yyjson_val *wanted = yyjson_obj_get(work->wanted, "Paused");
    const bool is_paused = !work->is_new && yyjson_mut_get_bool(yyjson_mut_obj_get(work->there, "Paused"));
    if (wanted == NULL || yyjson_get_bool(wanted) == is_paused)
        return EXIT_DONE;
    int status = EXIT_DONE;
    if (!work->is_dry_run)
        status = act_on_name(work, is_paused ? work->kind->resume_action : work->kind->pause_action,
                             strcmp(work->kind->name, "QueueName") == 0 ? "QueueUrl" : work->kind->name);
    if (status == EXIT_DONE && !work->is_new)
        apply_tell(work, "change", "Paused");
    return status;
}

/* --- schedules, type orders, pools, relays ------------------------------------------------------------------------ */

/* What the document says of a member, as a definition has it; NULL: nothing. */
static yyjson_mut_val *wanted_value(const struct apply_work *work, const struct definition_member *member)
{
    yyjson_val *value = yyjson_obj_get(work->wanted, member->name);
    if (value != NULL)
        return definition_value(work->doc_owned, member->name, value);
    if (member->fallback == NULL)
        return NULL;
    yyjson_doc *fallback = json_read(member->fallback, strlen(member->fallback));
    yyjson_mut_val *copy = yyjson_val_mut_copy(work->doc_owned, yyjson_doc_get_root(fallback));
    yyjson_doc_free(fallback);
    return copy;
}

/* A member that the document leaves out and that has no fallback is whatever the server makes of it. But what a change
 * would take away, because it names all, differs. */
static bool differs(const struct apply_work *work, const struct definition_member *member)
{
    yyjson_mut_val *wanted = wanted_value(work, member), *there = yyjson_mut_obj_get(work->there, member->name);
    if (wanted != NULL)
        return there == NULL || !yyjson_mut_equals(wanted, there);
    if (work->kind->takes_differences || there == NULL || strcmp(member->name, "RetentionSeconds") == 0)
        return false;
    return yyjson_mut_get_len(there) > 0;
}

/* The members of the request: those given, or of a change perhaps those that differ. */
static int put(struct apply_work *work, const char *action, bool is_change)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, work->kind->name, work->name);
    for (size_t i = 0; i < work->kind->member_count; i++) {
        const struct definition_member *member = &work->kind->members[i];
        yyjson_val *value = yyjson_obj_get(work->wanted, member->name);
        if (value != NULL && (!is_change || !work->kind->takes_differences || differs(work, member)))
            yyjson_mut_obj_add_val(body.doc_owned, body.root, member->name, yyjson_val_mut_copy(body.doc_owned, value));
    }
    return apply_act(work, action, &body);
}

static int create(struct apply_work *work)
{
    int status = work->is_dry_run ? EXIT_DONE : put(work, work->kind->create_action, false);
    if (status == EXIT_DONE)
        apply_tell(work, "create", "");
    return status == EXIT_DONE ? apply_pause(work) : status;
}

/* A relay is what it was made: the server says whether the secrets, which it shows nobody, are the same, too. */
static int compare_unchangeable(struct apply_work *work, const char *names)
{
    if (!work->is_dry_run)
        return put(work, work->kind->create_action, false);
    apply_tell(work, "differ", names);
    return EXIT_DONE;
}

static int change(struct apply_work *work)
{
    struct buffer names;
    int status = EXIT_DONE;
    buffer_init(&names);
    for (size_t i = 0; i < work->kind->member_count; i++)
        if (differs(work, &work->kind->members[i]))
            apply_add_name(&names, work->kind->members[i].name);
    if (names.size > 0 && work->kind->change_action == NULL) {
        status = compare_unchangeable(work, apply_names(&names));
    } else if (names.size > 0) {
        status = work->is_dry_run ? EXIT_DONE : put(work, work->kind->change_action, true);
        if (status == EXIT_DONE)
            apply_tell(work, "change", apply_names(&names));
    }
    buffer_deinit(&names);
    if (status == EXIT_DONE)
        status = apply_pause(work);
    if (status == EXIT_DONE && !work->is_touched)
        apply_tell(work, "same", "");
    return status;
}

static int apply_thing(struct apply_work *work)
{
    const int status = apply_read(work);
    if (status != EXIT_DONE)
        return status;
    work->is_new = work->there == NULL;
    return work->is_new ? create(work) : change(work);
}

static int apply_things(const struct apply_work *common, yyjson_val *list)
{
    size_t i, max;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, max, item)
    {
        struct apply_work work;
        apply_begin(&work, common, item, i);
        const int status = apply_thing(&work);
        apply_end(&work);
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

/* --- the document ------------------------------------------------------------------------------------------------- */

/* What is wrong with a member of a definition; NULL: nothing. *what says which member it is, beginning with 1; 0: it
 * means nothing, which is a typing error, or of a later version. */
static const char *fault_of_member(const struct definition_kind *kind, yyjson_val *key, yyjson_val *value, size_t *what)
{
    *what = 0;
    if (yyjson_equals_str(key, kind->name)) {
        *what = 1;
        return strlen(yyjson_get_str(value)) == yyjson_get_len(value) ? NULL : "it holds a NUL";
    }
    if (kind->pause_action != NULL && yyjson_equals_str(key, "Paused")) {
        *what = 2;
        return yyjson_is_bool(value) ? NULL : "it must be true or false";
    }
    for (size_t i = 0; i < kind->member_count && *what == 0; i++)
        if (yyjson_equals_str(key, kind->members[i].name))
            *what = 3 + i;
    if (*what == 0)
        return "it means nothing there";
    const bool is_map = yyjson_equals_str(key, "Attributes") || yyjson_equals_str(key, "tags");
    return is_map && !yyjson_is_obj(value) ? "it must be an object" : NULL;
}

static int check_item(const struct definition_kind *kind, yyjson_val *item, size_t index)
{
    size_t i, max, what;
    yyjson_val *key, *value;
    uint64_t seen = 0;
    if (json_text(item, kind->name) == NULL) {
        complain("%s[%zu]: it must be an object with a member %s, which is a text", kind->list, index, kind->name);
        return EXIT_USAGE;
    }
    yyjson_obj_foreach(item, i, max, key, value)
    {
        const char *fault = fault_of_member(kind, key, value, &what);
        if (fault == NULL && (seen >> what & 1) != 0)
            fault = "it is given twice";
        seen |= (uint64_t)1 << what;
        if (fault == NULL)
            continue;
        complain("%s[%zu] (%s), member \"%.80s\" of a %s: %s", kind->list, index, json_text(item, kind->name),
                 yyjson_get_str(key), kind->title, fault);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of two definitions of one thing each would change what the other one says, again and again. */
static int check_names(const struct definition_kind *kind, yyjson_val *list)
{
    size_t i, max, twice = 0;
    yyjson_val *item;
    const char **names = memory_allocate((yyjson_arr_size(list) + 1) * sizeof *names);
    yyjson_arr_foreach(list, i, max, item)
    {
        names[i] = json_text(item, kind->name);
    }
    qsort(names, max, sizeof *names, compare_names);
    for (i = 1; i < max && twice == 0; i++)
        twice = strcmp(names[i - 1], names[i]) == 0 ? i : 0;
    if (twice > 0)
        complain("%s: the %s %s is there twice", kind->list, kind->title, names[twice]);
    free(names);
    return twice > 0 ? EXIT_USAGE : EXIT_DONE;
}

/* The server shows nobody the query of a URL, and says "…" in its place. */
static int check_sink(yyjson_val *item, size_t index)
{
    const char *url = json_text(yyjson_obj_get(item, "Sink"), "Url");
    if (url == NULL || strstr(url, "\u2026") == NULL)
        return EXIT_DONE;
    complain("relays[%zu] (%s): a part of its Url was not exported, because it may be a secret: write it in", index,
             json_text(item, "RelayName"));
    return EXIT_USAGE;
}

static const struct definition_kind *find_kind(yyjson_val *key)
{
    for (size_t i = 0; i < definition_kind_count; i++)
        if (yyjson_equals_str(key, definition_kinds[i].list))
            return &definition_kinds[i];
    return NULL;
}

static int check_list(yyjson_val *key, yyjson_val *list)
{
    const struct definition_kind *kind = find_kind(key);
    size_t i, max;
    yyjson_val *item;
    if (kind == NULL && yyjson_equals_str(key, "version"))
        return EXIT_DONE;
    if (kind == NULL || !yyjson_is_arr(list)) {
        complain(kind == NULL ? "the document has a member \"%.80s\", which means nothing here"
                              : "%s: it must be a list",
                 yyjson_get_str(key));
        return EXIT_USAGE;
    }
    yyjson_arr_foreach(list, i, max, item)
    {
        int status = check_item(kind, item, i);
        if (status == EXIT_DONE)
            status = check_sink(item, i);
        if (status != EXIT_DONE)
            return status;
    }
    return check_names(kind, list);
}

static bool is_of_version(yyjson_val *version)
{
    return yyjson_is_uint(version) && yyjson_get_uint(version) == DEFINITIONS_VERSION;
}

/* All of its form is checked before anything is done. */
static int check_document(yyjson_val *root)
{
    size_t i, max;
    yyjson_val *key, *list;
    if (!yyjson_is_obj(root) || !is_of_version(yyjson_obj_get(root, "version"))) {
        complain("it is no document of definitions: an object of JSON with \"version\": %d", DEFINITIONS_VERSION);
        return EXIT_USAGE;
    }
    yyjson_obj_foreach(root, i, max, key, list)
    {
        int status = check_list(key, list);
        if (status == EXIT_DONE && yyjson_obj_getn(root, yyjson_get_str(key), yyjson_get_len(key)) != list) {
            complain("%s is given twice", yyjson_get_str(key));
            status = EXIT_USAGE;
        }
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

static int apply_document(struct invocation *invocation, yyjson_val *root)
{
    const struct settings *settings = invocation->settings;
    int status = EXIT_DONE;
    for (size_t i = 0; i < definition_kind_count && status == EXIT_DONE; i++) {
        const struct apply_work common = {
            .invocation = invocation, .is_dry_run = settings->is_dry_run, .kind = &definition_kinds[i]};
        yyjson_val *list = yyjson_obj_get(root, common.kind->list);
        status = i == 0 ? apply_queues(&common, list) : apply_things(&common, list);
    }
    return status;
}

static int run(struct invocation *invocation)
{
    struct buffer text;
    yyjson_doc *document = NULL;
    int status = EXIT_LOCAL;
    buffer_init(&text);
    if (input_read_file(invocation->arguments[0], &text, DOCUMENT_SIZE_MAX)) {
        document = json_read(text.data_owned, text.size);
        status = check_document(yyjson_doc_get_root(document));
    }
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = apply_document(invocation, yyjson_doc_get_root(document));
    yyjson_doc_free(document);
    buffer_deinit(&text);
    return status;
}

const struct command command_apply = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
