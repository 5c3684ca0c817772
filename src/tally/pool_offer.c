/* tally pool offer: puts tickets into a pool, from lines of JSON. */
#include "base/assert.h"
#include "tally/input.h"
#include "tally/output.h"
#include "tally/progress.h"
#include "tally/ticket_line.h"
#include <stdio.h>
#include <string.h>

#define LINES_SIZE_MAX (2u << 30)
#define TICKETS_PER_REQUEST 1000u
#define REQUEST_SIZE_MAX (2u << 20) /* of the lines in it; the server takes more by default */

struct settings {
    const char *tickets;
};

static const struct setting settings_table[] = {
    {"tickets", offsetof(struct settings, tickets)},
};

/* What became of the tickets. */
struct outcome {
    uint64_t waiting;
    uint64_t matched;
    uint64_t already;
    uint64_t other; /* ended or held, from before */
    uint64_t refused;
};

struct offer {
    struct invocation *invocation;
    struct outcome outcome;
    struct progress progress;
    char **lines;
    size_t line_count;
};

static void print_result(yyjson_val *result)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_doc_set_root(doc, yyjson_val_mut_copy(doc, result));
    output_document(doc);
    yyjson_mut_doc_free(doc);
}

static void take_result(struct offer *offer, yyjson_val *result)
{
    const char *status = json_text(result, "Status");
    const char *why = json_text(result, "Why"), *id = json_text(result, "TicketId");
    if (offer->invocation->is_json)
        print_result(result);
    if (json_is_true(result, "AlreadyOffered"))
        offer->outcome.already++;
    if (status != NULL && strcmp(status, "waiting") == 0) {
        offer->outcome.waiting++;
    } else if (status != NULL && strcmp(status, "matched") == 0) {
        offer->outcome.matched++;
    } else if (status != NULL && (strcmp(status, "invalid") == 0 || strcmp(status, "key-reused") == 0)) {
        offer->outcome.refused++;
        complain("ticket %s: %s%s%s", id == NULL ? "" : id, status, why == NULL ? "" : ": ", why == NULL ? "" : why);
    } else {
        offer->outcome.other++;
    }
}

/* How many lines from `first` on go into one request. */
static size_t count_fitting(const struct offer *offer, size_t first)
{
    size_t fitting = 0, size = 0;
    while (first + fitting < offer->line_count && fitting < TICKETS_PER_REQUEST) {
        size += strlen(offer->lines[first + fitting]);
        if (fitting > 0 && size > REQUEST_SIZE_MAX)
            break;
        fitting++;
    }
    return fitting;
}

/* One request. Lines that are not tickets are left out, after telling the user. */
static int offer_some(struct offer *offer, size_t first, size_t count)
{
    struct invocation *invocation = offer->invocation;
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *result;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    yyjson_mut_val *list = json_add_array(&body, body.root, "Tickets");
    for (i = first; i < first + count; i++) {
        const char *why = ticket_line_add(offer->lines[i], strlen(offer->lines[i]), &body, list);
        if (why == NULL)
            continue;
        offer->outcome.refused++;
        complain("ticket number %zu: %s", i + 1, why);
    }
    if (yyjson_mut_arr_size(list) == 0) {
        yyjson_mut_doc_free(body.doc_owned);
        return EXIT_DONE;
    }
    if (json_body_call(&body, invocation->client, "Tally.OfferTickets", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Results"), i, max, result)
    {
        take_result(offer, result);
    }
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static void print_outcome(const struct outcome *outcome)
{
    printf("%llu waiting, %llu matched", (unsigned long long)outcome->waiting, (unsigned long long)outcome->matched);
    if (outcome->other > 0)
        printf(", %llu over or held", (unsigned long long)outcome->other);
    if (outcome->already > 0)
        printf("; %llu of them had been offered before", (unsigned long long)outcome->already);
    if (outcome->refused > 0)
        printf("; %llu refused", (unsigned long long)outcome->refused);
    puts("");
}

static int offer_all(struct offer *offer)
{
    int status = EXIT_DONE;
    size_t at = 0;
    progress_init(&offer->progress, offer->invocation->is_json || offer->line_count <= TICKETS_PER_REQUEST, 0);
    while (at < offer->line_count && status == EXIT_DONE) {
        size_t count = count_fitting(offer, at);
        status = offer_some(offer, at, count);
        if (status != EXIT_DONE)
            complain("the tickets from number %zu on may be in the pool or not; the same command again is safe",
                     at + 1);
        at += count;
        progress_show(&offer->progress, at, offer->outcome.refused, offer->line_count);
    }
    progress_hide(&offer->progress);
    if (status == EXIT_DONE && !offer->invocation->is_json)
        print_outcome(&offer->outcome);
    return status == EXIT_DONE && offer->outcome.refused > 0 ? EXIT_REFUSED : status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct offer offer = {.invocation = invocation};
    struct lines lines = {.count = 0};
    struct buffer text;
    int status = EXIT_LOCAL;
    buffer_init(&text);
    if (input_read_file(settings->tickets, &text, LINES_SIZE_MAX)) {
        lines_init(&lines, (char *)text.data_owned);
        offer.lines = lines.items_owned;
        offer.line_count = lines.count;
        status = invocation_connect(invocation);
    }
    if (status == EXIT_DONE)
        status = offer_all(&offer);
    lines_deinit(&lines);
    buffer_deinit(&text);
    return status;
}

const struct command command_pool_offer = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
