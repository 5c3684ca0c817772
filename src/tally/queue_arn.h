/* The ARN of a queue. Some attributes and actions of SQS need it; people know only the name. */
#ifndef TALLY_TALLY_QUEUE_ARN_H
#define TALLY_TALLY_QUEUE_ARN_H

#include "tally/command.h"

/* Asks the server; the caller frees it. NULL: invocation_failed() tells why. Call it after invocation_connect(). */
char *queue_arn(struct invocation *invocation, const char *queue);

#endif
