#include "match/rules_parse.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "match/expression.h"
#include "match/value.h"

#include <stdio.h>

/* The values of a rule with steps, until the times of all rules are known. */
struct widening {
    double base;
    uint32_t step_count;
    uint64_t after_ms[RULES_STEPS_MAX];
    double bound[RULES_STEPS_MAX];
};

struct reader {
    struct rules *rules;
    struct failure *failure;
    uint8_t *name_next; /* in rules->names_owned */
    size_t name_left;
    struct widening widenings[RULES_MAX];
};

/* Every text of the document is kept at most once, and once more in a label, which adds a few characters of its own. */
#define LABEL_EXTRA 16u

static struct bytes keep(struct reader *reader, struct bytes text)
{
    ASSERT(text.size <= reader->name_left);
    struct bytes kept = bytes_make(reader->name_next, text.size);
    if (text.size != 0)
        memcpy(reader->name_next, text.ptr, text.size);
    reader->name_next += text.size;
    reader->name_left -= text.size;
    return kept;
}

static struct bytes keep_label(struct reader *reader, const char *type, struct bytes inside)
{
    struct bytes start = keep(reader, bytes_from_string(type));
    keep(reader, BYTES("("));
    keep(reader, inside);
    keep(reader, BYTES(")"));
    return bytes_make(start.ptr, start.size + inside.size + 2);
}

static enum error refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static enum error refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(reader->failure, ERROR_INVALID_PARAMETER_VALUE, format, arguments);
    va_end(arguments);
    return ERROR_INVALID_PARAMETER_VALUE;
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* Letters, digits and underscores, so that an expression can name it; letters of any language. */
static bool is_attribute_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        uint8_t at = name.ptr[i];
        bool is_letter = (at >= 'a' && at <= 'z') || (at >= 'A' && at <= 'Z') || at >= 0x80;
        if (!is_letter && at != '_' && (at < '0' || at > '9'))
            return false;
    }
    return name.size != 0 && name.size <= RULES_NAME_SIZE_MAX;
}

static const char *const type_names[] = {[ATTRIBUTE_NUMBER] = "num", [ATTRIBUTE_TEXT] = "str", [ATTRIBUTE_SET] = "set"};

static enum error read_attribute(struct reader *reader, const char *path, yyjson_val *key, yyjson_val *value)
{
    struct rules *rules = reader->rules;
    struct bytes name = value_text(key);
    char shown[VALUE_SHOWN_SIZE];
    value_show(key, shown);
    if (!is_attribute_name(name))
        return refuse(reader, "%s: %s is no name of an attribute: 1 to %u bytes of letters, digits and underscores.",
                      path, shown, RULES_NAME_SIZE_MAX);
    if (rules_attribute(rules, name) >= 0)
        return refuse(reader, "%s has %s twice.", path, shown);
    for (uint32_t type = 0; type < ARRAY_LENGTH(type_names); type++) {
        if (!yyjson_equals_str(value, type_names[type]))
            continue;
        rules->attributes[rules->attribute_count++] =
            (struct ticket_attribute){.name = keep(reader, name), .type = (enum attribute_type)type};
        return OK;
    }
    char where[VALUE_PATH_SIZE];
    snprintf(where, sizeof(where), "%s.%.80s", path, yyjson_get_str(key));
    return value_fault(reader->failure, where, "\"num\", \"str\" or \"set\"", value);
}

static enum error read_attributes(struct reader *reader, const char *path, yyjson_val *object)
{
    size_t index, size;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(object))
        return value_fault(reader->failure, path, "an object of names and types", object);
    if (yyjson_obj_size(object) > RULES_ATTRIBUTES_MAX)
        return refuse(reader, "%s has %zu attributes; there can be %u.", path, yyjson_obj_size(object),
                      RULES_ATTRIBUTES_MAX);
    yyjson_obj_foreach(object, index, size, key, value)
    {
        enum error error = read_attribute(reader, path, key, value);
        if (error != OK)
            return error;
    }
    return OK;
}

