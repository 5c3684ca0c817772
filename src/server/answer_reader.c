#include "server/answer_reader.h"

#include "base/assert.h"

#include <string.h>
#include <strings.h>

#define STATUS_MIN 200u
#define STATUS_MAX 599u

static const char *const field_names[ANSWER_FIELD_COUNT] = {"content-type", "x-amzn-query-error", "x-amzn-requestid",
                                                            "tally-not-owner"};

static struct answer_reader *of_parser(llhttp_t *parser)
{
    return CONTAINER_OF(parser, struct answer_reader, parser);
}

/* Keeps of a text what there is room for. */
static void append_cut(struct buffer *text, const char *at, size_t size)
{
    const size_t room = ANSWER_FIELD_SIZE_MAX - text->size;
    buffer_append(text, at, size < room ? size : room);
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    append_cut(&of_parser(parser)->name, at, size);
    return 0;
}

static int on_field_complete(llhttp_t *parser)
{
    struct answer_reader *reader = of_parser(parser);
    reader->field = ANSWER_OTHER_FIELD;
    for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++)
        if (strlen(field_names[i]) == reader->name.size &&
            strncasecmp(field_names[i], (const char *)reader->name.data_owned, reader->name.size) == 0)
            reader->field = (enum answer_field)i;
    buffer_truncate(&reader->name, 0);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct answer_reader *reader = of_parser(parser);
    if (reader->field != ANSWER_OTHER_FIELD)
        append_cut(&reader->fields[reader->field], at, size);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct answer_reader *reader = of_parser(parser);
    if (size > reader->body_size_max - reader->body.size)
        return HPE_USER;
    buffer_append(&reader->body, at, size);
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    of_parser(parser)->is_whole = true;
    return HPE_PAUSED; /* what comes behind it is another one's */
}

static const llhttp_settings_t settings = {.on_header_field = on_field,
                                           .on_header_field_complete = on_field_complete,
                                           .on_header_value = on_value,
                                           .on_body = on_body,
                                           .on_message_complete = on_complete};

void answer_reader_init(struct answer_reader *reader, size_t body_size_max)
{
    reader->body_size_max = body_size_max;
    for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++)
        buffer_init(&reader->fields[i]);
    buffer_init(&reader->name);
    buffer_init(&reader->body);
    answer_reader_begin(reader);
}

void answer_reader_deinit(struct answer_reader *reader)
{
    for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++)
        buffer_deinit(&reader->fields[i]);
    buffer_deinit(&reader->name);
    buffer_deinit(&reader->body);
}

void answer_reader_begin(struct answer_reader *reader)
{
    llhttp_init(&reader->parser, HTTP_RESPONSE, &settings);
    for (size_t i = 0; i < ANSWER_FIELD_COUNT; i++)
        buffer_truncate(&reader->fields[i], 0);
    buffer_truncate(&reader->name, 0);
    buffer_truncate(&reader->body, 0);
    reader->field = ANSWER_OTHER_FIELD;
    reader->is_whole = false;
}

enum answer_result answer_reader_feed(struct answer_reader *reader, const char *bytes, size_t size, size_t *used)
{
    ASSERT(!reader->is_whole);
    *used = size;
    const llhttp_errno_t outcome = llhttp_execute(&reader->parser, bytes, size);
    if (!reader->is_whole)
        return outcome == HPE_OK ? ANSWER_MORE : ANSWER_BROKEN;
    *used = (size_t)(llhttp_get_error_pos(&reader->parser) - bytes);
    const unsigned status = answer_reader_status(reader);
    return status >= STATUS_MIN && status <= STATUS_MAX ? ANSWER_WHOLE : ANSWER_BROKEN;
}

bool answer_reader_keeps_alive(const struct answer_reader *reader)
{
    return llhttp_should_keep_alive(&reader->parser) != 0;
}
