/* The state of a relay, in the form that the api needs. */
#ifndef TALLY_TALLYD_RELAY_FACTS_H
#define TALLY_TALLYD_RELAY_FACTS_H

#include "api/relay_control.h"
#include "relay/relay.h"

/* The wall clock, in milliseconds since 1970. */
uint64_t relay_facts_now_ms(void);

void relay_facts_report(struct relay *relay, struct relay_report *report);

/* Its parked rows, with all they point to, in the arena. */
void relay_facts_parked(struct relay *relay, struct arena *arena, struct relay_parked_row **doubts, size_t *count);

#endif
