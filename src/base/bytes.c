#include "base/bytes.h"

/* Inlined rather than linked: most keys are shorter than 32 bytes, where the call would cost as much as the hash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool bytes_equal_constant_time(struct bytes a, struct bytes b)
{
    if (a.size != b.size)
        return false;
    /* volatile: the compiler must not leave the loop at the first difference. */
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < a.size; i++)
        difference = (uint8_t)(difference | (a.ptr[i] ^ b.ptr[i]));
    return difference == 0;
}

bool bytes_to_u64(struct bytes view, uint64_t *value)
{
    if (view.size == 0 || (view.size > 1 && view.ptr[0] == '0'))
        return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < view.size; i++) {
        uint8_t digit = (uint8_t)(view.ptr[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)digit, &sum))
            return false;
    }
    *value = sum;
    return true;
}

uint64_t bytes_hash(struct bytes view)
{
    return XXH3_64bits(view.ptr, view.size);
}

/* Eight digits for four bytes, in a register: message ids and MD5 sums are most of what a reply says. The bytes are
 * spread over 16-bit lanes, each lane becomes its two digits' values, and each value above 9 is moved from behind '9'
 * to 'a'. */
static void four_to_hex(const uint8_t *bytes, uint8_t *text)
{
    uint64_t spread = bytes_get_u32(bytes);
    spread = (spread | spread << 16) & UINT64_C(0x0000ffff0000ffff);
    spread = (spread | spread << 8) & UINT64_C(0x00ff00ff00ff00ff);
    uint64_t values = (spread >> 4 & UINT64_C(0x000f000f000f000f)) | (spread & UINT64_C(0x000f000f000f000f)) << 8;
    uint64_t letters = (values + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    bytes_put_u64(text, values + UINT64_C(0x3030303030303030) + letters * ('a' - '9' - 1));
}

void bytes_to_hex(struct bytes view, char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t i = 0;
    for (; i + 4 <= view.size; i += 4)
        four_to_hex(view.ptr + i, (uint8_t *)text + 2 * i);
    for (; i < view.size; i++) {
        text[2 * i] = digits[view.ptr[i] >> 4];
        text[2 * i + 1] = digits[view.ptr[i] & 15];
    }
}

/* The value of a hexadecimal digit, or 16. */
static uint8_t hex_digit_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return (uint8_t)(digit - '0');
    uint8_t lower = digit | 0x20;
    return lower >= 'a' && lower <= 'f' ? (uint8_t)(lower - 'a' + 10) : 16;
}

bool bytes_from_hex(struct bytes text, uint8_t *out, size_t size)
{
    if (text.size % 2 != 0 || text.size / 2 != size)
        return false;
    for (size_t i = 0; i < size; i++) {
        uint8_t high = hex_digit_value(text.ptr[2 * i]);
        uint8_t low = hex_digit_value(text.ptr[2 * i + 1]);
        if (high > 15 || low > 15)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* The runs of digits in the text of a UUID: where each begins in the text, and how many bytes it stands for. */
static const struct {
    uint8_t at;
    uint8_t size;
} uuid_runs[] = {{0, 4}, {9, 2}, {14, 2}, {19, 2}, {24, 6}};

void uuid_to_text(const uint8_t uuid[UUID_SIZE], char text[UUID_TEXT_SIZE])
{
    char digits[2 * UUID_SIZE];
    bytes_to_hex(bytes_make(uuid, UUID_SIZE), digits);
    memcpy(text, digits, 8);
    memcpy(text + 9, digits + 8, 4);
    memcpy(text + 14, digits + 12, 4);
    memcpy(text + 19, digits + 16, 4);
    memcpy(text + 24, digits + 20, 12);
    text[8] = text[13] = text[18] = text[23] = '-';
}

bool uuid_from_text(struct bytes text, uint8_t uuid[UUID_SIZE])
{
    if (text.size != UUID_TEXT_SIZE)
        return false;
    uint8_t parsed[UUID_SIZE];
    uint8_t *next = parsed;
    for (size_t i = 0; i < sizeof(uuid_runs) / sizeof(uuid_runs[0]); i++) {
        const uint8_t *at = text.ptr + uuid_runs[i].at;
        size_t size = uuid_runs[i].size;
        if ((i > 0 && at[-1] != '-') || !bytes_from_hex(bytes_make(at, 2 * size), next, size))
            return false;
        next += size;
    }
    memcpy(uuid, parsed, sizeof(parsed));
    return true;
}
