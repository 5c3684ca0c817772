#include "auth/patterns.h"

#include <string.h>

/* Takes the first item off a list with commas; the rest stays in *list. */
static struct bytes take_first(struct bytes *list)
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
        if (!is_sound(take_first(&list)))
            return false;
        ++*count;
    } while (list.size > 0);
    return true;
}

/* Does the whole name fit the pattern? A * is tried short first; when what follows it does not fit, it takes one
 * character more. Only the last * is ever taken back to, so this is O(pattern * name). */
static bool matches(struct bytes pattern, struct bytes name)
{
    size_t at = 0, star = SIZE_MAX, star_name = 0, i = 0;
    while (i < name.size) {
        if (at < pattern.size && pattern.ptr[at] == '*') {
            star = at++;
            star_name = i;
        } else if (at < pattern.size && pattern.ptr[at] == name.ptr[i]) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++star_name;
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
        is_match = matches(take_first(&list), name);
    return is_match;
}
