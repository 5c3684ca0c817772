#include "base/accounted.h"
#include "base/assert.h"
#include "match/expression_code.h"
#include "match/value.h"

#include <stdio.h>
#include <stdlib.h>

/* A recursive descent over the grammar, one level for each strength of binding:
 *
 *     or-level   = and-level {"or" and-level}         and-level = not-level {"and" not-level}
 *     not-level  = ["not"] comparison                 comparison = sum [("<"|"<="|"=="|"!="|">="|">"|"in") sum]
 *     sum        = product {("+"|"-") product}        product = single {("*"|"/") single}
 *     single     = ["-"] (number | text | ("a"|"b") "." name | "(" or-level ")")
 *
 * It goes deeper with each parenthesis, of which there are at most EXPRESSION_DEPTH_MAX in each other. */
#define EXPRESSION_DEPTH_MAX 50u

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_TEXT, TOKEN_ATTRIBUTE, TOKEN_WORD };

/* The next part of the text. A word is an operator or a parenthesis. */
struct token {
    enum token_kind kind;
    struct bytes bytes; /* of a text without its quotes, of an attribute the name behind the point */
    size_t at;
    bool is_of_b;
};

struct compiler {
    const struct rules *rules;
    struct failure *failure;
    struct bytes text;
    size_t next; /* what is behind `token` */
    struct token token;
    uint32_t part_count;
    uint32_t depth;
    uint32_t count;
    struct instruction instructions[EXPRESSION_PARTS_MAX];
};

static const char *const type_words[] = {
    [VALUE_NUMBER] = "a number", [VALUE_TEXT] = "a text", [VALUE_SET] = "a set", [VALUE_TRUTH] = "a truth"};

