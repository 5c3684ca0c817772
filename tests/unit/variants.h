/* Every wrong form of each value of a request: left out, given twice, of another type, too long, too large, one more or
 * less. A text that holds an object in JSON (RedrivePolicy) is changed inside, too. */
#ifndef TALLY_TESTS_UNIT_VARIANTS_H
#define TALLY_TESTS_UNIT_VARIANTS_H

#include "base/assert.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>
#include <yyjson.h>

/* A document that is changed and told. The variants of a text's content are told inside the document of the text. */
struct variants {
    yyjson_mut_doc *doc;
    const struct variants *outer; /* NULL: this is the request itself */
    yyjson_mut_val *text;         /* the value of `outer` that holds this document */
    void (*tell)(void *context, const char *request);
    void *context;
};

/* What is limited: texts in bytes, lists and maps in entries, numbers. Each is asked at the limit and one beyond. */
static const size_t variant_sizes[] = {64, 80, 128, 256, 1024, 1500, 2048};
static const size_t variant_counts[] = {7, 10, 16, 20, 32, 50, 64, 100, 200, 1000};
static const long long variant_limits[] = {9,       10,      20,       60,        64,        100,       200,   500,
                                           600,     900,     1000,     1023,      10000,     43200,     86400, 120000,
                                           1048576, 1209600, 31536000, 100000000, 315360000, 1000000000};

#define VARIANT_NUMBERS                                                                                                \
    "0", "-1", "1", "2", "1.5", "2147483648", "4294967295", "4294967296", "9007199254740992", "9223372036854775807",   \
        "18446744073709551615", "-9223372036854775808", "1e300"

static inline void variants_tell(const struct variants *variants)
{
    char *text = yyjson_mut_write(variants->doc, YYJSON_WRITE_NOFLAG, NULL);
    assert_non_null(text);
    if (variants->outer == NULL) {
        variants->tell(variants->context, text);
    } else {
        const yyjson_mut_val before = *variants->text;
        yyjson_mut_set_str(variants->text, text);
        variants_tell(variants->outer);
        *variants->text = before;
    }
    free(text);
}

/* Another value in the place of `value`. */
static inline void variants_tell_with(const struct variants *variants, yyjson_mut_val *value,
                                      const yyjson_mut_val *other)
{
    const yyjson_mut_val before = *value;
    value->tag = other->tag;
    value->uni = other->uni;
    variants_tell(variants);
    *value = before;
}

static inline void variants_tell_json(const struct variants *variants, yyjson_mut_val *value, const char *json)
{
    yyjson_doc *doc = yyjson_read(json, strlen(json), YYJSON_READ_NOFLAG);
    assert_non_null(doc);
    yyjson_mut_val *copy = yyjson_val_mut_copy(variants->doc, yyjson_doc_get_root(doc));
    variants_tell_with(variants, value, copy);
    yyjson_doc_free(doc);
}

static inline void variants_tell_text(const struct variants *variants, yyjson_mut_val *value, const char *text,
                                      size_t size)
{
    const yyjson_mut_val before = *value;
    yyjson_mut_set_strn(value, text, size);
    variants_tell(variants);
    *value = before;
}

/* --- the values --------------------------------------------------------------------------------------------------- */

/* The same for each value, whatever it is. */
static inline void variants_of_any(const struct variants *variants, yyjson_mut_val *value)
{
    static const char *const others[] = {"null", "true",    "false", "\"\"", "\"x\"", "\"All\"", "[]",           "{}",
                                         "[7]",  "[\"x\"]", "[{}]",  "0",    "-1",    "1.5",     "{\"x\":\"y\"}"};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        variants_tell_json(variants, value, others[i]);
}

static inline void variants_of_number(const struct variants *variants, yyjson_mut_val *value)
{
    const double number = yyjson_mut_get_num(value);
    const double others[] = {number - 1, number + 1, -number, number * 1000};
    static const char *const numbers[] = {VARIANT_NUMBERS};
    char text[40];
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
        variants_tell_json(variants, value, numbers[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        snprintf(text, sizeof(text), "%.17g", others[i]);
        variants_tell_json(variants, value, text);
    }
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(variant_limits); i++) {
        snprintf(text, sizeof(text), "%lld", variant_limits[i / 2] + (long long)(i % 2));
        variants_tell_json(variants, value, text);
    }
    snprintf(text, sizeof(text), "%.17g", number);
    variants_tell_text(variants, value, text, strlen(text));
}

