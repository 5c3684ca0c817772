/* One send, of SendMessage, an entry of SendMessageBatch or an element of Commit: reads it, makes its command, and
 * writes its reply. Private to src/api.
 *
 * Order of the checks (reference: SQS, 7): body present, size, characters, each attribute, form of the ids, group
 * present, deduplication id present, delay, then Tally's own attributes. */
#ifndef TALLY_API_SEND_H
#define TALLY_API_SEND_H

#include "api/action.h"
#include "core/messages/decide_send.h"

/* The fields of a send, as read. Views point into the request or the arena. */
struct send_parameters {
    struct queue *queue;
    struct bytes body;
    size_t given_size;          /* of body and attributes as they are given */
    struct bytes group;         /* MessageGroupId, or empty */
    struct bytes deduplication; /* MessageDeduplicationId, or the body's digest if the queue wants that; or empty */
    struct bytes moved_id;      /* its uid where it comes from, a blank, the body's digest; or empty */
    struct bytes trace;
    int64_t delay_s;
    struct attributes attributes;
    uint8_t body_md5[DIGEST_MD5_SIZE];
    uint8_t attributes_md5[DIGEST_MD5_SIZE];
    bool has_given_attributes; /* the request gives some; like the next, for the reply, which the sender compares */
    uint8_t given_attributes_md5[DIGEST_MD5_SIZE];
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

/* Where the send stands; SQS's texts differ by this. */
enum send_context { SEND_ALONE, SEND_IN_ENTRY };

/* Reads and checks one send to `queue`. `uid`, unless it is empty, is the uid of the outbox row from which the message
 * was made. It becomes an attribute of the message. On a FIFO queue it is also the deduplication id, if the send gives
 * none and is not numbered; then the queue can't require one, nor use the body's digest. Without a uid, the headers
 * traceparent and tracestate become attributes of a message that has neither. ERROR_SERIALIZATION,
 * ERROR_MISSING_PARAMETER, ERROR_INVALID_PARAMETER_VALUE, ERROR_INVALID_MESSAGE_CONTENTS, ERROR_UNSUPPORTED_OPERATION,
 * described in the call's failure. */
enum error send_read(struct call *call, const struct params *params, struct queue *queue, enum send_context context,
                     struct bytes uid, struct send_parameters *send);

/* The same for a message that may have been moved here from elsewhere. Its member `Uid` names it there: a UUID, as
 * `uid` above. The message is then known by its uid and its body: a uid twice with other contents is the fault of its
 * source, and two messages are better than one that is lost. */
enum error send_read_moved(struct call *call, const struct params *params, struct queue *queue,
                           struct send_parameters *send);

/* Does a send to this queue have the ids that a FIFO queue requires? `absent` is the error for a missing group, because
 * SQS has two. */
enum error send_check_ids(struct call *call, const struct params *params, const struct queue *queue, enum error absent);

/* The command; its views live as long as the arena and `send`. */
struct send_command send_command_of(struct call *call, const struct send_parameters *send);

/* Fails the call with the error of decide_send(), in words. */
enum error send_fail(struct call *call, const struct send_parameters *send, enum error error,
                     const struct send_result *result);

/* The fields of the reply. */
void send_write_reply(struct call *call, const struct send_parameters *send, const struct send_result *result);

/* Reads Tally's own attributes (send_attributes.c). ERROR_INVALID_PARAMETER_VALUE. */
enum error send_read_own_attributes(struct call *call, const struct params *params, struct send_parameters *send);

#endif
