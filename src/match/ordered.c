/* Nodes hold up to 64 entries: 1.5 KiB of keys, of which a search touches six cache lines, and three levels reach
 * 100,000 entries. A node (but the root) is never less than a quarter full; what falls below takes from a neighbour or
 * merges with it. Between a quarter and the half to which a split leaves a node there is room, so that an entry that
 * comes and goes does not split and merge each time.
 *
 * The key at i > 0 of an inner node is a bound: all keys below child i are at least it, all below child i - 1 are less.
 * It need not be there any more itself. The key at 0 means nothing. */
#include "match/ordered.h"

#include "base/accounted.h"
#include "base/assert.h"
#include <stdlib.h>

#define NODE_ENTRIES_MAX 64u
#define NODE_ENTRIES_MIN (NODE_ENTRIES_MAX / 4)
#define NODE_MERGE_MAX (NODE_ENTRIES_MAX * 3 / 4) /* two neighbours that have no more than this together become one */
#define ORDERED_DEPTH_MAX 12u                     /* 16^12 entries */

struct ordered_node {
    uint32_t count;
    bool is_leaf;
    struct ordered_node *previous; /* leaves: in order of their keys */
    struct ordered_node *next;
    struct ordered_key keys[NODE_ENTRIES_MAX];
    union {
        uint32_t slots[NODE_ENTRIES_MAX];                /* leaves; no more memory is allocated for them */
        struct ordered_node *children[NODE_ENTRIES_MAX]; /* owned */
    };
};

/* The path from the root to a leaf. */
struct ordered_path {
    struct ordered_node *nodes[ORDERED_DEPTH_MAX];
    uint32_t indexes[ORDERED_DEPTH_MAX]; /* of the child that was taken; in the leaf, of the entry */
    uint32_t depth;                      /* nodes; the last is the leaf */
};

/* Without a jump, since the search below could not foresee it. */
static inline bool key_is_below(const struct ordered_key *a, const struct ordered_key *b)
{
    bool is_below = a->number < b->number;
    is_below = (a->sort_key < b->sort_key) | ((a->sort_key == b->sort_key) & is_below);
    return (a->bucket < b->bucket) | ((a->bucket == b->bucket) & is_below);
}

/* How many of the node's keys from `first` on are below `key`, plus `first`. */
static uint32_t node_lower(const struct ordered_node *node, uint32_t first, const struct ordered_key *key)
{
    uint32_t left = node->count - first;
    while (left > 0) {
        uint32_t half = left / 2;
        bool is_below = key_is_below(&node->keys[first + half], key);
        first = is_below ? first + half + 1 : first;
        left = is_below ? left - half - 1 : half;
    }
    return first;
}

/* Fetches the keys that a search of the node may ask for all at once: in a large tree each would be a wait for memory,
 * one after the other. */
static inline void node_prefetch(const struct ordered_node *node)
{
    __builtin_prefetch(node);
    for (uint32_t i = NODE_ENTRIES_MAX / 16; i < NODE_ENTRIES_MAX; i += NODE_ENTRIES_MAX / 16)
        __builtin_prefetch(&node->keys[i]);
}

/* The child below which a key stands, if it is there. */
static uint32_t node_child(const struct ordered_node *node, const struct ordered_key *key)
{
    uint32_t index = node_lower(node, 1, key);
    return index < node->count && !key_is_below(key, &node->keys[index]) ? index : index - 1;
}

static struct ordered_node *node_create(bool is_leaf)
{
    size_t size = is_leaf ? offsetof(struct ordered_node, slots) + NODE_ENTRIES_MAX * sizeof(uint32_t)
                          : sizeof(struct ordered_node);
    struct ordered_node *node = accounted_allocate(size);
    node->count = 0;
    node->is_leaf = is_leaf;
    node->previous = node->next = NULL;
    return node;
}

