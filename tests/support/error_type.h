/* What an error's `__type` must be, and its status, in the reply to a target. */
#ifndef TALLY_TESTS_SUPPORT_ERROR_TYPE_H
#define TALLY_TESTS_SUPPORT_ERROR_TYPE_H

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static inline bool target_is_own(const char *target)
{
    return strncmp(target, "Tally.", strlen("Tally.")) == 0;
}

static inline bool error_has_type(const char *target, enum error error, const char *type)
{
    char own[64];
    (void)snprintf(own, sizeof(own), "com.tally#%s", error_row(error)->name);
    return type != NULL && strcmp(type, target_is_own(target) ? own : error_row(error)->type) == 0;
}

static inline int error_status(const char *target, enum error error)
{
    const int status = error_row(error)->status;
    return target_is_own(target) && (status == 404 || error == ERROR_OVER_LIMIT) ? 400 : status;
}

#endif
