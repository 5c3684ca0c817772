/* yyjson on our allocator: where there is no memory, the process ends, and no text is taken for a wrong one. */
#ifndef TALLY_BASE_JSON_MEMORY_H
#define TALLY_BASE_JSON_MEMORY_H

#include <yyjson.h>

extern const yyjson_alc json_memory;

#endif
