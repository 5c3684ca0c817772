/* A message as it is seen without being touched: no lease, no receive count, no token. Private to src/api. */
#ifndef TALLY_API_PEEK_H
#define TALLY_API_PEEK_H

#include "api/action.h"
#include "core/messages/content.h"
#include "core/messages/explain.h"
#include "core/messages/message_walk.h"

/* How much of a body is shown. */
enum peek_body {
    PEEK_NO_BODY,
    PEEK_PREVIEW, /* its first 256 bytes, and where a character would be cut, less */
    PEEK_WHOLE,   /* with its attributes */
};

/* What one call reads of the log, and how many of its contents may have to be waited for, the more slowly the disk
 * answers. A receive has as many. One content is always read. */
#define PEEK_READ_MAX ((size_t)16 << 20)
#define PEEK_WAITS_MAX 10u

struct peek_reads {
    size_t count;
    size_t size;
    unsigned waits;
};

/* The content of the message in `slot` is to be read: counts it. False: the call has read enough. Begins to load what
 * it would have to wait for. */
bool peek_may_read(struct call *call, uint32_t slot, struct peek_reads *reads);

/* False: the log is damaged there. Its views live until the next content is read. */
bool peek_read(struct call *call, uint32_t slot, struct content *content);

/* A place (message_walk.h) as the numbers of a token, and back; false: they are none. */
#define PEEK_PLACE_NUMBERS 3u
void peek_place_to_numbers(struct message_place place, uint64_t numbers[PEEK_PLACE_NUMBERS]);
bool peek_place_from_numbers(const uint64_t numbers[PEEK_PLACE_NUMBERS], struct message_place *place);

/* Reads the parameter Body: none, preview or full. Without it *body stays as it is. ERROR_INVALID_PARAMETER_VALUE. */
enum error peek_read_body(struct call *call, enum peek_body *body);

/* The words for the states of a message, and back: false if there is no such word. */
const char *peek_state_name(enum message_condition condition);
bool peek_state_find(struct bytes name, enum message_condition *condition);

/* How many bytes peek_write() will read of the log. */
size_t peek_size(const struct call *call, uint32_t slot, enum peek_body body);

/* Would a page that began at `begin` of the reply be larger than PEEK_PAGE_MAX with this message? Its first message is
 * always written. */
#define PEEK_PAGE_MAX ((size_t)1 << 20)
bool peek_page_is_full(const struct call *call, uint32_t slot, enum peek_body body, size_t begin);

/* peek_may_read() for a message of which peek_write() reads the content only where it must: true if it need not. */
bool peek_may_write(struct call *call, uint32_t slot, enum peek_body body, struct peek_reads *reads);

/* Writes the MessageId of the message. Reads the content only where the id stands there. */
void peek_write_id(struct call *call, uint32_t slot);

/* Writes the members of the message in `slot` of `queue`, with the reasons why it waits, whys_max at most, into the
 * object that is open. `explanation` is room that is overwritten. Reads the content only where it must. O(what it waits
 * for + content). */
void peek_write(struct call *call, const struct queue *queue, uint32_t slot, enum peek_body body, unsigned whys_max,
                struct explanation *explanation);

#endif
