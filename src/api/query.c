#include "api/query.h"

#include "api/writer.h"
#include "base/assert.h"
#include <stdlib.h>

/* The type of a field, or of a part of one, like Attribute.1.Name. A field without a row is a text. */
enum query_kind {
    QUERY_LIST,    /* X.N: a list of texts; X alone: a list of one */
    QUERY_OBJECTS, /* X.N.…: a list of objects */
    QUERY_MAP,     /* X.N.Name (or .Key) and X.N.Value, or without the N: a map */
    QUERY_NUMBER,  /* X: an integer; any other value stays text, and is refused like one */
};

static const struct query_row {
    struct bytes field;
    struct bytes member; /* of the JSON object */
    enum query_kind kind;
} rows[] = {
    {BYTES("Attribute"), BYTES("Attributes"), QUERY_MAP},
    {BYTES("MessageAttribute"), BYTES("MessageAttributes"), QUERY_MAP},
    {BYTES("MessageSystemAttribute"), BYTES("MessageSystemAttributes"), QUERY_MAP},
    {BYTES("Tag"), BYTES("Tags"), QUERY_MAP},
    {BYTES("AttributeName"), BYTES("AttributeNames"), QUERY_LIST},
    {BYTES("MessageAttributeName"), BYTES("MessageAttributeNames"), QUERY_LIST},
    {BYTES("MessageSystemAttributeName"), BYTES("MessageSystemAttributeNames"), QUERY_LIST},
    {BYTES("TagKey"), BYTES("TagKeys"), QUERY_LIST},
    {BYTES("AWSAccountId"), BYTES("AWSAccountIds"), QUERY_LIST},
    {BYTES("ActionName"), BYTES("Actions"), QUERY_LIST},
    {BYTES("StringListValue"), BYTES("StringListValues"), QUERY_LIST},
    {BYTES("BinaryListValue"), BYTES("BinaryListValues"), QUERY_LIST},
    {BYTES("MessageId"), BYTES("MessageIds"), QUERY_LIST},
    {BYTES("SendMessageBatchRequestEntry"), BYTES("Entries"), QUERY_OBJECTS},
    {BYTES("DeleteMessageBatchRequestEntry"), BYTES("Entries"), QUERY_OBJECTS},
    {BYTES("ChangeMessageVisibilityBatchRequestEntry"), BYTES("Entries"), QUERY_OBJECTS},
    {BYTES("DelaySeconds"), BYTES("DelaySeconds"), QUERY_NUMBER},
    {BYTES("VisibilityTimeout"), BYTES("VisibilityTimeout"), QUERY_NUMBER},
    {BYTES("WaitTimeSeconds"), BYTES("WaitTimeSeconds"), QUERY_NUMBER},
    {BYTES("MaxNumberOfMessages"), BYTES("MaxNumberOfMessages"), QUERY_NUMBER},
    {BYTES("MaxNumberOfMessagesPerSecond"), BYTES("MaxNumberOfMessagesPerSecond"), QUERY_NUMBER},
    {BYTES("MaxResults"), BYTES("MaxResults"), QUERY_NUMBER},
    {BYTES("MaxMessages"), BYTES("MaxMessages"), QUERY_NUMBER},
    {BYTES("SentBefore"), BYTES("SentBefore"), QUERY_NUMBER},
    {BYTES("SentAfter"), BYTES("SentAfter"), QUERY_NUMBER},
};

/* MessageAttribute.1.Value.StringValue of an entry has six parts; deeper names mean nothing. */
#define PARTS_MAX 8u

/* The longest name with a meaning has some 80 bytes. Without this limit, a thousand names of megabytes would have to be
 * compared. */
#define NAME_SIZE_MAX 128u

/* --- the tree of the names' parts --------------------------------------------------------------------------------- */

struct node {
    struct bytes name;  /* the part of the name */
    struct bytes value; /* NULL in .ptr: it has only parts below it */
    struct node *first; /* its children, in their order of appearance */
    struct node *last;
    struct node *next;
    size_t child_count;
};

static struct node *node_find(const struct node *parent, struct bytes name)
{
    /* Parts of one thing mostly follow each other. */
    if (parent->last != NULL && bytes_equal(parent->last->name, name))
        return parent->last;
    for (struct node *child = parent->first; child != NULL; child = child->next)
        if (bytes_equal(child->name, name))
            return child;
    return NULL;
}

static struct node *node_open(struct node *parent, struct bytes name, struct arena *arena)
{
    struct node *node = node_find(parent, name);
    if (node != NULL)
        return node;
    node = arena_allocate(arena, sizeof(*node));
    *node = (struct node){.name = name};
    if (parent->last == NULL)
        parent->first = node;
    else
        parent->last->next = node;
    parent->last = node;
    parent->child_count++;
    return node;
}

static void node_add_field(struct node *root, const struct form_field *field, struct arena *arena)
{
    struct node *node = root;
    struct bytes rest = field->name;
    if (rest.size > NAME_SIZE_MAX)
        return;
    for (unsigned parts = 0; rest.size > 0; parts++) {
        if (parts == PARTS_MAX)
            return;
        const uint8_t *dot = memchr(rest.ptr, '.', rest.size);
        size_t size = dot == NULL ? rest.size : (size_t)(dot - rest.ptr);
        node = node_open(node, bytes_make(rest.ptr, size), arena);
        rest = bytes_skip(rest, dot == NULL ? size : size + 1);
    }
    if (node != root && node->value.ptr == NULL)
        node->value = field->value; /* if a field appears twice, the first counts */
}

struct item {
    uint64_t number;
    const struct node *node;
};

