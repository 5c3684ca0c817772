/* The queues of a document. Those that are not there are made first, then attributes and tags are set, and in the end
 * redrive policies: these name other queues, which must be there and let the source in. */
#include "tally/apply.h"

#include "base/assert.h"
#include "base/memory.h"
#include "tally/queue_arn.h"

#include <stdlib.h>
#include <string.h>

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* "arn:aws:sqs:REGION:NAMESPACE:" and the name, for queues that need not be there. False: the server was asked in
 * vain. */
static bool add_arn(struct apply_work *work, struct json_body *text, yyjson_mut_val *list, const char *name)
{
    char *arn = queue_arn(work->invocation, work->name), *mark = arn == NULL ? NULL : strrchr(arn, ':');
    struct buffer made;
    buffer_init(&made);
    if (mark != NULL) {
        buffer_append_format(&made, "%.*s%s", (int)(mark + 1 - arn), arn, name);
        yyjson_mut_arr_add_strncpy(text->doc_owned, list, (const char *)made.data_owned, made.size);
    }
    buffer_deinit(&made);
    free(arn);
    return mark != NULL;
}

/* Names become ARNs again. */
static bool expand_names(struct apply_work *work, struct json_body *text, const char *member)
{
    yyjson_mut_val *value = yyjson_mut_obj_get(text->root, member), *list = yyjson_mut_arr(text->doc_owned), *item;
    size_t i, max;
    if (value == NULL)
        return true;
    if (yyjson_mut_is_str(value) && !add_arn(work, text, list, yyjson_mut_get_str(value)))
        return false;
    yyjson_mut_arr_foreach(value, i, max, item)
    {
        if (yyjson_mut_is_str(item) && !add_arn(work, text, list, yyjson_mut_get_str(item)))
            return false;
    }
    yyjson_mut_obj_put(text->root, yyjson_mut_str(text->doc_owned, member),
                       yyjson_mut_is_arr(value) ? list : yyjson_mut_arr_get_first(list));
    return true;
}

