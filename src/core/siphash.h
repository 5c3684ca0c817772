/* SipHash with a result of 64 bits: who does not know the key can't tell what a text becomes.
 * Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012.
 *
 * Message ids, receipt handles and each look-up of a name need one, of a few bytes; through OpenSSL's EVP_MAC that is
 * 750 instructions, of which the function itself is a sixth. Pure. */
#ifndef TALLY_CORE_SIPHASH_H
#define TALLY_CORE_SIPHASH_H

#include "base/bytes.h"

#define SIPHASH_KEY_SIZE 16

/* For what others get to see. */
uint64_t siphash_2_4(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data);

/* Half the work, for hashes that nobody gets to see. */
uint64_t siphash_1_3(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data);

#endif