/* The attribute of that name, which must be of one of the types in `allowed` (bits). */
static enum error find_attribute(struct reader *reader, const char *path, struct bytes name, unsigned allowed,
                                 uint32_t *attribute)
{
    static const char *const wanted[] = {
        [1u << ATTRIBUTE_NUMBER] = "a num", [1u << ATTRIBUTE_TEXT] = "a str", [1u << ATTRIBUTE_SET] = "a set"};
    int found = rules_attribute(reader->rules, name);
    if (found < 0)
        return refuse(reader, "%s: the pool has no attribute \"%.80s\".", path,
                      name.size == 0 ? "" : (const char *)name.ptr);
    enum attribute_type type = reader->rules->attributes[found].type;
    if ((allowed & 1u << type) == 0)
        return refuse(reader, "%s: \"%.*s\" is a %s; the rule needs %s.", path, BYTES_FORMAT(name), type_names[type],
                      wanted[allowed]);
    *attribute = (uint32_t)found;
    return OK;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

enum member {
    MEMBER_TYPE,
    MEMBER_ATTR,
    MEMBER_ALLOW,
    MEMBER_MAX,
    MEMBER_MIN,
    MEMBER_EXPR,
    MEMBER_AGREE,
    MEMBER_EXPAND,
    MEMBER_MISSING,
    MEMBER_SCOPE,
    MEMBER_COUNT
};

static const char *const member_names[MEMBER_COUNT] = {"type", "attr",  "allow",  "max",     "min",
                                                       "expr", "agree", "expand", "missing", "scope"};

#define BIT(member) (1u << MEMBER_##member)
#define WIDENED (BIT(AGREE) | BIT(EXPAND))
#define USUAL (BIT(TYPE) | BIT(ATTR) | BIT(MISSING) | BIT(SCOPE))
#define TYPE_BIT(type) (1u << ATTRIBUTE_##type)
#define ANY_TYPE (TYPE_BIT(NUMBER) | TYPE_BIT(TEXT) | TYPE_BIT(SET))

static const struct rule_row {
    const char *name;
    unsigned members; /* that it can have */
    unsigned types;   /* that its attribute can have */
} rows[] = {
    [RULE_EQUAL] = {"equal", USUAL, ANY_TYPE},
    [RULE_DIFFER] = {"differ", USUAL, ANY_TYPE},
    [RULE_PAIRS] = {"pairs", USUAL | BIT(ALLOW), TYPE_BIT(TEXT)},
    [RULE_NEAR] = {"near", USUAL | BIT(MAX) | WIDENED, TYPE_BIT(NUMBER)},
    [RULE_SHARE] = {"share", USUAL | BIT(MIN) | WIDENED, TYPE_BIT(SET)},
    [RULE_EXPRESSION] = {"expr", BIT(TYPE) | BIT(EXPR) | BIT(SCOPE), 0},
    [RULE_TEAM_NEAR] = {"team_near", USUAL | BIT(MAX), TYPE_BIT(NUMBER)},
};

/* Where a member stands: "rules[2].max". */
static void path_of(char path[VALUE_PATH_SIZE], const char *parent, const char *member)
{
    snprintf(path, VALUE_PATH_SIZE, "%.160s.%.16s", parent, member);
}

/* A text of two that a member may say; absent: the first. */
static enum error read_choice(struct reader *reader, const char *parent, const char *member, yyjson_val *value,
                              const char *first, const char *second, bool *is_second)
{
    char path[VALUE_PATH_SIZE], wanted[64];
    *is_second = yyjson_equals_str(value, second);
    if (value == NULL || *is_second || yyjson_equals_str(value, first))
        return OK;
    path_of(path, parent, member);
    snprintf(wanted, sizeof(wanted), strcmp(first, second) == 0 ? "\"%s\"" : "\"%s\" or \"%s\"", first, second);
    return value_fault(reader->failure, path, wanted, value);
}

static enum error read_pair(struct reader *reader, const char *path, yyjson_val *value, struct rule_pair *pair)
{
    struct bytes first = value_text(yyjson_arr_get(value, 0)), second = value_text(yyjson_arr_get(value, 1));
    bool is_pair = yyjson_arr_size(value) == 2 && yyjson_is_str(yyjson_arr_get(value, 0)) &&
                   yyjson_is_str(yyjson_arr_get(value, 1));
    if (!is_pair || first.size > RULES_TEXT_VALUE_SIZE_MAX || second.size > RULES_TEXT_VALUE_SIZE_MAX)
        return value_fault(reader->failure, path, "two texts of at most 256 bytes", value);
    *pair = (struct rule_pair){.first = keep(reader, first),
                               .second = keep(reader, second),
                               .first_hash = bytes_hash(first),
                               .second_hash = bytes_hash(second)};
    return OK;
}

static enum error read_pairs(struct reader *reader, const char *parent, yyjson_val *list, struct rule *rule)
{
    char path[VALUE_PATH_SIZE], item_path[VALUE_PATH_SIZE];
    size_t index, count;
    yyjson_val *item;
    path_of(path, parent, "allow");
    if (!yyjson_is_arr(list))
        return value_fault(reader->failure, path, "a list of pairs of texts", list);
    if (yyjson_arr_size(list) == 0 || yyjson_arr_size(list) > RULES_PAIRS_MAX)
        return refuse(reader, "%s has %zu pairs; there can be 1 to %u.", path, yyjson_arr_size(list), RULES_PAIRS_MAX);
    rule->pairs_owned = accounted_allocate(yyjson_arr_size(list) * sizeof(*rule->pairs_owned));
    yyjson_arr_foreach(list, index, count, item)
    {
        snprintf(item_path, sizeof(item_path), "%.160s[%zu]", path, index);
        enum error error = read_pair(reader, item_path, item, &rule->pairs_owned[rule->pair_count]);
        if (error != OK)
            return error;
        rule->pair_count++;
    }
    return OK;
}

static enum error read_duration(struct reader *reader, const char *path, yyjson_val *value, uint64_t *duration_ms)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    struct bytes text = value_text(value);
    uint64_t number = 0;
    size_t digits = 0;
    while (digits < text.size && text.ptr[digits] >= '0' && text.ptr[digits] <= '9') {
        if (number <= RULES_DURATION_MAX_MS)
            number = number * 10 + (uint64_t)(text.ptr[digits] - '0');
        digits++;
    }
    for (size_t i = 0; digits != 0 && i < ARRAY_LENGTH(units); i++) {
        if (!bytes_equal(bytes_skip(text, digits), bytes_from_string(units[i].unit)))
            continue;
        if (number > RULES_DURATION_MAX_MS / units[i].ms)
            return value_fault(reader->failure, path, "at most 8760h, a year", value);
        *duration_ms = number * units[i].ms;
        return OK;
    }
    return value_fault(reader->failure, path, "a duration: digits and ms, s, m or h, like \"10s\"", value);
}

