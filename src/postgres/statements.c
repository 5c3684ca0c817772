#include "postgres/statements.h"

#define TEXT(NAME, text) [PG_##NAME] = (text),
const char *const pg_statement_texts[PG_STATEMENT_COUNT] = {PG_STATEMENT_LIST(TEXT)};

#define NAME(NAME, text) [PG_##NAME] = #NAME,
const char *const pg_statement_names[PG_STATEMENT_COUNT] = {PG_STATEMENT_LIST(NAME)};
