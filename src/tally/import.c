/* tally import: sends the messages of a file of JSON lines. A second import of the file, or one of a run that was
 * killed, adds nothing. docs/how-to/export.md says for how long, and what a line is. */
#include "auth/sha256.h"
#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/random.h"
#include "tally/import_message.h"
#include "tally/line_reader.h"
#include "tally/output.h"
#include "tally/publication.h"
#include "tally/queue_arn.h"
#include "tally/repeated_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_SIZE_MAX (16u << 20) /* a body of 1 MiB in which each byte is escaped takes 6 MiB */
#define BLOCK_SHIFT 17u           /* numbers of one publisher: so few that their ranges are never merged */
#define WINDOW_S_MIN 86400        /* a queue that forgets ids sooner is no place for lines known by these */
#define WINDOW_S_NEW "1209600"    /* of a queue that --create makes for such lines */
#define SLOTS 16u                 /* publishers of a queue for them */
#define QUEUE_NAME_SIZE 81u
#define QUEUE_SIZE 1024u /* a name or a URL */

struct settings {
    const char *queue;
    const char *run;
    bool has_create;
    bool is_once;
};

static const struct setting settings_table[] = {
    {"queue", offsetof(struct settings, queue)},
    {"run", offsetof(struct settings, run)},
    {"create", offsetof(struct settings, has_create)},
    {"once", offsetof(struct settings, is_once)},
};

struct import {
    struct invocation *invocation;
    const struct settings *settings;
    struct line_reader reader;
    struct import_rows rows;
    struct publication publication;
    unsigned slot; /* which of the publishers of a queue, so that imports at the same time seldom meet */
    struct repeated_ids ids;
    char window[QUEUE_SIZE]; /* the queue whose window was looked at last */
    uint64_t sent;
    uint64_t known;
};