/* The bound itself: max of near and team_near, min of share. */
static enum error read_bound(struct reader *reader, const char *parent, enum rule_type type, yyjson_val *value,
                             double *bound)
{
    char path[VALUE_PATH_SIZE];
    double number;
    uint32_t whole;
    if (type == RULE_SHARE) {
        path_of(path, parent, "min");
        if (!value_whole(value, 0, 64, &whole))
            return value_fault(reader->failure, path, "a whole number from 0 to 64", value);
        *bound = whole;
        return OK;
    }
    path_of(path, parent, "max");
    if (!value_number(value, &number) || number < 0)
        return value_fault(reader->failure, path, "a number from 0 on", value);
    *bound = number;
    return OK;
}

static enum error read_step(struct reader *reader, const char *path, enum rule_type type, yyjson_val *value,
                            struct widening *widening)
{
    static const char *const names[] = {"after", "max", "min", "off"};
    yyjson_val *values[ARRAY_LENGTH(names)];
    char after_path[VALUE_PATH_SIZE];
    uint64_t after_ms = 0;
    yyjson_val *const *given = &values[type == RULE_SHARE ? 2 : 1];
    uint32_t step = widening->step_count;
    enum error error =
        value_members(reader->failure, path, value, names, ARRAY_LENGTH(names), type == RULE_SHARE ? 13u : 11u, values);
    if (error != OK)
        return error;
    path_of(after_path, path, "after");
    error = read_duration(reader, after_path, values[0], &after_ms);
    if (error != OK)
        return error;
    if (step > 0 && after_ms <= widening->after_ms[step - 1])
        return value_fault(reader->failure, after_path, "later than the step before", values[0]);
    if (values[3] != NULL && (!yyjson_is_true(values[3]) || *given != NULL))
        return refuse(reader, "%s.off must be true, and stand without %s.", path, type == RULE_SHARE ? "min" : "max");
    widening->after_ms[step] = after_ms;
    widening->bound[step] = RULE_OFF;
    return values[3] != NULL ? OK : read_bound(reader, path, type, *given, &widening->bound[step]);
}

