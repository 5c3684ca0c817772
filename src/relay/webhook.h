/* The signature of a web hook, by which its receiver knows that the request comes from who has the secret, and is not
 * old.
 *
 * It is that of Standard Webhooks 1.0.0 (www.standardwebhooks.com), rather than one of our own: many senders have it,
 * there is a library to verify it in every usual language, and it covers the id, so that nobody can give an old body a
 * new id and get past a receiver that knows ids. Three headers:
 *
 *     webhook-id: b0c5…                     what Idempotency-Key says: it never changes for a message
 *     webhook-timestamp: 1674087231         when this attempt was made, in seconds
 *     webhook-signature: v1,K5oZfzN9…VA=    base64 of HMAC-SHA256(secret, "<id>.<timestamp>.<body>"); several with
 *     blanks between
 *
 * A receiver computes it over the bytes of the body as they came, compares in constant time, refuses a time-stamp more
 * than five minutes off its clock, and remembers the ids that it has dealt with. With the library:
 * Webhook(secret).verify(body, headers). Without:
 *
 *     # Python
 *     def is_genuine(key, headers, body):           # key: bytes; base64.b64decode(secret.removeprefix("whsec_"))
 *         signed = b"%s.%s.%s" % (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body)
 *         good = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
 *         return (abs(time.time() - int(headers["webhook-timestamp"])) < 300
 *                 and any(hmac.compare_digest(good, one) for one in headers["webhook-signature"].split()))
 *
 *     // JavaScript (Node); body: a Buffer
 *     function isGenuine(key, headers, body) {      // key: Buffer.from(secret.replace(/^whsec_/, ""), "base64")
 *       const hmac = crypto.createHmac("sha256", key)
 *       hmac.update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`)
 *       const good = Buffer.from("v1," + hmac.update(body).digest("base64"))
 *       return Math.abs(Date.now() / 1000 - headers["webhook-timestamp"]) < 300 &&
 *         headers["webhook-signature"].split(" ").some(one =>
 *           one.length === good.length && crypto.timingSafeEqual(Buffer.from(one), good))
 *     }
 */
#ifndef TALLY_RELAY_WEBHOOK_H
#define TALLY_RELAY_WEBHOOK_H

#include "base/buffer.h"
#include "relay/step.h"

#define WEBHOOK_KEYS_MAX 4u

/* What signs: several while one takes the place of another. */
struct webhook_keys {
    struct bytes items_owned[WEBHOOK_KEYS_MAX];
    size_t count;
};

/* Reads a secret: a line for each key, "whsec_" and base64, or, without that, the text of the line as it is. False:
 * `fault` says what is wrong, without the secret. The caller ends it with webhook_keys_deinit() in any case. */
bool webhook_keys_read(struct webhook_keys *keys, struct bytes secret, struct fault *fault);
void webhook_keys_deinit(struct webhook_keys *keys);

/* Appends the value of webhook-signature. `id` has no full stop in it. */
void webhook_sign(const struct webhook_keys *keys, struct bytes id, uint64_t time_s, struct bytes body,
                  struct buffer *signature);

#endif