/* Of a number in digits: other numbers in digits. */
static inline void variants_of_digits(const struct variants *variants, yyjson_mut_val *value, const char *text)
{
    static const char *const others[] = {VARIANT_NUMBERS,
                                         "+1",
                                         "007",
                                         "1 ",
                                         "0x1",
                                         "-0",
                                         "0.0010",
                                         "00120.5",
                                         "-1.5e3",
                                         ".5",
                                         "5.",
                                         ".",
                                         "1e",
                                         "1E+5",
                                         "1e126",
                                         "9e126",
                                         "1e127",
                                         "0e999",
                                         "1e-128",
                                         "1e-129",
                                         "0.01e-126",
                                         "12345678901234567890123456789012345678",
                                         "-0.123456789012345678901234567890123456789"};
    char other[40];
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(variant_limits); i++) {
        snprintf(other, sizeof(other), "%lld", variant_limits[i / 2] + (long long)(i % 2));
        variants_tell_text(variants, value, other, strlen(other));
    }
    for (int step = -1; step <= 1; step += 2) {
        snprintf(other, sizeof(other), "%lld", strtoll(text, NULL, 10) + step);
        variants_tell_text(variants, value, other, strlen(other));
    }
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        variants_tell_text(variants, value, others[i], strlen(others[i]));
}

static inline void variants_of_value(const struct variants *variants, yyjson_mut_val *value);

static inline void variants_of_size(const struct variants *variants, yyjson_mut_val *value)
{
    char text[2049];
    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(variant_sizes); i++)
        variants_tell_text(variants, value, text, variant_sizes[i / 2] + i % 2);
}

/* Odd letters; one letter more, less or other at each end and in the middle; the content of JSON. */
static inline void variants_of_text(const struct variants *variants, yyjson_mut_val *value)
{
    static const char *const others[] = {"a b", "\x01", "\u00e9", "\u20ac", "\U0001d11e", "\uffff"};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        variants_tell_text(variants, value, others[i], strlen(others[i]));
    const size_t size = yyjson_mut_get_len(value);
    char *text = calloc(1, size + 3);
    assert_non_null(text);
    memcpy(text + 1, yyjson_mut_get_str(value), size);
    text[0] = ' ';
    variants_tell_text(variants, value, text, size + 1);
    text[size + 1] = 'x';
    variants_tell_text(variants, value, text + 1, size + 1);
    text[size + 1] = '/';
    variants_tell_text(variants, value, text + 1, size + 1);
    text[size + 1] = '\0';
    if (size > 0) {
        variants_tell_text(variants, value, text + 2, size - 1);
        variants_tell_text(variants, value, text + 1, size - 1);
        const char last = text[size], first = text[1];
        text[size] = '0';
        variants_tell_text(variants, value, text + 1, size);
        text[size] = last;
        text[1] = (char)(first ^ ' ');
        if (first >= 'A')
            variants_tell_text(variants, value, text + 1, size);
        text[1] = first;
        char *comma = memchr(text + 1, ',', size), *middle = comma != NULL ? comma : text + 1 + size / 2;
        const char inside = *middle;
        *middle = ';';
        variants_tell_text(variants, value, text + 1, size);
        *middle = inside;
    }
    if (size > 0 && size < 20 && strspn(text + 1, "0123456789") == size)
        variants_of_digits(variants, value, text + 1);
    yyjson_doc *content = text[1] == '{' ? yyjson_read(text + 1, size, YYJSON_READ_NOFLAG) : NULL;
    if (content != NULL) {
        struct variants inside = {.doc = yyjson_doc_mut_copy(content, NULL), .outer = variants, .text = value};
        variants_of_value(&inside, yyjson_mut_doc_get_root(inside.doc));
        yyjson_mut_doc_free(inside.doc);
        yyjson_doc_free(content);
    }
    free(text);
    variants_of_size(variants, value);
}

/* "x7" */
static inline const char *variants_name(const struct variants *variants, size_t number)
{
    char name[24];
    snprintf(name, sizeof(name), "x%zu", number);
    return yyjson_mut_get_str(yyjson_mut_strcpy(variants->doc, name));
}

/* Appends a copy of the first element, with another name or number: its own, or that of its first member. */
static inline void variants_grow_array(const struct variants *variants, yyjson_mut_val *array)
{
    const size_t size = yyjson_mut_arr_size(array);
    yyjson_mut_val *copy = yyjson_mut_val_mut_copy(variants->doc, yyjson_mut_arr_get_first(array));
    yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(copy);
    yyjson_mut_val *first = yyjson_mut_obj_iter_get_val(yyjson_mut_obj_iter_next(&iter));
    yyjson_mut_val *named = first == NULL ? copy : first;
    if (yyjson_mut_is_str(named))
        yyjson_mut_set_str(named, variants_name(variants, size));
    else if (yyjson_mut_is_uint(named))
        yyjson_mut_set_uint(named, size + 1);
    yyjson_mut_arr_append(array, copy);
}

