#include "core/identity.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/buffer.h"

/* Each hashed text begins with one of these, so a hash for one purpose never serves another. */
enum purpose {
    PURPOSE_MESSAGE = 1,
    PURPOSE_HANDLE = 2,
    PURPOSE_XOR_MESSAGE = 3,
    PURPOSE_XOR_BATCH = 4,
    PURPOSE_BATCH_HIGH = 5,
    PURPOSE_BATCH_LOW = 6,
    PURPOSE_MOVE_HIGH = 7,
    PURPOSE_MOVE_LOW = 8,
    PURPOSE_MATCH = 9,
};

static_assert(MESSAGE_ID_SIZE == UUID_SIZE && IDENTITY_TEXT_SIZE == UUID_TEXT_SIZE, "ids are UUIDs");

#define HANDLE_BODY_SIZE 20u
#define HANDLE_SIZE (HANDLE_BODY_SIZE + 8u)
static_assert(HANDLE_TEXT_SIZE == BASE64_TEXT_SIZE(HANDLE_SIZE), "base64 without padding");

/* Sets version 8 ("custom") and the variant of RFC 9562, over the bits at their places. */
static void shape_uuid(uint8_t id[MESSAGE_ID_SIZE])
{
    id[6] = (uint8_t)(0x80 | (id[6] & 0x0f));
    id[8] = (uint8_t)(0x80 | (id[8] & 0x3f));
}

static uint64_t keyed_number(struct digest *digest, enum purpose purpose, uint64_t number)
{
    uint8_t named[9] = {(uint8_t)purpose};
    bytes_put_u64(named + 1, number);
    return digest_keyed(digest, bytes_make(named, sizeof(named)));
}

uint64_t identity_xor_unit(struct digest *digest, uint64_t number, bool is_batch)
{
    uint64_t id = keyed_number(digest, is_batch ? PURPOSE_XOR_BATCH : PURPOSE_XOR_MESSAGE, number);
    return id == 0 ? 1 : id;
}

static void keyed_uuid(struct digest *digest, enum purpose high, enum purpose low, uint64_t number,
                       uint8_t id[MESSAGE_ID_SIZE])
{
    bytes_put_u64(id, keyed_number(digest, high, number));
    bytes_put_u64(id + 8, keyed_number(digest, low, number));
    shape_uuid(id);
}

void identity_batch(struct digest *digest, uint64_t batch, uint8_t id[MESSAGE_ID_SIZE])
{
    keyed_uuid(digest, PURPOSE_BATCH_HIGH, PURPOSE_BATCH_LOW, batch, id);
}

void identity_move_task(struct digest *digest, uint64_t task, uint8_t id[MESSAGE_ID_SIZE])
{
    keyed_uuid(digest, PURPOSE_MOVE_HIGH, PURPOSE_MOVE_LOW, task, id);
}

/* A UUID whose first 56 bits, apart from version and variant, are the number. */
static void numbered_uuid(struct digest *digest, enum purpose purpose, uint64_t number, uint8_t id[MESSAGE_ID_SIZE])
{
    ASSERT(number > 0 && number <= IDENTITY_NUMBER_MAX);
    uint64_t hash = keyed_number(digest, purpose, number);
    for (unsigned i = 0; i < 6; i++)
        id[i] = (uint8_t)(number >> (8 * (6 - i)));
    id[6] = (uint8_t)((number >> 4) & 0x0f);
    id[7] = (uint8_t)((number & 0x0f) << 4 | (hash & 0x0f));
    bytes_put_u64(id + 8, hash);
    shape_uuid(id);
}

/* The number inside, or 0 if the id was not made like this. */
static uint64_t number_of_uuid(struct digest *digest, enum purpose purpose, const uint8_t id[MESSAGE_ID_SIZE])
{
    uint64_t number = 0;
    for (unsigned i = 0; i < 6; i++)
        number = number << 8 | id[i];
    number = number << 8 | (uint64_t)((id[6] & 0x0f) << 4 | id[7] >> 4);
    if (number == 0)
        return 0;
    uint8_t expected[MESSAGE_ID_SIZE];
    numbered_uuid(digest, purpose, number, expected);
    return memcmp(expected, id, MESSAGE_ID_SIZE) == 0 ? number : 0;
}

