/* What is wrong with a configuration whose values are of the right form. */
#ifndef TALLY_TALLYD_CONFIG_CHECK_H
#define TALLY_TALLYD_CONFIG_CHECK_H

#include "tallyd/config.h"
#include "tallyd/message_log.h"

/* Checks each value that can be judged without looking at anything else. ERROR_INVALID_PARAMETER_VALUE; with
 * --check-config all that is wrong is noted instead (config_note()). */
enum error config_check_values(struct config *config, struct failure *failure);

/* For --check-config: the same, and all that a start would read. Adds to the faults; what is no fault, but should be
 * known, is said. */
void config_check_all(struct config *config, struct message_log *errors);

/* Does metrics-access say loopback? */
bool config_metrics_are_local(const struct config *config);

#endif
