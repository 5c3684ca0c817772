/* FindMessage: a message by its MessageId, by an id that its sender gave it (a deduplication id, the id of its outbox
 * row, the number of its producer), or by a text in it.
 *
 * Deduplication remembers the messages of ids and numbers for a while, wherever they are and also how they ended: O(1)
 * for each queue. Nothing else leads from these ids to a message. What is not remembered is looked for in the contents
 * of the queue, the oldest message first, a bounded number of them a call. A deduplication id without a queue is asked
 * of every queue first, and then looked for in all contents. */
#include "api/access.h"
#include "api/peek.h"
#include "api/queue_walk.h"
#include "api/reach.h"
#include "api/text.h"
#include "api/why.h"
#include "core/deduplication/deduplication.h"
#include "core/messages/attribute.h"
#include "core/publishers/publisher.h"
#include "core/state.h"

#define TEXT_SIZE_MAX 256u
#define WORDS_MAX 16u

/* How many contents one call reads, and how many messages it finds. */
#define CONTENTS_MAX 2000u
#define FOUND_MAX 100u

/* How much one call compares: the bytes of a text count once for each word that is looked for in it. */
#define COMPARED_MAX ((uint64_t)PEEK_READ_MAX)

enum find_by { FIND_ID, FIND_DEDUPLICATION, FIND_OUTBOX, FIND_PRODUCER, FIND_TEXT, FIND_BY_COUNT };

struct search {
    enum find_by by;
    struct bytes text;             /* the id, the name of the producer, or a text as it was given */
    struct bytes words[WORDS_MAX]; /* of a text: all are looked for in one body, or in one value */
    unsigned word_count;
    uint64_t sequence;   /* of the producer */
    struct bytes group;  /* of a deduplication id; empty: any */
    struct queue *queue; /* NULL: all of them */
    enum peek_body body;
    struct explanation *explanation; /* room */
};

/* --- parameters --------------------------------------------------------------------------------------------------- */

static const char *const members[FIND_BY_COUNT] = {[FIND_ID] = "MessageId",
                                                   [FIND_DEDUPLICATION] = "MessageDeduplicationId",
                                                   [FIND_OUTBOX] = "OutboxId",
                                                   [FIND_PRODUCER] = "Producer",
                                                   [FIND_TEXT] = "Text"};

/* Which of the members is there: exactly one. */
static enum error read_kind(struct call *call, struct search *search)
{
    search->by = FIND_BY_COUNT;
    for (unsigned by = 0; by < FIND_BY_COUNT; by++) {
        struct bytes text = {NULL, 0};
        const enum error error = params_text(&call->params, members[by], &text);
        if (error != OK)
            return error;
        if (text.ptr == NULL)
            continue;
        if (search->by != FIND_BY_COUNT)
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "The request has both %s and %s; it can have only one.", members[search->by], members[by]);
        search->by = (enum find_by)by;
        search->text = text;
    }
    if (search->by == FIND_BY_COUNT)
        return call_fail(call, ERROR_MISSING_PARAMETER,
                         "The request must contain one of MessageId, MessageDeduplicationId, OutboxId, Producer and "
                         "Text.");
    return OK;
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Takes the first word off the front of the text; it is empty if there is none. */
static struct bytes take_word(struct bytes *text)
{
    size_t begin = 0;
    while (begin < text->size && is_space(text->ptr[begin]))
        begin++;
    size_t end = begin;
    while (end < text->size && !is_space(text->ptr[end]))
        end++;
    const struct bytes word = bytes_make(text->ptr + begin, end - begin);
    *text = bytes_skip(*text, end);
    return word;
}

/* Of a text between quotation marks, in which there is none: what stands between them, as it is. */
static bool is_quoted(struct bytes text)
{
    return text.size > 2 && memchr(text.ptr + 1, '"', text.size - 1) == text.ptr + text.size - 1 && text.ptr[0] == '"';
}

static enum error read_words(struct call *call, struct search *search)
{
    struct bytes left = search->text;
    if (search->by != FIND_TEXT)
        return OK;
    if (is_quoted(left)) {
        search->words[search->word_count++] = bytes_make(left.ptr + 1, left.size - 2);
        return OK;
    }
    for (struct bytes word; (word = take_word(&left)).size > 0; search->words[search->word_count++] = word)
        if (search->word_count == WORDS_MAX)
            return params_invalid(&call->params, members[search->by], search->text, "It must have at most 16 words.");
    if (search->word_count == 0)
        return params_invalid(&call->params, members[search->by], search->text,
                              "It must have a word; white space to be found stands between quotation marks.");
    return OK;
}

