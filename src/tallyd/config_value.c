#include "tallyd/config_value.h"

#include "base/assert.h"
#include "tallyd/machine_memory.h"

#include <stdio.h>
#include <strings.h>

#define FORMAT_SIZE 32

/* The fraction of the memory that a budget takes by default. */
#define BUDGET_SHARE 8u

struct unit {
    const char *name;
    uint64_t factor;
};

/* Of equal factors, numbers are written with the first. */
static const struct unit size_units[] = {
    {"GiB", GIB}, {"MiB", MIB}, {"KiB", KIB}, {"G", GIB}, {"M", MIB}, {"K", KIB}, {"B", 1}, {"", 1},
};
static const struct unit time_units[] = {
    {"h", HOUR}, {"m", 60 * SECOND}, {"s", SECOND}, {"ms", 1}, {"", SECOND},
};
static const struct unit count_units[] = {{"", 1}};

static const struct unit *unit_table(enum config_kind kind, size_t *count)
{
    switch (kind) {
    case CONFIG_SIZE:
    case CONFIG_MEMORY:
    case CONFIG_BUDGET:
    case CONFIG_MIN_FREE:
        *count = ARRAY_LENGTH(size_units);
        return size_units;
    case CONFIG_TIME:
        *count = ARRAY_LENGTH(time_units);
        return time_units;
    default:
        *count = ARRAY_LENGTH(count_units);
        return count_units;
    }
}

static bool switch_parse(const char *text, uint64_t *number)
{
    static const char *const words[2][4] = {{"off", "false", "no", "0"}, {"on", "true", "yes", "1"}};
    for (uint64_t value = 0; value < 2; value++) {
        for (size_t i = 0; i < ARRAY_LENGTH(words[value]); i++) {
            if (strcasecmp(text, words[value][i]) == 0) {
                *number = value;
                return true;
            }
        }
    }
    return false;
}

static bool amount_parse(enum config_kind kind, const char *text, uint64_t *number)
{
    size_t digit_count = strspn(text, "0123456789");
    const char *unit_name = text + digit_count + strspn(text + digit_count, " ");
    uint64_t amount;
    if (!bytes_to_u64(bytes_make(text, digit_count), &amount))
        return false;
    size_t unit_count;
    const struct unit *units = unit_table(kind, &unit_count);
    for (size_t i = 0; i < unit_count; i++)
        if (strcasecmp(unit_name, units[i].name) == 0)
            return !__builtin_mul_overflow(amount, units[i].factor, number);
    return false;
}

static bool memory_parse(const char *text, uint64_t *number)
{
    size_t digit_count = strspn(text, "0123456789");
    uint64_t percent;
    if (strcasecmp(text, "off") == 0) {
        *number = 0;
        return true;
    }
    if (strcmp(text + digit_count, "%") != 0)
        return amount_parse(CONFIG_MEMORY, text, number);
    if (!bytes_to_u64(bytes_make(text, digit_count), &percent) || percent < 1 || percent > 100)
        return false;
    *number = machine_memory() / 100 * percent;
    return true;
}

static uint64_t budget_of_machine(void)
{
    uint64_t budget = machine_memory() / BUDGET_SHARE;
    if (budget < MIB)
        return MIB;
    return budget < GIB ? budget : GIB;
}

static bool budget_parse(const char *text, uint64_t *number)
{
    if (strcasecmp(text, "auto") != 0)
        return amount_parse(CONFIG_BUDGET, text, number);
    *number = budget_of_machine();
    return true;
}

static bool min_free_parse(const char *text, uint64_t *number)
{
    const bool is_auto = strcasecmp(text, "auto") == 0;
    if (!is_auto && strcasecmp(text, "off") != 0)
        return amount_parse(CONFIG_MIN_FREE, text, number);
    *number = is_auto ? UINT64_MAX : 0;
    return true;
}

bool config_value_parse(enum config_kind kind, const char *text, uint64_t *number)
{
    switch (kind) {
    case CONFIG_TEXT:
        *number = 0;
        return true;
    case CONFIG_SWITCH:
        return switch_parse(text, number);
    case CONFIG_MEMORY:
        return memory_parse(text, number);
    case CONFIG_BUDGET:
        return budget_parse(text, number);
    case CONFIG_MIN_FREE:
        return min_free_parse(text, number);
    default:
        return amount_parse(kind, text, number);
    }
}

void config_value_format(enum config_kind kind, uint64_t number, char *text)
{
    size_t unit_count;
    const struct unit *units = unit_table(kind, &unit_count);
    for (size_t i = 0; i < unit_count; i++) {
        if (number >= units[i].factor && number % units[i].factor == 0) {
            snprintf(text, FORMAT_SIZE, "%llu%s", (unsigned long long)(number / units[i].factor), units[i].name);
            return;
        }
    }
    snprintf(text, FORMAT_SIZE, "%llu", (unsigned long long)number);
}

const char *config_value_example(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_COUNT:
        return "a number";
    case CONFIG_SIZE:
        return "a size in bytes such as 65536, 64KiB, 8MiB or 1GiB";
    case CONFIG_MEMORY:
        return "a size in bytes such as 4GiB, a share of the memory such as 50%, or off";
    case CONFIG_BUDGET:
        return "a size in bytes such as 256MiB, or auto";
    case CONFIG_MIN_FREE:
        return "a size in bytes such as 2GiB, auto, or off";
    case CONFIG_TIME:
        return "a time such as 30s, 500ms, 5m or 1h";
    case CONFIG_SWITCH:
        return "on or off";
    default:
        return "text";
    }
}
