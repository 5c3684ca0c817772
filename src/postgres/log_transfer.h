/* Copies a file of a log from one database into another, for a log that moves (log_move.h).
 *
 * Its hashes begin with the number that it has in a database (chain.h). So each write is checked with the one chain,
 * and goes on with the other. */
#ifndef TALLY_POSTGRES_LOG_TRANSFER_H
#define TALLY_POSTGRES_LOG_TRANSFER_H

#include "postgres/session.h"

/* The file in that row of the files of a log (pg_session_list_files()) of `source`, whom nobody changes; into log `log`
 * of `target`, in the transaction that is open there. *bytes counts on. One that is being removed is left out. After an
 * error both connections are only good for being closed. ERROR_LOG_DAMAGED: it does not fit its own hashes.
 * ERROR_SERVICE_UNAVAILABLE: one of them did not answer, or refused. */
enum error log_transfer_file(struct pg_session *source, struct pg_session *target, uint32_t log, const PGresult *files,
                             int row, uint64_t *bytes, struct failure *failure);

#endif
