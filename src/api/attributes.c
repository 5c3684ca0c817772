#include "api/attributes.h"

#include "api/text.h"
#include "base/assert.h"
#include "base/cursor.h"

#define NAME_SIZE_MAX 256u
#define TYPE_SIZE_MAX 256u

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* "Number" or "Number.label". */
static bool has_base_type(struct bytes type, struct bytes base)
{
    return bytes_equal(type, base) || (bytes_starts_with(type, base) && type.ptr[base.size] == '.');
}

static bool starts_with_ignoring_case(struct bytes view, const char *prefix)
{
    size_t size = strlen(prefix);
    if (view.size < size)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((view.ptr[i] | 0x20) != (uint8_t)prefix[i] && view.ptr[i] != (uint8_t)prefix[i])
            return false;
    return true;
}

static bool name_is_valid(struct bytes name)
{
    if (name.size == 0 || name.size > NAME_SIZE_MAX || name.ptr[0] == '.' || name.ptr[name.size - 1] == '.')
        return false;
    if (starts_with_ignoring_case(name, "aws.") || starts_with_ignoring_case(name, "amazon."))
        return false;
    for (size_t i = 1; i < name.size; i++)
        if (name.ptr[i] == '.' && name.ptr[i - 1] == '.')
            return false;
    return text_is_attribute_name(name);
}

#define NUMBER_DIGITS_MAX 38u
#define NUMBER_POWER_MIN (-128)
#define NUMBER_POWER_MAX 126

/* The size of the number that a run of digits with a point stands for. */
struct decimal {
    size_t count;       /* digits in all */
    size_t significant; /* from the first digit that is not 0 to the last */
    size_t after_first; /* digits from the first that is not 0 to the end */
    int64_t power;      /* the first ten of them */
    bool is_power;      /* the first is 1, and all others are 0 */
};

static struct decimal scan_decimal(struct bytes *text)
{
    struct decimal decimal = {.is_power = true};
    bool has_point = false;
    for (; text->size > 0; *text = bytes_skip(*text, 1)) {
        uint8_t byte = text->ptr[0];
        if (byte == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (byte < '0' || byte > '9')
            break;
        decimal.count++;
        bool is_first = decimal.after_first == 0 && byte != '0';
        /* The power counts up before the point. After it, it counts down until the first digit. */
        if (!has_point && decimal.after_first > 0)
            decimal.power++;
        if (has_point && decimal.after_first == 0)
            decimal.power--;
        if (decimal.after_first == 0 && !is_first)
            continue;
        decimal.after_first++;
        if (byte != '0')
            decimal.significant = decimal.after_first;
        decimal.is_power = decimal.is_power && byte == (is_first ? '1' : '0');
    }
    return decimal;
}

static void skip_sign(struct bytes *text)
{
    if (text->size > 0 && (text->ptr[0] == '-' || text->ptr[0] == '+'))
        *text = bytes_skip(*text, 1);
}

/* "e+12", or nothing. False: it is neither. A power beyond any range counts as 100,000. */
static bool scan_exponent(struct bytes text, int64_t *exponent)
{
    *exponent = 0;
    if (text.size == 0)
        return true;
    if (text.ptr[0] != 'e' && text.ptr[0] != 'E')
        return false;
    text = bytes_skip(text, 1);
    bool is_negative = text.size > 0 && text.ptr[0] == '-';
    skip_sign(&text);
    for (size_t i = 0; i < text.size; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *exponent = *exponent < 100000 ? *exponent * 10 + (text.ptr[i] - '0') : *exponent;
    }
    *exponent = is_negative ? -*exponent : *exponent;
    return text.size > 0;
}

/* A decimal number with optional sign, fraction and exponent, of up to 38 significant digits: 0, or from 10^-128 to
 * 10^126. */
static bool is_number(struct bytes text)
{
    int64_t exponent;
    skip_sign(&text);
    struct decimal decimal = scan_decimal(&text);
    if (decimal.count == 0 || decimal.significant > NUMBER_DIGITS_MAX || !scan_exponent(text, &exponent))
        return false;
    int64_t power = decimal.power + exponent;
    bool is_zero = decimal.significant == 0;
    return is_zero || (power >= NUMBER_POWER_MIN && power < NUMBER_POWER_MAX) ||
           (power == NUMBER_POWER_MAX && decimal.is_power);
}

static enum error check_attribute(struct failure *failure, const struct attribute *attribute)
{
    int name_size = (int)(attribute->name.size < 80 ? attribute->name.size : 80);
    const char *name = (const char *)attribute->name.ptr;
    if (!name_is_valid(attribute->name))
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "The name of message (user) attribute '%.*s' is invalid. It can contain A-Z, a-z, 0-9, "
            "hyphens, underscores and single periods, at most 256, and must not begin with AWS. or Amazon.",
            name_size, name);
    bool is_text = has_base_type(attribute->type, BYTES("String"));
    bool is_numeric = has_base_type(attribute->type, BYTES("Number"));
    bool is_binary = has_base_type(attribute->type, BYTES("Binary"));
    if (attribute->type.size >= TYPE_SIZE_MAX || (!is_text && !is_numeric && !is_binary))
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "The type of message (user) attribute '%.*s' is invalid. You must use only the following supported "
            "type prefixes: Binary, Number, String.",
            name_size, name);
    if (attribute->value.size == 0 || attribute->is_binary != is_binary)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Message (user) attribute '%.*s' must contain a non-empty value of type '%s'.", name_size,
                           name,
                           is_binary    ? "Binary"
                           : is_numeric ? "Number"
                                        : "String");
    if (is_numeric && !is_number(attribute->value))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Can't cast the value of message (user) attribute '%.*s' to a number.", name_size, name);
    if (!is_binary && !text_is_allowed(attribute->value))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Message (user) attribute '%.*s' contains characters that are not allowed.", name_size,
                           name);
    return OK;
}