static enum error read_expand(struct reader *reader, const char *parent, enum rule_type type, yyjson_val *list,
                              struct widening *widening)
{
    char path[VALUE_PATH_SIZE], item_path[VALUE_PATH_SIZE];
    size_t index, count;
    yyjson_val *item;
    if (list == NULL)
        return OK;
    path_of(path, parent, "expand");
    if (!yyjson_is_arr(list))
        return value_fault(reader->failure, path, "a list of steps", list);
    if (yyjson_arr_size(list) > RULES_STEPS_MAX)
        return refuse(reader, "%s has %zu steps; there can be %u.", path, yyjson_arr_size(list), RULES_STEPS_MAX);
    yyjson_arr_foreach(list, index, count, item)
    {
        snprintf(item_path, sizeof(item_path), "%.160s[%zu]", path, index);
        enum error error = read_step(reader, item_path, type, item, widening);
        if (error != OK)
            return error;
        widening->step_count++;
    }
    return OK;
}

static enum error read_expression(struct reader *reader, const char *path, struct bytes text, bool is_score,
                                  struct expression **expression)
{
    struct failure fault;
    failure_init(&fault);
    *expression = expression_create(reader->rules, text, is_score, &fault);
    return *expression != NULL ? OK : refuse(reader, "%s: %s", path, fault.text);
}

/* The rest of a rule whose members are known to be those of its type. */
static enum error read_rule_body(struct reader *reader, const char *path, yyjson_val *const *values, struct rule *rule)
{
    char inside[VALUE_PATH_SIZE];
    struct widening *widening = &reader->widenings[rule - reader->rules->rules];
    const struct rule_row *row = &rows[rule->type];
    enum error error;
    if (rule->type == RULE_EXPRESSION) {
        path_of(inside, path, "expr");
        if (!yyjson_is_str(values[MEMBER_EXPR]))
            return value_fault(reader->failure, inside, "a text", values[MEMBER_EXPR]);
        rule->label = keep_label(reader, row->name, value_text(values[MEMBER_EXPR]));
        return read_expression(reader, inside, value_text(values[MEMBER_EXPR]), false, &rule->expression_owned);
    }
    path_of(inside, path, "attr");
    if (!yyjson_is_str(values[MEMBER_ATTR]))
        return value_fault(reader->failure, inside, "the name of an attribute", values[MEMBER_ATTR]);
    error = find_attribute(reader, inside, value_text(values[MEMBER_ATTR]), row->types, &rule->attribute);
    if (error != OK)
        return error;
    rule->label = keep_label(reader, row->name, value_text(values[MEMBER_ATTR]));
    if (rule->type == RULE_PAIRS)
        return read_pairs(reader, path, values[MEMBER_ALLOW], rule);
    if (rule->type == RULE_EQUAL || rule->type == RULE_DIFFER)
        return OK;
    error = read_bound(reader, path, rule->type, values[rule->type == RULE_SHARE ? MEMBER_MIN : MEMBER_MAX],
                       &widening->base);
    return error != OK ? error : read_expand(reader, path, rule->type, values[MEMBER_EXPAND], widening);
}

