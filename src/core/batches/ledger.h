/* The ledger of a batch: which units it has and how each ended. Set membership, not a counter: a unit counts once
 * however often its end is reported (invariant B3).
 *
 * Units have dense numbers from 0 in order of registration. The state of a unit is two bits, so a million counted units
 * take 250 kB. Units come in three kinds: counted ("0" to "n-1", stored as spans), named by a key (a table), and
 * messages or child batches (a reference each). O(1) to end a unit, whatever the size (B18); O(log spans) to find a
 * counted one. */
#ifndef TALLY_CORE_BATCHES_LEDGER_H
#define TALLY_CORE_BATCHES_LEDGER_H

#include "base/buffer.h"
#include "base/table.h"

#define LEDGER_UNITS_MAX 100000000u
#define LEDGER_KEY_SIZE_MAX 256u
#define LEDGER_NO_UNIT UINT32_MAX

struct digest;

/* The numbers stand in the log. */
enum unit_state {
    UNIT_OUTSTANDING = 0,
    UNIT_SUCCEEDED = 1,
    UNIT_FAILED = 2,
    UNIT_CANCELLED = 3,
};

enum unit_kind { UNIT_COUNTED, UNIT_KEYED, UNIT_MESSAGE, UNIT_CHILD };

/* What a unit that is not counted refers to. */
struct ledger_reference {
    uint64_t value; /* keyed, child: offset of its sized key (the child's id) in `keys`; message: its number */
    enum unit_kind kind;
};

/* Counted keys first_key, first_key+1 … are units first_unit, first_unit+1 … */
struct ledger_span {
    uint32_t first_unit;
    uint32_t first_key;
    uint32_t count;
    uint32_t references_before; /* units below first_unit that are not counted */
};

struct ledger_detail {
    uint32_t unit;
    struct bytes text_owned;
};

struct ledger {
    const struct digest *digest; /* the namespace's, borrowed: for the hashes of keys and units */
    uint32_t count;
    uint32_t succeeded;
    uint32_t failed;
    uint32_t cancelled;
    uint32_t counted_end;         /* every key "0" to "counted_end - 1" is a unit */
    uint32_t *numeric_keys_owned; /* keys in the table that look like counted ones, in no order */
    uint32_t numeric_key_count;
    uint32_t numeric_key_capacity;
    uint8_t *states_owned; /* two bits a unit */
    size_t states_capacity;
    struct ledger_reference *references_owned;
    uint32_t reference_count;
    uint32_t reference_capacity;
    struct ledger_span *spans_owned;
    uint32_t span_count;
    uint32_t span_capacity;
    uint8_t *keys_owned; /* u32 size + bytes each, one after the other */
    size_t keys_size;
    size_t keys_capacity;
    struct table by_key;                 /* key -> index in references, plus 1 */
    struct ledger_detail *details_owned; /* in order of unit end; details are rare */
    uint32_t detail_count;
    uint32_t detail_capacity;
    struct table by_detail; /* unit -> index in details, plus 1 */
};

/* The digest is borrowed for as long as the ledger lives. */
void ledger_init(struct ledger *ledger, const struct digest *digest);
void ledger_deinit(struct ledger *ledger);

/* The unit with this external key, or LEDGER_NO_UNIT. */
uint32_t ledger_find(const struct ledger *ledger, struct bytes key);

/* How many units counting up to `count` would add. O(1) unless numeric keys were added one by one before; then linear
 * in their number or in what is added, whichever is less. */
uint32_t ledger_count_would_add(const struct ledger *ledger, uint32_t count);

/* Registration. Each returns the unit's number (the first one's for a count). External keys must not be there yet; a
 * child batch is no external unit: its id is not found by ledger_find() and may be the same as a key, or as that of a
 * former child. */
void ledger_add_counted(struct ledger *ledger, uint32_t count);
uint32_t ledger_add_key(struct ledger *ledger, struct bytes key, enum unit_kind kind);
uint32_t ledger_add_message(struct ledger *ledger, uint64_t number);

enum unit_state ledger_state(const struct ledger *ledger, uint32_t unit);

/* Ends an outstanding unit; `detail` may be empty. */
void ledger_end(struct ledger *ledger, uint32_t unit, enum unit_state state, struct bytes detail);

/* A unit that failed is outstanding again; a message that is a unit has another number now. */
void ledger_reopen(struct ledger *ledger, uint32_t unit);
void ledger_rename_message(struct ledger *ledger, uint32_t unit, uint64_t number);

/* What `unit` is called: its kind, and its key (a view into the ledger, until the next registration; for a counted unit
 * the key's number in *number) or its message's number. */
enum unit_kind ledger_name(const struct ledger *ledger, uint32_t unit, struct bytes *key, uint64_t *number);

/* The detail given when the unit ended, or empty. */
struct bytes ledger_detail(const struct ledger *ledger, uint32_t unit);

static inline uint32_t ledger_outstanding(const struct ledger *ledger)
{
    return ledger->count - ledger->succeeded - ledger->failed - ledger->cancelled;
}

/* Asserts that the counters are what the states say (invariant B4), and that every unit's name leads back to it.
 * O(n). */
void ledger_check(const struct ledger *ledger);

/* For snapshots: everything, and back. False if `encoded` is no ledger. */
void ledger_encode(const struct ledger *ledger, struct buffer *out);
bool ledger_decode(struct bytes encoded, const struct digest *digest, struct ledger *ledger);

#endif
