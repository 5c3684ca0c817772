/* What an expression is compiled to: instructions for a stack of values, whose types are all known. For expression.c,
 * which runs them, and expression_compile.c, which makes them. */
#ifndef TALLY_MATCH_EXPRESSION_CODE_H
#define TALLY_MATCH_EXPRESSION_CODE_H

#include "match/expression.h"

enum value_type { VALUE_NUMBER, VALUE_TEXT, VALUE_SET, VALUE_TRUTH };

enum operation {
    OPERATION_NUMBER, /* pushes a constant */
    OPERATION_TEXT,
    OPERATION_LOAD_A, /* pushes an attribute of a ticket, or fails */
    OPERATION_LOAD_B,
    OPERATION_NOT,
    OPERATION_NEGATE,
    OPERATION_AND, /* if the top value decides, jumps to `target`; otherwise pops it */
    OPERATION_OR,
    OPERATION_ADD, /* these replace two values by one */
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_DIVIDE,
    OPERATION_IN,
    OPERATION_LESS, /* of values of `type` */
    OPERATION_LESS_EQUAL,
    OPERATION_MORE,
    OPERATION_MORE_EQUAL,
    OPERATION_EQUAL,
    OPERATION_DIFFER,
};

struct instruction {
    uint8_t operation;  /* enum operation */
    uint8_t type;       /* enum value_type */
    uint16_t target;    /* of AND and OR: the instruction behind the second operand */
    uint32_t attribute; /* of LOAD */
    union {
        double number;
        struct fact_text text; /* into the expression's own memory */
    };
};

struct expression {
    enum value_type type;
    uint32_t count;
    struct instruction *instructions; /* in the same allocation, as are the texts behind them */
};

#endif