static enum error parse_attribute(yyjson_val *key, yyjson_val *value, struct failure *failure, struct arena *arena,
                                  struct attribute *attribute)
{
    *attribute = (struct attribute){.name = params_bytes(key)};
    struct params fields = {.object = value, .failure = failure};
    if (!yyjson_is_obj(value))
        return failure_set(failure, ERROR_SERIALIZATION, "The value of a message attribute must be an object.");
    if (yyjson_arr_size(yyjson_obj_get(value, "StringListValues")) > 0 ||
        yyjson_arr_size(yyjson_obj_get(value, "BinaryListValues")) > 0)
        return failure_set(failure, ERROR_UNSUPPORTED_OPERATION,
                           "Message attribute list values in SendMessage operation are not supported.");
    struct bytes binary = {NULL, 0};
    enum error error = params_text(&fields, "DataType", &attribute->type);
    if (error == OK)
        error = params_text(&fields, "StringValue", &attribute->value);
    if (error == OK)
        error = params_text(&fields, "BinaryValue", &binary);
    if (error != OK)
        return error;
    if (binary.ptr != NULL) {
        attribute->is_binary = true;
        if (!text_from_base64(binary, arena, &attribute->value))
            return failure_set(failure, ERROR_SERIALIZATION,
                               "The BinaryValue of message attribute '%.*s' is not base64.",
                               BYTES_FORMAT(attribute->name));
    }
    return check_attribute(failure, attribute);
}

/* Bytes that base64 stands for. */
static size_t decoded_size(struct bytes text)
{
    while (text.size > 0 && text.ptr[text.size - 1] == '=')
        text.size--;
    return text.size / 4 * 3 + text.size % 4 * 3 / 4;
}

