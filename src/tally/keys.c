#include "tally/keys.h"

#include <string.h>

#define INPUT_SIZE_MAX (1u << 30)

int keys_init(struct keys *keys, const struct invocation *invocation, int first)
{
    *keys = (struct keys){
        .items = invocation->arguments + first,
        .count = (size_t)(invocation->argument_count - first),
    };
    buffer_init(&keys->input);
    if (keys->count != 1 || strcmp(keys->items[0], "-") != 0)
        return EXIT_DONE;
    if (!input_read(&keys->input, INPUT_SIZE_MAX))
        return EXIT_LOCAL;
    lines_init(&keys->lines, (char *)keys->input.data_owned);
    keys->items = keys->lines.items_owned;
    keys->count = keys->lines.count;
    return EXIT_DONE;
}

void keys_deinit(struct keys *keys)
{
    lines_deinit(&keys->lines);
    buffer_deinit(&keys->input);
}