static enum error check_text(struct call *call, const struct search *search)
{
    const bool is_identifier = search->by == FIND_DEDUPLICATION || search->by == FIND_PRODUCER;
    if (search->text.size == 0)
        return params_invalid(&call->params, members[search->by], search->text, "It must not be empty.");
    if (is_identifier && !text_is_identifier(search->text, DEDUPLICATION_ID_SIZE_MAX))
        return params_invalid(&call->params, members[search->by], search->text,
                              "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.");
    if (search->by == FIND_TEXT && search->text.size > TEXT_SIZE_MAX)
        return params_invalid(&call->params, members[search->by], search->text, "It must have at most 256 bytes.");
    return OK;
}

static enum error read_sequence(struct call *call, struct search *search)
{
    int64_t sequence = 0;
    bool is_given;
    const enum error error = params_integer(&call->params, "Sequence", &sequence, &is_given);
    if (error != OK)
        return error;
    if (!is_given)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Sequence.");
    if (sequence < 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value %lld for parameter Sequence is invalid. Reason: It must be an integer from 0 to "
                         "9223372036854775807.",
                         (long long)sequence);
    search->sequence = (uint64_t)sequence;
    return OK;
}

/* A producer's number is that of a queue. */
static enum error read_queue(struct call *call, struct search *search)
{
    switch (search->by) {
    case FIND_PRODUCER:
        return call_queue(call, &search->queue);
    case FIND_DEDUPLICATION:
    case FIND_OUTBOX:
    case FIND_TEXT:
        return call_optional_queue(call, &search->queue);
    default:
        return OK;
    }
}

static enum error read_search(struct call *call, struct search *search)
{
    *search = (struct search){.body = PEEK_NO_BODY};
    enum error error = read_kind(call, search);
    if (error == OK)
        error = check_text(call, search);
    if (error == OK)
        error = read_words(call, search);
    if (error == OK)
        error = read_queue(call, search);
    if (error == OK && search->by == FIND_PRODUCER)
        error = read_sequence(call, search);
    if (error == OK && search->by == FIND_DEDUPLICATION)
        error = params_text(&call->params, "MessageGroupId", &search->group);
    if (error == OK)
        error = call_check_group(&call->params, search->group);
    if (error == OK)
        error = peek_read_body(call, &search->body);
    return error;
}

/* --- is it the one? ----------------------------------------------------------------------------------------------- */

/* Is that its producer's number? As text, with zeros before it perhaps. */
static bool is_sequence(struct bytes text, uint64_t sequence)
{
    uint64_t number;
    while (text.size > 1 && text.ptr[0] == '0')
        text = bytes_skip(text, 1);
    return bytes_to_u64(text, &number) && number == sequence;
}

/* Are all words in it? *compared grows by what was looked at. */
static bool has_words(struct bytes view, const struct search *search, uint64_t *compared)
{
    for (unsigned i = 0; i < search->word_count; i++) {
        const struct bytes word = search->words[i];
        if (view.size < word.size)
            return false;
        *compared += view.size;
        if (memmem(view.ptr, view.size, word.ptr, word.size) == NULL)
            return false;
    }
    return true;
}

/* In the body, or in the value of one attribute. */
static bool contains(const struct content *content, const struct search *search, uint64_t *compared)
{
    if (has_words(content->body, search, compared))
        return true;
    struct cursor cursor = cursor_make(content->attributes);
    const uint16_t count = content->attributes.size == 0 ? 0 : cursor_u16(&cursor);
    for (uint16_t i = 0; i < count; i++) {
        const struct attribute attribute = attribute_decode(&cursor);
        if (!cursor.is_failed && has_words(attribute.value, search, compared))
            return true;
    }
    return false;
}

static bool fits(struct call *call, const struct search *search, uint32_t slot, uint64_t *compared)
{
    struct content content;
    if (!peek_read(call, slot, &content))
        return false;
    switch (search->by) {
    case FIND_DEDUPLICATION:
        return bytes_equal(content.deduplication, search->text) &&
               (search->group.size == 0 || bytes_equal(content.group, search->group));
    case FIND_OUTBOX:
        return bytes_equal(attribute_find(content.attributes, BYTES(ATTRIBUTE_OUTBOX_ID)), search->text);
    case FIND_TEXT:
        return contains(&content, search, compared);
    default:
        return bytes_equal(attribute_find(content.attributes, BYTES("Tally.Producer")), search->text) &&
               is_sequence(attribute_find(content.attributes, BYTES("Tally.Sequence")), search->sequence);
    }
}

