/* How a relay is shown: its settings without any secret, and its state. Private to src/api. */
#ifndef TALLY_API_RELAY_VIEW_H
#define TALLY_API_RELAY_VIEW_H

#include "api/action.h"
#include "api/relay_control.h"

/* The daemon's report of it; "stopped" if nobody runs relays. */
void relay_view_report(const struct front_options *options, struct bytes namespace_name,
                       const struct relay_record *record, struct relay_report *report);

/* The members of a DescribeRelay's reply. */
void relay_view_write(struct call *call, const struct relay_record *record);

#endif
