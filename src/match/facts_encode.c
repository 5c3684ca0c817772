#include "base/assert.h"
#include "match/facts.h"
#include "match/value.h"

#include <stdio.h>
#include <stdlib.h>

struct encoder {
    const struct rules *rules;
    struct buffer *out;
    struct failure *failure;
    struct bytes fact;          /* the attribute whose value is read; empty: a need is read */
    char path[VALUE_PATH_SIZE]; /* "Need.qty.min"; of a fact "Attributes.mmr", once it is faulty */
};

static void append_number(struct buffer *out, double number)
{
    uint64_t bits;
    static_assert(sizeof(bits) == sizeof(number), "a double of 64 bits");
    memcpy(&bits, &number, sizeof(bits));
    buffer_append_u64(out, bits);
}

static void append_text(struct buffer *out, struct bytes text)
{
    buffer_append_u16(out, (uint16_t)text.size);
    buffer_append_bytes(out, text);
}

static enum error fault(struct encoder *encoder, const char *wanted, yyjson_val *value)
{
    if (encoder->fact.size > 0)
        snprintf(encoder->path, sizeof(encoder->path), "Attributes.%.*s", BYTES_FORMAT(encoder->fact));
    return value_fault(encoder->failure, encoder->path, wanted, value);
}

static bool is_text(yyjson_val *value)
{
    return yyjson_is_str(value) && yyjson_get_len(value) <= RULES_TEXT_VALUE_SIZE_MAX;
}

/* The values of an object, each at the index of its attribute; NULL: not there. */
static enum error find_values(struct encoder *encoder, const char *word, yyjson_val *object, yyjson_val **values)
{
    size_t index, count;
    yyjson_val *key, *value;
    char shown[VALUE_SHOWN_SIZE];
    memset(values, 0, RULES_ATTRIBUTES_MAX * sizeof(*values));
    if (object == NULL)
        return OK;
    if (!yyjson_is_obj(object))
        return value_fault(encoder->failure, word, "an object", object);
    yyjson_obj_foreach(object, index, count, key, value)
    {
        int attribute = rules_attribute(encoder->rules, value_text(key));
        if (attribute >= 0 && values[attribute] == NULL) {
            values[attribute] = value;
            continue;
        }
        value_show(key, shown);
        if (attribute < 0)
            return failure_set(encoder->failure, ERROR_INVALID_PARAMETER_VALUE, "%s: the pool has no attribute %s.",
                               word, shown);
        return failure_set(encoder->failure, ERROR_INVALID_PARAMETER_VALUE, "%s has %s twice.", word, shown);
    }
    return OK;
}

/* --- what it says of itself --------------------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static enum error encode_set(struct encoder *encoder, yyjson_val *list)
{
    struct bytes texts[FACTS_SET_SIZE_MAX];
    size_t index, count, kept = 0;
    yyjson_val *item;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > FACTS_SET_SIZE_MAX)
        return fault(encoder, "a list of at most 64 texts", list);
    yyjson_arr_foreach(list, index, count, item)
    {
        if (!is_text(item))
            return fault(encoder, "a list of texts of at most 256 bytes, and have no other value", item);
        texts[index] = value_text(item);
    }
    qsort(texts, count, sizeof(texts[0]), compare_texts);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !bytes_equal(texts[i], texts[kept - 1]))
            texts[kept++] = texts[i];
    buffer_append_u16(encoder->out, (uint16_t)kept);
    for (size_t i = 0; i < kept; i++)
        append_text(encoder->out, texts[i]);
    return OK;
}

static enum error encode_fact(struct encoder *encoder, enum attribute_type type, yyjson_val *value)
{
    double number;
    switch (type) {
    case ATTRIBUTE_NUMBER:
        if (!value_number(value, &number))
            return fault(encoder, "a number", value);
        append_number(encoder->out, number);
        return OK;
    case ATTRIBUTE_TEXT:
        if (!is_text(value))
            return fault(encoder, "a text of at most 256 bytes", value);
        append_text(encoder->out, value_text(value));
        return OK;
    case ATTRIBUTE_SET:
        break;
    }
    return encode_set(encoder, value);
}

static enum error encode_facts(struct encoder *encoder, yyjson_val *object)
{
    const struct rules *rules = encoder->rules;
    yyjson_val *values[RULES_ATTRIBUTES_MAX];
    size_t count_at = encoder->out->size;
    uint16_t count = 0;
    enum error error = find_values(encoder, "Attributes", object, values);
    buffer_append_u16(encoder->out, 0);
    for (uint32_t i = 0; error == OK && i < rules->attribute_count; i++) {
        if (values[i] == NULL || yyjson_is_null(values[i]))
            continue;
        buffer_append_u8(encoder->out, (uint8_t)i);
        encoder->fact = rules->attributes[i].name;
        error = encode_fact(encoder, rules->attributes[i].type, values[i]);
        count++;
    }
    bytes_put_u16(encoder->out->data_owned + count_at, count);
    encoder->fact.size = 0;
    return error;
}

/* --- what it asks of others --------------------------------------------------------------------------------------- */

enum clause_form { FORM_NUMBER, FORM_VALUE, FORM_VALUES };

#define CLAUSES 7u

