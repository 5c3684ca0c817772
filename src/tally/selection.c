#include "tally/selection.h"

#include "base/assert.h"
#include "tally/queue_arn.h"
#include <stdio.h>
#include <string.h>

void selection_add(const struct selection_settings *settings, struct json_body *body)
{
    yyjson_mut_val *ids = settings->ids.count == 0 ? NULL : json_add_array(body, body->root, "MessageIds");
    for (size_t i = 0; i < settings->ids.count; i++)
        yyjson_mut_arr_add_str(body->doc_owned, ids, settings->ids.items[i]);
    json_add_text(body, body->root, "Reason", settings->reason);
    json_add_text(body, body->root, "MessageGroupId", settings->group);
    if (settings->sent_before.is_given)
        json_add_number(body, body->root, "SentBefore", settings->sent_before.value);
    if (settings->sent_after.is_given)
        json_add_number(body, body->root, "SentAfter", settings->sent_after.value);
    if (settings->max.is_given)
        json_add_number(body, body->root, "MaxMessages", settings->max.value);
    if (settings->rate.is_given)
        json_add_number(body, body->root, "MaxNumberOfMessagesPerSecond", settings->rate.value);
    if (settings->is_dry_run)
        yyjson_mut_obj_add_bool(body->doc_owned, body->root, "DryRun", true);
}

bool selection_needs_server(const struct selection_settings *settings)
{
    return settings->ids.count > 0 || settings->reason != NULL || settings->group != NULL ||
           settings->sent_before.is_given || settings->sent_after.is_given || settings->max.is_given ||
           settings->is_dry_run;
}

static bool heeds_selections(yyjson_val *answer)
{
    size_t i, max;
    yyjson_val *action;
    yyjson_arr_foreach(yyjson_obj_get(answer, "DryRun"), i, max, action)
    {
        if (yyjson_equals_str(action, "DeleteMessages"))
            return true;
    }
    return false;
}

/* Tally.DeleteMessages came with these members, and a server says whether it has it. */
int selection_check_server(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    bool is_good = false;
    json_body_init(&body);
    if (json_body_call(&body, invocation->client, "Tally.DescribeServer", &reply) == TALLY_OK) {
        is_good = heeds_selections(json_root(&reply));
        tally_reply_deinit(&reply);
    } else if (strstr(tally_client_error(invocation->client)->code, "UnknownOperation") == NULL) {
        return invocation_failed(invocation, invocation->client);
    }
    if (is_good)
        return EXIT_DONE;
    complain("the server is of a version that would not heed these options; nothing was done");
    return EXIT_REFUSED;
}

int selection_call(struct invocation *invocation, struct json_body *body, const char *action, bool is_dry_run)
{
    if (!is_dry_run)
        return output_call(invocation, body, action, NULL);
    const int status = selection_check_server(invocation);
    if (status != EXIT_DONE) {
        yyjson_mut_doc_free(body->doc_owned);
        return status;
    }
    yyjson_mut_obj_add_bool(body->doc_owned, body->root, "DryRun", true);
    return output_call(invocation, body, action, selection_print);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void print_lists(yyjson_val *answer)
{
    size_t i, max;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(answer, "Queues"), i, max, item)
    {
        printf("%-11s %llu to %s\n", i == 0 ? "queues" : "", (unsigned long long)json_number(item, "Messages"),
               queue_name_in(output_text_of(item, "QueueUrl")));
    }
    yyjson_arr_foreach(yyjson_obj_get(answer, "Refusals"), i, max, item)
    {
        printf("%-11s %s %s\n", i == 0 ? "stay" : "", output_text_of(item, "MessageId"),
               output_text_of(item, "Reason"));
    }
}

void selection_print(yyjson_val *answer)
{
    static const char *const rows[][2] = {
        {"messages", "Messages"}, {"in flight", "InFlight"},     {"dead letter", "DeadLettered"},
        {"units", "Units"},       {"batches", "Batches"},        {"dependents", "Dependents"},
        {"groups", "Groups"},     {"held groups", "HeldGroups"}, {"refused", "Refused"},
    };
    output_members(answer, rows, ARRAY_LENGTH(rows));
    print_lists(answer);
    if (!json_is_true(answer, "IsComplete"))
        output_field("", "there is more than one call may look at: these counts are those of its beginning");
}
