/* Facts from the log, and tickets and expressions from outside. The first byte says which: encoded facts, `{"attrs",
 * "need"}` as JSON, or an expression. What is taken can be asked, and answers the same in either order where it
 * must. */
#include "base/assert.h"
#include "match/expression.h"
#include "match/pair.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "{\"attrs\":{\"t\":\"str\",\"n\":\"num\",\"s\":\"set\",\"m\":\"num\"},\"rules\":[{\"type\":\"differ\",\"attr\":"
    "\"s\"},"
    "{\"type\":\"near\",\"attr\":\"n\",\"max\":5,\"missing\":\"any\"},"
    "{\"type\":\"share\",\"attr\":\"s\",\"min\":1,\"missing\":\"any\",\"expand\":[{\"after\":\"1s\",\"off\":true}]}]}";

static void ask(const struct rules *rules, const struct facts *facts, const struct facts *other)
{
    const struct entry a = {.facts = facts, .weight = 1}, b = {.facts = other, .weight = 1};
    const struct entry *const members[] = {&a, &b};
    struct pair_check check = {.expression_errors = 0}, reverse = {.expression_errors = 0};
    uint8_t teams[2];
    bool is_fit = pair_fits(rules, &a, &b, &check);
    ASSERT(pair_fits(rules, &b, &a, &reverse) == is_fit);
    ASSERT((check.verdict == PAIR_FITS) == is_fit && check.expression_errors == 0);
    ASSERT(group_fits(rules, members, 2, teams, &check) == is_fit);
}

static void fuzz_encoded(const struct rules *rules, struct bytes encoded, const struct facts *other)
{
    struct facts *facts = facts_create(rules, encoded);
    if (facts == NULL)
        return;
    ask(rules, facts, facts);
    ask(rules, facts, other);
    facts_destroy(facts);
}

static void fuzz_ticket(const struct rules *rules, struct bytes json, const struct facts *other)
{
    yyjson_doc *doc = yyjson_read((const char *)json.ptr, json.size, YYJSON_READ_NOFLAG);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct failure failure = {.error = OK};
    struct buffer out;
    buffer_init(&out);
    if (doc != NULL &&
        facts_encode(rules, yyjson_obj_get(root, "attrs"), yyjson_obj_get(root, "need"), &out, &failure) == OK) {
        struct facts *facts = facts_create(rules, buffer_bytes(&out));
        ASSERT(facts != NULL);
        ask(rules, facts, other);
        facts_destroy(facts);
    } else {
        ASSERT(out.size == 0 && (doc == NULL || failure.text[0] != '\0'));
    }
    buffer_deinit(&out);
    yyjson_doc_free(doc);
}

static void fuzz_expression(const struct rules *rules, struct bytes source, const struct facts *a,
                            const struct facts *b)
{
    struct failure failure = {.error = OK};
    double number = 0;
    struct expression *rule = expression_create(rules, source, false, &failure);
    struct expression *score = expression_create(rules, source, true, &failure);
    ASSERT(rule == NULL || score == NULL);
    ASSERT(rule != NULL || score != NULL || failure.text[0] != '\0');
    if (rule != NULL)
        ASSERT((expression_holds(rule, a, b, &(uint64_t){0}) == EXPRESSION_ERROR) ==
               expression_fault(rule, a, b).is_error);
    if (score != NULL && expression_number(score, a, b, &number, &(uint64_t){0}))
        ASSERT(isfinite(number));
    expression_destroy(rule);
    expression_destroy(score);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t said[] = {3,    0,    0, 1, 0, 'x', 1, 0,   0, 0, 0,   0, 0,
                                   0xf0, 0x3f, 2, 2, 0, 1,   0, 'a', 1, 0, 'b', 0, 0};
    struct failure failure = {.error = OK};
    if (size == 0)
        return 0;
    struct rules *rules = rules_create(bytes_from_string(text), &failure);
    struct facts *other = facts_create(rules, bytes_make(said, sizeof(said)));
    struct bytes rest = bytes_make(data + 1, size - 1);
    ASSERT(rules != NULL && other != NULL);
    if (data[0] % 3 == 0)
        fuzz_encoded(rules, rest, other);
    else if (data[0] % 3 == 1)
        fuzz_ticket(rules, rest, other);
    else
        fuzz_expression(rules, rest, other, other);
    facts_destroy(other);
    rules_destroy(rules);
    return 0;
}