/* --- what is found ------------------------------------------------------------------------------------------------ */

static const struct queue *queue_of(const struct call *call, uint32_t slot)
{
    const uint32_t queue = core_message_list_at(call->core, core_message(call->core, slot)->message_list)->queue;
    return queue == 0 ? NULL : core_queue(call->core, queue);
}

static void write_message(struct call *call, const struct search *search, const struct queue *queue, uint32_t slot)
{
    writer_object_begin(call->reply, NULL);
    writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    peek_write(call, queue, slot, search->body, 1, search->explanation);
    writer_object_end(call->reply);
}

/* What is left of a message that can't be shown. */
static void write_end(struct call *call, const struct search *search, struct bytes id)
{
    struct explanation *explanation = search->explanation;
    writer_object_begin(call->reply, NULL);
    writer_text(call->reply, "MessageId", id);
    writer_string(call->reply, "State", peek_state_name(CONDITION_ENDED));
    writer_list_begin(call->reply, "Why");
    why_write_each(call, explanation, 1);
    writer_list_end(call->reply);
    writer_object_end(call->reply);
}

static void write_by_id(struct call *call, const struct search *search)
{
    struct queue *queue = NULL;
    uint8_t id[MESSAGE_ID_SIZE];
    const uint32_t slot = identity_from_text(search->text, id) ? explain_find(call->core, id, &queue) : 0;
    if (slot != 0 && access_covers(call, queue->name_owned)) {
        write_message(call, search, queue, slot);
        return;
    }
    queue = NULL;
    why_explain(call, search->text, &queue, search->explanation);
    if (search->explanation->condition != CONDITION_UNKNOWN)
        write_end(call, search, search->text);
}

/* A move task may have sent a message that failed again, which then has another number and the same ids. */
static bool may_be_redriven(const struct explanation *explanation)
{
    return explanation->count == 0 ||
           (explanation->whys[0].code == WHY_OUTCOME && explanation->whys[0].outcome == UNIT_FAILED);
}

/* Writes the message that has that number, wherever it is; or how it ended, as its queue knows. True: there is nothing
 * else to be found. */
static bool write_remembered(struct call *call, const struct search *search, uint64_t number)
{
    const uint32_t slot = core_find_message(call->core, number);
    const struct queue *queue = slot == 0 ? NULL : queue_of(call, slot);
    uint64_t compared = 0; /* texts only are compared */
    if (slot != 0 && search->by == FIND_OUTBOX && !fits(call, search, slot, &compared))
        return false; /* somebody gave that id to another message */
    if (queue != NULL && access_covers(call, queue->name_owned)) {
        write_message(call, search, queue, slot);
        return true;
    }
    uint8_t id[MESSAGE_ID_SIZE];
    explain_message_id(call->core, number, id);
    explain_message(call->core, search->queue, id, search->explanation);
    write_end(call, search, why_message_id(call, number));
    return slot != 0 || !may_be_redriven(search->explanation);
}

/* The message of the deduplication id, as the queue remembers it; 0: it does not. An id of a group is found only with
 * its group. */
static uint64_t remembered_number(const struct call *call, const struct search *search, const struct queue *queue)
{
    const bool is_of_group = queue->settings.deduplication_scope == SCOPE_GROUP;
    if (is_of_group && search->group.size == 0)
        return 0;
    return deduplication_find(call->core, queue, is_of_group ? search->group : bytes_make(NULL, 0), search->text);
}

/* Asks deduplication, and writes what it remembers. True: nothing else can be found. In a FIFO queue the id of a row is
 * its deduplication id, if it has no other. */
static bool write_what_is_remembered(struct call *call, const struct search *search)
{
    struct produced_before before = {0};
    uint64_t number = 0;
    if (search->queue == NULL || search->by == FIND_TEXT ||
        (search->by == FIND_OUTBOX && !search->queue->settings.is_fifo))
        return false;
    if (search->by == FIND_PRODUCER) {
        if (deduplication_find_produced(call->core, search->queue, search->text, search->sequence, &before))
            number = before.number;
    } else {
        number = remembered_number(call, search, search->queue);
    }
    return number == 0 ? before.was_passed_over : write_remembered(call, search, number);
}

/* --- looking for it in contents ----------------------------------------------------------------------------------- */