/* In the order of their bits. */
static const struct clause_row {
    const char *name;
    enum clause_form form;
    unsigned types; /* of attributes that it is for */
} clause_rows[CLAUSES] = {
    {"eq", FORM_VALUE, 1u << ATTRIBUTE_NUMBER | 1u << ATTRIBUTE_TEXT},
    {"in", FORM_VALUES, 1u << ATTRIBUTE_NUMBER | 1u << ATTRIBUTE_TEXT},
    {"not", FORM_VALUES, 1u << ATTRIBUTE_NUMBER | 1u << ATTRIBUTE_TEXT},
    {"min", FORM_NUMBER, 1u << ATTRIBUTE_NUMBER},
    {"max", FORM_NUMBER, 1u << ATTRIBUTE_NUMBER},
    {"any", FORM_VALUES, 1u << ATTRIBUTE_SET},
    {"all", FORM_VALUES, 1u << ATTRIBUTE_SET},
};

/* A number for a number attribute, a text for a text and for a set. */
static enum error encode_value(struct encoder *encoder, enum attribute_type type, yyjson_val *value)
{
    double number;
    if (type == ATTRIBUTE_NUMBER) {
        if (!value_number(value, &number))
            return fault(encoder, "about numbers", value);
        buffer_append_u8(encoder->out, ATTRIBUTE_NUMBER);
        append_number(encoder->out, number);
        return OK;
    }
    if (!is_text(value))
        return fault(encoder, "about texts of at most 256 bytes", value);
    buffer_append_u8(encoder->out, ATTRIBUTE_TEXT);
    append_text(encoder->out, value_text(value));
    return OK;
}

static enum error encode_values(struct encoder *encoder, enum attribute_type type, yyjson_val *list)
{
    size_t index, count;
    yyjson_val *item;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > FACTS_CLAUSE_VALUES_MAX)
        return fault(encoder, "a list of at most 64 values", list);
    buffer_append_u16(encoder->out, (uint16_t)yyjson_arr_size(list));
    yyjson_arr_foreach(list, index, count, item)
    {
        enum error error = encode_value(encoder, type, item);
        if (error != OK)
            return error;
    }
    return OK;
}

static enum error encode_clause(struct encoder *encoder, const struct clause_row *row, enum attribute_type type,
                                yyjson_val *value)
{
    double number;
    switch (row->form) {
    case FORM_VALUE:
        return encode_value(encoder, type, value);
    case FORM_VALUES:
        return encode_values(encoder, type, value);
    case FORM_NUMBER:
        break;
    }
    if (!value_number(value, &number))
        return fault(encoder, "a number", value);
    append_number(encoder->out, number);
    return OK;
}

static enum error encode_need(struct encoder *encoder, uint32_t attribute, yyjson_val *test)
{
    const struct ticket_attribute *about = &encoder->rules->attributes[attribute];
    const char *names[CLAUSES];
    yyjson_val *values[CLAUSES];
    unsigned allowed = 0, clauses = 0;
    for (uint32_t i = 0; i < CLAUSES; i++) {
        names[i] = clause_rows[i].name;
        allowed |= (clause_rows[i].types & 1u << about->type) != 0 ? 1u << i : 0;
    }
    snprintf(encoder->path, sizeof(encoder->path), "Need.%.*s", BYTES_FORMAT(about->name));
    enum error error = value_members(encoder->failure, encoder->path, test, names, CLAUSES, allowed, values);
    if (error != OK)
        return error;
    for (uint32_t i = 0; i < CLAUSES; i++)
        clauses |= values[i] != NULL ? 1u << i : 0;
    buffer_append_u8(encoder->out, (uint8_t)attribute);
    buffer_append_u8(encoder->out, (uint8_t)clauses);
    for (uint32_t i = 0; error == OK && i < CLAUSES; i++) {
        if (values[i] == NULL)
            continue;
        snprintf(encoder->path, sizeof(encoder->path), "Need.%.*s.%s", BYTES_FORMAT(about->name), names[i]);
        error = encode_clause(encoder, &clause_rows[i], about->type, values[i]);
    }
    return error;
}

static enum error encode_needs(struct encoder *encoder, yyjson_val *object)
{
    yyjson_val *values[RULES_ATTRIBUTES_MAX];
    uint16_t count = 0;
    enum error error = find_values(encoder, "Need", object, values);
    for (uint32_t i = 0; error == OK && i < RULES_ATTRIBUTES_MAX; i++)
        count = (uint16_t)(count + (values[i] != NULL));
    if (error == OK && count > FACTS_NEEDS_MAX)
        error = failure_set(encoder->failure, ERROR_INVALID_PARAMETER_VALUE,
                            "Need names %u attributes; there can be %u.", count, FACTS_NEEDS_MAX);
    buffer_append_u16(encoder->out, count);
    for (uint32_t i = 0; error == OK && i < RULES_ATTRIBUTES_MAX; i++)
        if (values[i] != NULL)
            error = encode_need(encoder, i, values[i]);
    return error;
}

enum error facts_encode(const struct rules *rules, yyjson_val *attributes, yyjson_val *need, struct buffer *out,
                        struct failure *failure)
{
    struct encoder encoder = {.rules = rules, .out = out, .failure = failure};
    size_t start = out->size;
    enum error error = encode_facts(&encoder, attributes);
    if (error == OK)
        error = encode_needs(&encoder, need);
    if (error != OK)
        buffer_truncate(out, start);
    return error;
}
