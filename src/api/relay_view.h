/* How a relay is shown: what it is to do, with every secret left out, and how it is. Private to src/api. */
#ifndef TALLY_API_RELAY_VIEW_H
#define TALLY_API_RELAY_VIEW_H

#include "api/action.h"
#include "api/relay_control.h"

/* What the daemon says of it; where none runs relays it is "stopped". */
void relay_view_report(const struct front_options *options, struct bytes namespace_name,
                       const struct relay_record *record, struct relay_report *report);

/* The members of a DescribeRelay's reply. */
void relay_view_write(struct call *call, const struct relay_record *record);

#endif
