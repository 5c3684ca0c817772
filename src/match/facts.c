#include "match/facts.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/cursor.h"

#include <math.h>
#include <stdlib.h>

#define NEED_SET_WORK 8u

const struct fact fact_missing = {.is_there = false};

/* --- comparing ---------------------------------------------------------------------------------------------------- */

int fact_text_compare(const struct fact_text *a, const struct fact_text *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return bytes_compare(a->bytes, b->bytes);
}

uint32_t fact_set_common(const struct fact_set *a, const struct fact_set *b)
{
    uint32_t i = 0, j = 0, common = 0;
    while (i < a->count && j < b->count) {
        int order = fact_text_compare(&a->items[i], &b->items[j]);
        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

bool fact_equal(enum attribute_type type, const struct fact *a, const struct fact *b)
{
    switch (type) {
    case ATTRIBUTE_NUMBER:
        return a->number == b->number;
    case ATTRIBUTE_TEXT:
        return fact_text_equal(&a->text, &b->text);
    case ATTRIBUTE_SET:
        break;
    }
    return a->set.count == b->set.count && fact_set_common(&a->set, &b->set) == a->set.count;
}

/* --- needs -------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const struct need *need, const struct need_values *values, const struct fact *fact)
{
    for (uint32_t i = 0; i < values->count; i++) {
        const struct need_value *value = &values->items[i];
        if (need->type == ATTRIBUTE_NUMBER ? value->number == fact->number : fact_text_equal(&value->text, &fact->text))
            return true;
    }
    return false;
}

/* How many of the values are in the set? A value may come twice; both lists have the same order. */
static uint32_t count_in_set(const struct need_values *values, const struct fact_set *set)
{
    uint32_t i = 0, j = 0, found = 0;
    while (i < values->count && j < set->count) {
        int order = fact_text_compare(&values->items[i].text, &set->items[j]);
        found += order == 0;
        i += order <= 0;
        j += order > 0;
    }
    return found;
}

/* Decoding has refused clauses that do not fit the attribute's type. */
static bool meets(const struct need *need, const struct fact *fact)
{
    const unsigned clauses = need->clauses;
    if ((clauses & NEED_MIN) != 0 && fact->number < need->min)
        return false;
    if ((clauses & NEED_MAX) != 0 && fact->number > need->max)
        return false;
    if ((clauses & NEED_EQUAL) != 0 && !is_one_of(need, &need->equal, fact))
        return false;
    if ((clauses & NEED_IN) != 0 && !is_one_of(need, &need->in, fact))
        return false;
    if ((clauses & NEED_NOT) != 0 && is_one_of(need, &need->not, fact))
        return false;
    if ((clauses & NEED_ANY) != 0 && count_in_set(&need->any, &fact->set) == 0)
        return false;
    return (clauses & NEED_ALL) == 0 || count_in_set(&need->all, &fact->set) == need->all.count;
}

bool facts_meet(const struct facts *facts, const struct facts *other, uint32_t *attribute)
{
    for (uint32_t i = 0; i < facts->need_count; i++) {
        const struct need *need = &facts->needs[i];
        const struct fact *fact = facts_at(other, need->attribute);
        if (fact->is_there && meets(need, fact))
            continue;
        if (attribute != NULL)
            *attribute = need->attribute;
        return false;
    }
    return true;
}

/* --- decoding ----------------------------------------------------------------------------------------------------- */

/* The encoded form is read twice by the same code: first to check and to count, then into the memory that it takes. */
struct decoder {
    const struct rules *rules;
    struct cursor cursor;
    bool is_filling;
    uint32_t fact_count; /* the highest attribute present, plus 1 */
    uint32_t need_count;
    uint32_t value_count;
    uint32_t text_count; /* in sets */
    size_t byte_count;   /* of all texts */

    /* Where they go. */
    struct fact *facts;
    struct need *needs;
    struct need_value *values;
    struct fact_text *texts;
    uint8_t *bytes;
};

static double read_number(struct decoder *decoder)
{
    uint64_t bits = cursor_u64(&decoder->cursor);
    double number;
    memcpy(&number, &bits, sizeof(number));
    if (!isfinite(number))
        cursor_fail(&decoder->cursor);
    return number + 0.0;
}

/* The bytes of the text are those in the encoded form until they are copied. */
static struct fact_text read_text(struct decoder *decoder)
{
    uint16_t size = cursor_u16(&decoder->cursor);
    struct fact_text text = {.bytes = cursor_bytes(&decoder->cursor, size)};
    if (size > RULES_TEXT_VALUE_SIZE_MAX)
        cursor_fail(&decoder->cursor);
    if (decoder->is_filling) {
        uint8_t *at = decoder->bytes + decoder->byte_count;
        if (size != 0)
            memcpy(at, text.bytes.ptr, size);
        text.bytes = bytes_make(at, size);
        text.hash = bytes_hash(text.bytes);
    }
    decoder->byte_count += text.bytes.size;
    return text;
}

static int order_texts(const void *a, const void *b)
{
    return fact_text_compare(a, b);
}

static int order_values(const void *a, const void *b)
{
    return fact_text_compare(&((const struct need_value *)a)->text, &((const struct need_value *)b)->text);
}

static struct fact_set read_set(struct decoder *decoder)
{
    uint16_t count = cursor_u16(&decoder->cursor);
    uint32_t first = decoder->text_count;
    struct bytes previous = {.size = 0};
    if (count > FACTS_SET_SIZE_MAX)
        cursor_fail(&decoder->cursor);
    for (uint32_t i = 0; i < count && !decoder->cursor.is_failed; i++) {
        struct fact_text text = read_text(decoder);
        if (i > 0 && bytes_compare(previous, text.bytes) >= 0)
            cursor_fail(&decoder->cursor);
        previous = text.bytes;
        if (decoder->is_filling)
            decoder->texts[decoder->text_count] = text;
        decoder->text_count++;
    }
    if (!decoder->is_filling)
        return (struct fact_set){.count = 0};
    qsort(decoder->texts + first, count, sizeof(*decoder->texts), order_texts);
    return (struct fact_set){.items = decoder->texts + first, .count = count};
}

static void read_facts(struct decoder *decoder)
{
    uint16_t count = cursor_u16(&decoder->cursor);
    for (uint32_t i = 0; i < count && !decoder->cursor.is_failed; i++) {
        uint32_t attribute = cursor_u8(&decoder->cursor);
        if (attribute < decoder->fact_count || attribute >= decoder->rules->attribute_count) {
            cursor_fail(&decoder->cursor);
            return;
        }
        enum attribute_type type = decoder->rules->attributes[attribute].type;
        struct fact fact = {.is_there = true};
        if (type == ATTRIBUTE_NUMBER)
            fact.number = read_number(decoder);
        else if (type == ATTRIBUTE_TEXT)
            fact.text = read_text(decoder);
        else
            fact.set = read_set(decoder);
        if (decoder->is_filling)
            decoder->facts[attribute] = fact;
        decoder->fact_count = attribute + 1;
    }
}

static void read_value(struct decoder *decoder, enum attribute_type type)
{
    enum attribute_type wanted = type == ATTRIBUTE_NUMBER ? ATTRIBUTE_NUMBER : ATTRIBUTE_TEXT;
    struct need_value value = {.number = 0};
    if (cursor_u8(&decoder->cursor) != (uint8_t)wanted)
        cursor_fail(&decoder->cursor);
    else if (wanted == ATTRIBUTE_NUMBER)
        value.number = read_number(decoder);
    else
        value.text = read_text(decoder);
    if (decoder->is_filling)
        decoder->values[decoder->value_count] = value;
    decoder->value_count++;
}

/* Reads `count` values and checks that they rise. All have the same type; numbers all have the same (empty) text. */
static struct need_values read_values(struct decoder *decoder, enum attribute_type type, uint32_t count)
{
    uint32_t first = decoder->value_count;
    if (count > FACTS_CLAUSE_VALUES_MAX)
        cursor_fail(&decoder->cursor);
    for (uint32_t i = 0; i < count && !decoder->cursor.is_failed; i++)
        read_value(decoder, type);
    if (!decoder->is_filling)
        return (struct need_values){.count = 0};
    if (type != ATTRIBUTE_NUMBER)
        qsort(decoder->values + first, count, sizeof(*decoder->values), order_values);
    return (struct need_values){.items = decoder->values + first, .count = count};
}

static unsigned clauses_of(enum attribute_type type)
{
    return type == ATTRIBUTE_SET    ? NEED_ANY | NEED_ALL
           : type == ATTRIBUTE_TEXT ? NEED_EQUAL | NEED_IN | NEED_NOT
                                    : NEED_EQUAL | NEED_IN | NEED_NOT | NEED_MIN | NEED_MAX;
}

static struct need read_need(struct decoder *decoder, uint32_t attribute)
{
    struct need need = {.attribute = attribute, .type = decoder->rules->attributes[attribute].type};
    need.clauses = cursor_u8(&decoder->cursor);
    if ((need.clauses & ~clauses_of(need.type)) != 0)
        cursor_fail(&decoder->cursor);
    if ((need.clauses & NEED_EQUAL) != 0)
        need.equal = read_values(decoder, need.type, 1);
    if ((need.clauses & NEED_IN) != 0)
        need.in = read_values(decoder, need.type, cursor_u16(&decoder->cursor));
    if ((need.clauses & NEED_NOT) != 0)
        need.not = read_values(decoder, need.type, cursor_u16(&decoder->cursor));
    if ((need.clauses & NEED_MIN) != 0)
        need.min = read_number(decoder);
    if ((need.clauses & NEED_MAX) != 0)
        need.max = read_number(decoder);
    if ((need.clauses & NEED_ANY) != 0)
        need.any = read_values(decoder, need.type, cursor_u16(&decoder->cursor));
    if ((need.clauses & NEED_ALL) != 0)
        need.all = read_values(decoder, need.type, cursor_u16(&decoder->cursor));
    return need;
}

static void read_needs(struct decoder *decoder)
{
    uint16_t count = cursor_u16(&decoder->cursor);
    uint32_t least = 0;
    if (count > FACTS_NEEDS_MAX)
        cursor_fail(&decoder->cursor);
    for (uint32_t i = 0; i < count && !decoder->cursor.is_failed; i++) {
        uint32_t attribute = cursor_u8(&decoder->cursor);
        if (attribute < least || attribute >= decoder->rules->attribute_count) {
            cursor_fail(&decoder->cursor);
            return;
        }
        struct need need = read_need(decoder, attribute);
        if (decoder->is_filling)
            decoder->needs[decoder->need_count] = need;
        decoder->need_count++;
        least = attribute + 1;
    }
}

/* Each value of a clause is compared once, next to a walk through the other set, for which an average size is
 * assumed. */
static uint32_t needs_work(const struct need *needs, uint32_t count)
{
    uint32_t work = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct need *need = &needs[i];
        work += 1 + need->in.count + need->not .count + need->any.count + need->all.count;
        work += need->type == ATTRIBUTE_SET ? NEED_SET_WORK : 0;
    }
    return work;
}

static bool decode(struct decoder *decoder)
{
    read_facts(decoder);
    read_needs(decoder);
    return cursor_is_done(&decoder->cursor);
}

struct facts *facts_create(const struct rules *rules, struct bytes encoded)
{
    struct decoder counted = {.rules = rules, .cursor = cursor_make(encoded)};
    if (!decode(&counted))
        return NULL;
    size_t facts_size = sizeof(struct facts) + counted.fact_count * sizeof(struct fact);
    size_t needs_size = counted.need_count * sizeof(struct need);
    size_t values_size = counted.value_count * sizeof(struct need_value);
    size_t texts_size = counted.text_count * sizeof(struct fact_text);
    uint8_t *memory =
        accounted_allocate_zeroed(facts_size + needs_size + values_size + texts_size + counted.byte_count);
    struct facts *facts = (struct facts *)(void *)memory;
    struct decoder filled = {.rules = rules, .cursor = cursor_make(encoded), .is_filling = true};
    filled.facts = facts->facts;
    filled.needs = (struct need *)(void *)(memory + facts_size);
    filled.values = (struct need_value *)(void *)(memory + facts_size + needs_size);
    filled.texts = (struct fact_text *)(void *)(memory + facts_size + needs_size + values_size);
    filled.bytes = memory + facts_size + needs_size + values_size + texts_size;
    bool is_decoded = decode(&filled);
    ASSERT(is_decoded && filled.byte_count == counted.byte_count && filled.value_count == counted.value_count);
    facts->needs = filled.needs;
    facts->need_count = filled.need_count;
    facts->need_work = needs_work(filled.needs, filled.need_count);
    facts->fact_count = filled.fact_count;
    return facts;
}

void facts_destroy(struct facts *facts)
{
    accounted_free(facts);
}
