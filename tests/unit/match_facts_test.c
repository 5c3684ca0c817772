/* Facts: what tickets say and need: read, encoded, decoded, compared. */
#include "base/assert.h"

#include "match.h"

#define RULES "{'attrs':{'kind':'str','qty':'num','maps':'set','x':'num'}}"

/* --- reading ------------------------------------------------------------------------------------------------------ */

#define TEN(text) text text text text text text text text text text
#define SIXTY_FOUR(text) TEN(text) TEN(text) TEN(text) TEN(text) TEN(text) TEN(text) text text text text

static void faults_name_place_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *attributes;
        const char *need;
        const char *fault;
    } rows[] = {
        {"[]", NULL, "Attributes must be an object, not a list."},
        {"{'size':1}", NULL, "Attributes: the pool has no attribute \"size\"."},
        {"{'qty':1,'qty':2}", NULL, "Attributes has \"qty\" twice."},
        {"{'qty':'1'}", NULL, "Attributes.qty must be a number, not \"1\"."},
        {"{'qty':true}", NULL, "Attributes.qty must be a number, not true."},
        {"{'kind':1}", NULL, "Attributes.kind must be a text of at most 256 bytes, not 1."},
        {"{'kind':'" SIXTY_FOUR("1234") "5'}", NULL,
         "Attributes.kind must be a text of at most 256 bytes, not \"12341234"},
        {"{'maps':'x'}", NULL, "Attributes.maps must be a list of at most 64 texts, not \"x\"."},
        {"{'maps':[" SIXTY_FOUR("'x',") "'x']}", NULL,
         "Attributes.maps must be a list of at most 64 texts, not a list."},
        {"{'maps':['x',7]}", NULL,
         "Attributes.maps must be a list of texts of at most 256 bytes, and have no other value, not 7."},
        {"{}", "7", "Need must be an object, not 7."},
        {"{}", "{'size':{}}", "Need: the pool has no attribute \"size\"."},
        {"{}", "{'qty':{},'qty':{}}", "Need has \"qty\" twice."},
        {"{}", "{'qty':5}", "Need.qty must be an object, not 5."},
        {"{}", "{'qty':null}", "Need.qty must be an object, not null."},
        {"{}", "{'qty':{'mni':5}}", "Need.qty has \"mni\", but can only have: eq, in, not, min, max."},
        {"{}", "{'qty':{'any':['x']}}", "Need.qty has \"any\", but can only have: eq, in, not, min, max."},
        {"{}", "{'kind':{'min':5}}", "Need.kind has \"min\", but can only have: eq, in, not."},
        {"{}", "{'maps':{'eq':['x']}}", "Need.maps has \"eq\", but can only have: any, all."},
        {"{}", "{'qty':{'min':'x'}}", "Need.qty.min must be a number, not \"x\"."},
        {"{}", "{'qty':{'eq':'x'}}", "Need.qty.eq must be about numbers, not \"x\"."},
        {"{}", "{'kind':{'eq':null}}", "Need.kind.eq must be about texts of at most 256 bytes, not null."},
        {"{}", "{'kind':{'in':'x'}}", "Need.kind.in must be a list of at most 64 values, not \"x\"."},
        {"{}", "{'kind':{'in':['x',1]}}", "Need.kind.in must be about texts of at most 256 bytes, not 1."},
        {"{}", "{'qty':{'not':[" SIXTY_FOUR("1,") "1]}}",
         "Need.qty.not must be a list of at most 64 values, not a list."},
        {"{}", "{'maps':{'any':[1]}}", "Need.maps.any must be about texts of at most 256 bytes, not 1."},
        {"{}", "{'qty':{'min':1,'min':2}}", "Need.qty has \"min\" twice."},
    };
    struct rules *rules = rules_of(RULES);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct failure failure = {.error = OK};
        struct buffer out;
        buffer_init(&out);
        buffer_append_u8(&out, 7);
        if (encode_of(rules, rows[i].attributes, rows[i].need, &out, &failure) == OK)
            fail_msg("%s %s: taken", rows[i].attributes, rows[i].need);
        assert_int_equal(failure.error, ERROR_INVALID_PARAMETER_VALUE);
        if (strncmp(failure.text, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("%s %s: %s", rows[i].attributes, rows[i].need, failure.text);
        assert_int_equal(out.size, 1);
        buffer_deinit(&out);
    }
    rules_destroy(rules);
}

static void more_than_sixteen_needs_are_refused(void **state)
{
    (void)state;
    char attributes[2000] = "{'attrs':{", needs[2000] = "{";
    struct buffer out;
    buffer_init(&out);
    for (int i = 0; i < 17; i++) {
        char item[40];
        snprintf(item, sizeof(item), "%s'x%d':'num'", i == 0 ? "" : ",", i);
        strcat(attributes, item);
    }
    strcat(attributes, "}}");
    struct rules *rules = rules_read(attributes, NULL);
    for (int i = 0; i < 17; i++) {
        char item[40], need[2100];
        snprintf(item, sizeof(item), "%s'x%d':{}", i == 0 ? "" : ",", i);
        strcat(needs, item);
        snprintf(need, sizeof(need), "%s}", needs);
        struct failure failure = {.error = OK};
        enum error error = encode_of(rules, "{}", need, &out, &failure);
        assert_int_equal(error, i < 16 ? OK : ERROR_INVALID_PARAMETER_VALUE);
        if (i == 16)
            assert_string_equal(failure.text, "Need names 17 attributes; there can be 16.");
    }
    buffer_deinit(&out);
    rules_destroy(rules);
}

