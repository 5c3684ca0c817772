/* A front that serves one namespace, for tests that need no more. */
#ifndef TALLY_TESTS_SUPPORT_FRONT_OF_ONE_H
#define TALLY_TESTS_SUPPORT_FRONT_OF_ONE_H

#include "api/api.h"
#include "base/memory.h"

#include <stdlib.h>

static inline struct api *front_of_one_create(struct namespace *ns, const struct front_options *options,
                                              struct front **front)
{
    struct api *api = memory_allocate(sizeof(*api));
    *front = front_create(options);
    api_init(api, *front, ns);
    return api;
}

static inline void front_of_one_destroy(struct front *front, struct api *api)
{
    api_deinit(api);
    front_destroy(front);
    free(api);
}

#endif
