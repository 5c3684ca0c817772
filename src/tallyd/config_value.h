/* Values of the configuration: from text to number. */
#ifndef TALLY_TALLYD_CONFIG_VALUE_H
#define TALLY_TALLYD_CONFIG_VALUE_H

#include "base/bytes.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

enum config_kind {
    CONFIG_TEXT,
    CONFIG_COUNT,    /* 10000 */
    CONFIG_SIZE,     /* bytes; 64MiB, 64M, 16KiB, 1024 */
    CONFIG_TIME,     /* milliseconds; 30, 30s, 500ms, 5m, 1h; a bare number is seconds */
    CONFIG_MEMORY,   /* as CONFIG_SIZE, or a percentage of the available memory (machine_memory.h): 50%; off is 0 */
    CONFIG_BUDGET,   /* as CONFIG_SIZE, or auto: an eighth of the available memory, but from 1 MiB to 1 GiB */
    CONFIG_MIN_FREE, /* as CONFIG_SIZE, or off, which is 0, or auto, which is UINT64_MAX (engine/disk_guard.h) */
    CONFIG_SWITCH,   /* on, off; also true, false, yes, no, 1, 0 */
};

/* False if `text` is not of that kind; any range. */
bool config_value_parse(enum config_kind kind, const char *text, uint64_t *number);

/* How messages write a number of that kind: "64MiB", "30s". `text` has room for 32 characters. */
void config_value_format(enum config_kind kind, uint64_t number, char *text);

/* "a size such as 64MiB" */
const char *config_value_example(enum config_kind kind);

#endif
