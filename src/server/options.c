#include "server/options.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

void server_options_init(struct server_options *options)
{
    *options = (struct server_options){
        .connections_max = 10000,
        .pipelined_max = 64,
        .pipelined_size_max = 4 * MIB,
        .head_size_max = 16 * KIB,
        .body_size_max = 8 * MIB,
        .input_memory_max = 1024 * MIB,
        .reply_memory_max = 1024 * MIB,
        .idle_timeout_ms = 75000,
        .request_timeout_ms = 30000,
        .reply_timeout_ms = 30000,
        .linger_timeout_ms = 2000,
        .stop_timeout_ms = 5000,
    };
}
