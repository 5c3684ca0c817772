/* Typed calls for groups, and the explanation of a message. */
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"
#include <stdlib.h>
#include <string.h>

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static bool read_groups(struct tally_reply *reply, struct tally_groups *groups)
{
    yyjson_val *list = yyjson_obj_get(json_root(reply), "Groups");
    struct tally_groups made = {
        .count = yyjson_arr_size(list),
        .next_token = json_text(json_root(reply), "NextToken"),
        .reply_owned = *reply,
    };
    size_t i, max;
    yyjson_val *value;
    bool is_whole = true;

    if (made.count > 0)
        made.items_owned = memory_allocate_zeroed(made.count * sizeof *made.items_owned);
    yyjson_arr_foreach(list, i, max, value)
    {
        made.items_owned[i] = (struct tally_group){
            .id = json_text(value, "MessageGroupId"),
            .state = json_text(value, "State"),
            .reason = json_text(value, "Reason"),
            .head_message_id = json_text(value, "HeadMessageId"),
            .messages = json_number(value, "Messages"),
            .in_flight = json_number(value, "InFlight"),
            .since = json_real(value, "Since"),
            .is_paused = json_is_true(value, "Paused"),
        };
        is_whole = is_whole && made.items_owned[i].id != NULL && made.items_owned[i].state != NULL;
    }
    if (is_whole)
        *groups = made;
    else
        tally_groups_deinit(&made);
    return is_whole;
}

enum tally_status tally_groups(struct tally_client *client, const char *queue, const char *state, const char *token,
                               struct tally_groups *groups)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "State", state);
    json_add_number(&body, body.root, "MaxResults", 1000);
    json_add_text(&body, body.root, "NextToken", token);
    status = json_body_call(&body, client, "Tally.ListGroups", &reply);
    if (status != TALLY_OK)
        return status;
    return read_groups(&reply, groups) ? TALLY_OK : client_garbled(client, "ListGroups");
}

void tally_groups_deinit(struct tally_groups *groups)
{
    free(groups->items_owned);
    tally_reply_deinit(&groups->reply_owned);
    *groups = (struct tally_groups){.count = 0};
}

static enum tally_status call_on_group(struct tally_client *client, const char *target, const char *queue,
                                       const char *group_id, const char *action)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "MessageGroupId", group_id);
    json_add_text(&body, body.root, "Action", action);
    return json_body_call(&body, client, target, NULL);
}

enum tally_status tally_group_release(struct tally_client *client, const char *queue, const char *group_id,
                                      enum tally_release action)
{
    static const char *const names[] = {
        [TALLY_RELEASE_RETRY] = "retry",
        [TALLY_RELEASE_SKIP] = "skip",
        [TALLY_RELEASE_CANCEL_REST] = "cancel-rest",
    };
    return call_on_group(client, "Tally.ReleaseGroup", queue, group_id, names[action]);
}

enum tally_status tally_group_pause(struct tally_client *client, const char *queue, const char *group_id)
{
    return call_on_group(client, "Tally.PauseGroup", queue, group_id, NULL);
}

enum tally_status tally_group_resume(struct tally_client *client, const char *queue, const char *group_id)
{
    return call_on_group(client, "Tally.ResumeGroup", queue, group_id, NULL);
}

/* ---- Explaining -------------------------------------------------------------------------------------------------- */

/* One of the reasons: a text, or an object with the text in it. */
static const char *reason_text(yyjson_val *reason)
{
    return yyjson_is_str(reason) ? yyjson_get_str(reason) : json_text(reason, "Text");
}

enum tally_status tally_explain(struct tally_client *client, const char *queue, const char *message_id,
                                struct tally_explanation *explanation)
{
    struct tally_explanation made = {.reason_count = 0};
    struct json_body body;
    enum tally_status status;
    yyjson_val *list;
    size_t i, max;
    yyjson_val *reason;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "MessageId", message_id);
    status = json_body_call(&body, client, "Tally.ExplainMessage", &made.reply_owned);
    if (status != TALLY_OK)
        return status;
    list = yyjson_obj_get(json_root(&made.reply_owned), "Why");
    json_copy(json_root(&made.reply_owned), "State", made.state, sizeof made.state);
    if (yyjson_arr_size(list) > 0)
        made.reasons_owned = memory_allocate_zeroed(yyjson_arr_size(list) * sizeof *made.reasons_owned);
    yyjson_arr_foreach(list, i, max, reason)
    {
        if (reason_text(reason) != NULL)
            made.reasons_owned[made.reason_count++] = reason_text(reason);
    }
    if (made.state[0] == '\0') {
        tally_explanation_deinit(&made);
        return client_garbled(client, "ExplainMessage");
    }
    *explanation = made;
    return TALLY_OK;
}

void tally_explanation_deinit(struct tally_explanation *explanation)
{
    free(explanation->reasons_owned);
    tally_reply_deinit(&explanation->reply_owned);
    *explanation = (struct tally_explanation){.reason_count = 0};
}
