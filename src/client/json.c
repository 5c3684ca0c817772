#include "client/json.h"

#include "base/json_memory.h"
#include "client/client.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

yyjson_mut_doc *json_document(void)
{
    return yyjson_mut_doc_new(&json_memory);
}

yyjson_doc *json_read(const void *text, size_t size)
{
    /* Without a flag that says otherwise the text is only read. */
    return yyjson_read_opts((char *)(uintptr_t)text, size, YYJSON_READ_NOFLAG, &json_memory, NULL);
}

char *json_write(const yyjson_mut_doc *doc, yyjson_write_flag flags, size_t *size)
{
    return yyjson_mut_write_opts(doc, flags, &json_memory, size, NULL);
}

char *json_write_value(yyjson_val *value, size_t *size)
{
    return yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &json_memory, size, NULL);
}

/* ---- Bodies and answers ------------------------------------------------------------------------------------------ */

void json_body_init(struct json_body *body)
{
    body->doc_owned = json_document();
    body->root = yyjson_mut_obj(body->doc_owned);
    yyjson_mut_doc_set_root(body->doc_owned, body->root);
}

void json_add_text(struct json_body *body, yyjson_mut_val *object, const char *name, const char *text)
{
    if (text != NULL)
        yyjson_mut_obj_add_str(body->doc_owned, object, name, text);
}

void json_add_number(struct json_body *body, yyjson_mut_val *object, const char *name, uint64_t number)
{
    yyjson_mut_obj_add_uint(body->doc_owned, object, name, number);
}

yyjson_mut_val *json_add_object(struct json_body *body, yyjson_mut_val *object, const char *name)
{
    return yyjson_mut_obj_add_obj(body->doc_owned, object, name);
}

yyjson_mut_val *json_add_array(struct json_body *body, yyjson_mut_val *object, const char *name)
{
    return yyjson_mut_obj_add_arr(body->doc_owned, object, name);
}

yyjson_mut_val *json_append_object(struct json_body *body, yyjson_mut_val *array)
{
    return yyjson_mut_arr_add_obj(body->doc_owned, array);
}

enum tally_status json_body_call(struct json_body *body, struct tally_client *client, const char *target,
                                 struct tally_reply *reply)
{
    enum tally_status status;
    char *text = json_write(body->doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(body->doc_owned);
    if (text == NULL)
        return client_refuse(client, "a text of this request is not UTF-8; send other bytes as base64");
    status = tally_call(client, target, text, reply);
    free(text);
    return status;
}

yyjson_val *json_root(const struct tally_reply *reply)
{
    return yyjson_doc_get_root(reply->json_owned);
}

const char *json_text(yyjson_val *object, const char *name)
{
    return yyjson_get_str(yyjson_obj_get(object, name));
}

uint64_t json_number(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (yyjson_is_str(value))
        return strtoull(yyjson_get_str(value), NULL, 10);
    if (yyjson_is_real(value))
        return (uint64_t)yyjson_get_real(value);
    return yyjson_get_uint(value);
}

double json_real(yyjson_val *object, const char *name)
{
    return yyjson_get_num(yyjson_obj_get(object, name));
}

bool json_is_true(yyjson_val *object, const char *name)
{
    return yyjson_get_bool(yyjson_obj_get(object, name));
}

void json_copy(yyjson_val *object, const char *name, char *field, size_t size)
{
    const char *text = json_text(object, name);
    snprintf(field, size, "%s", text == NULL ? "" : text);
}