static enum error read_type(struct reader *reader, const char *parent, yyjson_val *value, enum rule_type *type)
{
    char path[VALUE_PATH_SIZE];
    yyjson_val *given = yyjson_obj_get(value, "type");
    if (!yyjson_is_obj(value))
        return value_fault(reader->failure, parent, "an object", value);
    for (uint32_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        if (yyjson_equals_str(given, rows[i].name)) {
            *type = (enum rule_type)i;
            return OK;
        }
    }
    path_of(path, parent, "type");
    return value_fault(reader->failure, path, "equal, differ, pairs, near, share, expr or team_near", given);
}

static enum error read_rule(struct reader *reader, const char *path, yyjson_val *value, struct rule *rule)
{
    yyjson_val *values[MEMBER_COUNT];
    bool ignored;
    enum error error = read_type(reader, path, value, &rule->type);
    if (error != OK)
        return error;
    error = value_members(reader->failure, path, value, member_names, MEMBER_COUNT, rows[rule->type].members, values);
    if (error != OK)
        return error;
    bool is_of_match = rule->type == RULE_TEAM_NEAR;
    const char *scope = is_of_match ? "match" : "pair";
    error = read_choice(reader, path, "scope", values[MEMBER_SCOPE], scope, scope, &ignored);
    if (error == OK)
        error = read_choice(reader, path, "missing", values[MEMBER_MISSING], "any", "any", &rule->may_be_missing);
    if (error == OK)
        error = read_choice(reader, path, "agree", values[MEMBER_AGREE], "both", "either", &rule->is_either);
    if (error == OK && is_of_match && !reader->rules->has_teams)
        error = refuse(reader, "%s: team_near needs teams, and the pool has none.", path);
    return error != OK ? error : read_rule_body(reader, path, values, rule);
}

static enum error read_rules(struct reader *reader, const char *name, yyjson_val *list)
{
    char path[VALUE_PATH_SIZE];
    size_t index, count;
    yyjson_val *item;
    if (!yyjson_is_arr(list))
        return value_fault(reader->failure, name, "a list of rules", list);
    if (yyjson_arr_size(list) > RULES_MAX)
        return refuse(reader, "%s has %zu rules; there can be %u.", name, yyjson_arr_size(list), RULES_MAX);
    yyjson_arr_foreach(list, index, count, item)
    {
        /* Counted at once: what the rule has taken so far is freed with the rules. */
        snprintf(path, sizeof(path), "%s[%zu]", name, index);
        enum error error = read_rule(reader, path, item, &reader->rules->rules[reader->rules->rule_count++]);
        if (error != OK)
            return error;
    }
    return OK;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* Adds a time to the rising levels. */
static enum error add_level(struct reader *reader, const char *name, uint64_t after_ms)
{
    struct rules *rules = reader->rules;
    uint32_t at = rules->level_count;
    while (rules->after_ms[at - 1] > after_ms)
        at--;
    if (rules->after_ms[at - 1] == after_ms)
        return OK;
    if (rules->level_count == RULES_LEVELS_MAX)
        return refuse(reader, "%s: the steps have more than %u different times in all.", name, RULES_LEVELS_MAX - 1);
    memmove(&rules->after_ms[at + 1], &rules->after_ms[at], (rules->level_count - at) * sizeof(rules->after_ms[0]));
    rules->after_ms[at] = after_ms;
    rules->level_count++;
    return OK;
}

/* What the rule says at that age: the value of the last step that it has reached. */
static double bound_at(const struct widening *widening, uint64_t age_ms)
{
    double bound = widening->base;
    for (uint32_t i = 0; i < widening->step_count && widening->after_ms[i] <= age_ms; i++)
        bound = widening->bound[i];
    return bound;
}

static enum error make_levels(struct reader *reader, const char *name)
{
    struct rules *rules = reader->rules;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        for (uint32_t step = 0; step < reader->widenings[i].step_count; step++) {
            enum error error = add_level(reader, name, reader->widenings[i].after_ms[step]);
            if (error != OK)
                return error;
        }
    }
    for (uint32_t i = 0; i < rules->rule_count; i++)
        for (uint32_t level = 0; level < RULES_LEVELS_MAX; level++)
            rules->rules[i].bound[level] =
                bound_at(&reader->widenings[i], level < rules->level_count ? rules->after_ms[level] : UINT64_MAX);
    return OK;
}