void identity_message(struct digest *digest, uint64_t number, uint8_t id[MESSAGE_ID_SIZE])
{
    numbered_uuid(digest, PURPOSE_MESSAGE, number, id);
}

uint64_t identity_message_number(struct digest *digest, const uint8_t id[MESSAGE_ID_SIZE])
{
    return number_of_uuid(digest, PURPOSE_MESSAGE, id);
}

void identity_match(struct digest *digest, uint64_t number, uint8_t id[MESSAGE_ID_SIZE])
{
    numbered_uuid(digest, PURPOSE_MATCH, number, id);
}

uint64_t identity_match_number(struct digest *digest, const uint8_t id[MESSAGE_ID_SIZE])
{
    return number_of_uuid(digest, PURPOSE_MATCH, id);
}

void identity_completion(struct digest *digest, struct bytes namespace_name, struct bytes batch_id, uint64_t batch,
                         unsigned event, uint8_t id[MESSAGE_ID_SIZE])
{
    struct buffer named;
    buffer_init(&named);
    buffer_append_sized(&named, BYTES("completion"));
    buffer_append_sized(&named, namespace_name);
    buffer_append_sized(&named, batch_id);
    buffer_append_u64(&named, batch);
    buffer_append_u8(&named, (uint8_t)event);
    uint8_t hash[DIGEST_SHA256_SIZE];
    digest_sha256(digest, buffer_bytes(&named), hash);
    buffer_deinit(&named);
    memcpy(id, hash, MESSAGE_ID_SIZE);
    shape_uuid(id);
}

void identity_to_text(const uint8_t id[MESSAGE_ID_SIZE], char text[IDENTITY_TEXT_SIZE])
{
    uuid_to_text(id, text);
}

bool identity_from_text(struct bytes text, uint8_t id[MESSAGE_ID_SIZE])
{
    return uuid_from_text(text, id);
}

static uint64_t handle_checksum(struct digest *digest, const uint8_t body[HANDLE_BODY_SIZE])
{
    uint8_t named[1 + HANDLE_BODY_SIZE] = {PURPOSE_HANDLE};
    memcpy(named + 1, body, HANDLE_BODY_SIZE);
    return digest_keyed(digest, bytes_make(named, sizeof(named)));
}

void handle_to_text(struct digest *digest, const struct handle *handle, char text[HANDLE_TEXT_SIZE])
{
    uint8_t raw[HANDLE_SIZE];
    bytes_put_u32(raw, handle->queue);
    bytes_put_u64(raw + 4, handle->message);
    bytes_put_u64(raw + 12, handle->delivery);
    bytes_put_u64(raw + HANDLE_BODY_SIZE, handle_checksum(digest, raw));
    base64_encode(BASE64_URL, bytes_make(raw, sizeof(raw)), text);
}

bool handle_from_text(struct digest *digest, struct bytes text, struct handle *handle)
{
    uint8_t raw[HANDLE_SIZE];
    unsigned spare_bits;
    if (text.size != HANDLE_TEXT_SIZE || !base64_decode(BASE64_URL, text, raw, &spare_bits))
        return false;
    uint8_t checksum[8];
    bytes_put_u64(checksum, handle_checksum(digest, raw));
    bool is_ours = bytes_equal_constant_time(bytes_make(checksum, sizeof(checksum)),
                                             bytes_make(raw + HANDLE_BODY_SIZE, sizeof(checksum)));
    /* The last digit has unused bits: only the spelling of handle_to_text() is a valid handle. */
    if (!is_ours || spare_bits != 0)
        return false;
    handle->queue = bytes_get_u32(raw);
    handle->message = bytes_get_u64(raw + 4);
    handle->delivery = bytes_get_u64(raw + 12);
    return true;
}