/* Moves `count` entries inside a node or between nodes of one kind; they may overlap. */
static void node_move(struct ordered_node *to, uint32_t to_index, const struct ordered_node *from, uint32_t from_index,
                      uint32_t count)
{
    memmove(&to->keys[to_index], &from->keys[from_index], count * sizeof(to->keys[0]));
    if (from->is_leaf)
        memmove(&to->slots[to_index], &from->slots[from_index], count * sizeof(to->slots[0]));
    else
        memmove(&to->children[to_index], &from->children[from_index], count * sizeof(to->children[0]));
}

/* Opens a gap for an entry, and gives it its key. */
static void node_open(struct ordered_node *node, uint32_t index, const struct ordered_key *key)
{
    ASSERT(node->count < NODE_ENTRIES_MAX && index <= node->count);
    node_move(node, index + 1, node, index, node->count - index);
    node->keys[index] = *key;
    node->count++;
}

static void node_close(struct ordered_node *node, uint32_t index)
{
    ASSERT(index < node->count);
    node_move(node, index, node, index + 1, node->count - index - 1);
    node->count--;
}

/* Moves the upper half of a full node into a new one behind it. */
static struct ordered_node *node_split(struct ordered_node *node)
{
    struct ordered_node *upper = node_create(node->is_leaf);
    uint32_t kept = node->count / 2;
    node_move(upper, 0, node, kept, node->count - kept);
    upper->count = node->count - kept;
    node->count = kept;
    if (node->is_leaf) {
        upper->previous = node;
        upper->next = node->next;
        if (upper->next != NULL)
            upper->next->previous = upper;
        node->next = upper;
    }
    return upper;
}

static struct ordered_path ordered_descend(const struct ordered *ordered, const struct ordered_key *key)
{
    struct ordered_path path = {.depth = 0};
    struct ordered_node *node = ordered->root_owned;
    for (;;) {
        ASSERT(path.depth < ORDERED_DEPTH_MAX);
        uint32_t index = node->is_leaf ? node_lower(node, 0, key) : node_child(node, key);
        path.nodes[path.depth] = node;
        path.indexes[path.depth++] = index;
        if (node->is_leaf)
            return path;
        node = node->children[index];
        node_prefetch(node);
    }
}

void ordered_init(struct ordered *ordered)
{
    *ordered = (struct ordered){.root_owned = NULL};
}

static void node_destroy(struct ordered_node *node)
{
    if (!node->is_leaf)
        for (uint32_t i = 0; i < node->count; i++)
            node_destroy(node->children[i]);
    accounted_free(node);
}

void ordered_deinit(struct ordered *ordered)
{
    if (ordered->root_owned != NULL)
        node_destroy(ordered->root_owned);
    ordered_init(ordered);
}

/* A root over two halves of the old one. */
static void ordered_raise(struct ordered *ordered, struct ordered_node *upper)
{
    struct ordered_node *root = node_create(false);
    root->children[0] = ordered->root_owned;
    root->children[1] = upper;
    root->keys[0] = (struct ordered_key){0};
    root->keys[1] = upper->keys[0];
    root->count = 2;
    ordered->root_owned = root;
}

/* Splits the full nodes on the path, from the leaf up. The path is not good any more. */
static void ordered_split(struct ordered *ordered, const struct ordered_path *path)
{
    for (uint32_t at = path->depth; at-- > 0;) {
        struct ordered_node *node = path->nodes[at];
        if (node->count < NODE_ENTRIES_MAX)
            return;
        struct ordered_node *upper = node_split(node);
        if (at == 0) {
            ordered_raise(ordered, upper);
            return;
        }
        struct ordered_node *parent = path->nodes[at - 1];
        uint32_t index = path->indexes[at - 1] + 1;
        node_open(parent, index, &upper->keys[0]);
        parent->children[index] = upper;
    }
}

void ordered_insert(struct ordered *ordered, const struct ordered_key *key, uint32_t slot)
{
    if (ordered->root_owned == NULL)
        ordered->root_owned = node_create(true);
    struct ordered_path path = ordered_descend(ordered, key);
    struct ordered_node *leaf = path.nodes[path.depth - 1];
    uint32_t index = path.indexes[path.depth - 1];
    ASSERT(index == leaf->count || key_is_below(key, &leaf->keys[index]));
    node_open(leaf, index, key);
    leaf->slots[index] = slot;
    ordered->count++;
    ordered_split(ordered, &path); /* in advance: no node is left full */
}

