#include "tally/sent.h"

#include <stdio.h>

/* Tells on standard error why a message was not sent, or not a second time. */
static void report_duplicate(const struct tally_sent *sent, const struct tally_outgoing *message)
{
    if (*sent->id != '\0')
        complain("a duplicate of message %s: nothing was sent", sent->id);
    else if (sent->was_passed_over)
        complain(
            "nothing was sent: producer %s has used %llu in this queue, and passed %llu over. A number must be above "
            "the last one",
            message->producer, (unsigned long long)sent->last_sequence, (unsigned long long)message->sequence);
    else
        complain(
            "nothing was sent: producer %s has used %llu in this queue, so %llu is a duplicate, of a message too long "
            "ago to be known",
            message->producer, (unsigned long long)sent->last_sequence, (unsigned long long)message->sequence);
}

static void print_json(const struct tally_sent *sent)
{
    struct json_body answer;
    json_body_init(&answer);
    json_add_text(&answer, answer.root, "MessageId", sent->id);
    json_add_text(&answer, answer.root, "SequenceNumber",
                  *sent->sequence_number == '\0' ? NULL : sent->sequence_number);
    if (sent->is_duplicate)
        yyjson_mut_obj_add_bool(answer.doc_owned, answer.root, "Duplicate", true);
    if (sent->is_duplicate && *sent->id == '\0') {
        json_add_number(&answer, answer.root, "LastSequence", sent->last_sequence);
        yyjson_mut_obj_add_bool(answer.doc_owned, answer.root, "PassedOver", sent->was_passed_over);
    }
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

void sent_print(const struct invocation *invocation, const struct tally_sent *sent,
                const struct tally_outgoing *message)
{
    if (invocation->is_json) {
        print_json(sent);
        return;
    }
    puts(sent->id);
    if (sent->is_duplicate)
        report_duplicate(sent, message);
}