/* Where the search is, and what it may still do in this call. */
struct scan {
    bool is_asking; /* what the queues remember, before their contents are looked at */
    size_t index;   /* of the queue, in order of name */
    size_t end;     /* of the queues */
    struct message_place place;
    unsigned visits;
    unsigned found;
    uint64_t compared; /* bytes */
    size_t begin;      /* of the messages in the reply */
    struct peek_reads reads;
};

static bool is_exhausted(const struct scan *scan)
{
    return scan->visits >= MESSAGE_WALK_VISITS_MAX || scan->reads.count >= CONTENTS_MAX || scan->found >= FOUND_MAX ||
           scan->compared >= COMPARED_MAX;
}

/* Was the message told already, when the queues were asked? A dead letter is remembered by the queue it failed in. */
static bool was_told(struct call *call, const struct search *search, const struct queue *queue, uint32_t slot)
{
    const struct message *message = core_message(call->core, slot);
    if (search->by != FIND_DEDUPLICATION || search->queue != NULL)
        return false;
    const struct queue *origin = message->origin == 0 ? NULL : core_queue(call->core, message->origin);
    return remembered_number(call, search, queue) == message->number ||
           (origin != NULL && access_covers(call, origin->name_owned) &&
            remembered_number(call, search, origin) == message->number);
}

/* Looks along a queue. True: to its end. A message for which the page has no room is the first of the next page. */
static bool scan_queue(struct call *call, const struct search *search, const struct queue *queue, struct scan *scan)
{
    struct message_walk walk;
    message_walk_begin(&walk, call->core, queue, scan->place);
    for (scan->place = walk.place; !walk.is_lost && !is_exhausted(scan); scan->place = walk.place) {
        const uint32_t slot = message_walk_next(&walk);
        if (slot == 0)
            return true;
        scan->visits++;
        if (!peek_may_read(call, slot, &scan->reads))
            return false;
        if (!fits(call, search, slot, &scan->compared) || was_told(call, search, queue, slot))
            continue;
        if (scan->found > 0 && peek_page_is_full(call, slot, search->body, scan->begin))
            return false;
        write_message(call, search, queue, slot);
        scan->found++;
    }
    return !walk.is_lost && message_walk_is_over(&walk);
}

/* Writes what the queue remembers of the deduplication id. False: the page has no room for it. */
static bool ask_queue(struct call *call, const struct search *search, struct queue *queue, struct scan *scan)
{
    const uint64_t number = remembered_number(call, search, queue);
    const uint32_t slot = number == 0 ? 0 : core_find_message(call->core, number);
    struct search of_queue = *search;
    if (number == 0)
        return true;
    if (slot != 0 && scan->found > 0 && peek_page_is_full(call, slot, search->body, scan->begin))
        return false;
    of_queue.queue = queue;
    write_remembered(call, &of_queue, number);
    scan->found++;
    return true;
}

/* Asks each queue. True: all of them were asked, and the contents are next. */
static bool ask_queues(struct call *call, const struct search *search, struct scan *scan)
{
    struct queue_walk walk;
    queue_walk_begin(&walk, call, bytes_make(NULL, 0), scan->index);
    while (walk.index < scan->end && !is_exhausted(scan) && queue_walk_next(&walk) != NULL) {
        scan->index = walk.index - 1;
        if (!ask_queue(call, search, core_queue_by_name(call->core, scan->index), scan))
            return false;
        scan->visits++;
    }
    scan->index = walk.index;
    if (scan->index < scan->end && !queue_walk_is_over(&walk))
        return false;
    scan->is_asking = false;
    scan->index = 0;
    return true;
}

/* True: all queues were looked at. */
static bool scan_queues(struct call *call, const struct search *search, struct scan *scan)
{
    const struct queue *queue = NULL;
    struct queue_walk walk;
    queue_walk_begin(&walk, call, bytes_make(NULL, 0), scan->index);
    while (walk.index < scan->end && !is_exhausted(scan) && (queue = queue_walk_next(&walk)) != NULL) {
        if (walk.index - 1 != scan->index)
            scan->place = (struct message_place){0};
        scan->index = walk.index - 1;
        if (!scan_queue(call, search, queue, scan))
            return false;
        scan->index = walk.index;
        scan->visits++;
        scan->place = (struct message_place){0};
    }
    if (walk.index != scan->index)
        scan->place = (struct message_place){0};
    scan->index = walk.index;
    return scan->index >= scan->end || queue_walk_is_over(&walk);
}