/* Takes all of `upper`, the child at `index` of `parent`, into the one before it. */
static void node_merge(struct ordered_node *parent, uint32_t index)
{
    struct ordered_node *lower = parent->children[index - 1], *upper = parent->children[index];
    if (!upper->is_leaf)
        upper->keys[0] = parent->keys[index];
    node_move(lower, lower->count, upper, 0, upper->count);
    lower->count += upper->count;
    if (upper->is_leaf) {
        lower->next = upper->next;
        if (upper->next != NULL)
            upper->next->previous = lower;
    }
    accounted_free(upper);
    node_close(parent, index);
}

/* Shares out the entries of the children at index - 1 and index evenly. */
static void node_balance(struct ordered_node *parent, uint32_t index)
{
    struct ordered_node *lower = parent->children[index - 1], *upper = parent->children[index];
    uint32_t half = (lower->count + upper->count) / 2;
    if (!upper->is_leaf)
        upper->keys[0] = parent->keys[index];
    if (lower->count < half) {
        uint32_t moved = half - lower->count;
        node_move(lower, lower->count, upper, 0, moved);
        node_move(upper, 0, upper, moved, upper->count - moved);
        upper->count -= moved;
    } else {
        uint32_t moved = lower->count - half;
        node_move(upper, moved, upper, 0, upper->count);
        node_move(upper, 0, lower, half, moved);
        upper->count += moved;
    }
    lower->count = half;
    parent->keys[index] = upper->keys[0];
}

/* Fills nodes on the path that have become too empty, from the leaf up. */
static void ordered_refill(struct ordered *ordered, const struct ordered_path *path)
{
    for (uint32_t at = path->depth; at-- > 1;) {
        if (path->nodes[at]->count >= NODE_ENTRIES_MIN)
            return;
        struct ordered_node *parent = path->nodes[at - 1];
        ASSERT(parent->count > 1);
        uint32_t index = path->indexes[at - 1] > 0 ? path->indexes[at - 1] : 1;
        if (parent->children[index - 1]->count + parent->children[index]->count <= NODE_MERGE_MAX)
            node_merge(parent, index);
        else
            node_balance(parent, index);
    }
    struct ordered_node *root = ordered->root_owned;
    if (root->is_leaf ? root->count > 0 : root->count > 1)
        return;
    ordered->root_owned = root->is_leaf ? NULL : root->children[0];
    accounted_free(root);
}

void ordered_remove(struct ordered *ordered, const struct ordered_key *key)
{
    ASSERT(ordered->root_owned != NULL);
    struct ordered_path path = ordered_descend(ordered, key);
    struct ordered_node *leaf = path.nodes[path.depth - 1];
    uint32_t index = path.indexes[path.depth - 1];
    ASSERT(index < leaf->count && !key_is_below(key, &leaf->keys[index]));
    node_close(leaf, index);
    ordered->count--;
    ordered_refill(ordered, &path);
}

/* The position of the first key that is not below `key` in the leaf where it would stand: perhaps behind its last
 * entry. */
static struct ordered_cursor ordered_lower(const struct ordered *ordered, const struct ordered_key *key)
{
    struct ordered_node *node = ordered->root_owned;
    while (!node->is_leaf) {
        node = node->children[node_child(node, key)];
        node_prefetch(node);
    }
    return (struct ordered_cursor){.leaf = node, .index = node_lower(node, 0, key)};
}

struct ordered_cursor ordered_seek(const struct ordered *ordered, const struct ordered_key *key)
{
    if (ordered->root_owned == NULL)
        return (struct ordered_cursor){.leaf = NULL};
    struct ordered_cursor cursor = ordered_lower(ordered, key);
    return cursor.index < cursor.leaf->count ? cursor : (struct ordered_cursor){.leaf = cursor.leaf->next, .index = 0};
}