/* The text of an attribute, as the server takes it; NULL: the server was asked in vain. */
static char *attribute_text(struct apply_work *work, const char *name, yyjson_val *value)
{
    struct json_body text = {.doc_owned = json_document()};
    char *made = NULL;
    text.root = definition_attribute(text.doc_owned, name, value);
    yyjson_mut_doc_set_root(text.doc_owned, text.root);
    if (yyjson_mut_is_str(text.root))
        made = memory_duplicate_string(yyjson_mut_get_str(text.root));
    else if (expand_names(work, &text, "deadLetterTargetArn") && expand_names(work, &text, "sourceQueueArns"))
        made = json_write(text.doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(text.doc_owned);
    return made;
}

enum attribute_pass {
    PASS_CREATE, /* those that name no queue */
    PASS_ATTRIBUTES,
    PASS_REDRIVE, /* RedrivePolicy: its target is there now, and says whom it lets in */
};

static bool is_of_pass(enum attribute_pass pass, const char *name)
{
    if (strcmp(name, "RedrivePolicy") == 0)
        return pass == PASS_REDRIVE;
    return pass == PASS_ATTRIBUTES || (pass == PASS_CREATE && strcmp(name, "RedriveAllowPolicy") != 0);
}

static bool attribute_differs(const struct apply_work *work, const char *name, yyjson_val *value)
{
    yyjson_mut_val *there = yyjson_mut_obj_get(yyjson_mut_obj_get(work->there, "Attributes"), name);
    if (there == NULL)
        return !(yyjson_is_str(value) && yyjson_get_len(value) == 0); /* "" takes away what is not there */
    return !yyjson_mut_equals(there, definition_attribute(work->doc_owned, name, value));
}

/* Adds the attributes of the pass that differ, and their names to `names`. */
static int add_attributes(struct apply_work *work, enum attribute_pass pass, struct json_body *body,
                          struct buffer *names)
{
    size_t i, max;
    yyjson_val *key, *value;
    yyjson_mut_val *map = json_add_object(body, body->root, "Attributes");
    yyjson_obj_foreach(yyjson_obj_get(work->wanted, "Attributes"), i, max, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (!is_of_pass(pass, name) || !attribute_differs(work, name, value))
            continue;
        apply_add_name(names, name);
        char *text = work->is_dry_run ? memory_duplicate_string("") : attribute_text(work, name, value);
        if (text == NULL)
            return apply_refuse(work);
        yyjson_mut_obj_add(map, yyjson_mut_strcpy(body->doc_owned, name), yyjson_mut_strcpy(body->doc_owned, text));
        free(text);
    }
    return EXIT_DONE;
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

static int create_queue(struct apply_work *work)
{
    struct json_body body;
    struct buffer names;
    yyjson_val *tags = yyjson_obj_get(work->wanted, "tags");
    buffer_init(&names);
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueName", work->name);
    int status = add_attributes(work, PASS_CREATE, &body, &names);
    if (tags != NULL)
        yyjson_mut_obj_add_val(body.doc_owned, body.root, "tags", yyjson_val_mut_copy(body.doc_owned, tags));
    buffer_deinit(&names);
    if (status == EXIT_DONE && !work->is_dry_run)
        status = apply_act(work, work->kind->create_action, &body);
    else
        yyjson_mut_doc_free(body.doc_owned);
    if (status == EXIT_DONE)
        apply_tell(work, "create", "");
    return status == EXIT_DONE ? apply_pause(work) : status;
}

/* Of a queue that was made just now nothing is told any more. */
static int set_attributes(struct apply_work *work, enum attribute_pass pass)
{
    struct json_body body;
    struct buffer names;
    buffer_init(&names);
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", work->name);
    int status = add_attributes(work, pass, &body, &names);
    const bool is_needed = status == EXIT_DONE && names.size > 0;
    if (is_needed && !work->is_dry_run)
        status = apply_act(work, work->kind->change_action, &body);
    else
        yyjson_mut_doc_free(body.doc_owned);
    if (is_needed && status == EXIT_DONE && !work->is_new)
        apply_tell(work, "change", apply_names(&names));
    buffer_deinit(&names);
    return status;
}

/* Tags that the document does not name stay. */
static int set_tags(struct apply_work *work)
{
    size_t i, max;
    yyjson_val *key, *value;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", work->name);
    yyjson_mut_val *tags = json_add_object(&body, body.root, "Tags");
    yyjson_obj_foreach(yyjson_obj_get(work->wanted, "tags"), i, max, key, value)
    {
        yyjson_mut_val *there = yyjson_mut_obj_get(yyjson_mut_obj_get(work->there, "tags"), yyjson_get_str(key));
        if (there == NULL || !yyjson_mut_equals(there, yyjson_val_mut_copy(work->doc_owned, value)))
            yyjson_mut_obj_add(tags, yyjson_val_mut_copy(body.doc_owned, key),
                               yyjson_val_mut_copy(body.doc_owned, value));
    }
    const bool is_needed = yyjson_mut_obj_size(tags) > 0;
    int status = EXIT_DONE;
    if (is_needed && !work->is_dry_run)
        status = apply_act(work, "AmazonSQS.TagQueue", &body);
    else
        yyjson_mut_doc_free(body.doc_owned);
    if (is_needed && status == EXIT_DONE)
        apply_tell(work, "change", "tags");
    return status;
}

static int make_pass(struct apply_work *work, enum attribute_pass pass)
{
    int status = apply_read(work);
    if (status != EXIT_DONE || (pass == PASS_CREATE && work->there != NULL))
        return status;
    if (pass == PASS_CREATE) {
        work->is_new = true;
        return create_queue(work);
    }
    if (work->there == NULL) /* a dry run would have made it */
        return EXIT_DONE;
    status = set_attributes(work, pass);
    if (status == EXIT_DONE && pass == PASS_ATTRIBUTES && !work->is_new)
        status = set_tags(work);
    if (status == EXIT_DONE && pass == PASS_ATTRIBUTES && !work->is_new)
        status = apply_pause(work);
    if (status == EXIT_DONE && pass == PASS_REDRIVE && !work->is_touched)
        apply_tell(work, "same", "");
    return status;
}

/* What is known of a queue from one pass to the next. */
struct progress {
    bool is_new;
    bool is_touched;
};

static int make_pass_of_all(const struct apply_work *common, yyjson_val *list, enum attribute_pass pass,
                            struct progress *progress)
{
    size_t i, max;
    yyjson_val *item;
    int status = EXIT_DONE;
    yyjson_arr_foreach(list, i, max, item)
    {
        struct apply_work work;
        apply_begin(&work, common, item, i);
        work.is_new = progress[i].is_new;
        work.is_touched = progress[i].is_touched;
        status = make_pass(&work, pass);
        progress[i] = (struct progress){.is_new = work.is_new, .is_touched = work.is_touched};
        apply_end(&work);
        if (status != EXIT_DONE)
            break;
    }
    return status;
}

int apply_queues(const struct apply_work *common, yyjson_val *list)
{
    struct progress *progress = memory_allocate_zeroed((yyjson_arr_size(list) + 1) * sizeof *progress);
    int status = EXIT_DONE;
    for (enum attribute_pass pass = PASS_CREATE; pass <= PASS_REDRIVE && status == EXIT_DONE; pass++)
        status = make_pass_of_all(common, list, pass, progress);
    free(progress);
    return status;
}