/* An element less, the first or the last one twice, and more and more of them. */
static inline void variants_of_array(const struct variants *variants, yyjson_mut_val *array)
{
    const size_t size = yyjson_mut_arr_size(array);
    if (size == 0)
        return;
    for (size_t i = 0; i < size; i++) {
        yyjson_mut_val *taken = yyjson_mut_arr_remove(array, i);
        variants_tell(variants);
        yyjson_mut_arr_insert(array, taken, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        yyjson_mut_val *twice = i == 0 ? yyjson_mut_arr_get_first(array) : yyjson_mut_arr_get_last(array);
        yyjson_mut_arr_append(array, yyjson_mut_val_mut_copy(variants->doc, twice));
        variants_tell(variants);
        yyjson_mut_arr_remove_last(array);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(variant_counts); i++) {
        while (yyjson_mut_arr_size(array) < variant_counts[i])
            variants_grow_array(variants, array);
        variants_tell(variants);
        variants_grow_array(variants, array);
        variants_tell(variants);
    }
    while (yyjson_mut_arr_size(array) > size)
        yyjson_mut_arr_remove_last(array);
}

/* The member at `index`: left out, given twice; the first one also with another name. */
static inline void variants_of_member(const struct variants *variants, yyjson_mut_val *object, size_t index)
{
    static const char *const names[] = {"", "a b", ".a", "a.", "a..b", "AWS.a", "Amazon.a", "Tally.X"};
    yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(object);
    yyjson_mut_val *name = NULL;
    for (size_t i = 0; i <= index; i++)
        name = yyjson_mut_obj_iter_next(&iter);
    yyjson_mut_val *value = yyjson_mut_obj_iter_get_val(name);
    for (size_t i = 0; index == 0 && i < ARRAY_LENGTH(names); i++)
        variants_tell_text(variants, name, names[i], strlen(names[i]));
    yyjson_mut_obj_insert(object, yyjson_mut_val_mut_copy(variants->doc, name),
                          yyjson_mut_val_mut_copy(variants->doc, value), index);
    variants_tell(variants);
    iter = yyjson_mut_obj_iter_with(object);
    for (size_t i = 0; i <= index; i++)
        (void)yyjson_mut_obj_iter_next(&iter);
    yyjson_mut_obj_iter_remove(&iter);
    iter = yyjson_mut_obj_iter_with(object);
    for (size_t i = 0; i <= index; i++)
        name = yyjson_mut_obj_iter_next(&iter);
    yyjson_mut_obj_iter_remove(&iter);
    variants_tell(variants);
    yyjson_mut_obj_insert(object, name, value, index);
}

/* A member more, and more and more of them. */
static inline void variants_of_object(const struct variants *variants, yyjson_mut_val *object)
{
    const size_t size = yyjson_mut_obj_size(object);
    for (size_t i = 0; i < size; i++)
        variants_of_member(variants, object, i);
    yyjson_mut_obj_add_str(variants->doc, object, "Unknown", "x");
    variants_tell(variants);
    yyjson_mut_obj_remove_key(object, "Unknown");
    yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(object);
    yyjson_mut_val *first = yyjson_mut_obj_iter_get_val(yyjson_mut_obj_iter_next(&iter));
    for (size_t i = 0; first != NULL && i < ARRAY_LENGTH(variant_counts); i++) {
        if (variant_counts[i] < size || variant_counts[i] > 50)
            continue;
        for (unsigned more = 0; more < 2; more++) {
            for (size_t at = yyjson_mut_obj_size(object); at < variant_counts[i] + more; at++)
                yyjson_mut_obj_add_val(variants->doc, object, variants_name(variants, at),
                                       yyjson_mut_val_mut_copy(variants->doc, first));
            variants_tell(variants);
        }
    }
    for (size_t at = yyjson_mut_obj_size(object); at-- > size;)
        yyjson_mut_obj_remove_key(object, variants_name(variants, at));
}

static inline void variants_of_value(const struct variants *variants, yyjson_mut_val *value)
{
    variants_of_any(variants, value);
    if (yyjson_mut_is_num(value))
        variants_of_number(variants, value);
    if (yyjson_mut_is_str(value))
        variants_of_text(variants, value);
    size_t index, count;
    yyjson_mut_val *name, *inner;
    if (yyjson_mut_is_arr(value)) {
        variants_of_array(variants, value);
        yyjson_mut_arr_foreach(value, index, count, inner)
        {
            variants_of_value(variants, inner);
        }
    }
    if (yyjson_mut_is_obj(value)) {
        variants_of_object(variants, value);
        yyjson_mut_obj_foreach(value, index, count, name, inner)
        {
            variants_of_value(variants, inner);
        }
    }
}

/* Tells all of them, one after the other, always in the same order. */
static inline void variants_tell_all(const char *request, void (*tell)(void *context, const char *request),
                                     void *context)
{
    yyjson_doc *doc = yyjson_read(request, strlen(request), YYJSON_READ_NOFLAG);
    if (doc == NULL)
        fail_msg("no JSON: %s", request);
    struct variants variants = {.doc = yyjson_doc_mut_copy(doc, NULL), .tell = tell, .context = context};
    variants_of_value(&variants, yyjson_mut_doc_get_root(variants.doc));
    yyjson_mut_doc_free(variants.doc);
    yyjson_doc_free(doc);
}

#endif