struct ordered_cursor ordered_seek_below(const struct ordered *ordered, const struct ordered_key *key)
{
    if (ordered->root_owned == NULL)
        return (struct ordered_cursor){.leaf = NULL};
    return ordered_previous(ordered_lower(ordered, key));
}

struct ordered_cursor ordered_next(struct ordered_cursor cursor)
{
    if (cursor.index + 1 < cursor.leaf->count)
        return (struct ordered_cursor){.leaf = cursor.leaf, .index = cursor.index + 1};
    return (struct ordered_cursor){.leaf = cursor.leaf->next, .index = 0};
}

struct ordered_cursor ordered_previous(struct ordered_cursor cursor)
{
    if (cursor.index > 0)
        return (struct ordered_cursor){.leaf = cursor.leaf, .index = cursor.index - 1};
    struct ordered_node *leaf = cursor.leaf->previous;
    return (struct ordered_cursor){.leaf = leaf, .index = leaf == NULL ? 0 : leaf->count - 1};
}

const struct ordered_key *ordered_key(struct ordered_cursor cursor)
{
    return &cursor.leaf->keys[cursor.index];
}

uint32_t ordered_slot(struct ordered_cursor cursor)
{
    return cursor.leaf->slots[cursor.index];
}

#define SIGN_BIT (UINT64_C(1) << 63)

uint64_t ordered_sort_key(double number)
{
    uint64_t bits;
    double without_minus_zero = number + 0.0;
    memcpy(&bits, &without_minus_zero, sizeof(bits));
    return (bits & SIGN_BIT) != 0 ? ~bits : bits | SIGN_BIT;
}

double ordered_number(uint64_t sort_key)
{
    uint64_t bits = (sort_key & SIGN_BIT) != 0 ? sort_key & ~SIGN_BIT : ~sort_key;
    double number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* What a walk over the whole tree has seen. */
struct ordered_walk {
    const struct ordered_node *leaf; /* the last one */
    const struct ordered_key *key;   /* the last one */
    uint32_t leaf_depth;
    size_t count;
};

/* Keys of a leaf lie in [low, high); NULL: no bound. */
static void node_check_leaf(const struct ordered_node *leaf, const struct ordered_key *low,
                            const struct ordered_key *high, struct ordered_walk *walk)
{
    ASSERT(leaf->previous == walk->leaf);
    ASSERT(walk->leaf == NULL || walk->leaf->next == leaf);
    for (uint32_t i = 0; i < leaf->count; i++) {
        ASSERT(walk->key == NULL || key_is_below(walk->key, &leaf->keys[i]));
        ASSERT(low == NULL || !key_is_below(&leaf->keys[i], low));
        ASSERT(high == NULL || key_is_below(&leaf->keys[i], high));
        walk->key = &leaf->keys[i];
    }
    walk->leaf = leaf;
    walk->count += leaf->count;
}

static void node_check(const struct ordered_node *node, uint32_t depth, const struct ordered_key *low,
                       const struct ordered_key *high, struct ordered_walk *walk)
{
    ASSERT(node->count < NODE_ENTRIES_MAX);
    ASSERT(node->count >= (depth > 0 ? NODE_ENTRIES_MIN : node->is_leaf ? 1 : 2));
    if (node->is_leaf) {
        ASSERT(walk->leaf == NULL || walk->leaf_depth == depth);
        walk->leaf_depth = depth;
        node_check_leaf(node, low, high, walk);
        return;
    }
    for (uint32_t i = 0; i < node->count; i++)
        node_check(node->children[i], depth + 1, i > 0 ? &node->keys[i] : low,
                   i + 1 < node->count ? &node->keys[i + 1] : high, walk);
}

void ordered_check(const struct ordered *ordered)
{
    struct ordered_walk walk = {.leaf = NULL};
    if (ordered->root_owned != NULL)
        node_check(ordered->root_owned, 0, NULL, NULL, &walk);
    ASSERT(walk.leaf == NULL || walk.leaf->next == NULL);
    ASSERT(walk.count == ordered->count);
}
