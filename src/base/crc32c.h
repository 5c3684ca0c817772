/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of iSCSI, ext4 and most logs: the instruction of
 * SSE 4.2 or ARMv8 where the processor has it, a table otherwise; both give the same value. */
#ifndef TALLY_BASE_CRC32C_H
#define TALLY_BASE_CRC32C_H

#include "base/bytes.h"

/* The checksum of `view`, continuing from `crc` (0 to begin): crc32c(crc32c(0, a), b) is that of a followed by b. */
uint32_t crc32c(uint32_t crc, struct bytes view);

/* The portable form alone, so that a test can compare the two. */
uint32_t crc32c_portable(uint32_t crc, struct bytes view);

#endif
