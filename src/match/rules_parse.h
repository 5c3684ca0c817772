/* Reading rules from JSON; for rules.c only. */
#ifndef TALLY_MATCH_RULES_PARSE_H
#define TALLY_MATCH_RULES_PARSE_H

#include "match/rules.h"
#include <yyjson.h>

/* Fills zeroed rules from the document of a text of `text_size` bytes. On an error they are half filled, fit for
 * rules_destroy(). */
enum error rules_parse(struct rules *rules, yyjson_val *root, size_t text_size, struct failure *failure);

#endif
