#include "base/trace_context.h"

#define VERSION_AT 0u
#define TRACE_ID_AT 3u
#define TRACE_ID_SIZE 32u
#define PARENT_ID_AT 36u
#define PARENT_ID_SIZE 16u
#define FLAGS_AT 53u
#define PARENT_SIZE 55u

#define MEMBERS_MAX 32u
#define KEY_SIZE_MAX 256u
#define STATE_VALUE_SIZE_MAX 256u

bool trace_context_is_name(struct bytes name)
{
    return bytes_equal(name, BYTES(TRACE_PARENT)) || bytes_equal(name, BYTES(TRACE_STATE)) ||
           bytes_equal(name, BYTES(TRACE_BAGGAGE));
}

/* --- traceparent: 00-<32 hexadecimal digits>-<16>-<2> ------------------------------------------------------------- */

static bool is_printable(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
            return false;
    return true;
}

/* Lower case only, as the standard wants. */
static bool is_hexadecimal(const uint8_t *digits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(digits[i] >= '0' && digits[i] <= '9') && !(digits[i] >= 'a' && digits[i] <= 'f'))
            return false;
    return true;
}

/* An id of zeros alone is none. */
static bool is_id(const uint8_t *digits, size_t count)
{
    size_t zeros = 0;
    while (zeros < count && digits[zeros] == '0')
        zeros++;
    return zeros < count && is_hexadecimal(digits, count);
}

bool trace_context_is_parent(struct bytes value)
{
    if (value.size < PARENT_SIZE || value.size > TRACE_VALUE_SIZE_MAX || !is_printable(value))
        return false;
    const uint8_t *at = value.ptr;
    const struct bytes version = bytes_make(at + VERSION_AT, 2);
    if (!is_hexadecimal(version.ptr, 2) || bytes_equal(version, BYTES("ff")))
        return false;
    if (at[TRACE_ID_AT - 1] != '-' || at[PARENT_ID_AT - 1] != '-' || at[FLAGS_AT - 1] != '-')
        return false;
    /* What a later version adds stands behind another hyphen. */
    if (value.size > PARENT_SIZE && (bytes_equal(version, BYTES("00")) || at[PARENT_SIZE] != '-'))
        return false;
    return is_id(at + TRACE_ID_AT, TRACE_ID_SIZE) && is_id(at + PARENT_ID_AT, PARENT_ID_SIZE) &&
           is_hexadecimal(at + FLAGS_AT, 2);
}

/* --- tracestate: vendor=value,tenant@vendor=value ----------------------------------------------------------------- */

static bool is_key_start(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

static bool is_key(struct bytes key)
{
    if (key.size == 0 || key.size > KEY_SIZE_MAX || !is_key_start(key.ptr[0]))
        return false;
    for (size_t i = 1; i < key.size; i++)
        if (!is_key_start(key.ptr[i]) && memchr("_-*/@", key.ptr[i], 5) == NULL)
            return false;
    return true;
}

static bool is_member(struct bytes member)
{
    const uint8_t *sign = memchr(member.ptr, '=', member.size);
    if (sign == NULL || !is_key(bytes_make(member.ptr, (size_t)(sign - member.ptr))))
        return false;
    const struct bytes value = bytes_skip(member, (size_t)(sign - member.ptr) + 1);
    return value.size > 0 && value.size <= STATE_VALUE_SIZE_MAX && memchr(value.ptr, '=', value.size) == NULL &&
           is_printable(value);
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static struct bytes without_blanks(struct bytes text)
{
    while (text.size > 0 && is_blank(text.ptr[0]))
        text = bytes_skip(text, 1);
    while (text.size > 0 && is_blank(text.ptr[text.size - 1]))
        text.size--;
    return text;
}

bool trace_context_is_state(struct bytes value)
{
    unsigned members = 0;
    if (value.size > TRACE_VALUE_SIZE_MAX)
        return false;
    while (value.size > 0) {
        const uint8_t *comma = memchr(value.ptr, ',', value.size);
        const size_t size = comma == NULL ? value.size : (size_t)(comma - value.ptr);
        const struct bytes member = without_blanks(bytes_make(value.ptr, size));
        if (member.size > 0 && !is_member(member))
            return false;
        members += member.size > 0;
        value = bytes_skip(value, comma == NULL ? size : size + 1);
    }
    return members > 0 && members <= MEMBERS_MAX;
}