/* Faults name the position in characters of the text, counted from 1. */
static bool refuse(struct compiler *compiler, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(struct compiler *compiler, size_t at, const char *format, ...)
{
    struct failure inner;
    failure_init(&inner);
    size_t character = 1;
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(&inner, ERROR_INVALID_PARAMETER_VALUE, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < at && i < compiler->text.size; i++)
        character += (compiler->text.ptr[i] & 0xc0) != 0x80;
    failure_set(compiler->failure, ERROR_INVALID_PARAMETER_VALUE, "at character %zu: %s", character, inner.text);
    return false;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static uint8_t byte_at(const struct compiler *compiler, size_t at)
{
    return at < compiler->text.size ? compiler->text.ptr[at] : 0;
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_name_byte(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           byte >= 0x80;
}

static size_t name_end(const struct compiler *compiler, size_t at)
{
    while (is_name_byte(byte_at(compiler, at)))
        at++;
    return at;
}

/* Takes digits, points and exponents; reading the number later checks whether they form one. */
static size_t number_end(const struct compiler *compiler, size_t at)
{
    while (is_name_byte(byte_at(compiler, at)) || byte_at(compiler, at) == '.' ||
           ((byte_at(compiler, at) == '+' || byte_at(compiler, at) == '-') &&
            (byte_at(compiler, at - 1) == 'e' || byte_at(compiler, at - 1) == 'E')))
        at++;
    return at;
}

static void take(struct compiler *compiler, enum token_kind kind, size_t from, size_t to)
{
    compiler->token.kind = kind;
    compiler->token.bytes = bytes_make(compiler->text.ptr + from, to - from);
    compiler->next = to;
}

static bool next_text(struct compiler *compiler, size_t at, uint8_t quote)
{
    size_t end = at + 1;
    while (end < compiler->text.size && compiler->text.ptr[end] != quote)
        end++;
    if (end >= compiler->text.size)
        return refuse(compiler, at, "the text that begins here has no closing quote.");
    take(compiler, TOKEN_TEXT, at + 1, end);
    compiler->next = end + 1;
    return true;
}

/* "and", "or", "not", "in", "a.name" or "b.name". */
static bool next_name(struct compiler *compiler, size_t at)
{
    static const struct bytes words[] = {{(const uint8_t *)"and", 3},
                                         {(const uint8_t *)"or", 2},
                                         {(const uint8_t *)"not", 3},
                                         {(const uint8_t *)"in", 2}};
    size_t end = name_end(compiler, at);
    struct bytes name = bytes_make(compiler->text.ptr + at, end - at);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        if (bytes_equal(name, words[i])) {
            take(compiler, TOKEN_WORD, at, end);
            return true;
        }
    }
    bool is_ticket = name.size == 1 && (name.ptr[0] == 'a' || name.ptr[0] == 'b') && byte_at(compiler, end) == '.';
    if (!is_ticket || name_end(compiler, end + 1) == end + 1)
        return refuse(compiler, at, "\"%.*s\" is not known here; an attribute is a.name or b.name.",
                      BYTES_FORMAT(name));
    compiler->token.is_of_b = name.ptr[0] == 'b';
    take(compiler, TOKEN_ATTRIBUTE, end + 1, name_end(compiler, end + 1));
    return true;
}

static bool next_sign(struct compiler *compiler, size_t at)
{
    uint8_t first = byte_at(compiler, at), second = byte_at(compiler, at + 1);
    bool is_double = second == '=' && (first == '<' || first == '>' || first == '=' || first == '!');
    bool is_single = memchr("<>+-*/()", first, 8) != NULL;
    if (!is_double && !is_single)
        return first == '=' ? refuse(compiler, at, "\"=\" alone is nothing; equal is ==.")
                            : refuse(compiler, at, "there is something here that is no part of an expression.");
    take(compiler, TOKEN_WORD, at, at + (is_double ? 2 : 1));
    return true;
}

/* Reads the next part into compiler->token. */
static bool advance(struct compiler *compiler)
{
    size_t at = compiler->next;
    while (is_blank(byte_at(compiler, at)))
        at++;
    compiler->token.at = at;
    if (at >= compiler->text.size) {
        take(compiler, TOKEN_END, at, at);
        return true;
    }
    if (++compiler->part_count > EXPRESSION_PARTS_MAX)
        return refuse(compiler, at, "there are more than %u parts.", EXPRESSION_PARTS_MAX);
    uint8_t first = byte_at(compiler, at);
    if (first == '\'' || first == '"')
        return next_text(compiler, at, first);
    if (is_digit(first)) {
        take(compiler, TOKEN_NUMBER, at, number_end(compiler, at));
        return true;
    }
    return is_name_byte(first) ? next_name(compiler, at) : next_sign(compiler, at);
}

static bool is_word(const struct compiler *compiler, const char *word)
{
    return compiler->token.kind == TOKEN_WORD && bytes_equal(compiler->token.bytes, bytes_from_string(word));
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* Each token gives at most one instruction, so there is room. */
static struct instruction *emit(struct compiler *compiler, enum operation operation, enum value_type type)
{
    ASSERT(compiler->count < EXPRESSION_PARTS_MAX);
    struct instruction *instruction = &compiler->instructions[compiler->count++];
    *instruction = (struct instruction){.operation = (uint8_t)operation, .type = (uint8_t)type};
    return instruction;
}

static bool expect(struct compiler *compiler, size_t at, const char *who, enum value_type wanted, enum value_type given)
{
    if (wanted == given)
        return true;
    return refuse(compiler, at, "%s needs %s, but this is %s.", who, type_words[wanted], type_words[given]);
}

static bool compile_or(struct compiler *compiler, enum value_type *type);

static bool compile_number(struct compiler *compiler)
{
    double number;
    const struct token *token = &compiler->token;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)token->bytes.ptr, token->bytes.size, YYJSON_READ_NOFLAG,
                                       &value_memory, NULL);
    bool is_number = value_number(yyjson_doc_get_root(doc), &number);
    yyjson_doc_free(doc);
    if (!is_number)
        return refuse(compiler, token->at, "\"%.*s\" is no number.", BYTES_FORMAT(token->bytes));
    emit(compiler, OPERATION_NUMBER, VALUE_NUMBER)->number = number;
    return advance(compiler);
}

static bool compile_attribute(struct compiler *compiler, enum value_type *type)
{
    static const enum value_type types[] = {
        [ATTRIBUTE_NUMBER] = VALUE_NUMBER, [ATTRIBUTE_TEXT] = VALUE_TEXT, [ATTRIBUTE_SET] = VALUE_SET};
    const struct token *token = &compiler->token;
    int attribute = rules_attribute(compiler->rules, token->bytes);
    if (attribute < 0)
        return refuse(compiler, token->at, "the pool has no attribute \"%.*s\".", BYTES_FORMAT(token->bytes));
    *type = types[compiler->rules->attributes[attribute].type];
    emit(compiler, token->is_of_b ? OPERATION_LOAD_B : OPERATION_LOAD_A, *type)->attribute = (uint32_t)attribute;
    return advance(compiler);
}

static bool compile_parenthesis(struct compiler *compiler, enum value_type *type)
{
    size_t at = compiler->token.at;
    if (++compiler->depth > EXPRESSION_DEPTH_MAX)
        return refuse(compiler, at, "there are more than %u parentheses in each other.", EXPRESSION_DEPTH_MAX);
    if (!advance(compiler) || !compile_or(compiler, type))
        return false;
    if (!is_word(compiler, ")"))
        return refuse(compiler, at, "the parenthesis that opens here is not closed before character %zu.",
                      compiler->token.at + 1);
    compiler->depth--;
    return advance(compiler);
}

static bool compile_operand(struct compiler *compiler, enum value_type *type)
{
    const struct token *token = &compiler->token;
    switch (token->kind) {
    case TOKEN_NUMBER:
        *type = VALUE_NUMBER;
        return compile_number(compiler);
    case TOKEN_TEXT:
        *type = VALUE_TEXT;
        emit(compiler, OPERATION_TEXT, VALUE_TEXT)->text = (struct fact_text){.bytes = token->bytes};
        return advance(compiler);
    case TOKEN_ATTRIBUTE:
        return compile_attribute(compiler, type);
    case TOKEN_WORD:
        if (is_word(compiler, "("))
            return compile_parenthesis(compiler, type);
        return refuse(compiler, token->at, "a value is missing before \"%.*s\".", BYTES_FORMAT(token->bytes));
    case TOKEN_END:
        break;
    }
    return refuse(compiler, token->at, "a value is missing at the end.");
}

static bool compile_single(struct compiler *compiler, enum value_type *type)
{
    if (!is_word(compiler, "-"))
        return compile_operand(compiler, type);
    if (!advance(compiler))
        return false;
    size_t at = compiler->token.at;
    if (!compile_operand(compiler, type) || !expect(compiler, at, "-", VALUE_NUMBER, *type))
        return false;
    emit(compiler, OPERATION_NEGATE, VALUE_NUMBER);
    return true;
}

/* One level of arithmetic: operands of the level below it, and two operators. */
static bool compile_arithmetic(struct compiler *compiler, bool is_sum, enum value_type *type)
{
    size_t at = compiler->token.at;
    const char *first = is_sum ? "+" : "*", *second = is_sum ? "-" : "/";
    bool is_done = is_sum ? compile_arithmetic(compiler, false, type) : compile_single(compiler, type);
    while (is_done && (is_word(compiler, first) || is_word(compiler, second))) {
        bool is_second = is_word(compiler, second);
        const char *sign = is_second ? second : first;
        enum operation operation = is_sum ? (is_second ? OPERATION_SUBTRACT : OPERATION_ADD)
                                          : (is_second ? OPERATION_DIVIDE : OPERATION_MULTIPLY);
        if (!expect(compiler, at, sign, VALUE_NUMBER, *type) || !advance(compiler))
            return false;
        at = compiler->token.at;
        is_done = is_sum ? compile_arithmetic(compiler, false, type) : compile_single(compiler, type);
        is_done = is_done && expect(compiler, at, sign, VALUE_NUMBER, *type);
        if (is_done)
            emit(compiler, operation, VALUE_NUMBER);
    }
    return is_done;
}

static const struct comparison {
    const char *word;
    enum operation operation;
} comparisons[] = {{"<", OPERATION_LESS},        {"<=", OPERATION_LESS_EQUAL}, {">", OPERATION_MORE},
                   {">=", OPERATION_MORE_EQUAL}, {"==", OPERATION_EQUAL},      {"!=", OPERATION_DIFFER},
                   {"in", OPERATION_IN}};

static const struct comparison *find_comparison(const struct compiler *compiler)
{
    for (size_t i = 0; i < ARRAY_LENGTH(comparisons); i++)
        if (is_word(compiler, comparisons[i].word))
            return &comparisons[i];
    return NULL;
}

static bool check_comparison(struct compiler *compiler, const struct comparison *comparison, size_t at, size_t right_at,
                             enum value_type left, enum value_type right)
{
    if (comparison->operation == OPERATION_IN)
        return expect(compiler, at, "the left side of in", VALUE_TEXT, left) &&
               expect(compiler, right_at, "the right side of in", VALUE_SET, right);
    if (left != right)
        return refuse(compiler, at, "%s compares %s with %s.", comparison->word, type_words[left], type_words[right]);
    bool is_order = comparison->operation != OPERATION_EQUAL && comparison->operation != OPERATION_DIFFER;
    if (is_order && left != VALUE_NUMBER && left != VALUE_TEXT)
        return refuse(compiler, at, "%s compares numbers or texts, but this is %s.", comparison->word,
                      type_words[left]);
    return true;
}

static bool compile_comparison(struct compiler *compiler, enum value_type *type)
{
    size_t at = compiler->token.at;
    enum value_type right;
    if (!compile_arithmetic(compiler, true, type))
        return false;
    const struct comparison *comparison = find_comparison(compiler);
    if (comparison == NULL)
        return true;
    if (!advance(compiler))
        return false;
    size_t right_at = compiler->token.at;
    if (!compile_arithmetic(compiler, true, &right) ||
        !check_comparison(compiler, comparison, at, right_at, *type, right))
        return false;
    emit(compiler, comparison->operation, right);
    *type = VALUE_TRUTH;
    if (find_comparison(compiler) != NULL)
        return refuse(compiler, compiler->token.at, "comparisons can't stand in a row; join them by and.");
    return true;
}

static bool compile_not(struct compiler *compiler, enum value_type *type)
{
    if (!is_word(compiler, "not"))
        return compile_comparison(compiler, type);
    if (!advance(compiler))
        return false;
    size_t at = compiler->token.at;
    if (!compile_comparison(compiler, type) || !expect(compiler, at, "not", VALUE_TRUTH, *type))
        return false;
    emit(compiler, OPERATION_NOT, VALUE_TRUTH);
    return true;
}

/* Truth values joined by "and" or "or". The operator comes before the second operand, so that the second can be
 * skipped. */
static bool compile_joined(struct compiler *compiler, bool is_or, enum value_type *type)
{
    const char *word = is_or ? "or" : "and";
    size_t at = compiler->token.at;
    bool is_done = is_or ? compile_joined(compiler, false, type) : compile_not(compiler, type);
    while (is_done && is_word(compiler, word)) {
        if (!expect(compiler, at, word, VALUE_TRUTH, *type) || !advance(compiler))
            return false;
        struct instruction *join = emit(compiler, is_or ? OPERATION_OR : OPERATION_AND, VALUE_TRUTH);
        at = compiler->token.at;
        is_done = is_or ? compile_joined(compiler, false, type) : compile_not(compiler, type);
        is_done = is_done && expect(compiler, at, word, VALUE_TRUTH, *type);
        join->target = (uint16_t)compiler->count;
    }
    return is_done;
}

static bool compile_or(struct compiler *compiler, enum value_type *type)
{
    return compile_joined(compiler, true, type);
}

static bool compile(struct compiler *compiler, bool is_score, enum value_type *type)
{
    if (compiler->text.size > EXPRESSION_TEXT_SIZE_MAX)
        return refuse(compiler, EXPRESSION_TEXT_SIZE_MAX, "the expression has %zu bytes; there can be %u.",
                      compiler->text.size, EXPRESSION_TEXT_SIZE_MAX);
    if (!advance(compiler) || !compile_or(compiler, type))
        return false;
    if (compiler->token.kind != TOKEN_END)
        return refuse(compiler, compiler->token.at, "an operator is missing before \"%.*s\".",
                      BYTES_FORMAT(compiler->token.bytes));
    return expect(compiler, 0, is_score ? "a score" : "a rule", is_score ? VALUE_NUMBER : VALUE_TRUTH, *type);
}

/* Copies the instructions and their texts into one allocation. */
static struct expression *finish(const struct compiler *compiler, enum value_type type)
{
    size_t code_size = compiler->count * sizeof(struct instruction), texts_size = 0;
    for (uint32_t i = 0; i < compiler->count; i++)
        if (compiler->instructions[i].operation == OPERATION_TEXT)
            texts_size += compiler->instructions[i].text.bytes.size;
    struct expression *expression = accounted_allocate(sizeof(*expression) + code_size + texts_size);
    uint8_t *memory = (uint8_t *)(expression + 1);
    *expression = (struct expression){
        .type = type, .count = compiler->count, .instructions = (struct instruction *)(void *)memory};
    memcpy(expression->instructions, compiler->instructions, code_size);
    memory += code_size;
    for (uint32_t i = 0; i < compiler->count; i++) {
        struct instruction *instruction = &expression->instructions[i];
        if (instruction->operation != OPERATION_TEXT)
            continue;
        struct bytes text = instruction->text.bytes;
        if (text.size != 0)
            memcpy(memory, text.ptr, text.size);
        instruction->text = (struct fact_text){.hash = bytes_hash(text), .bytes = bytes_make(memory, text.size)};
        memory += text.size;
    }
    return expression;
}

struct expression *expression_create(const struct rules *rules, struct bytes text, bool is_score,
                                     struct failure *failure)
{
    struct compiler compiler = {.rules = rules, .failure = failure, .text = text};
    enum value_type type;
    return compile(&compiler, is_score, &type) ? finish(&compiler, type) : NULL;
}
