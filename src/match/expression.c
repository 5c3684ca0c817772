#include "match/expression.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "match/expression_code.h"

#include <math.h>
#include <stdlib.h>

/* How many values one instruction's work covers: a binary search in 64 values takes about as long as this assumes. */
#define IN_VALUES_AN_INSTRUCTION 8u

void expression_destroy(struct expression *expression)
{
    accounted_free(expression);
}

/* One value. Its type is known from the instruction that takes it. */
union value {
    double number;
    const struct fact_text *text;
    const struct fact_set *set;
    bool truth;
};

static bool holds_number(enum operation operation, double a, double b)
{
    switch (operation) {
    case OPERATION_LESS:
        return a < b;
    case OPERATION_LESS_EQUAL:
        return a <= b;
    case OPERATION_MORE:
        return a > b;
    case OPERATION_MORE_EQUAL:
        return a >= b;
    case OPERATION_EQUAL:
        return a == b;
    default:
        return a != b;
    }
}

static bool holds_text(enum operation operation, const struct fact_text *a, const struct fact_text *b)
{
    if (operation == OPERATION_EQUAL || operation == OPERATION_DIFFER)
        return fact_text_equal(a, b) == (operation == OPERATION_EQUAL);
    return holds_number(operation, bytes_compare(a->bytes, b->bytes), 0);
}

static bool has_text(const struct fact_set *set, const struct fact_text *text)
{
    /* Binary search, because each part of an expression may ask this. */
    uint32_t first = 0, end = set->count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        int order = fact_text_compare(&set->items[middle], text);
        if (order == 0)
            return true;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}

static bool compare(const struct instruction *instruction, const union value *a, const union value *b, uint64_t *work)
{
    const enum operation operation = (enum operation)instruction->operation;
    switch ((enum value_type)instruction->type) {
    case VALUE_NUMBER:
        return holds_number(operation, a->number, b->number);
    case VALUE_TEXT:
        return holds_text(operation, a->text, b->text);
    case VALUE_TRUTH:
        return (a->truth == b->truth) == (operation == OPERATION_EQUAL);
    case VALUE_SET:
        break;
    }
    *work += a->set->count == b->set->count ? fact_set_work(a->set, b->set) : 0;
    bool is_equal = a->set->count == b->set->count && fact_set_common(a->set, b->set) == a->set->count;
    return is_equal == (operation == OPERATION_EQUAL);
}

/* False if the result is not finite. */
static bool calculate(enum operation operation, double *a, double b)
{
    switch (operation) {
    case OPERATION_ADD:
        *a += b;
        break;
    case OPERATION_SUBTRACT:
        *a -= b;
        break;
    case OPERATION_MULTIPLY:
        *a *= b;
        break;
    default:
        *a /= b;
        break;
    }
    return isfinite(*a);
}

/* Pushes an attribute of a ticket; false if the ticket does not have it. */
static bool load(const struct instruction *instruction, const struct facts *facts, union value *value)
{
    const struct fact *fact = facts_at(facts, instruction->attribute);
    if (!fact->is_there)
        return false;
    if (instruction->type == VALUE_NUMBER)
        value->number = fact->number;
    else if (instruction->type == VALUE_TEXT)
        value->text = &fact->text;
    else
        value->set = &fact->set;
    return true;
}

/* Each instruction is taken at most once, since jumps go forwards. Returns NULL, or the instruction that met an
 * error. */
static const struct instruction *run(const struct expression *expression, const struct facts *a, const struct facts *b,
                                     union value *result, uint64_t *work)
{
    union value stack[EXPRESSION_PARTS_MAX];
    uint32_t top = 0; /* values on the stack */
    for (uint32_t at = 0; at < expression->count; at++) {
        const struct instruction *instruction = &expression->instructions[at];
        ++*work;
        switch ((enum operation)instruction->operation) {
        case OPERATION_NUMBER:
            stack[top++].number = instruction->number;
            break;
        case OPERATION_TEXT:
            stack[top++].text = &instruction->text;
            break;
        case OPERATION_LOAD_A:
        case OPERATION_LOAD_B:
            if (!load(instruction, instruction->operation == OPERATION_LOAD_A ? a : b, &stack[top++]))
                return instruction;
            break;
        case OPERATION_NOT:
            stack[top - 1].truth = !stack[top - 1].truth;
            break;
        case OPERATION_NEGATE:
            stack[top - 1].number = -stack[top - 1].number;
            break;
        case OPERATION_AND:
        case OPERATION_OR:
            /* The first operand is on the stack. If it decides, it is the result; otherwise the second one is. */
            if (stack[top - 1].truth == (instruction->operation == OPERATION_OR))
                at = instruction->target - 1;
            else
                top--;
            break;
        case OPERATION_ADD:
        case OPERATION_SUBTRACT:
        case OPERATION_MULTIPLY:
        case OPERATION_DIVIDE:
            top--;
            if (!calculate((enum operation)instruction->operation, &stack[top - 1].number, stack[top].number))
                return instruction;
            break;
        case OPERATION_IN:
            top--;
            *work += stack[top].set->count / IN_VALUES_AN_INSTRUCTION;
            stack[top - 1].truth = has_text(stack[top].set, stack[top - 1].text);
            break;
        default:
            top--;
            stack[top - 1].truth = compare(instruction, &stack[top - 1], &stack[top], work);
            break;
        }
    }
    *result = stack[0];
    return NULL;
}

enum expression_result expression_holds(const struct expression *expression, const struct facts *a,
                                        const struct facts *b, uint64_t *work)
{
    union value result;
    ASSERT(expression->type == VALUE_TRUTH);
    if (run(expression, a, b, &result, work) != NULL)
        return EXPRESSION_ERROR;
    return result.truth ? EXPRESSION_TRUE : EXPRESSION_FALSE;
}

struct expression_fault expression_fault(const struct expression *expression, const struct facts *a,
                                         const struct facts *b)
{
    union value result;
    uint64_t work = 0;
    struct expression_fault fault = {false};
    const struct instruction *instruction = run(expression, a, b, &result, &work);
    if (instruction == NULL)
        return fault;
    fault.is_error = true;
    fault.is_of_b = instruction->operation == OPERATION_LOAD_B;
    fault.is_missing = fault.is_of_b || instruction->operation == OPERATION_LOAD_A;
    fault.attribute = fault.is_missing ? instruction->attribute : 0;
    return fault;
}

bool expression_number(const struct expression *expression, const struct facts *a, const struct facts *b,
                       double *number, uint64_t *work)
{
    union value result;
    ASSERT(expression->type == VALUE_NUMBER);
    if (run(expression, a, b, &result, work) != NULL)
        return false;
    *number = result.number;
    return true;
}