static int item_compare(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* The children of a node whose names are numbers, by number. */
static struct item *node_items(const struct node *node, struct arena *arena, size_t *count)
{
    struct item *items = arena_allocate(arena, (node->child_count + 1) * sizeof(*items));
    *count = 0;
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        items[*count].node = child;
        if (bytes_to_u64(child->name, &items[*count].number))
            (*count)++;
    }
    qsort(items, *count, sizeof(*items), item_compare);
    return items;
}

/* --- the JSON text ------------------------------------------------------------------------------------------------ */

struct rendering {
    struct bytes action;
    struct arena *arena;
    struct writer writer;
};

static void render_members(struct rendering *rendering, const struct node *node);

static void render_value(struct rendering *rendering, const struct node *node)
{
    if (node != NULL && node->first != NULL) {
        writer_object_begin(&rendering->writer, NULL);
        render_members(rendering, node);
        writer_object_end(&rendering->writer);
        return;
    }
    bool has_value = node != NULL && node->value.ptr != NULL;
    writer_text(&rendering->writer, NULL, has_value ? node->value : BYTES(""));
}

static void render_pair(struct rendering *rendering, const struct node *pair)
{
    const struct node *name = node_find(pair, BYTES("Name"));
    if (name == NULL)
        name = node_find(pair, BYTES("Key"));
    writer_name(&rendering->writer, name != NULL && name->value.ptr != NULL ? name->value : BYTES(""));
    render_value(rendering, node_find(pair, BYTES("Value")));
}

static void render_map(struct rendering *rendering, const struct node *node)
{
    size_t count;
    const struct item *items = node_items(node, rendering->arena, &count);
    writer_object_begin(&rendering->writer, NULL);
    if (node_find(node, BYTES("Name")) != NULL || node_find(node, BYTES("Key")) != NULL)
        render_pair(rendering, node);
    for (size_t i = 0; i < count; i++)
        render_pair(rendering, items[i].node);
    writer_object_end(&rendering->writer);
}

static void render_list(struct rendering *rendering, const struct node *node, enum query_kind kind)
{
    size_t count;
    const struct item *items = node_items(node, rendering->arena, &count);
    writer_list_begin(&rendering->writer, NULL);
    if (kind == QUERY_LIST && node->value.ptr != NULL)
        writer_text(&rendering->writer, NULL, node->value);
    for (size_t i = 0; i < count; i++) {
        if (kind == QUERY_OBJECTS && items[i].node->first == NULL)
            continue;
        render_value(rendering, items[i].node);
    }
    writer_list_end(&rendering->writer);
}

/* A decimal integer with an optional minus; the whole text. */
static bool text_to_integer(struct bytes text, int64_t *value)
{
    bool is_negative = text.size > 1 && text.ptr[0] == '-';
    uint64_t magnitude;
    if (!bytes_to_u64(is_negative ? bytes_skip(text, 1) : text, &magnitude) || magnitude > INT64_MAX)
        return false;
    *value = is_negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

static void render_number(struct rendering *rendering, const struct node *node)
{
    int64_t number;
    if (text_to_integer(node->value, &number))
        writer_integer(&rendering->writer, NULL, number);
    else
        writer_text(&rendering->writer, NULL, node->value);
}

/* Only CreateQueue calls its tags "tags". */
static struct bytes member_of(const struct rendering *rendering, const struct query_row *row)
{
    bool is_create = bytes_equal(rendering->action, BYTES("CreateQueue"));
    return is_create && bytes_equal(row->member, BYTES("Tags")) ? BYTES("tags") : row->member;
}

/* SDKs send an empty list as its member's name without a value ("Entries="): that is not a text. */
static bool is_empty_collection(const struct node *node)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (rows[i].kind != QUERY_NUMBER && bytes_equal(rows[i].member, node->name))
            return true;
    return false;
}

/* The row of a field, or NULL. */
static const struct query_row *find_row(struct bytes field)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (bytes_equal(rows[i].field, field))
            return &rows[i];
    return NULL;
}

static void render_member(struct rendering *rendering, const struct node *node)
{
    const struct query_row *row = find_row(node->name);
    bool is_collection = row != NULL && row->kind != QUERY_NUMBER;
    if (!is_collection && (node->value.ptr == NULL || is_empty_collection(node)))
        return;
    writer_name(&rendering->writer, row == NULL ? node->name : member_of(rendering, row));
    if (row == NULL)
        writer_text(&rendering->writer, NULL, node->value);
    else if (row->kind == QUERY_NUMBER)
        render_number(rendering, node);
    else if (row->kind == QUERY_MAP)
        render_map(rendering, node);
    else
        render_list(rendering, node, row->kind);
}

static void render_members(struct rendering *rendering, const struct node *node)
{
    for (const struct node *child = node->first; child != NULL; child = child->next)
        render_member(rendering, child);
}

void query_to_json(const struct form *form, struct bytes action, struct bytes queue_url, struct arena *arena,
                   struct buffer *out)
{
    struct node root = {.first = NULL};
    for (size_t i = 0; i < form->count; i++)
        node_add_field(&root, &form->fields[i], arena);
    if (queue_url.size > 0 && node_find(&root, BYTES("QueueUrl")) == NULL)
        node_add_field(&root, &(struct form_field){.name = BYTES("QueueUrl"), .value = queue_url}, arena);
    struct rendering rendering = {.action = action, .arena = arena, .writer = writer_make(out)};
    writer_object_begin(&rendering.writer, NULL);
    render_members(&rendering, &root);
    writer_object_end(&rendering.writer);
}
