/* The files of a log in PostgreSQL, and the folder that has a copy of each: the cache.
 *
 * The cache is never believed (K11). Before a file is used for the first time, each of its bytes is compared with what
 * PostgreSQL says of it, by the hash chain; what differs or is missing is fetched. From then on this process keeps both
 * alike. One thread at a time. */
#ifndef TALLY_POSTGRES_CACHE_H
#define TALLY_POSTGRES_CACHE_H

#include "log/disk.h"
#include "postgres/chain.h"
#include "postgres/session.h"
#include <stdatomic.h>

#define PG_NAME_SIZE 64u

struct pg_file {
    uint64_t id;
    char name[PG_NAME_SIZE];
    uint64_t size;         /* bytes, as PostgreSQL has it */
    struct pg_chain chain; /* of all that is written; only where `is_cached` */
    bool is_cached;        /* the folder's copy is the same */
    atomic_uint holders;   /* the list, too; it stays in memory until all have let it go */
    bool is_gone;          /* it is in PostgreSQL no more, nor in the list */
    uint64_t listed;       /* the number of the newest listing that had it */
};

struct pg_cache {
    struct disk *folder; /* borrowed */
    struct sha256 sha256;
    struct pg_file **files_owned;
    size_t count;
    size_t capacity;
    uint64_t listings; /* how often PostgreSQL was asked for its files */
    bool is_own;       /* the folder was one of this log's before this process used it */
};

void pg_cache_init(struct pg_cache *cache, struct disk *folder);
void pg_cache_deinit(struct pg_cache *cache);

/* NULL: there is none of that name. */
struct pg_file *pg_cache_find(const struct pg_cache *cache, const char *name);

struct pg_file *pg_cache_find_by_id(const struct pg_cache *cache, uint64_t id);

/* Whoever keeps an entry holds it; the list may drop it meanwhile. An entry that is held is let go by any thread, which
 * waits for nobody. */
void pg_file_hold(struct pg_file *file);
void pg_file_let_go(struct pg_file *file);

/* Has PostgreSQL this file, and under this name? `rows` are of PG_FILES. */
bool pg_file_is_listed(const struct pg_file *file, const PGresult *rows);

/* An entry that stays where it is until it is removed. */
struct pg_file *pg_cache_add(struct pg_cache *cache, uint64_t id, const char *name, uint64_t size);
void pg_cache_remove(struct pg_cache *cache, struct pg_file *file);

/* Lists anew what PostgreSQL has; files that are known stay known. OK, or as pg_session_open(). */
enum error pg_cache_list(struct pg_cache *cache, struct pg_session *session, uint64_t until_ms,
                         struct failure *failure);

/* Makes the folder's copy the same as the file in PostgreSQL, unless it is known to be so. ERROR_LOG_DAMAGED: what
 * PostgreSQL gives does not fit its own hashes. ERROR_SERVICE_UNAVAILABLE: it does not answer; or, once, it lacks what
 * the copy had. */
enum error pg_cache_complete(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                             uint64_t patience_ms, struct failure *failure);

/* Fetches what was written behind the known end of a file that is cached. ERROR_DISK_FAILED: that does not go on from
 * there; whoever begins again finds out why. ERROR_SERVICE_UNAVAILABLE: no answer, or the file was removed. */
enum error pg_cache_follow(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                           uint64_t patience_ms, struct failure *failure);

/* Makes the folder a cache of the log that the session goes to, whose files are listed: removes what PostgreSQL does
 * not have, or all that is another log's, and notes which log it is. ERROR_SERVICE_UNAVAILABLE, once: among that was
 * what PostgreSQL has lost. */
enum error pg_cache_adopt(struct pg_cache *cache, const struct pg_session *session, struct failure *failure);

#endif
