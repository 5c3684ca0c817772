#include "relay/webhook.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/memory.h"
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define DIGEST_SIZE 32u
/* Shorter ones can be guessed from one signed request. */
#define KEY_SIZE_MIN 16u

static bool is_blank(uint8_t character)
{
    return character == ' ' || character == '\t' || character == '\r' || character == '\n';
}

static struct bytes trim(struct bytes text)
{
    while (text.size > 0 && is_blank(text.ptr[0]))
        text = bytes_skip(text, 1);
    while (text.size > 0 && is_blank(text.ptr[text.size - 1]))
        text.size--;
    return text;
}

/* The key of a line, in fresh memory; ptr NULL: the line should be base64 and is not. */
static struct bytes read_key(struct bytes line)
{
    struct bytes prefix = BYTES("whsec_");
    if (!bytes_starts_with(line, prefix))
        return memory_duplicate(line);
    struct bytes digits = bytes_skip(line, prefix.size);
    while (digits.size > 0 && digits.ptr[digits.size - 1] == '=')
        digits.size--;
    size_t size = BASE64_DATA_SIZE(digits.size);
    uint8_t *key = memory_allocate(size + 1);
    unsigned spare_bits;
    if (base64_decode(BASE64_STANDARD, digits, key, &spare_bits))
        return bytes_make(key, size);
    free(key);
    return bytes_make(NULL, 0);
}

/* Reads one line that is not empty. */
static bool add_key(struct webhook_keys *keys, struct bytes line, struct fault *fault)
{
    if (keys->count == WEBHOOK_KEYS_MAX) {
        fault_set(fault, STEP_UNFIT, "the secret has more than %u lines; each line is a key", WEBHOOK_KEYS_MAX);
        return false;
    }
    struct bytes key = read_key(line);
    if (key.ptr == NULL) {
        fault_set(fault, STEP_UNFIT, "line %zu of the secret begins with whsec_, and what follows is no base64",
                  keys->count + 1);
        return false;
    }
    keys->items_owned[keys->count++] = key;
    if (key.size >= KEY_SIZE_MIN)
        return true;
    fault_set(fault, STEP_UNFIT,
              "line %zu of the secret has %zu bytes; it must have at least %u, or it can be guessed from one request",
              keys->count, key.size, KEY_SIZE_MIN);
    return false;
}

bool webhook_keys_read(struct webhook_keys *keys, struct bytes secret, struct fault *fault)
{
    *keys = (struct webhook_keys){.count = 0};
    for (struct bytes rest = secret; rest.size > 0;) {
        const uint8_t *end = memchr(rest.ptr, '\n', rest.size);
        size_t size = end == NULL ? rest.size : (size_t)(end - rest.ptr) + 1;
        struct bytes line = trim(bytes_make(rest.ptr, size));
        if (line.size > 0 && !add_key(keys, line, fault))
            return false;
        rest = bytes_skip(rest, size);
    }
    if (keys->count == 0)
        fault_set(fault, STEP_UNFIT, "the secret is empty; leave it out to send unsigned requests");
    return keys->count > 0;
}

void webhook_keys_deinit(struct webhook_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) {
        OPENSSL_cleanse((void *)keys->items_owned[i].ptr, keys->items_owned[i].size);
        free((void *)keys->items_owned[i].ptr);
    }
    *keys = (struct webhook_keys){.count = 0};
}

void webhook_sign(const struct webhook_keys *keys, struct bytes id, uint64_t time_s, struct bytes body,
                  struct buffer *signature)
{
    struct buffer text;
    buffer_init(&text);
    buffer_append_format(&text, "%.*s.%" PRIu64 ".", BYTES_FORMAT(id), time_s);
    buffer_append_bytes(&text, body);
    for (size_t i = 0; i < keys->count; i++) {
        uint8_t digest[DIGEST_SIZE];
        char digits[BASE64_TEXT_SIZE(DIGEST_SIZE)];
        struct bytes key = keys->items_owned[i];
        const uint8_t *made = HMAC(EVP_sha256(), key.ptr, (int)key.size, text.data_owned, text.size, digest, NULL);
        ASSERT(made != NULL); /* it fails for an unknown digest only */
        base64_encode(BASE64_STANDARD, bytes_make(digest, sizeof(digest)), digits);
        buffer_append_format(signature, "%sv1,%.*s=", i == 0 ? "" : " ", (int)sizeof(digits), digits);
    }
    buffer_deinit(&text);
}
