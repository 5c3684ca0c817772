/* A core from its bytes, as a restart makes it: what it has read is taken back at once. */
#ifndef TALLY_TESTS_SUPPORT_CORE_BYTES_H
#define TALLY_TESTS_SUPPORT_CORE_BYTES_H

#include "core/core.h"

/* core_decode() of a copy of `encoded`, in which everything that the core lets go is overwritten there and then: a view
 * of it that was kept would say something else. The copy ends where `encoded` does, and is freed. */
bool core_bytes_decode(struct core *core, struct bytes encoded);

#endif