/* --- size, teams, pick -------------------------------------------------------------------------------------------- */

static enum error read_team(struct reader *reader, const char *parent, yyjson_val *value)
{
    static const char *const names[] = {"name", "size"};
    yyjson_val *values[ARRAY_LENGTH(names)];
    char path[VALUE_PATH_SIZE];
    struct rules *rules = reader->rules;
    struct team *team = &rules->teams[rules->team_count];
    enum error error = value_members(reader->failure, parent, value, names, ARRAY_LENGTH(names), 3, values);
    if (error != OK)
        return error;
    struct bytes name = value_text(values[0]);
    path_of(path, parent, "name");
    if (name.size == 0 || name.size > RULES_NAME_SIZE_MAX)
        return value_fault(reader->failure, path, "a text of 1 to 80 bytes", values[0]);
    for (uint32_t i = 0; i < rules->team_count; i++)
        if (bytes_equal(rules->teams[i].name, name))
            return value_fault(reader->failure, path, "another than those before", values[0]);
    path_of(path, parent, "size");
    if (!value_whole(values[1], 1, RULES_WEIGHT_MAX, &team->size))
        return value_fault(reader->failure, path, "a whole number from 1 to 200", values[1]);
    team->name = keep(reader, name);
    rules->team_count++;
    rules->weight += team->size;
    rules->party_max = team->size > rules->party_max ? team->size : rules->party_max;
    return OK;
}

static enum error read_teams(struct reader *reader, const char *name, yyjson_val *list)
{
    char path[VALUE_PATH_SIZE];
    size_t index, count;
    yyjson_val *item;
    if (!yyjson_is_arr(list))
        return value_fault(reader->failure, name, "a list of teams", list);
    if (yyjson_arr_size(list) == 0 || yyjson_arr_size(list) > RULES_TEAMS_MAX)
        return refuse(reader, "%s has %zu teams; there can be 1 to %u.", name, yyjson_arr_size(list), RULES_TEAMS_MAX);
    yyjson_arr_foreach(list, index, count, item)
    {
        snprintf(path, sizeof(path), "%s[%zu]", name, index);
        enum error error = read_team(reader, path, item);
        if (error != OK)
            return error;
    }
    reader->rules->has_teams = true;
    if (reader->rules->weight > RULES_WEIGHT_MAX)
        return refuse(reader, "%s have a weight of %u together; at most %u is possible.", name, reader->rules->weight,
                      RULES_WEIGHT_MAX);
    return OK;
}

static enum error read_size(struct reader *reader, const char *name, yyjson_val *value)
{
    struct rules *rules = reader->rules;
    rules->weight = 2;
    if (value != NULL && !value_whole(value, 0, RULES_WEIGHT_MAX, &rules->weight))
        return value_fault(reader->failure, name, "a whole number from 1 to 200, or 0 for any", value);
    rules->party_max = rules->weight == 0 ? RULES_WEIGHT_MAX : rules->weight;
    rules->teams[0] = (struct team){.name = bytes_make(NULL, 0), .size = rules->weight};
    rules->team_count = 1;
    return OK;
}

