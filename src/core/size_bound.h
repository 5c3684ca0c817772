/* How many bytes of events a decision may write at most, for decisions that must fit one frame. Private to src/core. */
#ifndef TALLY_CORE_SIZE_BOUND_H
#define TALLY_CORE_SIZE_BOUND_H

#include "core/batches/decide_batch.h"
#include "core/messages/decide_send.h"
#include "core/state.h"

/* Of a send, including everything that its batch may send if that was its last unit. `seen`, unless NULL, has the
 * batches (by slot) that were already counted; they are not counted again. O(depth of batches). */
uint64_t size_bound_of_send(const struct core *core, const struct send_command *send, struct table *seen);

/* Of making a batch, which may complete at once. */
uint64_t size_bound_of_create(const struct core *core, const struct create_batch_command *command, struct table *seen);

/* Of adding units to the batch with that id. */
uint64_t size_bound_of_addition(const struct core *core, struct bytes batch_id, const struct add_units_command *command,
                                struct table *seen);

/* Of such reports on units of one batch. */
uint64_t size_bound_of_reports(const struct core *core, uint32_t batch, const struct unit_report *reports,
                               uint32_t count);

/* Of the end of a unit (or of a message without one: `batch` 0), without the text of its report. */
uint64_t size_bound_of_unit(const struct core *core, uint32_t batch, struct table *seen);

#endif