static void facts_are_what_was_said(void **state)
{
    (void)state;
    struct rules *rules = rules_of(RULES);
    struct facts *facts = facts_of(rules, "{'maps':['b','a','b'],'kind':'A','x':null}", NULL);
    assert_int_equal(facts->fact_count, 3);
    assert_true(facts_at(facts, 0)->is_there);
    assert_true(bytes_equal(facts_at(facts, 0)->text.bytes, BYTES("A")));
    assert_int_equal(facts_at(facts, 0)->text.hash, bytes_hash(BYTES("A")));
    assert_false(facts_at(facts, 1)->is_there);
    assert_int_equal(facts_at(facts, 2)->set.count, 2);
    assert_false(facts_at(facts, 3)->is_there);
    assert_false(facts_at(facts, 99)->is_there);
    facts_destroy(facts);
    facts = facts_of(rules, "{'qty':18446744073709551615}", NULL);
    assert_true(facts_at(facts, 1)->number == 18446744073709551616.0);
    facts_destroy(facts);
    rules_destroy(rules);
}

/* --- the format --------------------------------------------------------------------------------------------------- */

static void the_encoded_form_is_that_of_the_header(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        3, 0,                                         /* values */
        0, 1, 0, 'A',                                 /* kind */
        1, 0, 0, 0,   0, 0,   0, 0xf0, 0x3f,          /* qty: 1.0 */
        2, 2, 0, 1,   0, 'a', 1, 0,    'b',           /* maps, rising */
        2, 0,                                         /* needs */
        0, 2, 1, 0,   1, 1,   0, 'B',                 /* kind in one text */
        1, 9, 0, 0,   0, 0,   0, 0,    0,    0, 0x40, /* qty eq 2.0 and */
        0, 0, 0, 0,   0, 0,   0, 0x40,                /* min 2.0 */
    };
    struct rules *rules = rules_of(RULES);
    struct failure failure = {.error = OK};
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(encode_of(rules, "{'qty':1,'maps':['b','a'],'kind':'A'}",
                               "{'qty':{'min':2,'eq':2},'kind':{'in':['B']}}", &out, &failure),
                     OK);
    assert_int_equal(out.size, sizeof(expected));
    assert_memory_equal(out.data_owned, expected, sizeof(expected));
    buffer_deinit(&out);
    rules_destroy(rules);
}

static void what_is_cut_or_changed_is_no_facts(void **state)
{
    (void)state;
    struct rules *rules = rules_of(RULES);
    struct failure failure = {.error = OK};
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(encode_of(rules, "{'qty':1,'maps':['b','a'],'kind':'A'}",
                               "{'qty':{'min':2,'not':[2,3]},'kind':{'in':['B','C']},'maps':{'any':['q'],'all':[]}}",
                               &out, &failure),
                     OK);
    for (size_t size = 0; size < out.size; size++)
        assert_null(facts_create(rules, bytes_make(out.data_owned, size)));
    buffer_append_u8(&out, 0);
    assert_null(facts_create(rules, buffer_bytes(&out)));
    buffer_truncate(&out, out.size - 1);
    /* Any byte may be anything: it is facts or it is not, and nothing else happens. */
    for (size_t at = 0; at < out.size; at++) {
        uint8_t was = out.data_owned[at];
        for (unsigned byte = 0; byte < 256; byte++) {
            out.data_owned[at] = (uint8_t)byte;
            facts_destroy(facts_create(rules, buffer_bytes(&out)));
        }
        out.data_owned[at] = was;
    }
    buffer_deinit(&out);
    rules_destroy(rules);
}

