#include "tally/ticket_line.h"

#include "base/assert.h"
#include "client/json.h"
#include "matcher/simulation.h"

static const struct {
    const char *name;   /* in a file */
    const char *member; /* of the request */
} rows[] = {{"key", "TicketId"},  {"attrs", "Attributes"}, {"need", "Need"},        {"n", "Weight"},
            {"prio", "Priority"}, {"ttl", "TtlSeconds"},   {"xid", "ExclusiveSet"}, {"body", "Body"}};

/* A ttl in words as seconds; other values stay as they are, and the server checks them. */
static yyjson_mut_val *copy_value(yyjson_mut_doc *doc, const char *name, yyjson_val *value)
{
    uint64_t ms;
    if (strcmp(name, "ttl") == 0 && yyjson_is_str(value) &&
        simulation_duration(bytes_make(yyjson_get_str(value), yyjson_get_len(value)), &ms) && ms % 1000 == 0)
        return yyjson_mut_uint(doc, ms / 1000);
    return yyjson_val_mut_copy(doc, value);
}

static void copy_members(yyjson_val *line, yyjson_mut_doc *doc, yyjson_mut_val *ticket)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *value = yyjson_obj_get(line, rows[i].member);
        if (value == NULL)
            value = yyjson_obj_get(line, rows[i].name);
        if (value != NULL)
            yyjson_mut_obj_add_val(doc, ticket, rows[i].member, copy_value(doc, rows[i].name, value));
    }
}

const char *ticket_line_add(const char *line, size_t size, struct json_body *body, yyjson_mut_val *list)
{
    yyjson_doc *doc = json_read(line, size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *why = NULL;
    if (!yyjson_is_obj(root))
        why = "it is no JSON object";
    else if (!yyjson_is_str(yyjson_obj_get(root, "key")) && !yyjson_is_str(yyjson_obj_get(root, "TicketId")))
        why = "it has no key (or TicketId), a text that names the ticket";
    else
        copy_members(root, body->doc_owned, json_append_object(body, list));
    yyjson_doc_free(doc);
    return why;
}
