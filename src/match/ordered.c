#include "match/ordered.h"

void ordered_init(struct ordered *ordered)
{
    *ordered = (struct ordered){.root_owned = NULL};
}

void ordered_deinit(struct ordered *ordered)
{
    (void)ordered;
}
