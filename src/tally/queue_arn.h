/* The ARN of a queue, and its name. Some attributes and actions of SQS need the ARN; people know only the name. */
#ifndef TALLY_TALLY_QUEUE_ARN_H
#define TALLY_TALLY_QUEUE_ARN_H

#include "tally/command.h"

/* Asks the server; the caller frees it. NULL: invocation_failed() tells why. Call it after invocation_connect(). */
char *queue_arn(struct invocation *invocation, const char *queue);

/* The name at the end of a URL or an ARN; a name is itself. */
const char *queue_name_in(const char *queue);

#endif
