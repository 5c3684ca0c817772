#include "auth/patterns.h"

#include <string.h>

struct bytes comma_list_take(struct bytes *list)
{
    const uint8_t *comma = list->size == 0 ? NULL : memchr(list->ptr, ',', list->size);
    struct bytes item = bytes_make(list->ptr, comma == NULL ? list->size : (size_t)(comma - list->ptr));
    *list = bytes_skip(*list, item.size + (comma != NULL));
    return item;
}

static bool is_allowed(uint8_t character)
{
    const uint8_t lower = character | 0x20;
    return (lower >= 'a' && lower <= 'z') || (character >= '0' && character <= '9') || character == '_' ||
           character == '-' || character == '.' || character == '*';
}

static bool is_sound(struct bytes pattern)
{
    for (size_t i = 0; i < pattern.size; i++)
        if (!is_allowed(pattern.ptr[i]))
            return false;
    return pattern.size > 0 && pattern.size <= PATTERN_SIZE_MAX;
}

bool patterns_are_sound(struct bytes list, size_t *count)
{
    *count = 0;
    do {
        if (!is_sound(comma_list_take(&list)))
            return false;
        ++*count;
    } while (list.size > 0);
    return true;
}

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 'a' - 'A') : byte;
}

/* Where what stands at pattern[at] can fit first, from `i` on; text.size: nowhere. Most names lack the byte that
 * follows a *, and one memchr() tells. */
static size_t find_first(struct bytes pattern, size_t at, struct bytes text, size_t i, bool ignores_case)
{
    if (ignores_case || at == pattern.size || i == text.size || pattern.ptr[at] == '*' || pattern.ptr[at] == '?')
        return i;
    const uint8_t *found = memchr(text.ptr + i, pattern.ptr[at], text.size - i);
    return found == NULL ? text.size : (size_t)(found - text.ptr);
}

/* A * is tried short first; when what follows it does not fit, it takes more. Only the last * is ever taken back to. */
bool pattern_fits(struct bytes pattern, struct bytes text, bool ignores_case)
{
    size_t at = 0, star = SIZE_MAX, star_text = 0, i = 0;
    while (i < text.size) {
        if (at < pattern.size && pattern.ptr[at] == '*') {
            star = at++;
            star_text = i;
        } else if (at < pattern.size && (pattern.ptr[at] == '?' || pattern.ptr[at] == text.ptr[i] ||
                                         (ignores_case && lower(pattern.ptr[at]) == lower(text.ptr[i])))) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = star_text = find_first(pattern, at, text, star_text + 1, ignores_case);
        } else {
            return false;
        }
    }
    while (at < pattern.size && pattern.ptr[at] == '*')
        at++;
    return at == pattern.size;
}

bool patterns_match(struct bytes list, struct bytes name)
{
    bool is_match = false;
    while (!is_match && list.size > 0)
        is_match = pattern_fits(comma_list_take(&list), name, false);
    return is_match;
}

struct bytes patterns_next(struct bytes list, struct bytes name)
{
    struct bytes next = bytes_make(NULL, 0);
    while (list.size > 0) {
        const struct bytes pattern = comma_list_take(&list);
        const uint8_t *star = memchr(pattern.ptr, '*', pattern.size);
        const struct bytes begin = bytes_make(pattern.ptr, star == NULL ? pattern.size : (size_t)(star - pattern.ptr));
        if (star == NULL ? bytes_equal(name, begin) : bytes_starts_with(name, begin))
            return name;
        if (bytes_compare(begin, name) > 0 && (next.ptr == NULL || bytes_compare(begin, next) < 0))
            next = begin;
    }
    return next;
}
