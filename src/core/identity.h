/* Names that the core gives out: message ids, batch ids and receipt handles. All are functions of numbers and of the
 * namespace's key. So the index need not store them, and a replay makes the same ones. */
#ifndef TALLY_CORE_IDENTITY_H
#define TALLY_CORE_IDENTITY_H

#include "core/digest.h"
#include "core/messages/content.h"

/* The largest number a message can have: 56 bits. */
#define IDENTITY_NUMBER_MAX ((UINT64_C(1) << 56) - 1)

/* The MessageId of message `number`: a UUID of version 8. Its first 56 bits are the number, so ids sort by age. Its
 * other bits are a keyed hash of the number, so nobody can guess an id. */
void identity_message(struct digest *digest, uint64_t number, uint8_t id[MESSAGE_ID_SIZE]);

/* The number inside a MessageId that identity_message() made, or 0 if it did not make this one. */
uint64_t identity_message_number(struct digest *digest, const uint8_t id[MESSAGE_ID_SIZE]);

/* MessageId of a batch's completion message: the first 128 bits of SHA-256 over namespace, batch id, batch number and
 * event, shaped as a UUID of version 8. The batch number distinguishes two batches that used one id at different
 * times. */
void identity_completion(struct digest *digest, struct bytes namespace_name, struct bytes batch_id, uint64_t batch,
                         unsigned event, uint8_t id[MESSAGE_ID_SIZE]);

/* The id of match `number`, which is also the MessageId of its result: a UUID of version 8 like a message's, under
 * another key. And the number inside one, or 0 if identity_match() did not make it. */
void identity_match(struct digest *digest, uint64_t number, uint8_t id[MESSAGE_ID_SIZE]);
uint64_t identity_match_number(struct digest *digest, const uint8_t id[MESSAGE_ID_SIZE]);

/* The value that message `number`, or child batch `number`, xors into an xor ledger: a keyed hash, never 0. */
uint64_t identity_xor_unit(struct digest *digest, uint64_t number, bool is_batch);

/* Id of a batch whose creator gave none. */
void identity_batch(struct digest *digest, uint64_t batch, uint8_t id[MESSAGE_ID_SIZE]);

/* Id of a move task. */
void identity_move_task(struct digest *digest, uint64_t task, uint8_t id[MESSAGE_ID_SIZE]);

#define IDENTITY_TEXT_SIZE 36

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", without a NUL; and back, false if it is no UUID. */
void identity_to_text(const uint8_t id[MESSAGE_ID_SIZE], char text[IDENTITY_TEXT_SIZE]);
bool identity_from_text(struct bytes text, uint8_t id[MESSAGE_ID_SIZE]);

/* A receipt handle names queue, message and delivery, with a keyed checksum; as text, base64 with the URL alphabet. */
struct handle {
    uint32_t queue;    /* queue id */
    uint64_t message;  /* message number */
    uint64_t delivery; /* the delivery's number in the namespace; it is also the fencing token */
};

#define HANDLE_TEXT_SIZE 38

void handle_to_text(struct digest *digest, const struct handle *handle, char text[HANDLE_TEXT_SIZE]);

/* False, with *handle untouched, if the text is not a handle of this namespace. */
bool handle_from_text(struct digest *digest, struct bytes text, struct handle *handle);

#endif
