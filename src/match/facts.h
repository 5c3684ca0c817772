/* Facts: the values of a ticket by attribute, and its needs, which are what it asks of others.
 *
 * Encoded (in the log, so this is a format): u16 count of values, each u8 attribute and, by its type, f64, text (u16
 * size + bytes) or u16 count of texts, rising; then u16 count of needs, each u8 attribute, u8 clauses (bits of enum
 * need_clause), and for each clause that is there, in the order of its bit, f64, one value or u16 count of values; a
 * value in a need is u8 type (enum attribute_type: number or text) and the number or text. Little-endian. Attributes
 * rise. Decoded, everything stands in one allocation. Pure. */
#ifndef TALLY_MATCH_FACTS_H
#define TALLY_MATCH_FACTS_H

#include "match/rules.h"
#include <yyjson.h>

#define FACTS_SET_SIZE_MAX 64u
#define FACTS_NEEDS_MAX 16u
#define FACTS_CLAUSE_VALUES_MAX 64u

/* A text with its hash, so that most comparisons never look at the bytes. */
struct fact_text {
    uint64_t hash; /* bytes_hash() */
    struct bytes bytes;
};

struct fact_set {
    const struct fact_text *items; /* rising by hash, then bytes; distinct */
    uint32_t count;
};

struct fact {
    bool is_there;
    union {
        double number;
        struct fact_text text;
        struct fact_set set;
    };
};

enum need_clause {
    NEED_EQUAL = 1,
    NEED_IN = 2,
    NEED_NOT = 4,
    NEED_MIN = 8,
    NEED_MAX = 16,
    NEED_ANY = 32,
    NEED_ALL = 64,
};

/* A value inside a need: a number or a text. A value of the wrong type for its attribute is refused when it is read. */
struct need_value {
    double number;
    struct fact_text text;
};

struct need_values {
    const struct need_value *items; /* texts rise by hash, then bytes */
    uint32_t count;
};

struct need {
    uint32_t attribute;
    enum attribute_type type; /* the attribute's */
    unsigned clauses;         /* bits of enum need_clause */
    double min, max;
    struct need_values equal, in, not, any, all; /* `equal` has one */
};

struct facts {
    const struct need *needs;
    uint32_t need_count;
    uint32_t need_work;  /* the most work it takes to check another ticket's facts against the needs: pair_check.work */
    uint32_t fact_count; /* attributes beyond are missing */
    struct fact facts[];
};

/* Reads Attributes and Need (objects, or NULL) of a ticket and appends the encoded form. ERROR_INVALID_PARAMETER_VALUE
 * with what is wrong: an unknown attribute, a value of another type, not finite, too long, too many; `out` is then as
 * it was. An attribute that is null is missing; a set has each value once, however often it is given. */
enum error facts_encode(const struct rules *rules, yyjson_val *attributes, yyjson_val *need, struct buffer *out,
                        struct failure *failure);

/* Decodes; copies. NULL if `encoded` is none, or does not fit the rules' attributes. Free with facts_destroy(). */
struct facts *facts_create(const struct rules *rules, struct bytes encoded);
void facts_destroy(struct facts *facts);

extern const struct fact fact_missing;

/* The fact of an attribute; an absent fact if it is missing. */
static inline const struct fact *facts_at(const struct facts *facts, uint32_t attribute)
{
    return attribute < facts->fact_count ? &facts->facts[attribute] : &fact_missing;
}

static inline bool fact_text_equal(const struct fact_text *a, const struct fact_text *b)
{
    return a->hash == b->hash && bytes_equal(a->bytes, b->bytes);
}

/* The order of sets: by hash, then bytes; negative, zero or positive like memcmp. */
int fact_text_compare(const struct fact_text *a, const struct fact_text *b);

/* How many values two sets have in common. O(a + b). */
uint32_t fact_set_common(const struct fact_set *a, const struct fact_set *b);

/* The work of fact_set_common(), as pair_check.work counts it. */
static inline uint32_t fact_set_work(const struct fact_set *a, const struct fact_set *b)
{
    return a->count + b->count;
}

/* Are two present facts of that type equal? Sets are equal if they have the same values. */
bool fact_equal(enum attribute_type type, const struct fact *a, const struct fact *b);

/* Does a ticket with these facts meet what `facts` needs? *attribute, if not NULL, is that of the first need which it
 * fails. */
bool facts_meet(const struct facts *facts, const struct facts *other, uint32_t *attribute);

#endif
