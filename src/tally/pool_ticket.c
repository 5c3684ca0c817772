/* tally pool ticket, cancel, count and putback: one request each, about tickets or a match of one pool. */
#include "base/assert.h"
#include "tally/keys.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_PER_REQUEST 1000

static void print_ticket(yyjson_val *ticket)
{
    static const char *const rows[][2] = {{"ticket", "TicketId"},  {"state", "Status"},  {"match", "MatchId"},
                                          {"version", "Version"},  {"level", "Level"},   {"says", "Attributes"},
                                          {"needs", "Need"},       {"weight", "Weight"}, {"priority", "Priority"},
                                          {"set", "ExclusiveSet"}, {"body", "Body"}};
    output_members(ticket, rows, ARRAY_LENGTH(rows));
    output_time("offered", json_real(ticket, "OfferedAt"));
    output_time("expires", json_real(ticket, "ExpiresAt"));
}

/* --- cancel ------------------------------------------------------------------------------------------------------- */

static int print_cancelled(const struct invocation *invocation, yyjson_val *results)
{
    int status = EXIT_DONE;
    size_t i, max;
    yyjson_val *result;
    yyjson_arr_foreach(results, i, max, result)
    {
        const char *id = json_text(result, "TicketId"), *state = json_text(result, "Status");
        const char *match = json_text(result, "MatchId");
        if (state == NULL || strcmp(state, "cancelled") != 0)
            status = EXIT_REFUSED;
        if (!invocation->is_json)
            printf("%-10s %s%s%s\n", state == NULL ? "" : state, id == NULL ? "" : id, match == NULL ? "" : " match ",
                   match == NULL ? "" : match);
    }
    return status;
}

static int cancel_some(struct invocation *invocation, char *const *ids, size_t count)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    yyjson_mut_val *list = json_add_array(&body, body.root, "TicketIds");
    for (size_t i = 0; i < count; i++)
        yyjson_mut_arr_add_str(body.doc_owned, list, ids[i]);
    if (json_body_call(&body, invocation->client, "Tally.CancelTickets", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&reply);
    int status = print_cancelled(invocation, yyjson_obj_get(json_root(&reply), "Results"));
    tally_reply_deinit(&reply);
    return status;
}

static int run_cancel(struct invocation *invocation)
{
    struct keys keys;
    int status = keys_init(&keys, invocation, 1);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    for (size_t i = 0; i < keys.count && status <= EXIT_REFUSED; i += IDS_PER_REQUEST) {
        size_t some = keys.count - i < IDS_PER_REQUEST ? keys.count - i : IDS_PER_REQUEST;
        int some_status = cancel_some(invocation, keys.items + i, some);
        if (some_status != EXIT_DONE)
            status = some_status;
        if (tally_client_error(invocation->client)->status != TALLY_OK)
            break;
    }
    keys_deinit(&keys);
    return status;
}

/* --- count -------------------------------------------------------------------------------------------------------- */

/* Adds the filter, which is a need; false, after telling the user, if it is not JSON. */
static bool add_filter(const struct invocation *invocation, struct json_body *body)
{
    if (invocation->argument_count < 2)
        return true;
    const char *text = invocation->arguments[1];
    yyjson_doc *doc = json_read(text, strlen(text));
    if (doc == NULL) {
        (void)complain_usage(invocation, "the filter is JSON, like '{\"mode\": {\"eq\": \"duel\"}}', not %s", text);
        return false;
    }
    yyjson_mut_obj_add_val(body->doc_owned, body->root, "Filter",
                           yyjson_val_mut_copy(body->doc_owned, yyjson_doc_get_root(doc)));
    yyjson_doc_free(doc);
    return true;
}

static void print_count(yyjson_val *answer)
{
    printf("%llu tickets, weight %llu\n", (unsigned long long)json_number(answer, "Tickets"),
           (unsigned long long)json_number(answer, "Weight"));
}

static int run_count(struct invocation *invocation)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    int status = add_filter(invocation, &body) ? invocation_connect(invocation) : EXIT_USAGE;
    if (status != EXIT_DONE) {
        yyjson_mut_doc_free(body.doc_owned);
        return status;
    }
    return output_call(invocation, &body, "Tally.CountTickets", print_count);
}

/* --- putback ------------------------------------------------------------------------------------------------------ */

static int run_putback(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    json_add_text(&body, body.root, "MatchId", invocation->arguments[1]);
    if (json_body_call(&body, invocation->client, "Tally.PutBackMatch", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    const char *state = json_text(json_root(&reply), "Status");
    status = state != NULL && strcmp(state, "put-back") == 0 ? EXIT_DONE : EXIT_REFUSED;
    if (invocation->is_json)
        output_reply(&reply);
    else
        puts(state == NULL ? "" : state);
    tally_reply_deinit(&reply);
    return status;
}

const struct command command_pool_ticket = {
    .action = "Tally.GetTicket", .members = {"PoolName", "TicketId"}, .print = print_ticket};
const struct command command_pool_cancel = {.run = run_cancel};
const struct command command_pool_count = {.run = run_count};
const struct command command_pool_putback = {.run = run_putback};
