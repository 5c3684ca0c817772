/* Moves the log of a namespace of a cluster from one PostgreSQL to another: it is stopped, copied, and gone on with
 * there.
 *
 * Where it is stands in the head of the log in the cluster's own database (statements.h, PG_MOVE_COLUMNS). In this
 * order:
 *
 *     marked     nobody may take it; its owner, if there is one, answers what it was asked and gives it up
 *     sealed     in the database where it is: whoever still has it writes nothing any more (L1), and nobody can take it
 *     copied     its files and their hashes, into the other database, in one transaction
 *     led        the cluster's database says where it is; nodes open it there
 *     cleaned    its files are removed where it was
 *
 * What fails before the copy is committed is undone. Whoever is killed, or does not learn what became of a commit,
 * leaves it marked, and whole in one place. To run it again goes on, and to move it to where it is gives up; so nothing
 * is lost, and nobody writes to two copies (decision 0027).
 *
 * One at a time moves a log, by a lock in the cluster's own database. One that was stopped for long may have lost it
 * without knowing. So no step relies on the lock alone:
 *
 *     the mark   is drawn anew by each that marks or seals the log, and the steps behind ask for it
 *     the seal   ends the epoch that was read before the mark was asked for
 *     the copy   counts if the source is in the sealed epoch still, and the target in the one of the beginning */
#ifndef TALLY_POSTGRES_LOG_MOVE_H
#define TALLY_POSTGRES_LOG_MOVE_H

#include "postgres/place.h"
#include "postgres/session.h"

struct log_moved {
    bool was_there; /* there was nothing to copy */
    bool is_clean;  /* else its files are still where it was, too; `failure` then says why */
    uint64_t files;
    uint64_t bytes;
    uint64_t closed_ms; /* so long nobody could have it */
};

/* `options`: of the cluster's own database; the log's name is that of the namespace. `place`: where it is to be
 * (place.h); the cluster's own database is a place, too. ERROR_RESOURCE_NOT_FOUND: there is no such namespace.
 * ERROR_INVALID_PARAMETER_VALUE: it can't be there, and nothing was changed. ERROR_SERVICE_UNAVAILABLE: a PostgreSQL
 * did not answer; it may be marked. */
enum error log_move(const struct pg_options *options, const char *place, struct log_moved *moved,
                    struct failure *failure);

#endif
