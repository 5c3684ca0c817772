#include "tally/queue_pairs.h"

#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdlib.h>

static int call(struct invocation *invocation, const char *member, const char *action, const struct tally_pair *pairs,
                size_t count)
{
    struct json_body body;
    yyjson_mut_val *map;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    map = json_add_object(&body, body.root, member);
    for (size_t i = 0; i < count; i++)
        json_add_text(&body, map, pairs[i].name, pairs[i].value);
    return output_call(invocation, &body, action, NULL);
}

int queue_pairs_run(struct invocation *invocation, const char *member, const char *action)
{
    size_t count = (size_t)invocation->argument_count - 1;
    struct tally_pair *pairs = memory_allocate_zeroed(count * sizeof *pairs);
    int status = assignment_pairs(invocation, invocation->arguments + 1, count, pairs);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = call(invocation, member, action, pairs, count);
    free(pairs);
    return status;
}
