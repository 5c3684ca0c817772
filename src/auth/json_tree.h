/* JSON texts as trees whose memory is an arena's: nothing of them is freed one by one. */
#ifndef TALLY_AUTH_JSON_TREE_H
#define TALLY_AUTH_JSON_TREE_H

#include "base/arena.h"
#include <yyjson.h>

/* The tree of a JSON text, or NULL if it is none. The text is only read. Both live as long as the arena. */
yyjson_doc *json_tree_parse(struct bytes text, struct arena *arena);

/* An empty tree to build in; and a finished one as compact text. Every text in it must be UTF-8. */
yyjson_mut_doc *json_tree_create(struct arena *arena);
struct bytes json_tree_write(const yyjson_mut_doc *doc, struct arena *arena);

/* A tree that was read, as compact text: the same members in the same order, without blanks. */
struct bytes json_tree_compact(const yyjson_doc *doc, struct arena *arena);
struct bytes json_tree_compact_value(const yyjson_val *value, struct arena *arena);

/* A tree that was read, to build on. */
yyjson_mut_doc *json_tree_copy(yyjson_doc *doc, struct arena *arena);

/* The text of a string; empty for anything else. */
static inline struct bytes json_tree_text(yyjson_val *value)
{
    return yyjson_is_str(value) ? bytes_make(yyjson_get_str(value), yyjson_get_len(value)) : bytes_make(NULL, 0);
}

#endif
