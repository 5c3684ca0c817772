/* One send, as SendMessage, an entry of SendMessageBatch or an element of Commit gives it: reading it, the command it
 * makes, and what its reply says. Private to src/api.
 *
 * Order of the checks (reference: SQS, 7): body present, size, characters, attributes by themselves, form of the ids,
 * group present, deduplication id present, delay, then the attributes that are Tally's own. */
#ifndef TALLY_API_SEND_H
#define TALLY_API_SEND_H

#include "api/action.h"
#include "core/messages/decide_send.h"

/* What a send says, as read. Views point into the request or the arena. */
struct send_parameters {
    struct queue *queue;
    struct bytes body;
    struct bytes group;         /* MessageGroupId, or empty */
    struct bytes deduplication; /* MessageDeduplicationId, or the body's digest where the queue says so; or empty */
    struct bytes trace;
    int64_t delay_s;
    struct attributes attributes;
    uint8_t body_md5[DIGEST_MD5_SIZE];
    uint8_t attributes_md5[DIGEST_MD5_SIZE];
    bool has_system_attributes;
    uint8_t system_attributes_md5[DIGEST_MD5_SIZE];

    /* Tally's own attributes. */
    uint8_t priority;
    struct bytes batch_id;
    struct bytes type;
    struct bytes producer;
    uint64_t sequence;
    struct antecedent_name *antecedents;
    uint32_t antecedent_count;
    enum after_failure after_failure;
};

/* Where the send stands, which SQS's texts tell apart. */
enum send_context { SEND_ALONE, SEND_IN_ENTRY };

/* Reads and checks one send to `queue`. `uid`, unless it is empty, is that of the row of an outbox that the message
 * was: the message has it as an attribute, and as its deduplication id on a FIFO queue if the send gives none and is no
 * numbered one; then the queue can't ask for one, nor take the body's digest. ERROR_SERIALIZATION,
 * ERROR_MISSING_PARAMETER, ERROR_INVALID_PARAMETER_VALUE, ERROR_INVALID_MESSAGE_CONTENTS, ERROR_UNSUPPORTED_OPERATION,
 * described in the call's failure. */
enum error send_read(struct call *call, const struct params *params, struct queue *queue, enum send_context context,
                     struct bytes uid, struct send_parameters *send);

/* Has a send to this queue the ids that a FIFO queue wants? `absent` is the error for a missing group: SQS has two. */
enum error send_check_ids(struct call *call, const struct params *params, const struct queue *queue, enum error absent);

/* The command; its views live as long as the arena and `send`. */
struct send_command send_command_of(struct call *call, const struct send_parameters *send);

/* Fails the call with what decide_send() said, in words. */
enum error send_fail(struct call *call, const struct send_parameters *send, enum error error,
                     const struct send_result *result);

/* The fields of the reply. */
void send_write_reply(struct call *call, const struct send_parameters *send, const struct send_result *result);

/* Reads Tally's own among the attributes (send_attributes.c). ERROR_INVALID_PARAMETER_VALUE. */
enum error send_read_own_attributes(struct call *call, const struct params *params, struct send_parameters *send);

#endif
