/* tally_commit(): deletes, sends and counts in one step. */
#include "client/client.h"
#include "client/outgoing.h"
#include <string.h>

static enum tally_status check_commit(struct tally_client *client, const struct tally_commit *commit)
{
    if (commit->delete_count > TALLY_COMMIT_DELETES_MAX || commit->send_count > TALLY_COMMIT_SENDS_MAX ||
        commit->unit_count > TALLY_COMMIT_UNITS_MAX || commit->hold_count > TALLY_COMMIT_HOLDS_MAX ||
        commit->addition_count > TALLY_COMMIT_ADDITIONS_MAX)
        return client_refuse(client, "one commit takes at most 10 deletes, sends, holds and additions, and 100 units");
    for (size_t i = 0; i < commit->send_count; i++)
        if (commit->sends[i].message.body == NULL)
            return client_refuse(client, "a message needs a body");
    return TALLY_OK;
}

static void add_messages(struct json_body *body, const char *name, const struct tally_commit_delete *messages,
                         size_t count)
{
    yyjson_mut_val *list = count > 0 ? json_add_array(body, body->root, name) : NULL;
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *item = json_append_object(body, list);
        json_add_text(body, item, "QueueUrl", messages[i].queue);
        json_add_text(body, item, "ReceiptHandle", messages[i].receipt_handle);
    }
}

static void add_keys(struct json_body *body, yyjson_mut_val *list, const struct tally_commit_addition *addition)
{
    for (size_t i = 0; i < addition->count; i++)
        yyjson_mut_arr_add_str(body->doc_owned, list, addition->keys[i]);
}

static void add_additions(struct json_body *body, const struct tally_commit *commit)
{
    yyjson_mut_val *list = json_add_array(body, body->root, "AddUnits");
    for (size_t i = 0; i < commit->addition_count; i++) {
        const struct tally_commit_addition *addition = &commit->additions[i];
        yyjson_mut_val *item = json_append_object(body, list);
        json_add_text(body, item, "BatchId", addition->batch_id);
        if (addition->keys == NULL)
            json_add_number(body, item, "Count", addition->count);
        else
            add_keys(body, json_add_array(body, item, "Units"), addition);
    }
}

static void add_sends(struct json_body *body, const struct tally_commit *commit)
{
    yyjson_mut_val *list = json_add_array(body, body->root, "Sends");
    for (size_t i = 0; i < commit->send_count; i++) {
        yyjson_mut_val *item = json_append_object(body, list);
        json_add_text(body, item, "QueueUrl", commit->sends[i].queue);
        outgoing_add(body, item, &commit->sends[i].message);
    }
}

static void add_units(struct json_body *body, const struct tally_commit *commit)
{
    yyjson_mut_val *list = json_add_array(body, body->root, "Units");
    for (size_t i = 0; i < commit->unit_count; i++) {
        yyjson_mut_val *item = json_append_object(body, list);
        json_add_text(body, item, "BatchId", commit->units[i].batch_id);
        json_add_text(body, item, "Unit", commit->units[i].key);
        json_add_text(body, item, "Status", commit->units[i].is_failed ? "failed" : "succeeded");
        json_add_text(body, item, "Detail", commit->units[i].detail);
    }
}

/* What the server says of sends and units, in the order of the request. */
struct results {
    struct tally_sent sent[TALLY_COMMIT_SENDS_MAX];
    struct tally_committed_unit ended[TALLY_COMMIT_UNITS_MAX];
};

static bool read_results(yyjson_val *root, const struct tally_commit *commit, struct results *results)
{
    yyjson_val *sends = yyjson_obj_get(root, "Sends");
    yyjson_val *units = yyjson_obj_get(root, "Units");
    size_t i, max;
    yyjson_val *item;

    if (yyjson_arr_size(sends) != commit->send_count || yyjson_arr_size(units) != commit->unit_count)
        return false;
    yyjson_arr_foreach(sends, i, max, item)
    {
        outgoing_read_sent(item, &results->sent[i]);
    }
    yyjson_arr_foreach(units, i, max, item)
    {
        results->ended[i] = (struct tally_committed_unit){
            .is_recorded = json_is_true(item, "Recorded"),
            .is_completed = json_is_true(item, "Completed"),
        };
    }
    return true;
}

enum tally_status tally_commit(struct tally_client *client, const struct tally_commit *commit, struct tally_sent *sent,
                               struct tally_committed_unit *ended)
{
    struct results results;
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status = check_commit(client, commit);

    if (status != TALLY_OK)
        return status;
    json_body_init(&body);
    add_messages(&body, "Deletes", commit->deletes, commit->delete_count);
    add_messages(&body, "Holds", commit->holds, commit->hold_count);
    if (commit->addition_count > 0)
        add_additions(&body, commit);
    if (commit->send_count > 0)
        add_sends(&body, commit);
    if (commit->unit_count > 0)
        add_units(&body, commit);
    status = json_body_call(&body, client, "Tally.Commit", &reply);
    if (status != TALLY_OK)
        return status;
    memset(&results, 0, sizeof results);
    if (!read_results(json_root(&reply), commit, &results)) {
        status = client_garbled(client, "Commit");
    } else {
        if (sent != NULL)
            memcpy(sent, results.sent, commit->send_count * sizeof *sent);
        if (ended != NULL)
            memcpy(ended, results.ended, commit->unit_count * sizeof *ended);
    }
    tally_reply_deinit(&reply);
    return status;
}
