/* A live state, changed in one field: is it read again from what it writes? */
#ifndef TALLY_TESTS_UNIT_SNAPSHOT_BOUNDS_H
#define TALLY_TESTS_UNIT_SNAPSHOT_BOUNDS_H

#include "support/core_bytes.h"
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_read(const struct core_rig *rig)
{
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    struct core *core = core_create();
    const bool is_good = core_bytes_decode(core, buffer_bytes(&encoded));
    if (is_good)
        core_check(core);
    core_destroy(core);
    buffer_deinit(&encoded);
    return is_good;
}

static void expect_read(const struct core_rig *rig, const char *what)
{
    if (!is_read(rig))
        fail_msg("refused: %s", what);
}

static void expect_refused(const struct core_rig *rig, const char *what)
{
    if (is_read(rig))
        fail_msg("read: %s", what);
}

#endif
