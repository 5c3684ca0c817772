/* Rules and facts from texts in which ' stands for ". */
#ifndef TALLY_TESTS_UNIT_MATCH_H
#define TALLY_TESTS_UNIT_MATCH_H

#include "match/facts.h"
#include "match/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static inline void make_quotes(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            *text = '"';
}

/* Rules that are taken; NULL with `failure` filled where that is not NULL and they are not. */
static inline struct rules *rules_read(const char *text, struct failure *failure)
{
    struct failure fault = {.error = OK};
    char *json = strdup(text);
    make_quotes(json);
    struct rules *rules = rules_create(bytes_from_string(json), failure != NULL ? failure : &fault);
    free(json);
    if (rules == NULL && failure == NULL)
        fail_msg("%s: %s", text, fault.text);
    return rules;
}

static inline struct rules *rules_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline struct rules *rules_of(const char *format, ...)
{
    char text[4000];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof(text));
    return rules_read(text, NULL);
}

static inline yyjson_doc *json_of(const char *text)
{
    char *json = strdup(text);
    make_quotes(json);
    yyjson_doc *doc = yyjson_read(json, strlen(json), YYJSON_READ_NOFLAG);
    free(json);
    if (doc == NULL)
        fail_msg("no JSON: %s", text);
    return doc;
}

/* Encodes; NULL for `need`: none. */
static inline enum error encode_of(const struct rules *rules, const char *attributes, const char *need,
                                   struct buffer *out, struct failure *failure)
{
    yyjson_doc *said = json_of(attributes), *needed = need == NULL ? NULL : json_of(need);
    enum error error = facts_encode(rules, yyjson_doc_get_root(said), yyjson_doc_get_root(needed), out, failure);
    yyjson_doc_free(said);
    yyjson_doc_free(needed);
    return error;
}

/* Through the encoded form and back. The caller frees them. */
static inline struct facts *facts_of(const struct rules *rules, const char *attributes, const char *need)
{
    struct failure failure = {.error = OK};
    struct buffer out;
    buffer_init(&out);
    if (encode_of(rules, attributes, need, &out, &failure) != OK)
        fail_msg("%s, %s: %s", attributes, need == NULL ? "" : need, failure.text);
    struct facts *facts = facts_create(rules, buffer_bytes(&out));
    assert_non_null(facts);
    buffer_deinit(&out);
    return facts;
}

#endif