size_t attributes_measure(const struct params *params, const char *name)
{
    size_t size = 0;
    size_t index, count;
    yyjson_val *key, *value, *map = yyjson_obj_get(params->object, name);
    if (map == NULL)
        return 0;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        struct bytes binary = params_bytes(yyjson_obj_get(value, "BinaryValue"));
        size += params_bytes(key).size + params_bytes(yyjson_obj_get(value, "DataType")).size;
        size += binary.ptr != NULL ? decoded_size(binary) : params_bytes(yyjson_obj_get(value, "StringValue")).size;
    }
    return size;
}

/* How many of them count among the ten. */
static bool is_limited(struct bytes name)
{
    return !bytes_equal(name, BYTES(ATTRIBUTE_OUTBOX_ID)) && !trace_context_is_name(name);
}

static size_t count_limited(yyjson_val *map)
{
    size_t counted = 0;
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        counted += is_limited(params_bytes(key));
    }
    return counted;
}

unsigned attributes_count_limited(const struct attributes *attributes)
{
    unsigned counted = 0;
    for (uint32_t i = 0; i < attributes->count; i++)
        counted += is_limited(attributes->items[i].name);
    return counted;
}

enum error attributes_parse(const struct params *params, const char *name, struct arena *arena,
                            struct attributes *attributes)
{
    attributes->count = 0;
    attributes->size = 0;
    yyjson_val *map;
    enum error error = params_object(params, name, &map);
    if (error != OK || map == NULL)
        return error;
    size_t counted = yyjson_obj_size(map);
    if (counted > ATTRIBUTES_MAX)
        counted = count_limited(map);
    if (counted > ATTRIBUTES_MAX)
        return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Number of message attributes [%zu] exceeds the allowed maximum [%u].", counted,
                           ATTRIBUTES_MAX);
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        struct attribute *attribute = &attributes->items[attributes->count];
        error = parse_attribute(key, value, params->failure, arena, attribute);
        if (error != OK)
            return error;
        if (attributes_find(attributes, attribute->name) != NULL)
            return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                               "Message (user) attribute '%.*s' is given twice.", BYTES_FORMAT(attribute->name));
        attributes->count++;
        attributes->size += attribute->name.size + attribute->type.size + attribute->value.size;
    }
    attributes_sort(attributes);
    return OK;
}

const struct attribute *attributes_find(const struct attributes *attributes, struct bytes name)
{
    for (uint32_t i = 0; i < attributes->count; i++)
        if (bytes_equal(attributes->items[i].name, name))
            return &attributes->items[i];
    return NULL;
}

void attributes_add(struct attributes *attributes, struct bytes name, struct bytes value)
{
    ASSERT(attributes->count < ARRAY_LENGTH(attributes->items));
    attributes->items[attributes->count++] = attribute_text(name, value);
}

/* Insertion sort: there are at most sixteen. */
void attributes_sort(struct attributes *attributes)
{
    for (uint32_t i = 1; i < attributes->count; i++) {
        struct attribute moving = attributes->items[i];
        uint32_t index = i;
        for (; index > 0 && bytes_compare(attributes->items[index - 1].name, moving.name) > 0; index--)
            attributes->items[index] = attributes->items[index - 1];
        attributes->items[index] = moving;
    }
}

/* --- the form in the log, and the digest -------------------------------------------------------------------------- */

void attributes_encode(const struct attributes *attributes, struct buffer *out)
{
    attribute_encode_all(attributes->items, attributes->count, out);
}

