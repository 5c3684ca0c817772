/* The closed list of what can go wrong through the world's doing: a client, the disk, a limit.
 *
 * X(NAME, type, query, status, text)
 *   type    the name behind `__type` in a JSON error; SQS's own where SQS has one
 *   query   the code of the header x-amzn-query-error and of failed batch entries
 *   status  HTTP status
 *   text    the message, where the code that found the error gave no better one
 * Source: SQS API reference, "Common errors" and each action's errors; docs/reference/errors.md for Tally's own. */
#ifndef TALLY_BASE_ERROR_H
#define TALLY_BASE_ERROR_H

#include "base/bytes.h"

#include <stdarg.h>

#define ERROR_LIST(X)                                                                                                  \
    X(QUEUE_DOES_NOT_EXIST, "com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400,     \
      "The specified queue does not exist.")                                                                           \
    X(QUEUE_NAME_EXISTS, "com.amazonaws.sqs#QueueNameExists", "QueueAlreadyExists", 400,                               \
      "A queue already exists with the same name and a different value for an attribute.")                             \
    X(QUEUE_DELETED_RECENTLY, "com.amazonaws.sqs#QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", \
      400, "You must wait 60 seconds after deleting a queue before you can create another with the same name.")        \
    X(PURGE_QUEUE_IN_PROGRESS, "com.amazonaws.sqs#PurgeQueueInProgress",                                               \
      "AWS.SimpleQueueService.PurgeQueueInProgress", 403,                                                              \
      "Only one PurgeQueue operation is allowed every 60 seconds.")                                                    \
    X(EMPTY_BATCH_REQUEST, "com.amazonaws.sqs#EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400,     \
      "The batch request contains no entries.")                                                                        \
    X(TOO_MANY_ENTRIES, "com.amazonaws.sqs#TooManyEntriesInBatchRequest",                                              \
      "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400, "The batch request contains more than 10 entries.")  \
    X(BATCH_IDS_NOT_DISTINCT, "com.amazonaws.sqs#BatchEntryIdsNotDistinct",                                            \
      "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400, "Two entries of the batch request have the same Id.")    \
    X(INVALID_BATCH_ENTRY_ID, "com.amazonaws.sqs#InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId",   \
      400,                                                                                                             \
      "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 "      \
      "letters long.")                                                                                                 \
    X(BATCH_REQUEST_TOO_LONG, "com.amazonaws.sqs#BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong",   \
      400, "The entries of the batch request are too long in sum.")                                                    \
    X(UNSUPPORTED_OPERATION, "com.amazonaws.sqs#UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",  \
      400, "This operation is not supported here.")                                                                    \
    X(OVER_LIMIT, "com.amazonaws.sqs#OverLimit", "OverLimit", 403, "Too many messages are in flight.")                 \
    X(RECEIPT_HANDLE_IS_INVALID, "com.amazonaws.sqs#ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404,            \
      "The input receipt handle is not a valid receipt handle.")                                                       \
    X(INVALID_ATTRIBUTE_NAME, "com.amazonaws.sqs#InvalidAttributeName", "InvalidAttributeName", 400,                   \
      "Unknown Attribute.")                                                                                            \
    X(INVALID_ATTRIBUTE_VALUE, "com.amazonaws.sqs#InvalidAttributeValue", "InvalidAttributeValue", 400,                \
      "Invalid value for an attribute.")                                                                               \
    X(INVALID_MESSAGE_CONTENTS, "com.amazonaws.sqs#InvalidMessageContents", "InvalidMessageContents", 400,             \
      "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "  \
      "#x10000 to #x10FFFF.")                                                                                          \
    X(INVALID_PARAMETER_VALUE, "com.amazon.coral.service#InvalidParameterValueException", "InvalidParameterValue",     \
      400, "The value of a parameter is invalid.")                                                                     \
    X(MISSING_PARAMETER, "com.amazon.coral.service#MissingRequiredParameterException", "MissingParameter", 400,        \
      "The request lacks a required parameter.")                                                                       \
    X(RESOURCE_NOT_FOUND, "com.amazonaws.sqs#ResourceNotFoundException", "ResourceNotFoundException", 404,             \
      "One or more specified resources don't exist.")                                                                  \
    X(UNKNOWN_OPERATION, "com.amazon.coral.service#UnknownOperationException", "InvalidAction", 400,                   \
      "The action is not known.")                                                                                      \
    X(SERIALIZATION, "com.amazon.coral.service#SerializationException", "MalformedInput", 400,                         \
      "The body is not a JSON object.")                                                                                \
    X(ACCESS_DENIED, "com.amazon.coral.service#AccessDeniedException", "AccessDenied", 403, "Access is denied.")       \
    X(UNKNOWN_ACCESS_KEY, "com.amazon.coral.service#UnrecognizedClientException", "InvalidClientTokenId", 403,         \
      "The security token included in the request is invalid.")                                                        \
    X(INVALID_SIGNATURE, "com.amazon.coral.service#InvalidSignatureException", "SignatureDoesNotMatch", 403,           \
      "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "   \
      "Key and signing method, and whether something between client and server changes the request, e.g. its Host.")   \
    X(INCOMPLETE_SIGNATURE, "com.amazon.coral.service#IncompleteSignatureException", "IncompleteSignature", 400,       \
      "The signature of the request is malformed.")                                                                    \
    X(INTERNAL_FAILURE, "com.amazon.coral.service#InternalFailure", "InternalFailure", 500,                            \
      "The server could not do this.")                                                                                 \
    X(SERVICE_UNAVAILABLE, "com.amazon.coral.service#ServiceUnavailable", "ServiceUnavailable", 503,                   \
      "The server can't take this request now; try again.")                                                            \
    X(MEMORY_IS_FULL, "com.tally#MemoryIsFull", "MemoryIsFull", 503,                                                   \
      "The state of the server takes as much memory as it may; try again.")                                            \
    X(DISK_IS_FULL, "com.tally#DiskIsFull", "DiskIsFull", 503,                                                         \
      "The file system of the data folder is nearly full; try again.")                                                 \
    X(REQUEST_TOO_LARGE, "com.tally#RequestTooLarge", "RequestTooLarge", 413, "The request is too large.")             \
    X(NOT_FOUND, "com.tally#NotFound", "NotFound", 404, "There is nothing at this address.")                           \
    X(MALFORMED_REQUEST, "com.tally#MalformedRequest", "MalformedRequest", 400, "This is not HTTP/1.1.")               \
    X(BATCH_DOES_NOT_EXIST, "com.tally#BatchDoesNotExist", "BatchDoesNotExist", 400, "The batch does not exist.")      \
    X(BATCH_ALREADY_EXISTS, "com.tally#BatchAlreadyExists", "BatchAlreadyExists", 400,                                 \
      "A batch with this id exists and was created with other arguments.")                                             \
    X(BATCH_SEALED, "com.tally#BatchSealed", "BatchSealed", 400, "The batch is sealed: no units can be added.")        \
    X(BATCH_TOTAL_EXCEEDED, "com.tally#BatchTotalExceeded", "BatchTotalExceeded", 400,                                 \
      "The batch would have more units than its Total.")                                                               \
    X(BATCH_NOT_COMPLETED, "com.tally#BatchNotCompleted", "BatchNotCompleted", 400,                                    \
      "Only a completed batch can be deleted.")                                                                        \
    X(UNIT_DOES_NOT_EXIST, "com.tally#UnitDoesNotExist", "UnitDoesNotExist", 400, "The batch has no such unit.")       \
    X(QUEUE_IN_USE, "com.tally#QueueInUse", "QueueInUse", 400,                                                         \
      "A batch that has not completed, a schedule or a pool will send messages to this queue.")                        \
    X(GROUP_NOT_HELD, "com.tally#GroupNotHeld", "GroupNotHeld", 400, "The group is not held.")                         \
    X(DEPENDENCY_DOES_NOT_EXIST, "com.tally#DependencyDoesNotExist", "DependencyDoesNotExist", 400,                    \
      "A message can't wait for something that is not known.")                                                         \
    X(DEPENDENCY_CYCLE, "com.tally#DependencyCycle", "DependencyCycle", 400, "The message would wait for itself.")     \
    X(DEPENDENCY_TOO_DEEP, "com.tally#DependencyTooDeep", "DependencyTooDeep", 400,                                    \
      "The search for a cycle of dependencies met its limit.")                                                         \
    X(TYPE_ORDER_CONFLICT, "com.tally#TypeOrderConflict", "TypeOrderConflict", 400,                                    \
      "The type order contradicts another one.")                                                                       \
    X(TYPE_ORDER_DOES_NOT_EXIST, "com.tally#TypeOrderDoesNotExist", "TypeOrderDoesNotExist", 400,                      \
      "There is no such type order.")                                                                                  \
    X(SCHEDULE_DOES_NOT_EXIST, "com.tally#ScheduleDoesNotExist", "ScheduleDoesNotExist", 400,                          \
      "There is no such schedule.")                                                                                    \
    X(BACKUP_DOES_NOT_EXIST, "com.tally#BackupDoesNotExist", "BackupDoesNotExist", 400, "There is no such backup.")    \
    X(BACKUP_IN_PROGRESS, "com.tally#BackupInProgress", "BackupInProgress", 400, "A backup is being made.")            \
    X(RELAY_DOES_NOT_EXIST, "com.tally#RelayDoesNotExist", "RelayDoesNotExist", 400, "There is no such relay.")        \
    X(RELAY_ALREADY_EXISTS, "com.tally#RelayAlreadyExists", "RelayAlreadyExists", 400,                                 \
      "A relay of this name exists and was created with other arguments.")                                             \
    X(DOUBT_DOES_NOT_EXIST, "com.tally#DoubtDoesNotExist", "DoubtDoesNotExist", 400,                                   \
      "The relay has no such parked row.")                                                                             \
    X(PUBLISHER_FENCED, "com.tally#PublisherFenced", "PublisherFenced", 400, "Another owner has the publisher.")       \
    X(PUBLISHER_BATCH_OUT_OF_ORDER, "com.tally#PublisherBatchOutOfOrder", "PublisherBatchOutOfOrder", 400,             \
      "The batch is neither the publisher's last one nor the next.")                                                   \
    X(PUBLISHER_BATCH_CONFLICT, "com.tally#PublisherBatchConflict", "PublisherBatchConflict", 400,                     \
      "The publisher's last batch had other rows.")                                                                    \
    X(PUBLISHER_IS_FULL, "com.tally#PublisherIsFull", "PublisherIsFull", 400,                                          \
      "The publisher has too many rows that are not confirmed.")                                                       \
    X(POOL_DOES_NOT_EXIST, "com.tally#PoolDoesNotExist", "PoolDoesNotExist", 400, "There is no such pool.")            \
    X(POOL_ALREADY_EXISTS, "com.tally#PoolAlreadyExists", "PoolAlreadyExists", 400,                                    \
      "A pool of this name exists and was created with other arguments.")                                              \
    X(TICKET_DOES_NOT_EXIST, "com.tally#TicketDoesNotExist", "TicketDoesNotExist", 400,                                \
      "The pool knows no such ticket.")                                                                                \
    X(LOG_DAMAGED, "com.tally#LogDamaged", "LogDamaged", 500, "The log is damaged.")                                   \
    X(LOG_LOCKED, "com.tally#LogLocked", "LogLocked", 500, "Another process owns the folder.")                         \
    X(DISK_FULL, "com.tally#DiskFull", "DiskFull", 500, "The disk is full.")                                           \
    X(DISK_FAILED, "com.tally#DiskFailed", "DiskFailed", 500, "A disk operation failed.")

