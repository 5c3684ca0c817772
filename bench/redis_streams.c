/* Redis Streams: XADD, XREADGROUP by one group that exists, XACK and XDEL. A connection adds before it reads, so a read
 * never finds less than it asks for. */
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>

enum stream_step { STREAM_ADD, STREAM_READ, STREAM_END };

struct stream {
    const struct plan *plan;
    struct text add; /* `pipeline` commands */
};

static void word_append(struct text *out, const char *word)
{
    text_append_format(out, "$%zu\r\n%s\r\n", strlen(word), word);
}

static void *stream_create(const struct plan *plan)
{
    struct stream *stream = allocate(sizeof(*stream));
    stream->plan = plan;
    text_init(&stream->add);
    for (unsigned at = 0; at < plan->pipeline; at++) {
        text_append(&stream->add, VIEW("*5\r\n$4\r\nXADD\r\n"));
        word_append(&stream->add, plan->queue);
        text_append_format(&stream->add, "$1\r\n*\r\n$1\r\nb\r\n$%u\r\n", plan->body_size);
        workload_body_append(&stream->add, plan->body_size);
        text_append(&stream->add, VIEW("\r\n"));
    }
    return stream;
}

static void read_write(struct text *out, const struct plan *plan, unsigned number)
{
    char consumer[16], count[16];
    (void)snprintf(consumer, sizeof(consumer), "c%u", number);
    (void)snprintf(count, sizeof(count), "%u", plan->pipeline);
    const char *const words[] = {"XREADGROUP", "GROUP", "work", consumer, "COUNT", count, "STREAMS", plan->queue, ">"};
    text_append(out, VIEW("*9\r\n"));
    for (size_t at = 0; at < sizeof(words) / sizeof(words[0]); at++)
        word_append(out, words[at]);
}

/* connection->kept has the ids, as arguments. */
static void end_write(struct text *out, const struct plan *plan, const struct text *ids)
{
    text_append_format(out, "*%u\r\n$4\r\nXACK\r\n", plan->pipeline + 3);
    word_append(out, plan->queue);
    word_append(out, "work");
    text_append(out, text_view(ids));
    text_append_format(out, "*%u\r\n$4\r\nXDEL\r\n", plan->pipeline + 2);
    word_append(out, plan->queue);
    text_append(out, text_view(ids));
}

static void stream_ask(const void *state, struct connection *connection)
{
    const struct stream *stream = state;
    connection->own.size = 0;
    connection->out = text_view(&stream->add);
    switch ((enum stream_step)connection->step) {
    case STREAM_ADD:
        connection->replies_due = stream->plan->pipeline;
        return;
    case STREAM_READ:
        connection->kept.size = 0;
        connection->replies_due = 1;
        read_write(&connection->own, stream->plan, connection->index);
        break;
    case STREAM_END:
        connection->replies_due = 2;
        end_write(&connection->own, stream->plan, &connection->kept);
        break;
    }
    connection->out = text_view(&connection->own);
}

/* Takes a line off `in`: its first character, and the number behind it. False while bytes are missing. */
static bool line_take(struct view *in, char *type, long *number)
{
    const char *end = in->size == 0 ? NULL : memchr(in->ptr, '\n', in->size);
    if (end == NULL)
        return false;
    if (in->ptr[0] == '-')
        fatal("Redis said: %.*s", (int)(end - in->ptr), in->ptr);
    *type = in->ptr[0];
    *number = strtol(in->ptr + 1, NULL, 10);
    *in = view_from(*in, end + 1);
    return true;
}

/* The size of the first value in `in`, with all that it contains; 0 while bytes are missing. */
static size_t value_size(struct view in)
{
    struct view left = in;
    for (size_t values = 1; values > 0; values--) {
        char type;
        long number;
        if (!line_take(&left, &type, &number))
            return 0;
        if (type == '*' && number > 0)
            values += (size_t)number;
        if (type != '$' || number < 0)
            continue;
        if (left.size < (size_t)number + 2)
            return 0;
        left = view_from(left, left.ptr + number + 2);
    }
    return (size_t)(left.ptr - in.ptr);
}

/* Goes over the value that comes next and must be of that type; returns its number. */
static long expect(struct view *in, char expected)
{
    char type;
    long number;
    if (!line_take(in, &type, &number) || type != expected)
        fatal("expected %c from Redis, got: %.*s", expected, (int)in->size, in->ptr);
    return number;
}

static struct view expect_text(struct view *in)
{
    long size = expect(in, '$');
    struct view text = {in->ptr, (size_t)size};
    *in = view_from(*in, in->ptr + size + 2);
    return text;
}

/* One stream, its entries, each an id and its fields: a name and a value. */
static void entries_take(const struct plan *plan, struct connection *connection, struct view in,
                         struct counters *counters)
{
    if (expect(&in, '*') != 1 || expect(&in, '*') != 2)
        fatal("expected entries of one stream");
    expect_text(&in);
    long count = expect(&in, '*');
    if (count != (long)plan->pipeline)
        fatal("expected %u entries, got %ld", plan->pipeline, count);
    for (long at = 0; at < count; at++) {
        expect(&in, '*');
        struct view id = expect_text(&in);
        text_append_format(&connection->kept, "$%zu\r\n%.*s\r\n", id.size, (int)id.size, id.ptr);
        expect(&in, '*');
        expect_text(&in);
        expect_text(&in);
    }
    counters->received += (uint64_t)count;
}

static size_t stream_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct plan *plan = ((const struct stream *)state)->plan;
    size_t size = value_size(in);
    if (size == 0)
        return 0;
    switch ((enum stream_step)connection->step) {
    case STREAM_ADD:
        counters->sent++;
        break;
    case STREAM_READ:
        entries_take(plan, connection, in, counters);
        break;
    case STREAM_END:
        if (expect(&in, ':') != (long)plan->pipeline)
            fatal("not every entry was acknowledged and deleted");
        counters->deleted += connection->replies_due == 1 ? plan->pipeline : 0; /* the second reply is the deletion's */
        break;
    }
    if (connection->replies_due == 1)
        connection->step = (connection->step + 1) % 3;
    return size;
}

const struct workload WORKLOAD_REDIS_LIFE = {
    .name = "redis-life",
    .help = "streams: XADD, XREADGROUP, XACK and XDEL; group `work` of the stream exists",
    .counted = COUNTED_DELETED,
    .create = stream_create,
    .ask = stream_ask,
    .answer = stream_answer,
};
