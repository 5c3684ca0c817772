/* Expressions over two tickets, a and b (docs/reference/pool-rules.md): compiled once, evaluated in a bounded
 * number of steps, without a loop. Pure. */
#ifndef TALLY_MATCH_EXPRESSION_H
#define TALLY_MATCH_EXPRESSION_H

#include "match/facts.h"

#define EXPRESSION_TEXT_SIZE_MAX 1024u
#define EXPRESSION_PARTS_MAX 200u

struct expression;

/* NULL with `failure` filled (ERROR_INVALID_PARAMETER_VALUE: what is wrong, and at which character). `is_score`: it
 * must give a number, not a truth value. `rules` names the attributes and is needed only during the call. */
struct expression *expression_create(const struct rules *rules, struct bytes text, bool is_score,
                                     struct failure *failure);
void expression_destroy(struct expression *expression);

enum expression_result { EXPRESSION_TRUE, EXPRESSION_FALSE, EXPRESSION_ERROR };

/* Adds to `work` the instructions executed and the set values compared. An error is a missing attribute, a value of
 * another type, a division by zero, a result that is not finite. */
enum expression_result expression_holds(const struct expression *expression, const struct facts *a,
                                        const struct facts *b, uint64_t *work);

/* Why it ends in an error. Also which attribute of which ticket it lacks, if that is the reason. For explaining. */
struct expression_fault {
    bool is_error;
    bool is_missing;
    bool is_of_b; /* the attribute is missing in b, not in a */
    uint32_t attribute;
};
struct expression_fault expression_fault(const struct expression *expression, const struct facts *a,
                                         const struct facts *b);

/* The number; false on an error. */
bool expression_number(const struct expression *expression, const struct facts *a, const struct facts *b,
                       double *number, uint64_t *work);

#endif