enum error {
    OK = 0,
#define ERROR_ENUM(name, type, query, status, text) ERROR_##name,
    ERROR_LIST(ERROR_ENUM)
#undef ERROR_ENUM
        ERROR_COUNT
};

struct error_row {
    const char *name; /* the part of `type` behind '#', for logs and tests */
    const char *type;
    const char *query;
    int status;
    const char *text;
};

/* The row of an error other than OK. Static memory. */
const struct error_row *error_row(enum error error);

/* An error and a text that helps a person to repair the cause. Passed by pointer, and filled on failure only. */
struct failure {
    enum error error;
    char text[2048]; /* NUL-terminated; empty: use the text of the error's row */
};

/* No failure yet. Only the first byte of the text is zeroed: every request comes here, and zeroing the whole text would
 * cost more than anything else on its way. */
static inline void failure_init(struct failure *failure)
{
    failure->error = OK;
    failure->text[0] = '\0';
}

/* Fills `failure` (unless NULL) and returns `error`, so that a caller can `return failure_set(...)`. `format` NULL
 * leaves the text empty; a text too long is cut at a whole UTF-8 character, and so is a value that a precision cuts.
 * Bytes that are no UTF-8 are left out. */
enum error failure_set(struct failure *failure, enum error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like failure_set(), with a va_list. Neither `failure` nor `format` is NULL. */
enum error failure_set_list(struct failure *failure, enum error error, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

#endif
