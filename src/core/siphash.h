/* SipHash with a result of 64 bits: nobody can predict the hash of a text without the key. Source: J.-P. Aumasson, D.
 * J. Bernstein, "SipHash: a fast short-input PRF", 2012.
 *
 * Message ids, receipt handles and each look-up of a name need a hash of a few bytes. OpenSSL's EVP_MAC takes 750
 * instructions for it, of which the function itself is a sixth. Pure. */
#ifndef TALLY_CORE_SIPHASH_H
#define TALLY_CORE_SIPHASH_H

#include "base/bytes.h"

#define SIPHASH_KEY_SIZE 16

/* For hashes that others see. */
uint64_t siphash_2_4(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data);

/* Half the work, for hashes that nobody else sees. */
uint64_t siphash_1_3(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data);

#endif
