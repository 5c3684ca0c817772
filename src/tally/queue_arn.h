/* The ARN of a queue, which some attributes and actions of SQS want where people know its name. */
#ifndef TALLY_TALLY_QUEUE_ARN_H
#define TALLY_TALLY_QUEUE_ARN_H

#include "tally/command.h"

/* Asks the server; the caller frees it. NULL: invocation_failed() says why. After invocation_connect(). */
char *queue_arn(struct invocation *invocation, const char *queue);

#endif