static int refuse_line(uint64_t line, const char *text)
{
    complain("line %llu: %s", (unsigned long long)line, text);
    complain("the lines before it are in their queues; it is not, and none behind it. Mend it and run the same command "
             "again: what was sent is not sent again");
    return EXIT_REFUSED;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static int create_queue(struct invocation *invocation, const char *queue, bool needs_window)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueName", queue_name_in(queue));
    yyjson_mut_val *attributes = json_add_object(&body, body.root, "Attributes");
    if (bytes_ends_with(bytes_from_string(queue), BYTES(".fifo")))
        json_add_text(&body, attributes, "FifoQueue", "true");
    if (needs_window)
        json_add_text(&body, attributes, "Tally.DeduplicationWindow", WINDOW_S_NEW);
    if (json_body_call(&body, invocation->client, "AmazonSQS.CreateQueue", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    complain("queue %s is made", queue);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static bool is_missing_queue(const char *code)
{
    return strcmp(code, "QueueDoesNotExist") == 0 || strcmp(code, "AWS.SimpleQueueService.NonExistentQueue") == 0;
}

static enum tally_status ask_window(struct tally_client *client, const char *queue, long long *window_s)
{
    static const char name[] = "Tally.DeduplicationWindow";
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), name);
    const enum tally_status status = json_body_call(&body, client, "AmazonSQS.GetQueueAttributes", &reply);
    if (status != TALLY_OK)
        return status;
    *window_s = atoll(output_text_of(yyjson_obj_get(json_root(&reply), "Attributes"), name));
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

/* Does the queue remember ids for long enough? Then a second import adds nothing. */
static int check_window(struct import *import, const char *queue)
{
    struct invocation *invocation = import->invocation;
    long long window_s = 0;
    int status = EXIT_DONE;
    if (strcmp(import->window, queue) == 0)
        return EXIT_DONE;
    enum tally_status asked = ask_window(invocation->client, queue, &window_s);
    if (asked != TALLY_OK && import->settings->has_create &&
        is_missing_queue(tally_client_error(invocation->client)->code)) {
        status = create_queue(invocation, queue, true);
        asked = status == EXIT_DONE ? ask_window(invocation->client, queue, &window_s) : asked;
    }
    if (status != EXIT_DONE)
        return status;
    if (asked != TALLY_OK) {
        status = invocation_failed(invocation, invocation->client);
        complain("line %llu names that queue", (unsigned long long)import->reader.line);
        return status;
    }
    if (window_s >= 0 && window_s < WINDOW_S_MIN && !import->settings->is_once) {
        complain(
            "queue %s remembers deduplication ids for %lld s, so an import that is repeated later sends all again. "
            "Make it longer (tally queue set %s Tally.DeduplicationWindow=" WINDOW_S_NEW
            "), or say --once if you will not repeat it",
            queue, window_s, queue);
        return EXIT_REFUSED;
    }
    snprintf(import->window, sizeof import->window, "%s", queue);
    return EXIT_DONE;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int send_some(struct import *import, struct publication_outcome *outcome)
{
    const int status = publication_send(&import->publication, import->invocation, &import->rows, outcome);
    if (status != EXIT_DONE) {
        complain("the lines from %llu on may be in their queues or not; the same command again goes on there",
                 (unsigned long long)import->rows.rows[import->rows.first].line);
        return status;
    }
    import->sent += outcome->sent;
    import->known += outcome->known;
    return EXIT_DONE;
}

/* The queue that the first row names. */
static void name_first_queue(const struct import_rows *rows, char queue[QUEUE_SIZE])
{
    const struct import_row *row = &rows->rows[rows->first];
    yyjson_doc *text = json_read(rows->texts.data_owned + row->begin, row->end - row->begin);
    json_copy(yyjson_doc_get_root(text), "QueueUrl", queue, QUEUE_SIZE);
    yyjson_doc_free(text);
}

/* The server has no room now. It may soon have some: what others receive and delete makes it. */
static int wait_for_room(const struct import *import, const struct publication_fault *fault, unsigned *pauses)
{
    const unsigned long long line = import->rows.rows[import->rows.first].line;
    if (*pauses == 0)
        complain("line %llu: %s: %s", line, fault->code, fault->text);
    if (*pauses == PUBLICATION_PAUSES_MAX) {
        complain("the lines before line %llu are in their queues, and no others. Run the same command again when there "
                 "is room",
                 line);
        return EXIT_REFUSED;
    }
    ++*pauses;
    sleep_for(PUBLICATION_PAUSE_MS);
    return EXIT_DONE;
}

/* What stopped the first row: can it go on? *pauses counts the attempts in vain. */
static int resolve_fault(const struct import *import, const struct publication_fault *fault, unsigned *pauses)
{
    const bool is_missing = is_missing_queue(fault->code);
    char text[sizeof fault->code + sizeof fault->text + 32], queue[QUEUE_SIZE];
    if (fault->is_for_now)
        return wait_for_room(import, fault, pauses);
    if (is_missing && import->settings->has_create && *pauses == 0) {
        ++*pauses;
        name_first_queue(&import->rows, queue);
        return create_queue(import->invocation, queue, import->publication.is_shared);
    }
    snprintf(text, sizeof text, "%s: %s%s", fault->code, fault->text, is_missing ? " (--create makes it)" : "");
    return refuse_line(import->rows.rows[import->rows.first].line, text);
}

/* Sends all rows, or as far as it goes. */
static int flush(struct import *import)
{
    struct publication_outcome outcome;
    unsigned pauses = 0;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && !import_rows_is_empty(&import->rows)) {
        status = send_some(import, &outcome);
        if (status == EXIT_DONE && outcome.sent + outcome.known > 0)
            pauses = 0;
        if (status == EXIT_DONE && outcome.fault.is_there)
            status = resolve_fault(import, &outcome.fault, &pauses);
    }
    if (status == EXIT_DONE)
        import_rows_clear(&import->rows);
    return status;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void name_publisher(const struct buffer *text, char publisher[UUID_TEXT_SIZE + 1])
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 sha256;
    sha256_init(&sha256);
    sha256_digest(&sha256, buffer_bytes(text), digest);
    uuid_to_text(digest, publisher);
    publisher[UUID_TEXT_SIZE] = '\0';
    sha256_deinit(&sha256);
}

/* The publisher of a block of numbers of an export, in an import with these options; or one of those that a queue has
 * for messages which are of no export. */
static void find_publisher(const struct import *import, const struct import_message *message,
                           char publisher[UUID_TEXT_SIZE + 1])
{
    const char *queue = import->settings->queue, *run = import->settings->run;
    struct buffer text;
    buffer_init(&text);
    if (message->export == NULL)
        buffer_append_format(&text, "import to %s, %u", message->queue, import->slot);
    else
        buffer_append_format(&text, "import of %s, block %llu%cto %s%crun %s", message->export,
                             (unsigned long long)(message->number >> BLOCK_SHIFT), '\0', queue == NULL ? "" : queue,
                             '\0', run == NULL ? "" : run);
    name_publisher(&text, publisher);
    buffer_deinit(&text);
}

/* What was read before goes first, if it goes elsewhere. */
static int turn_to_publisher(struct import *import, const struct import_message *message)
{
    struct publication *publication = &import->publication;
    const bool is_of_export = message->export != NULL;
    char publisher[UUID_TEXT_SIZE + 1];
    find_publisher(import, message, publisher);
    if (publication->is_open && strcmp(publication->publisher, publisher) == 0)
        return EXIT_DONE;
    int status = flush(import);
    if (status == EXIT_DONE && !is_of_export)
        status = check_window(import, message->queue);
    if (status != EXIT_DONE)
        return status;
    publication_close(publication, import->invocation);
    return publication_open(publication, import->invocation, publisher, !is_of_export);
}

/* Does the message go with its id? Of two messages of an export that have one the second does not: perhaps the export
 * says so, because a part of its file need not have the first. Here two queues may become one, besides. */
static bool keeps_id(struct import *import, const struct import_message *message)
{
    if (message->deduplication_id == NULL || message->export == NULL)
        return message->deduplication_id != NULL;
    return !repeated_ids_note(&import->ids, message->queue, message->deduplication_id) && !message->is_id_repeated;
}

/* Its members as JSON; NULL, with the fault set, if it can't be sent. */
static char *write_members(struct import *import, const struct import_message *message, size_t *size,
                           char fault[IMPORT_FAULT_SIZE])
{
    struct json_body row;
    char *text = NULL;
    json_body_init(&row);
    json_add_text(&row, row.root, "QueueUrl", message->queue);
    if (import_message_add(message, keeps_id(import, message), (uint64_t)time(NULL) * 1000, &row, row.root, fault))
        text = json_write(row.doc_owned, YYJSON_WRITE_NOFLAG, size);
    yyjson_mut_doc_free(row.doc_owned);
    return text;
}

static void add_row(struct import *import, const struct import_message *message, struct bytes text)
{
    struct import_row *row = import_rows_add(&import->rows, text);
    row->line = import->reader.line;
    row->number = message->number;
    if (message->export != NULL)
        import_message_uid(message, row->uid);
}

/* Of a line; what --queue says, the server judges. */
static bool is_queue_name(const char *name)
{
    return strlen(name) < QUEUE_NAME_SIZE && strpbrk(name, "/:") == NULL;
}

static bool check_message(const struct import *import, struct import_message *message, char fault[IMPORT_FAULT_SIZE])
{
    if (import->settings->queue != NULL)
        message->queue = import->settings->queue;
    if (message->queue == NULL)
        snprintf(fault, IMPORT_FAULT_SIZE, "it names no queue; say --queue, or give it a member \"queue\"");
    else if (import->settings->queue == NULL && !is_queue_name(message->queue))
        snprintf(fault, IMPORT_FAULT_SIZE, "\"%.80s\" is not the name of a queue", message->queue);
    else if (message->export == NULL && message->deduplication_id == NULL && !import->settings->is_once)
        snprintf(fault, IMPORT_FAULT_SIZE,
                 "nothing tells it from others when the import is repeated: give it a deduplicationId, or say --once");
    else
        return true;
    return false;
}

static int take_message(struct import *import, struct import_message *message)
{
    char fault[IMPORT_FAULT_SIZE] = "a text of it is not UTF-8";
    size_t size = 0;
    int status = EXIT_DONE;
    char *text = check_message(import, message, fault) ? write_members(import, message, &size, fault) : NULL;
    if (text == NULL) {
        status = flush(import);
        return status == EXIT_DONE ? refuse_line(import->reader.line, fault) : status;
    }
    status = turn_to_publisher(import, message);
    if (status == EXIT_DONE && !import_rows_has_room(&import->rows, size))
        status = flush(import);
    if (status == EXIT_DONE)
        add_row(import, message, bytes_make(text, size));
    free(text);
    return status;
}

static int take_line(struct import *import, struct bytes line)
{
    struct import_message message;
    char fault[IMPORT_FAULT_SIZE];
    if (line.size > 0 && line.ptr[line.size - 1] == '\r')
        line.size--;
    if (line.size == 0)
        return EXIT_DONE;
    if (!import_message_init(&message, line, fault)) {
        const int status = flush(import);
        return status == EXIT_DONE ? refuse_line(import->reader.line, fault) : status;
    }
    const int status = take_message(import, &message);
    import_message_deinit(&message);
    return status;
}

static int take_lines(struct import *import)
{
    struct bytes line;
    int status = EXIT_DONE;
    enum line_reader_result result = LINE_NONE;
    while (status == EXIT_DONE && (result = line_reader_next(&import->reader, LINE_SIZE_MAX, &line)) == LINE_READ)
        status = take_line(import, line);
    if (status == EXIT_DONE)
        status = flush(import);
    return status == EXIT_DONE && result == LINE_FAILED ? EXIT_LOCAL : status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void print_outcome(const struct import *import)
{
    struct json_body answer;
    if (!import->invocation->is_json) {
        printf("sent %llu, known %llu\n", (unsigned long long)import->sent, (unsigned long long)import->known);
        return;
    }
    json_body_init(&answer);
    json_add_number(&answer, answer.root, "Sent", import->sent);
    json_add_number(&answer, answer.root, "Known", import->known);
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

static int run(struct invocation *invocation)
{
    struct import *import = memory_allocate_zeroed(sizeof *import);
    const bool is_open =
        line_reader_init(&import->reader, invocation->argument_count == 0 ? "-" : invocation->arguments[0]);
    int status = is_open ? invocation_connect(invocation) : EXIT_LOCAL;
    import->invocation = invocation;
    import->settings = invocation->settings;
    random_fill(&import->slot, sizeof import->slot);
    import->slot %= SLOTS;
    import_rows_init(&import->rows);
    if (status == EXIT_DONE) {
        status = take_lines(import);
        publication_close(&import->publication, invocation);
        print_outcome(import);
    }
    import_rows_deinit(&import->rows);
    repeated_ids_deinit(&import->ids);
    line_reader_deinit(&import->reader);
    free(import);
    return status;
}

const struct command command_import = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
