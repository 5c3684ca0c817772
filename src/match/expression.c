#include "match/expression.h"

struct expression *expression_create(const struct rules *rules, struct bytes text, bool is_score,
                                     struct failure *failure)
{
    (void)rules;
    (void)text;
    (void)is_score;
    failure_set(failure, ERROR_UNSUPPORTED_OPERATION, "not yet");
    return NULL;
}

void expression_destroy(struct expression *expression)
{
    (void)expression;
}

enum expression_result expression_holds(const struct expression *expression, const struct facts *a,
                                        const struct facts *b)
{
    (void)expression;
    (void)a;
    (void)b;
    return EXPRESSION_ERROR;
}

bool expression_number(const struct expression *expression, const struct facts *a, const struct facts *b,
                       double *number)
{
    (void)expression;
    (void)a;
    (void)b;
    (void)number;
    return false;
}
