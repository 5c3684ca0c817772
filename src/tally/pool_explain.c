/* tally pool explain: why a ticket is not matched. */
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

/* A reject's name in words. */
static const char *in_words(const char *rule)
{
    if (strcmp(rule, "need") == 0)
        return "what this ticket needs";
    if (strcmp(rule, "their-need") == 0)
        return "what they need themselves";
    return rule;
}

static yyjson_val *greatest_reject(yyjson_val *rejects)
{
    yyjson_val *greatest = NULL, *reject;
    size_t i, max;
    yyjson_arr_foreach(rejects, i, max, reject)
    {
        if (greatest == NULL || json_number(reject, "Count") > json_number(greatest, "Count"))
            greatest = reject;
    }
    return greatest;
}

/* Appends "; WHO no ATTRIBUTE, ATTRIBUTE" to a line of `size`. */
static void add_attributes(char *line, size_t size, const char *who, yyjson_val *attributes)
{
    size_t i, max;
    yyjson_val *name;
    yyjson_arr_foreach(attributes, i, max, name)
    {
        size_t end = strlen(line);
        snprintf(line + end, size - end, "%s%s", i == 0 ? who : ", ", yyjson_get_str(name));
    }
}

/* What a rule could not judge. An error without a missing attribute comes from its arithmetic. */
static void add_fault(char *line, size_t size, yyjson_val *reject)
{
    size_t end = strlen(line);
    unsigned long long errors = json_number(reject, "Errors");
    if (errors > 0)
        snprintf(line + end, size - end, "; errors: %llu", errors);
    add_attributes(line, size, "; this ticket has no ", yyjson_obj_get(reject, "Lacks"));
    add_attributes(line, size, "; a candidate has no ", yyjson_obj_get(reject, "CandidatesLack"));
}

/* The sentence that most people need. */
static void print_why(yyjson_val *answer)
{
    char why[2048];
    unsigned long long candidates = json_number(answer, "Candidates"), fits = json_number(answer, "Fits");
    yyjson_val *reject = greatest_reject(yyjson_obj_get(answer, "Rejects"));
    if (candidates == 0)
        snprintf(why, sizeof why, "no compatible ticket is waiting");
    else if (fits > 0)
        snprintf(why, sizeof why, "candidates: %llu; %llu fit, but they make no whole match yet", candidates, fits);
    else if (reject == NULL)
        snprintf(why, sizeof why, "candidates: %llu; none fits", candidates);
    else {
        snprintf(why, sizeof why, "candidates: %llu; rejected by %s: %llu", candidates,
                 in_words(output_text_of(reject, "Rule")), (unsigned long long)json_number(reject, "Count"));
        add_fault(why, sizeof why, reject);
    }
    output_field("why", why);
    if (yyjson_is_false(yyjson_obj_get(answer, "Complete")))
        output_field("", "there are more that were not looked at");
}

static void print_value(char *line, size_t size, yyjson_val *rule)
{
    yyjson_val *value = yyjson_obj_get(rule, "Value");
    if (yyjson_is_num(value))
        snprintf(line, size, "%s: %g", output_text_of(rule, "Rule"), yyjson_get_num(value));
    else if (yyjson_is_str(value))
        snprintf(line, size, "%s: %s", output_text_of(rule, "Rule"), yyjson_get_str(value));
    else
        snprintf(line, size, "%s", output_text_of(rule, "Rule"));
}

static void print_rules(yyjson_val *answer)
{
    char line[2048];
    size_t i, max;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(answer, "Rules"), i, max, item)
    {
        print_value(line, sizeof line, item);
        add_attributes(line, sizeof line, "; this ticket has no ", yyjson_obj_get(item, "Lacks"));
        output_field(i == 0 ? "asks" : "", line);
    }
    yyjson_arr_foreach(yyjson_obj_get(answer, "Rejects"), i, max, item)
    {
        snprintf(line, sizeof line, "%llu by %s", (unsigned long long)json_number(item, "Count"),
                 in_words(output_text_of(item, "Rule")));
        add_fault(line, sizeof line, item);
        output_field(i == 0 ? "rejected" : "", line);
    }
}

static void print_text(yyjson_val *answer)
{
    output_field("ticket", output_text_of(answer, "TicketId"));
    output_field("state", output_text_of(answer, "Status"));
    if (json_text(answer, "MatchId") != NULL)
        output_field("match", json_text(answer, "MatchId"));
    if (strcmp(output_text_of(answer, "Status"), "waiting") != 0)
        return;
    print_why(answer);
    output_number("level", json_number(answer, "Level"));
    print_rules(answer);
    output_time("next step", json_real(answer, "NextStepAt"));
    output_time("expires", json_real(answer, "ExpiresAt"));
    if (json_number(answer, "Conflicts") > 0)
        output_number("conflicts", json_number(answer, "Conflicts"));
}

const struct command command_pool_explain = {
    .action = "Tally.ExplainTicket", .members = {"PoolName", "TicketId"}, .print = print_text};
