/* A line of an import: the message that it describes, and by what a second import knows it again. docs/how-to/export.md
 * has the members of a line. */
#ifndef TALLY_TALLY_IMPORT_MESSAGE_H
#define TALLY_TALLY_IMPORT_MESSAGE_H

#include "base/bytes.h"
#include "client/json.h"

#define IMPORT_FAULT_SIZE 512

struct import_message {
    yyjson_doc *line_owned; /* the other members point into it */
    const char *queue;      /* a name; NULL: it names none */
    const char *export;     /* the id of an export, with `number`; NULL: the line was made by somebody else */
    uint64_t number;
    const char *message_id;       /* NULL: none */
    const char *deduplication_id; /* NULL: none */
    bool is_id_repeated;          /* another line of the export has it, too */
};

/* False: the line is none, and `fault` says why. Else import_message_deinit() ends it. */
bool import_message_init(struct import_message *message, struct bytes line, char fault[IMPORT_FAULT_SIZE]);
void import_message_deinit(struct import_message *message);

/* Adds the members of a send, without those that name the queue or the message. False: the message can't be sent, and
 * `fault` says why. Without `keeps_id` it leaves the MessageDeduplicationId out. */
bool import_message_add(const struct import_message *message, bool keeps_id, uint64_t now_ms, struct json_body *body,
                        yyjson_mut_val *object, char fault[IMPORT_FAULT_SIZE]);

/* The UUID under which the queue's server knows a line of an export. */
void import_message_uid(const struct import_message *message, char uid[UUID_TEXT_SIZE + 1]);

#endif