static void facts_of_fewer_attributes_stay_good_under_more(void **state)
{
    (void)state;
    struct rules *old = rules_of(RULES), *rules = rules_of("{'attrs':{'kind':'str','qty':'num','maps':'set','x':'num',"
                                                           "'more':'set'}}");
    struct failure failure = {.error = OK};
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(encode_of(old, "{'x':5}", NULL, &out, &failure), OK);
    struct facts *facts = facts_create(rules, buffer_bytes(&out));
    assert_true(facts_at(facts, 3)->number == 5);
    assert_false(facts_at(facts, 4)->is_there);
    facts_destroy(facts);
    struct rules *others = rules_of("{'attrs':{'kind':'str'}}");
    assert_null(facts_create(others, buffer_bytes(&out)));
    rules_destroy(others);
    rules_destroy(old);
    rules_destroy(rules);
    buffer_deinit(&out);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void needs_hold_as_the_reference_says(void **state)
{
    (void)state;
    static const struct {
        const char *need;
        const char *other;
        bool is_met;
    } rows[] = {
        {"{}", "{}", true},
        {"{'qty':{}}", "{'qty':1}", true},
        {"{'qty':{}}", "{}", false},
        {"{'qty':{'eq':1}}", "{'qty':1}", true},
        {"{'qty':{'eq':1}}", "{'qty':1.5}", false},
        {"{'qty':{'eq':0}}", "{'qty':-0.0}", true},
        {"{'qty':{'in':[1,2]}}", "{'qty':2}", true},
        {"{'qty':{'in':[1,2]}}", "{'qty':3}", false},
        {"{'qty':{'in':[]}}", "{'qty':3}", false},
        {"{'qty':{'not':[1,2]}}", "{'qty':3}", true},
        {"{'qty':{'not':[1,2]}}", "{'qty':2}", false},
        {"{'qty':{'not':[1,2]}}", "{}", false},
        {"{'qty':{'min':10}}", "{'qty':10}", true},
        {"{'qty':{'min':10}}", "{'qty':9.9}", false},
        {"{'qty':{'max':10}}", "{'qty':10}", true},
        {"{'qty':{'max':10}}", "{'qty':10.1}", false},
        {"{'qty':{'min':1,'max':3,'not':[2]}}", "{'qty':2}", false},
        {"{'qty':{'min':1,'max':3,'not':[2]}}", "{'qty':2.5}", true},
        {"{'kind':{'eq':'A'}}", "{'kind':'A'}", true},
        {"{'kind':{'eq':'A'}}", "{'kind':'B'}", false},
        {"{'kind':{'eq':''}}", "{'kind':''}", true},
        {"{'kind':{'in':['A','B','C','D']}}", "{'kind':'C'}", true},
        {"{'kind':{'not':['A','B','C','D']}}", "{'kind':'C'}", false},
        {"{'maps':{'any':['p','q']}}", "{'maps':['q','r']}", true},
        {"{'maps':{'any':['p','q']}}", "{'maps':['r']}", false},
        {"{'maps':{'any':[]}}", "{'maps':['r']}", false},
        {"{'maps':{'all':['p','q','p']}}", "{'maps':['r','q','p']}", true},
        {"{'maps':{'all':['p','q']}}", "{'maps':['p']}", false},
        {"{'maps':{'all':[]}}", "{'maps':[]}", true},
        {"{'maps':{'all':['p'],'any':['q','s']}}", "{'maps':['p','q']}", true},
        {"{'maps':{'all':['p'],'any':['q','s']}}", "{'maps':['p','r']}", false},
        {"{'qty':{'min':1},'kind':{'eq':'A'}}", "{'qty':1,'kind':'B'}", false},
    };
    struct rules *rules = rules_of(RULES);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct facts *facts = facts_of(rules, "{}", rows[i].need), *other = facts_of(rules, rows[i].other, NULL);
        uint32_t attribute = 77;
        if (facts_meet(facts, other, &attribute) != rows[i].is_met)
            fail_msg("%s with %s", rows[i].need, rows[i].other);
        assert_true((attribute == 77) == rows[i].is_met);
        assert_true(facts_meet(facts, other, NULL) == rows[i].is_met);
        facts_destroy(facts);
        facts_destroy(other);
    }
    rules_destroy(rules);
}

static void the_first_need_that_fails_is_told(void **state)
{
    (void)state;
    struct rules *rules = rules_of(RULES);
    struct facts *facts = facts_of(rules, "{}", "{'x':{'min':1},'qty':{'min':1},'kind':{}}");
    struct facts *other = facts_of(rules, "{'kind':'A'}", NULL);
    uint32_t attribute = 77;
    assert_false(facts_meet(facts, other, &attribute));
    assert_int_equal(attribute, 1);
    facts_destroy(facts);
    facts_destroy(other);
    rules_destroy(rules);
}

static void sets_have_in_common_what_stands_in_both(void **state)
{
    (void)state;
    struct rules *rules = rules_of(RULES);
    struct facts *a = facts_of(rules, "{'maps':['a','b','c','d','e','f','g']}", NULL);
    struct facts *b = facts_of(rules, "{'maps':['x','c','y','a','z','g']}", NULL);
    assert_int_equal(fact_set_common(&facts_at(a, 2)->set, &facts_at(b, 2)->set), 3);
    assert_int_equal(fact_set_common(&facts_at(b, 2)->set, &facts_at(a, 2)->set), 3);
    assert_int_equal(fact_set_common(&facts_at(a, 2)->set, &facts_at(a, 2)->set), 7);
    facts_destroy(a);
    facts_destroy(b);
    rules_destroy(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_name_place_and_value),
        cmocka_unit_test(more_than_sixteen_needs_are_refused),
        cmocka_unit_test(facts_are_what_was_said),
        cmocka_unit_test(the_encoded_form_is_that_of_the_header),
        cmocka_unit_test(what_is_cut_or_changed_is_no_facts),
        cmocka_unit_test(facts_of_fewer_attributes_stay_good_under_more),
        cmocka_unit_test(needs_hold_as_the_reference_says),
        cmocka_unit_test(the_first_need_that_fails_is_told),
        cmocka_unit_test(sets_have_in_common_what_stands_in_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
