/* MaxResults and NextToken of lists.
 *
 * A token is the place where the next page begins, sealed under the namespace's key. It outlives a restart and a
 * takeover, and no state is kept for it. Some places tell of queues that the caller does not cover, and a place that
 * somebody made up could be one that no walk has been at.
 *
 * Format, in base64 with the URL alphabet:
 *   tag    16 bytes: the keyed hash of the action's name, a zero and the place
 *   place  xor keyed hashes of the tag and 0, 1, 2 ..., 16 bytes each
 * Source: P. Rogaway, T. Shrimpton, "Deterministic Authenticated-Encryption", 2006 (SIV). */
#include "api/action.h"
#include "api/queue_walk.h"
#include "base/base64.h"

#define TAG_SIZE 16u
#define TOKEN_SIZE_MAX 1024u

static void put_hash(const struct bytes *parts, size_t count, struct call *call, uint8_t hash[TAG_SIZE])
{
    const struct digest_tag wide = digest_keyed_wide(call_digest(call), parts, count);
    bytes_put_u64(hash, wide.low);
    bytes_put_u64(hash + 8, wide.high);
}

static void make_tag(struct call *call, struct bytes place, uint8_t tag[TAG_SIZE])
{
    const struct bytes parts[] = {BYTES("page tag"), bytes_from_string(call->exchange->action), BYTES("\0"), place};
    put_hash(parts, ARRAY_LENGTH(parts), call, tag);
}

/* Turns a place into its sealed form, and back. */
static void mask(struct call *call, const uint8_t tag[TAG_SIZE], struct bytes from, uint8_t *to)
{
    uint8_t block[4], hash[TAG_SIZE] = {0};
    const struct bytes parts[] = {BYTES("page mask"), bytes_make(tag, TAG_SIZE), bytes_make(block, sizeof(block))};
    for (size_t i = 0; i < from.size; i++) {
        if (i % TAG_SIZE == 0) {
            bytes_put_u32(block, (uint32_t)(i / TAG_SIZE));
            put_hash(parts, ARRAY_LENGTH(parts), call, hash);
        }
        to[i] = from.ptr[i] ^ hash[i % TAG_SIZE];
    }
}

void call_seal_token(struct call *call, struct bytes place)
{
    const size_t size = TAG_SIZE + place.size, text_size = BASE64_TEXT_SIZE(size);
    uint8_t *sealed = arena_allocate(call->arena, size);
    char *text = arena_allocate(call->arena, text_size);
    make_tag(call, place, sealed);
    mask(call, sealed, place, sealed + TAG_SIZE);
    base64_encode(BASE64_URL, bytes_make(sealed, size), text);
    writer_text(call->reply, "NextToken", bytes_make(text, text_size));
}

enum error call_fail_token(struct call *call)
{
    return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Invalid or expired next token.");
}

enum error call_open_token(struct call *call, struct bytes *place, bool *is_given)
{
    struct bytes text = {NULL, 0};
    const enum error error = params_text(&call->params, "NextToken", &text);
    *is_given = text.ptr != NULL;
    if (error != OK || !*is_given)
        return error;
    const size_t size = BASE64_DATA_SIZE(text.size);
    unsigned spare_bits;
    if (size < TAG_SIZE || size > TOKEN_SIZE_MAX)
        return call_fail_token(call);
    uint8_t *sealed = arena_allocate(call->arena, size), tag[TAG_SIZE];
    if (!base64_decode(BASE64_URL, text, sealed, &spare_bits) || spare_bits != 0)
        return call_fail_token(call);
    const struct bytes opened = bytes_make(sealed + TAG_SIZE, size - TAG_SIZE);
    mask(call, sealed, opened, sealed + TAG_SIZE);
    make_tag(call, opened, tag);
    if (!bytes_equal_constant_time(bytes_make(tag, TAG_SIZE), bytes_make(sealed, TAG_SIZE)))
        return call_fail_token(call);
    *place = opened;
    return OK;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static enum error read_numbers(struct call *call, uint64_t *numbers, size_t count, struct bytes *rest, bool *is_given)
{
    struct bytes place = {NULL, 0};
    const enum error error = call_open_token(call, &place, is_given);
    if (error != OK || !*is_given)
        return error;
    if (place.size < count * sizeof(*numbers))
        return call_fail_token(call);
    for (size_t i = 0; i < count; i++)
        numbers[i] = bytes_get_u64(place.ptr + i * sizeof(*numbers));
    *rest = bytes_skip(place, count * sizeof(*numbers));
    return OK;
}

enum error call_read_token(struct call *call, uint64_t *numbers, size_t count, bool *is_given)
{
    struct bytes rest = {NULL, 0};
    const enum error error = read_numbers(call, numbers, count, &rest, is_given);
    return error == OK && rest.size > 0 ? call_fail_token(call) : error;
}

void call_write_token(struct call *call, const uint64_t *numbers, size_t count)
{
    call_write_queue_token(call, numbers, count, bytes_make(NULL, 0));
}

enum error call_read_queue_token(struct call *call, uint64_t *numbers, size_t count, struct bytes *name, bool *is_given)
{
    const enum error error = read_numbers(call, numbers, count, name, is_given);
    *name = queue_walk_open_name(*name);
    return error;
}

void call_write_queue_token(struct call *call, const uint64_t *numbers, size_t count, struct bytes name)
{
    const size_t size = count * sizeof(*numbers);
    uint8_t *place = arena_allocate(call->arena, size + name.size);
    for (size_t i = 0; i < count; i++)
        bytes_put_u64(place + i * sizeof(*numbers), numbers[i]);
    if (name.size > 0)
        memcpy(place + size, name.ptr, name.size);
    call_seal_token(call, bytes_make(place, size + name.size));
}

/* --- parameters of most lists ------------------------------------------------------------------------------------- */

enum error call_results_max(struct call *call, int64_t *results_max, bool *is_given)
{
    *results_max = LIST_RESULTS_MAX;
    enum error error = params_integer(&call->params, "MaxResults", results_max, is_given);
    if (error != OK)
        return error;
    if (*results_max < 1 || *results_max > LIST_RESULTS_MAX)
        return call_fail(
            call, ERROR_INVALID_PARAMETER_VALUE,
            "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and "
            "1000.");
    return OK;
}

enum error call_page(struct call *call, uint64_t *from, int64_t *results_max)
{
    bool is_given;
    const enum error error = call_results_max(call, results_max, &is_given);
    return error == OK ? call_read_token(call, from, 1, &is_given) : error;
}

enum error call_page_by_name(struct call *call, struct bytes *from, int64_t *results_max, bool *is_paged)
{
    bool is_given;
    struct bytes token = {NULL, 0};
    enum error error = params_text(&call->params, "NextToken", &token);
    if (error == OK)
        error = call_results_max(call, results_max, is_paged);
    if (error != OK || token.size == 0) /* in XML a member may be there and say nothing */
        return error;
    error = call_open_token(call, from, &is_given);
    *from = queue_walk_open_name(*from);
    return error;
}
