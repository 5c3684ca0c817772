/* The frame around the fields of a reply: JSON's braces or XML's envelope; and errors in either form. Private to
 * src/api. */
#ifndef TALLY_API_REPLY_H
#define TALLY_API_REPLY_H

#include "api/front.h"
#include "api/writer_xml.h"

/* A successful reply that is being written. */
struct reply_draft {
    struct writer writer; /* for the fields */
    size_t begin;         /* of XML: bytes before the fields */
    struct writer_xml xml;
};

/* Begins it, in the form of the request, over the former content of the reply. `draft` must not move until
 * reply_end(). */
void reply_begin(struct exchange *exchange, struct reply_draft *draft);

/* `is_empty`: its action has no fields (REPLY_EMPTY). SQS then answers with less than for absent fields. */
void reply_end(struct exchange *exchange, struct reply_draft *draft, bool is_empty);

/* Makes the reply an error. If `failure` is NULL or has no text, the error's own text is used. */
void reply_fail(struct exchange *exchange, enum error error, const struct failure *failure);

/* Makes the reply that of another node. */
void reply_take_foreign(struct exchange *exchange, const struct foreign_reply *foreign);

#endif
