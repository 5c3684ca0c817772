/* Reads the records of the log for what must stand together, whatever any state says of it. */
#ifndef TALLY_TESTS_SIM_AUDIT_H
#define TALLY_TESTS_SIM_AUDIT_H

#include "base/bytes.h"

/* Judges the events of one frame: the completion of a batch whose last unit ended stands in the frame of that end (B2,
 * B6); no batch fires an event twice (B1); and each of its event's messages comes right behind it. */
void audit_frame(uint64_t sequence, struct bytes payload);

#endif
