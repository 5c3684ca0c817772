/* Bytes of the benchmark programs: views, and a growing buffer. These programs know the wire only and link nothing of
 * Tally, so that they measure any server, and any version, alike. Whatever goes wrong ends the program: a run that
 * fails has no figure. */
#ifndef TALLY_BENCH_TEXT_H
#define TALLY_BENCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct view {
    const char *ptr;
    size_t size;
};

#define VIEW(literal) ((struct view){"" literal, sizeof(literal) - 1})

struct text {
    char *ptr_owned;
    size_t size;
    size_t capacity;
};

/* Prints "NAME: message" on standard error and exits with status 1. */
__attribute__((noreturn, format(printf, 1, 2))) void fatal(const char *format, ...);

/* Memory that is there; ends the program otherwise. The caller frees it. */
void *allocate(size_t size) __attribute__((returns_nonnull, warn_unused_result));

/* The monotonic clock. */
uint64_t clock_now_ns(void);

void text_init(struct text *text);
void text_deinit(struct text *text);
void text_reserve(struct text *text, size_t extra);
void text_append_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void text_append(struct text *text, struct view view)
{
    text_reserve(text, view.size);
    memcpy(text->ptr_owned + text->size, view.ptr, view.size);
    text->size += view.size;
}

static inline struct view text_view(const struct text *text)
{
    return (struct view){text->ptr_owned, text->size};
}

/* The first place of `needle` in `view`, or NULL. */
static inline const char *view_find(struct view view, struct view needle)
{
    return memmem(view.ptr, view.size, needle.ptr, needle.size);
}

/* What is left of `view` from `ptr`, a place inside it, on. */
static inline struct view view_from(struct view view, const char *ptr)
{
    return (struct view){ptr, (size_t)(view.ptr + view.size - ptr)};
}

static inline bool view_starts_with(struct view view, struct view prefix)
{
    return view.size >= prefix.size && memcmp(view.ptr, prefix.ptr, prefix.size) == 0;
}

/* The text behind the next `key` of *rest, up to its quote, and moves *rest behind it; false where there is none. For a
 * JSON text without escapes whose key ends with the quote that opens it. */
bool view_text_next(struct view *rest, struct view key, struct view *value);

/* How often `needle` occurs in `view`, without overlaps. */
unsigned view_count(struct view view, struct view needle);

#endif
