#include "tally/assignment.h"

#include <string.h>

/* Splits "Name=Value" in place: NULL if there is no "=" or nothing before it, else the value. */
static char *split(char *text)
{
    char *sign = strchr(text, '=');
    if (sign == NULL || sign == text)
        return NULL;
    *sign = '\0';
    return sign + 1;
}

static bool is_type(const char *text)
{
    static const char *const types[] = {"String", "Number", "Binary"};
    for (size_t i = 0; i < 3; i++) {
        size_t size = strlen(types[i]);
        if (strncmp(text, types[i], size) == 0 && (text[size] == '\0' || text[size] == '.'))
            return true;
    }
    return false;
}

bool assignment_attribute(char *text, struct tally_attribute *attribute)
{
    char *value = split(text);
    char *colon = value == NULL ? NULL : strrchr(value, ':');
    const char *type = "String";

    if (value == NULL)
        return false;
    if (colon != NULL && is_type(colon + 1)) {
        *colon = '\0';
        type = colon + 1;
    }
    *attribute = (struct tally_attribute){.name = text, .type = type, .value = value};
    return true;
}

int assignment_attributes(const struct invocation *invocation, const struct option_list *given,
                          struct tally_attribute attributes[ASSIGNMENT_ATTRIBUTES_MAX])
{
    size_t counted = 0;
    for (size_t i = 0; i < given->count && i < ASSIGNMENT_ATTRIBUTES_MAX; i++) {
        char *text = (char *)(uintptr_t)given->items[i]; /* words of main() may be written to */
        if (!assignment_attribute(text, &attributes[i]))
            return complain_usage(invocation, "--attribute takes Name=Value, not \"%s\"", text);
        counted += !trace_context_is_name(bytes_from_string(attributes[i].name));
    }
    if (counted > ASSIGNMENT_COUNTED_MAX || given->count > ASSIGNMENT_ATTRIBUTES_MAX)
        return complain_usage(invocation,
                              "a message has at most %d attributes, not counting " TRACE_PARENT ", " TRACE_STATE
                              " and " TRACE_BAGGAGE,
                              ASSIGNMENT_COUNTED_MAX);
    return EXIT_DONE;
}

int assignment_add_members(const struct invocation *invocation, const struct option_list *given, struct json_body *body)
{
    struct tally_attribute attributes[ASSIGNMENT_ATTRIBUTES_MAX];
    const int status = assignment_attributes(invocation, given, attributes);
    if (status != EXIT_DONE || given->count == 0)
        return status;
    yyjson_mut_val *map = json_add_object(body, body->root, "MessageAttributes");
    for (size_t i = 0; i < given->count; i++) {
        const bool is_binary = strncmp(attributes[i].type, "Binary", 6) == 0;
        yyjson_mut_val *value = json_add_object(body, map, attributes[i].name);
        json_add_text(body, value, "DataType", attributes[i].type);
        json_add_text(body, value, is_binary ? "BinaryValue" : "StringValue", attributes[i].value);
    }
    return EXIT_DONE;
}

int assignment_pairs(const struct invocation *invocation, char *const *texts, size_t count, struct tally_pair *pairs)
{
    for (size_t i = 0; i < count; i++) {
        char *value = split(texts[i]);
        if (value == NULL)
            return complain_usage(invocation, "an attribute is written Name=Value, not \"%s\"", texts[i]);
        pairs[i] = (struct tally_pair){.name = texts[i], .value = value};
    }
    return EXIT_DONE;
}
