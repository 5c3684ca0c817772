#include "auth/json_tree.h"

#include "base/assert.h"

static void *arena_malloc(void *context, size_t size)
{
    return arena_allocate(context, size);
}

static void *arena_realloc(void *context, void *old, size_t old_size, size_t size)
{
    return arena_resize(context, old, old_size, size);
}

static void arena_free(void *context, void *ptr)
{
    (void)context;
    (void)ptr;
}

static yyjson_alc allocator_of(struct arena *arena)
{
    return (yyjson_alc){.malloc = arena_malloc, .realloc = arena_realloc, .free = arena_free, .ctx = arena};
}

yyjson_doc *json_tree_parse(struct bytes text, struct arena *arena)
{
    const yyjson_alc allocator = allocator_of(arena);
    /* Without YYJSON_READ_INSITU the text is only read. */
    return yyjson_read_opts((char *)(uintptr_t)text.ptr, text.size, YYJSON_READ_NOFLAG, &allocator, NULL);
}

yyjson_mut_doc *json_tree_create(struct arena *arena)
{
    const yyjson_alc allocator = allocator_of(arena);
    return yyjson_mut_doc_new(&allocator);
}

yyjson_mut_doc *json_tree_copy(yyjson_doc *doc, struct arena *arena)
{
    const yyjson_alc allocator = allocator_of(arena);
    return yyjson_doc_mut_copy(doc, &allocator);
}

/* Memory does not run out and the tree is text, so nothing can fail. */
struct bytes json_tree_write(const yyjson_mut_doc *doc, struct arena *arena)
{
    const yyjson_alc allocator = allocator_of(arena);
    size_t size;
    const char *text = yyjson_mut_write_opts(doc, YYJSON_WRITE_NOFLAG, &allocator, &size, NULL);
    ASSERT(text != NULL);
    return bytes_make(text, size);
}

struct bytes json_tree_compact(const yyjson_doc *doc, struct arena *arena)
{
    return json_tree_compact_value(yyjson_doc_get_root((yyjson_doc *)(uintptr_t)doc), arena);
}

struct bytes json_tree_compact_value(const yyjson_val *value, struct arena *arena)
{
    const yyjson_alc allocator = allocator_of(arena);
    size_t size;
    const char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &allocator, &size, NULL);
    ASSERT(text != NULL);
    return bytes_make(text, size);
}