/* --- the token: the queue, by its id and its name, and a place in it ---------------------------------------------- */

#define TOKEN_IS_ASKING 0
#define TOKEN_QUEUE 1
#define TOKEN_PLACE 2
#define TOKEN_NUMBERS (TOKEN_PLACE + PEEK_PLACE_NUMBERS)

/* Where a token goes on; without one, at the beginning. Of a queue that has gone the name says which one is next,
 * whatever else has come or gone meanwhile. */
static enum error begin_scan(struct call *call, const struct search *search, struct scan *scan, bool *is_first)
{
    uint64_t numbers[TOKEN_NUMBERS] = {0};
    struct bytes name = {NULL, 0};
    bool is_given;
    const enum error error = call_read_queue_token(call, numbers, TOKEN_NUMBERS, &name, &is_given);
    if (error != OK)
        return error;
    const bool is_asked = search->by == FIND_DEDUPLICATION && search->queue == NULL;
    *is_first = !is_given;
    *scan = (struct scan){.end = core_queue_count(call->core),
                          .is_asking = is_asked && (!is_given || numbers[TOKEN_IS_ASKING] != 0)};
    struct message_place place;
    if (numbers[TOKEN_QUEUE] > UINT32_MAX || !peek_place_from_numbers(numbers + TOKEN_PLACE, &place))
        return call_fail_token(call);
    const struct queue *at = core_find_queue_by_id(call->core, (uint32_t)numbers[TOKEN_QUEUE]);
    scan->index = core_queue_index(call->core, search->queue != NULL ? search->queue->name_owned : name);
    if (search->queue != NULL)
        scan->end = scan->index + 1;
    if (at != NULL && (search->queue == NULL || at == search->queue))
        scan->place = place;
    return OK;
}

static void write_next_token(struct call *call, const struct scan *scan)
{
    uint64_t numbers[TOKEN_NUMBERS];
    struct queue_walk walk;
    queue_walk_begin(&walk, call, bytes_make(NULL, 0), scan->index);
    numbers[TOKEN_IS_ASKING] = scan->is_asking;
    numbers[TOKEN_QUEUE] = core_queue_by_name(call->core, scan->index)->id;
    peek_place_to_numbers(scan->place, numbers + TOKEN_PLACE);
    call_write_queue_token(call, numbers, TOKEN_NUMBERS, queue_walk_seal_name(&walk, call->arena));
}

/* --- the action --------------------------------------------------------------------------------------------------- */

/* Is it the id of a row that a publisher remembers? Which queues it named is not kept, so it is for callers who cover
 * all of them. */
static void write_publication(struct call *call, const struct search *search)
{
    uint8_t uid[MESSAGE_ID_SIZE];
    if (search->by == FIND_OUTBOX && !reach_is_confined(call) && identity_from_text(search->text, uid) &&
        publisher_remembers(call->core, uid))
        writer_boolean(call->reply, "IsPublished", true);
}

/* How far the search is. How many queues there are is for callers who cover all of them. */
static void write_progress(struct call *call, const struct search *search, const struct scan *scan, bool is_complete)
{
    writer_number(call->reply, "Looked", scan->reads.count);
    if (search->queue != NULL || reach_is_confined(call))
        return;
    writer_number(call->reply, "QueuesLooked", is_complete ? scan->end : scan->is_asking ? 0 : scan->index);
    writer_number(call->reply, "QueueCount", scan->end);
}

enum error action_find_message(struct call *call)
{
    struct search search;
    struct scan scan;
    bool is_first = true, is_complete = true;
    enum error error = read_search(call, &search);
    if (error == OK)
        error = begin_scan(call, &search, &scan, &is_first);
    if (error != OK)
        return error;
    search.explanation = arena_allocate(call->arena, sizeof(*search.explanation));
    writer_list_begin(call->reply, "Messages");
    scan.begin = call->reply->out->size;
    if (search.by == FIND_ID)
        write_by_id(call, &search);
    else if (!is_first || !write_what_is_remembered(call, &search))
        is_complete = (!scan.is_asking || ask_queues(call, &search, &scan)) && scan_queues(call, &search, &scan);
    writer_list_end(call->reply);
    write_publication(call, &search);
    if (search.by != FIND_ID)
        write_progress(call, &search, &scan, is_complete);
    writer_boolean(call->reply, "IsComplete", is_complete);
    if (!is_complete)
        write_next_token(call, &scan);
    return OK;
}
