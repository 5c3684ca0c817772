/* A session with whole replies: what is asked, step by step, and the text that each step is answered.
 *
 * Ids and receipt handles stand as <1>, <2> and so on, in the order in which they are first seen. A NextToken stands as
 * <page>, which means the newest one. */
#ifndef TALLY_TESTS_UNIT_SESSION_H
#define TALLY_TESTS_UNIT_SESSION_H

#include "signer.h"
#include "sqs.h"

#include <ctype.h>

/* Most steps are signed by nobody and leave the last member out. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct step {
    const char *action; /* NULL: time passes, so many milliseconds as `body` says */
    const char *body;
    const char *reply; /* the error and its message, where it is one */
    const char *as;    /* the access key that signs it (signer.h); NULL: it is not signed */
};

#define NAMES_MAX 200u
#define NAME_SIZE 72u

static char session_names[NAMES_MAX][NAME_SIZE];
static unsigned session_name_count;
static char session_page[200];

/* Is that the value of the member? `begin` is where its text begins. */
static inline bool session_is_value(const char *text, const char *begin, const char *member)
{
    const size_t size = strlen(member);
    return (size_t)(text - begin) >= size && memcmp(text - size, member, size) == 0;
}

/* How many characters of a UUID or of a receipt handle begin here; 0: none do. */
static inline size_t session_name_size(const char *text, const char *begin)
{
    size_t size = 0;
    if (session_is_value(text, begin, "'ReceiptHandle':'"))
        return strcspn(text, "'");
    for (; size < 36; size++)
        if (size == 8 || size == 13 || size == 18 || size == 23 ? text[size] != '-' : !isxdigit((uint8_t)text[size]))
            return 0;
    return size;
}

static inline unsigned session_name_find(const char *text, size_t size)
{
    for (unsigned i = 0; i < session_name_count; i++)
        if (strlen(session_names[i]) == size && memcmp(session_names[i], text, size) == 0)
            return i;
    assert_true(session_name_count < NAMES_MAX && size < NAME_SIZE);
    memcpy(session_names[session_name_count], text, size);
    session_names[session_name_count][size] = '\0';
    return session_name_count++;
}

/* The same text with <1> for the first name. */
static inline void session_hide_names(const char *text, struct buffer *out)
{
    for (const char *at = text; *at != '\0';) {
        if (session_is_value(at, text, "'NextToken':'")) {
            const int token_size = (int)strcspn(at, "'");
            snprintf(session_page, sizeof(session_page), "%.*s", token_size, at);
            buffer_append_format(out, "<page>");
            at += token_size;
            continue;
        }
        size_t size = session_name_size(at, text);
        if (size > 0)
            buffer_append_format(out, "<%u>", session_name_find(at, size) + 1);
        else
            buffer_append_u8(out, (uint8_t)*at);
        at += size > 0 ? size : 1;
    }
    buffer_append_u8(out, 0);
}

static inline void session_show_names(const char *text, struct buffer *out)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at != '<') {
            buffer_append_u8(out, (uint8_t)*at);
            continue;
        }
        if (strncmp(at, "<page>", 6) == 0) {
            buffer_append_format(out, "%s", session_page);
            at = strchr(at, '>');
            continue;
        }
        unsigned long index = strtoul(at + 1, NULL, 10);
        assert_true(index >= 1 && index <= session_name_count);
        buffer_append_format(out, "%s", session_names[index - 1]);
        at = strchr(at, '>');
    }
    buffer_append_u8(out, 0);
}

static inline void session_play_step(struct world *world, const struct step *step, struct buffer *body,
                                     struct buffer *reply)
{
    buffer_truncate(body, 0);
    buffer_truncate(reply, 0);
    session_show_names(step->body, body);
    yyjson_doc *doc = NULL;
    const char *text_sent = (const char *)body->data_owned;
    struct answer answer = step->as == NULL ? world_call(world, step->action, "%s", text_sent)
                                            : signer_call(world, step->as, step->action, text_sent, &doc);
    if (answer.error != NULL) {
        buffer_append_format(reply, "%s: %s", answer.error, answer_text(answer, "message"));
        buffer_append_u8(reply, 0);
        yyjson_doc_free(doc);
        return;
    }
    char *text = answer.root == NULL ? strdup("") : yyjson_val_write(answer.root, 0, NULL);
    assert_non_null(text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '"' ? '\'' : *at;
    session_hide_names(text, reply);
    free(text);
    yyjson_doc_free(doc);
}

/* Each step is answered as it says. */
static inline void session_play(struct world *world, const struct step *steps, size_t count)
{
    struct buffer body, reply;
    unsigned faults = 0;
    buffer_init(&body);
    buffer_init(&reply);
    session_name_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].action == NULL) {
            world_pass_time(world, strtoull(steps[i].body, NULL, 10));
            continue;
        }
        session_play_step(world, &steps[i], &body, &reply);
        const char *got = (const char *)reply.data_owned;
        if (strcmp(got, steps[i].reply) != 0)
            fprintf(stderr, "%s %s\n  gave %s\n  not  %s\n", steps[i].action, steps[i].body, got, steps[i].reply);
        faults += strcmp(got, steps[i].reply) != 0;
    }
    buffer_deinit(&body);
    buffer_deinit(&reply);
    assert_int_equal(faults, 0);
}

static inline struct world *session_open(void)
{
    return world_create(&(struct world_options){.seed = 1, .segment_size = 8u << 20, .frame_size_max = 3u << 20});
}

#endif
