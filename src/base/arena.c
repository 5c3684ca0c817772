#include "base/arena.h"

#include "base/assert.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_BLOCK_SIZE (16 * 1024) /* an ordinary block, with its header */
#define ARENA_ALIGNMENT 16

struct arena_block {
    struct arena_block *next_owned; /* the block before it */
    size_t size;                    /* of `data` */
    _Alignas(ARENA_ALIGNMENT) uint8_t data[];
};

#define ARENA_DATA_SIZE (ARENA_BLOCK_SIZE - sizeof(struct arena_block))

static_assert(sizeof(struct arena_block) % ARENA_ALIGNMENT == 0, "the data of a block begins aligned");
static_assert(ARENA_DATA_SIZE % ARENA_ALIGNMENT == 0, "an ordinary block holds whole units");

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static void free_blocks(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next_owned;
        free(block);
        block = next;
    }
}

void arena_deinit(struct arena *arena)
{
    free_blocks(arena->blocks_owned);
    *arena = (struct arena){0};
}

void arena_share(struct arena *arena, struct arena_stock *stock)
{
    ASSERT(arena->blocks_owned == NULL);
    arena->stock = stock;
}

void arena_stock_init(struct arena_stock *stock)
{
    *stock = (struct arena_stock){0};
}

void arena_stock_deinit(struct arena_stock *stock)
{
    free_blocks(stock->blocks_owned);
    *stock = (struct arena_stock){0};
}

static void stock_put(struct arena_stock *stock, struct arena_block *block)
{
    if (stock->count >= ARENA_STOCK_MAX) {
        free(block);
        return;
    }
    block->next_owned = stock->blocks_owned;
    stock->blocks_owned = block;
    stock->count++;
}

/* Frees all blocks but one of ordinary size, and returns that one; NULL: there was none. */
static struct arena_block *arena_drop_blocks(struct arena *arena)
{
    struct arena_block *kept = NULL;
    struct arena_block *block = arena->blocks_owned;
    while (block != NULL) {
        struct arena_block *next = block->next_owned;
        if (kept == NULL && block->size == ARENA_DATA_SIZE)
            kept = block;
        else
            free(block);
        block = next;
    }
    return kept;
}

void arena_reset(struct arena *arena)
{
    struct arena_stock *stock = arena->stock;
    struct arena_block *kept = arena_drop_blocks(arena);
    *arena = (struct arena){.stock = stock};
    if (kept == NULL)
        return;
    poison_put(kept->data, kept->size);
    if (stock != NULL) {
        stock_put(stock, kept);
        return;
    }
    kept->next_owned = NULL;
    arena->blocks_owned = kept;
    arena->next = kept->data;
    arena->left = kept->size;
}

static struct arena_block *arena_block_create(size_t size)
{
    struct arena_block *block = memory_allocate(sizeof(*block) + size);
    block->next_owned = NULL;
    block->size = size;
    poison_put(block->data, size);
    return block;
}

/* A block of its own for `size` bytes of `taken`, linked behind the current one, whose rest stays in use. */
static void *arena_allocate_large(struct arena *arena, size_t size, size_t taken)
{
    struct arena_block *block = arena_block_create(taken);
    poison_lift(block->data, size);
    struct arena_block **link = &arena->blocks_owned;
    if (*link != NULL)
        link = &(*link)->next_owned;
    block->next_owned = *link;
    *link = block;
    return block->data;
}

/* Goes on in another ordinary block. */
static void arena_begin_block(struct arena *arena)
{
    struct arena_stock *stock = arena->stock;
    struct arena_block *block = stock == NULL ? NULL : stock->blocks_owned;
    if (block != NULL) {
        stock->blocks_owned = block->next_owned;
        stock->count--;
    } else {
        block = arena_block_create(ARENA_DATA_SIZE);
    }
    block->next_owned = arena->blocks_owned;
    arena->blocks_owned = block;
    arena->next = block->data;
    arena->left = block->size;
}

void *arena_allocate(struct arena *arena, size_t size)
{
    ASSERT(size < SIZE_MAX / 4);
    /* Zero bytes take a unit as well, so that each allocation has its own address. */
    size_t taken = size == 0 ? ARENA_ALIGNMENT : (size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (taken > arena->left) {
        /* Above a quarter of a block, starting an ordinary one would throw away too much of the current one. */
        bool has_block = arena->next != NULL;
        if (taken > (has_block ? ARENA_DATA_SIZE / 4 : ARENA_DATA_SIZE))
            return arena_allocate_large(arena, size, taken);
        arena_begin_block(arena);
    }
    uint8_t *at = arena->next;
    arena->next += taken;
    arena->left -= taken;
    poison_lift(at, size);
    return at;
}

/* The link to the newest block that was made for one large allocation, if that allocation is `data`; else NULL. */
static struct arena_block **arena_find_large(struct arena *arena, const void *data)
{
    struct arena_block **link = &arena->blocks_owned;
    for (unsigned i = 0; i < 2 && *link != NULL; i++, link = &(*link)->next_owned)
        if ((*link)->data == data && (*link)->size > ARENA_DATA_SIZE)
            return link;
    return NULL;
}

void *arena_resize(struct arena *arena, void *old, size_t old_size, size_t size)
{
    struct arena_block **link = arena_find_large(arena, old);
    if (link == NULL || size <= ARENA_DATA_SIZE) {
        void *moved = arena_allocate(arena, size);
        memcpy(moved, old, old_size < size ? old_size : size);
        poison_put(old, old_size);
        return moved;
    }
    ASSERT(size < SIZE_MAX / 4);
    *link = memory_resize(*link, sizeof(struct arena_block) + size);
    (*link)->size = size;
    poison_lift((*link)->data, size); /* where it shrinks in place, or grows over what was rounded up */
    return (*link)->data;
}

size_t arena_size(const struct arena *arena)
{
    size_t size = 0;
    for (const struct arena_block *block = arena->blocks_owned; block != NULL; block = block->next_owned)
        size += sizeof(*block) + block->size;
    return size;
}

struct bytes arena_copy(struct arena *arena, struct bytes view)
{
    uint8_t *at = arena_allocate(arena, view.size);
    if (view.size > 0)
        memcpy(at, view.ptr, view.size);
    return bytes_make(at, view.size);
}

struct bytes arena_format(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);

    size_t room = (size_t)length + 1; /* vsnprintf writes a NUL, which the view leaves out */
    char *at = arena_allocate(arena, room);
    va_start(arguments, format);
    int again = vsnprintf(at, room, format, arguments);
    va_end(arguments);
    ASSERT(again == length);
    return bytes_make(at, (size_t)length);
}