void attributes_md5(const struct attributes *attributes, struct digest *digest, struct buffer *scratch,
                    uint8_t md5[DIGEST_MD5_SIZE])
{
    attribute_md5(attributes->items, attributes->count, digest, scratch, md5);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Does the receive's list ask for this attribute? "All", ".*" and "*" ask for all, "prefix.*" for the names that begin
 * with it. */
static bool is_asked_for(struct bytes name, yyjson_val *names)
{
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(names, index, count, item)
    {
        struct bytes asked = params_bytes(item);
        if (bytes_equal(asked, BYTES("All")) || bytes_equal(asked, BYTES(".*")) || bytes_equal(asked, BYTES("*")) ||
            bytes_equal(asked, name))
            return true;
        if (bytes_ends_with(asked, BYTES(".*")) && bytes_starts_with(name, bytes_make(asked.ptr, asked.size - 2)))
            return true;
    }
    return false;
}

bool attributes_ask_for_own(yyjson_val *names, const char *name)
{
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(names, index, count, item)
    {
        if (yyjson_equals_str(item, name) || yyjson_equals_str(item, "Tally.*"))
            return true;
    }
    return false;
}

static void write_attribute(struct writer *writer, const struct attribute *attribute)
{
    writer_name(writer, attribute->name);
    writer_object_begin(writer, NULL);
    if (attribute->is_binary)
        writer_base64(writer, "BinaryValue", attribute->value);
    else
        writer_text(writer, "StringValue", attribute->value);
    writer_text(writer, "DataType", attribute->type);
    writer_object_end(writer);
}

/* The output of attributes_write(), and what it has written so far. */
struct written {
    struct writer *writer;
    struct buffer *hashed;
    unsigned count;
};

static void write_next(struct written *written, const struct attribute *attribute)
{
    if (written->count++ == 0)
        writer_object_begin(written->writer, "MessageAttributes");
    attribute_append_hashed(attribute, written->hashed);
    write_attribute(written->writer, attribute);
}

void attributes_write(struct bytes encoded, const uint8_t all_md5[DIGEST_MD5_SIZE], const struct attributes *own,
                      yyjson_val *names, struct digest *digest, struct buffer *scratch, struct writer *writer)
{
    struct cursor cursor = cursor_make(encoded);
    uint16_t count = encoded.size == 0 ? 0 : cursor_u16(&cursor);
    struct written written = {.writer = writer, .hashed = scratch};
    uint32_t next_own = 0;
    unsigned stored_count = 0;
    buffer_truncate(scratch, 0);
    for (uint16_t i = 0; i < count; i++) {
        struct attribute attribute = attribute_decode(&cursor);
        ASSERT(!cursor.is_failed); /* the content's checksum was right */
        while (next_own < own->count && bytes_compare(own->items[next_own].name, attribute.name) < 0)
            write_next(&written, &own->items[next_own++]);
        /* A message that was sent on with its attributes has an older one of ours; the newer one counts. */
        if (attributes_find(own, attribute.name) != NULL || !is_asked_for(attribute.name, names))
            continue;
        write_next(&written, &attribute);
        stored_count++;
    }
    while (next_own < own->count)
        write_next(&written, &own->items[next_own++]);
    if (written.count == 0)
        return;
    writer_object_end(writer);
    uint8_t md5[DIGEST_MD5_SIZE];
    if (stored_count == count && written.count == count)
        memcpy(md5, all_md5, sizeof(md5));
    else
        digest_md5(digest, buffer_bytes(scratch), md5);
    writer_hex(writer, "MD5OfMessageAttributes", bytes_make(md5, sizeof(md5)));
}

void attributes_write_all(struct bytes encoded, const uint8_t all_md5[DIGEST_MD5_SIZE], struct writer *writer)
{
    struct cursor cursor = cursor_make(encoded);
    const uint16_t count = encoded.size == 0 ? 0 : cursor_u16(&cursor);
    if (count == 0)
        return;
    writer_object_begin(writer, "MessageAttributes");
    for (uint16_t i = 0; i < count; i++) {
        const struct attribute attribute = attribute_decode(&cursor);
        ASSERT(!cursor.is_failed); /* the content's checksum was right */
        write_attribute(writer, &attribute);
    }
    writer_object_end(writer);
    writer_hex(writer, "MD5OfMessageAttributes", bytes_make(all_md5, DIGEST_MD5_SIZE));
}
