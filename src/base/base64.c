#include "base/base64.h"

static const char digits[][64] = {
    [BASE64_STANDARD] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    [BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

void base64_encode(enum base64_alphabet alphabet, struct bytes data, char *text)
{
    uint32_t bits = 0;
    unsigned bit_count = 0;
    for (size_t i = 0; i < data.size; i++) {
        bits = bits << 8 | data.ptr[i];
        for (bit_count += 8; bit_count >= 6; bit_count -= 6)
            *text++ = digits[alphabet][bits >> (bit_count - 6) & 63];
    }
    if (bit_count > 0)
        *text = digits[alphabet][bits << (6 - bit_count) & 63];
}

/* Value of a digit, or -1. */
static int digit_value(enum base64_alphabet alphabet, uint8_t digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    return digit == digits[alphabet][62] ? 62 : digit == digits[alphabet][63] ? 63 : -1;
}

bool base64_decode(enum base64_alphabet alphabet, struct bytes text, uint8_t *data, unsigned *spare_bits)
{
    uint32_t bits = 0;
    unsigned bit_count = 0;
    for (size_t i = 0; i < text.size; i++) {
        int value = digit_value(alphabet, text.ptr[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            *data++ = (uint8_t)(bits >> bit_count);
        }
    }
    *spare_bits = bits & ((1u << bit_count) - 1);
    return bit_count < 6;
}
