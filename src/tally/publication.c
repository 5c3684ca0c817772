#include "tally/publication.h"

#include "base/assert.h"
#include "client/client.h"
#include "platform/monotonic.h"
#include "platform/random.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

#define OPENS_MAX 10u
#define TURNS_MAX 1000u /* of a shared publisher that others take meanwhile */
#define TURN_MS 2u

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static bool is_text(const char *text, const char *other)
{
    return text != NULL && strcmp(text, other) == 0;
}

static bool is_full(const char *code)
{
    return is_text(code, "MemoryIsFull") || is_text(code, "DiskIsFull");
}

/* *is_accepted: the publisher is ours. Else publication->epoch is that of its owner. */
static enum tally_status ask_to_open(struct publication *publication, struct tally_client *client, bool *is_accepted)
{
    struct json_body body;
    struct tally_reply reply;
    char owner[UUID_TEXT_SIZE + 1] = "";
    uuid_to_text(publication->owner, owner);
    json_body_init(&body);
    json_add_text(&body, body.root, "Publisher", publication->publisher);
    json_add_number(&body, body.root, "Epoch", publication->epoch);
    json_add_text(&body, body.root, "Owner", owner);
    const enum tally_status status = json_body_call(&body, client, "Tally.OpenPublisher", &reply);
    if (status != TALLY_OK)
        return status;
    *is_accepted = json_is_true(json_root(&reply), "Accepted");
    publication->epoch = json_number(json_root(&reply), "Epoch");
    publication->batch = json_number(json_root(&reply), "LastBatch");
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

/* The same, and waits where the server has no room for a new publisher. */
static int ask_patiently(struct publication *publication, struct invocation *invocation, bool *is_accepted)
{
    for (unsigned pauses = 0; ask_to_open(publication, invocation->client, is_accepted) != TALLY_OK; pauses++) {
        const struct tally_error *error = tally_client_error(invocation->client);
        if (!is_full(error->code) || pauses == PUBLICATION_PAUSES_MAX)
            return invocation_failed(invocation, invocation->client);
        if (pauses == 0)
            complain("%s: %s", error->code, error->message);
        sleep_for(PUBLICATION_PAUSE_MS);
    }
    return EXIT_DONE;
}

int publication_open(struct publication *publication, struct invocation *invocation, const char *publisher,
                     bool is_shared)
{
    bool is_accepted = false;
    int status = EXIT_DONE;
    *publication = (struct publication){.epoch = 1, .is_shared = is_shared};
    snprintf(publication->publisher, sizeof publication->publisher, "%s", publisher);
    random_fill(publication->owner, sizeof publication->owner);
    for (unsigned i = 0; i < OPENS_MAX && status == EXIT_DONE && !is_accepted; i++) {
        publication->epoch += i > 0;
        status = ask_patiently(publication, invocation, &is_accepted);
    }
    publication->is_open = status == EXIT_DONE && is_accepted;
    if (status != EXIT_DONE || is_accepted)
        return status;
    complain("other imports are running: one at a time");
    return EXIT_REFUSED;
}

static void begin_request(const struct publication *publication, struct buffer *body)
{
    char owner[UUID_TEXT_SIZE + 1] = "";
    uuid_to_text(publication->owner, owner);
    buffer_append_format(body,
                         "{\"Publisher\":\"%s\",\"Epoch\":%llu,\"Owner\":\"%s\",\"Batch\":%llu,\"ConfirmedBatch\":%llu,"
                         "\"Order\":\"strict\",\"Refused\":\"block\",\"Rows\":[",
                         publication->publisher, (unsigned long long)publication->epoch, owner,
                         (unsigned long long)publication->batch + 1, (unsigned long long)publication->batch);
}

static enum tally_status end_request(struct buffer *body, struct tally_client *client, struct tally_reply *reply)
{
    buffer_append(body, "]}", sizeof "]}");
    const enum tally_status status = tally_call(client, "Tally.Publish", (const char *)body->data_owned, reply);
    buffer_deinit(body);
    return status;
}

/* Its last row once more, which is known: so it has no body. */
void publication_close(struct publication *publication, struct invocation *invocation)
{
    struct buffer body;
    if (publication->is_open && publication->last_id > 0) {
        buffer_init(&body);
        begin_request(publication, &body);
        buffer_append_format(&body, "{\"Id\":%llu,\"Uid\":\"%s\"}", (unsigned long long)publication->last_id,
                             publication->last_uid);
        end_request(&body, invocation->client, NULL);
    }
    publication->is_open = false;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* The Id of a row in the next batch: its number, or one that no row of this publisher has had. */
static uint64_t id_of(const struct publication *publication, const struct import_rows *rows, size_t index)
{
    const uint64_t number = rows->rows[index].number;
    return number > 0 ? number : (publication->batch + 1) * IMPORT_ROWS_MAX + index;
}

static void name_row(const struct publication *publication, const struct import_rows *rows, size_t index,
                     char uid[UUID_TEXT_SIZE + 1])
{
    uint8_t bytes[UUID_SIZE];
    if (rows->rows[index].number > 0) {
        memcpy(uid, rows->rows[index].uid, UUID_TEXT_SIZE + 1);
        return;
    }
    memcpy(bytes, publication->owner, UUID_SIZE / 2);
    bytes_put_u64(bytes + UUID_SIZE / 2, id_of(publication, rows, index));
    uuid_to_text(bytes, uid);
    uid[UUID_TEXT_SIZE] = '\0';
}

/* {"Id": …, "Uid": …, and the members of the text. */
static void add_row(const struct publication *publication, const struct import_rows *rows, size_t index,
                    struct buffer *body)
{
    const struct import_row *row = &rows->rows[index];
    char uid[UUID_TEXT_SIZE + 1];
    name_row(publication, rows, index, uid);
    buffer_append_format(body, "%s{\"Id\":%llu,\"Uid\":\"%s\",", index > rows->first ? "," : "",
                         (unsigned long long)id_of(publication, rows, index), uid);
    buffer_append(body, rows->texts.data_owned + row->begin + 1, row->end - row->begin - 1);
}

static void read_fault(yyjson_val *result, struct publication_fault *fault)
{
    fault->is_there = true;
    json_copy(result, "Code", fault->code, sizeof fault->code);
    json_copy(result, "Message", fault->text, sizeof fault->text);
    fault->is_for_now = is_full(fault->code) || is_text(fault->code, "OverLimit");
}

/* The row of that Id, looked for from *index on, because the results are in the order of the rows. */
static bool find_row(const struct publication *publication, const struct import_rows *rows, uint64_t id, size_t *index)
{
    while (*index < rows->count && id_of(publication, rows, *index) != id)
        ++*index;
    return *index < rows->count;
}

/* The results are of rows that were not stored now, in the order of the rows. False: they don't account for all rows,
 * so no Tally gave them. *settled: how many rows are. */
static bool read_results(const struct publication *publication, yyjson_val *answer, const struct import_rows *rows,
                         struct publication_outcome *outcome, size_t *settled)
{
    size_t i, max, index = rows->first;
    yyjson_val *result, *results = yyjson_obj_get(answer, "Results");
    const size_t count = rows->count - rows->first;
    if (!yyjson_is_arr(results) || json_number(answer, "Stored") + yyjson_arr_size(results) != count)
        return false;
    *settled = count;
    yyjson_arr_foreach(results, i, max, result)
    {
        const char *status = json_text(result, "Status");
        if (!find_row(publication, rows, json_number(result, "Id"), &index))
            return false;
        if (is_text(status, "duplicate") || is_text(status, "too-old")) {
            outcome->known++;
            index++;
            continue;
        }
        read_fault(result, &outcome->fault);
        *settled = index - rows->first;
        break; /* the others are held behind it */
    }
    outcome->sent = *settled - outcome->known;
    return true;
}

static int take_answer(struct publication *publication, struct invocation *invocation, yyjson_val *answer,
                       struct import_rows *rows, struct publication_outcome *outcome)
{
    size_t settled = 0;
    if (!read_results(publication, answer, rows, outcome, &settled)) {
        client_garbled(invocation->client, "Tally.Publish");
        return invocation_failed(invocation, invocation->client);
    }
    if (settled > 0) {
        publication->last_id = id_of(publication, rows, rows->first + settled - 1);
        name_row(publication, rows, rows->first + settled - 1, publication->last_uid);
    }
    rows->first += settled;
    publication->batch++;
    return EXIT_DONE;
}

static enum tally_status publish(const struct publication *publication, struct tally_client *client,
                                 const struct import_rows *rows, struct tally_reply *reply)
{
    struct buffer body;
    buffer_init(&body);
    begin_request(publication, &body);
    for (size_t i = rows->first; i < rows->count; i++)
        add_row(publication, rows, i, &body);
    return end_request(&body, client, reply);
}

static bool is_fenced(const struct invocation *invocation)
{
    return is_text(tally_client_error(invocation->client)->code, "PublisherFenced");
}

/* A whole request may be refused while memory or the disk are full, too. */
static bool is_full_now(const struct invocation *invocation, struct publication_fault *fault)
{
    const struct tally_error *error = tally_client_error(invocation->client);
    if (error->status != TALLY_REFUSED || !is_full(error->code))
        return false;
    *fault = (struct publication_fault){.is_there = true, .is_for_now = true};
    snprintf(fault->code, sizeof fault->code, "%s", error->code);
    snprintf(fault->text, sizeof fault->text, "%s", error->message);
    return true;
}

/* Takes a shared publisher back from another import, for one request. With a fault there is no reply. */
static int publish_in_turn(struct publication *publication, struct invocation *invocation,
                           const struct import_rows *rows, struct publication_fault *fault, struct tally_reply *reply)
{
    char publisher[UUID_TEXT_SIZE + 1];
    for (unsigned turn = 0; publish(publication, invocation->client, rows, reply) != TALLY_OK; turn++) {
        if (is_full_now(invocation, fault))
            return EXIT_DONE;
        if (!is_fenced(invocation) || (publication->is_shared && turn == TURNS_MAX))
            return invocation_failed(invocation, invocation->client);
        if (!publication->is_shared) {
            complain("another import of this file has begun, and goes on with it");
            return EXIT_REFUSED;
        }
        memcpy(publisher, publication->publisher, sizeof publisher);
        sleep_for(TURN_MS * (turn < 10 ? turn : 10));
        const int status = publication_open(publication, invocation, publisher, true);
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

int publication_send(struct publication *publication, struct invocation *invocation, struct import_rows *rows,
                     struct publication_outcome *outcome)
{
    struct tally_reply reply;
    ASSERT(publication->is_open && !import_rows_is_empty(rows));
    *outcome = (struct publication_outcome){.sent = 0};
    int status = publish_in_turn(publication, invocation, rows, &outcome->fault, &reply);
    if (status != EXIT_DONE || outcome->fault.is_there)
        return status;
    status = take_answer(publication, invocation, json_root(&reply), rows, outcome);
    tally_reply_deinit(&reply);
    return status;
}