static enum error read_pick(struct reader *reader, const char *name, yyjson_val *value)
{
    static const struct bytes nearest = {(const uint8_t *)"nearest:", 8}, score = {(const uint8_t *)"score:", 6};
    struct rules *rules = reader->rules;
    struct bytes text = value_text(value);
    if (value == NULL || yyjson_equals_str(value, "oldest"))
        return OK;
    if (yyjson_equals_str(value, "first")) {
        rules->pick = PICK_FIRST;
        return OK;
    }
    if (bytes_starts_with(text, nearest)) {
        rules->pick = PICK_NEAREST;
        return find_attribute(reader, name, bytes_skip(text, nearest.size), TYPE_BIT(NUMBER), &rules->pick_attribute);
    }
    if (bytes_starts_with(text, score)) {
        rules->pick = PICK_SCORE;
        return read_expression(reader, name, bytes_skip(text, score.size), true, &rules->pick_score_owned);
    }
    return value_fault(reader->failure, name, "oldest, first, nearest:ATTRIBUTE or score:EXPRESSION", value);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

enum part { PART_ATTRIBUTES, PART_RULES, PART_SIZE, PART_TEAMS, PART_PICK, PART_COUNT };

struct parts {
    yyjson_val *values[PART_COUNT];
    const char *names[PART_COUNT]; /* as they are written here */
};

/* The members that are ours; a request to create a pool writes them with a capital. */
static enum error find_parts(struct reader *reader, yyjson_val *root, struct parts *parts)
{
    static const char *const spellings[][2] = {
        {"attrs", "Attributes"}, {"rules", "Rules"}, {"size", "Size"}, {"teams", "Teams"}, {"pick", "Pick"}};
    size_t index, count;
    yyjson_val *key, *value;
    *parts = (struct parts){.names = {"attrs", "rules", "size", "teams", "pick"}};
    yyjson_obj_foreach(root, index, count, key, value)
    {
        for (uint32_t i = 0; i < 2 * PART_COUNT; i++) {
            const char *spelling = spellings[i / 2][i % 2];
            if (!yyjson_equals_str(key, spelling))
                continue;
            if (parts->values[i / 2] != NULL)
                return refuse(reader, "%s is given twice.", spelling);
            parts->values[i / 2] = value;
            parts->names[i / 2] = spelling;
        }
    }
    return OK;
}

enum error rules_parse(struct rules *rules, yyjson_val *root, size_t text_size, struct failure *failure)
{
    struct parts parts;
    struct reader reader = {.rules = rules, .failure = failure};
    if (!yyjson_is_obj(root))
        return value_fault(failure, "The text", "an object", root);
    reader.name_left = 2 * text_size + (size_t)RULES_MAX * LABEL_EXTRA;
    reader.name_next = rules->names_owned = accounted_allocate(reader.name_left);
    rules->level_count = 1;
    enum error error = find_parts(&reader, root, &parts);
    yyjson_val *const *values = parts.values;
    if (error == OK && values[PART_ATTRIBUTES] != NULL)
        error = read_attributes(&reader, parts.names[PART_ATTRIBUTES], values[PART_ATTRIBUTES]);
    if (error == OK && values[PART_SIZE] != NULL && values[PART_TEAMS] != NULL)
        error = refuse(&reader, "%s and %s can't stand together: the teams give the size.", parts.names[PART_SIZE],
                       parts.names[PART_TEAMS]);
    if (error == OK)
        error = values[PART_TEAMS] != NULL ? read_teams(&reader, parts.names[PART_TEAMS], values[PART_TEAMS])
                                           : read_size(&reader, parts.names[PART_SIZE], values[PART_SIZE]);
    if (error == OK && values[PART_RULES] != NULL)
        error = read_rules(&reader, parts.names[PART_RULES], values[PART_RULES]);
    if (error == OK)
        error = make_levels(&reader, parts.names[PART_RULES]);
    return error != OK ? error : read_pick(&reader, parts.names[PART_PICK], values[PART_PICK]);
}
