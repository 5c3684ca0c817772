/* The tables of a log in PostgreSQL, and every statement that runs on them while it is served.
 *
 * A log's folder is rows: tally_log.file has its files, tally_log.chunk their bytes, tally_log.head a row for each log.
 * That row is the fence: each statement that changes something takes it FOR SHARE and compares (epoch, owner). To
 * become the owner is an UPDATE of it, which waits for the statements under way and is seen by all that come later
 * (invariants L1, L5, L6). FOR KEY SHARE would not do: an UPDATE does not wait for that.
 *
 * A file's bytes that stand in no chunk are zero. So zeros behind a frame are not stored, and an empty segment is a row
 * of tally_log.file. What one write stores is whole or not there (L3), and its first chunk carries the file's hash so
 * far (L4): H(hash before, epoch, offset, bytes).
 *
 * Chunks are never analyzed, and vacuumed only for those that were deleted. They come and go so fast that PostgreSQL
 * would look at them all the time, with a third of a core, and every statement finds them by their key.
 *
 * tally_log.head.timeline is for people: on which timeline of PostgreSQL the log was taken. A node finds out what a
 * failover took back by the hashes of the tails (L17).
 *
 * $1, $2, $3 of a fenced statement: id of the log, epoch, owner. */
#ifndef TALLY_POSTGRES_STATEMENTS_H
#define TALLY_POSTGRES_STATEMENTS_H

#define PG_SCHEMA_VERSION 2
#define PG_CHUNK_SIZE 8000u /* bytes: a row with them fills a page, and is stored as it is (PLAIN: no TOAST) */

/* The keys of the advisory lock of one epoch of a log; the class is "tall". An owner has that of its epoch from before
 * the epoch began. So who is given it knows that the connection of that owner, and of no other, has ended. */
#define PG_LOCK_CLASS 1952541804
#define PG_LOCK_EPOCHS 2147483648 /* after so many the second key begins again */

/* Since version 2: where each node is found by the others. */
#define PG_NODE_TABLE                                                                                                  \
    "CREATE TABLE tally_log.node (name text PRIMARY KEY, address text NOT NULL, version text NOT NULL,"                \
    " began_at timestamptz NOT NULL DEFAULT clock_timestamp());"

/* Makes version 2 of version 1, and changes nothing of any other. */
#define PG_UPGRADE                                                                                                     \
    "DO $$BEGIN IF (SELECT number FROM tally_log.version) = 1 THEN " PG_NODE_TABLE                                     \
    " UPDATE tally_log.version SET number = 2; END IF; END$$"

/* Runs as one transaction; "tallyd --init" sends it. */
#define PG_SCHEMA                                                                                                      \
    "BEGIN;"                                                                                                           \
    "CREATE SCHEMA tally_log;"                                                                                         \
    "CREATE TABLE tally_log.version (number int NOT NULL);"                                                            \
    "INSERT INTO tally_log.version VALUES (2);" PG_NODE_TABLE "CREATE TABLE tally_log.head ("                          \
    " id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, log text NOT NULL UNIQUE,"                                      \
    " epoch bigint NOT NULL DEFAULT 0, owner uuid NOT NULL, node text NOT NULL DEFAULT '',"                            \
    " sealed_at timestamptz, timeline text, system_id bigint) WITH (fillfactor = 50);"                                 \
    "CREATE TABLE tally_log.beat (log int PRIMARY KEY REFERENCES tally_log.head, number bigint NOT NULL DEFAULT 0)"    \
    " WITH (fillfactor = 50);"                                                                                         \
    "CREATE TABLE tally_log.file ("                                                                                    \
    " id bigint GENERATED ALWAYS AS IDENTITY UNIQUE, log int NOT NULL REFERENCES tally_log.head,"                      \
    " name text COLLATE \"C\" NOT NULL, size bigint NOT NULL DEFAULT 0, PRIMARY KEY (log, name));"                     \
    "CREATE TABLE tally_log.chunk ("                                                                                   \
    " file bigint NOT NULL, at bigint NOT NULL, epoch bigint NOT NULL, hash bytea,"                                    \
    " body bytea NOT NULL CHECK (octet_length(body) <= 8000), PRIMARY KEY (file, at))"                                 \
    " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,"                                  \
    "       autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1,"                                \
    "       autovacuum_analyze_threshold = 2147483647);"                                                               \
    "ALTER TABLE tally_log.chunk ALTER hash SET STORAGE PLAIN, ALTER body SET STORAGE PLAIN;"                          \
    "COMMIT"

#define PG_FENCE                                                                                                       \
    "WITH fence AS MATERIALIZED (SELECT 1 FROM tally_log.head"                                                         \
    " WHERE id = $1::int AND epoch = $2::bigint AND owner = $3::uuid FOR SHARE) "

/* How pg_stat_activity names the connection on which a node reads or writes a log, before the log's name (session.h,
 * link.h): who has one and not the lock of its epoch follows the log. A log for which another one decides is not waited
 * for by its lock (pg_options.leads); where the connection string names the application, only those that wait are
 * counted. */
#define PG_READER "'tallyd, owner of '"

/* X(NAME, text) */
#define PG_STATEMENT_LIST(X)                                                                                           \
    /* Each log: who has it, since when, how many follow it (PG_READER). */                                            \
    X(LOGS, "SELECT h.log, h.epoch, h.node, coalesce(to_char(h.sealed_at AT TIME ZONE 'UTC', "                         \
            "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), ''), coalesce(l.owners, 0) > 0,"                                       \
            " greatest(coalesce(l.waiters, 0), (SELECT count(*) FROM pg_stat_activity a"                               \
            "  WHERE a.datname = current_database() AND a.application_name = left(" PG_READER " || h.log, 63)"         \
            "  AND NOT a.pid = ANY (coalesce(l.owner_pids, '{}'))))"                                                   \
            " FROM tally_log.head h LEFT JOIN (SELECT classid, objid, count(*) FILTER (WHERE granted) AS owners,"      \
            "  count(*) FILTER (WHERE NOT granted) AS waiters, array_agg(pid) FILTER (WHERE granted) AS owner_pids"    \
            "  FROM pg_locks WHERE locktype = 'advisory'"                                                              \
            "  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"                        \
            "  GROUP BY classid, objid) l ON l.classid = 1952541804 + h.id AND l.objid = h.epoch % 2147483648"         \
            " ORDER BY h.log")                                                                                         \
    /* Each log: signs of life of its owner, who that is, where it is found, and whether its process is connected. */  \
    X(OWNERS, "SELECT h.log, h.epoch, coalesce(b.number, 0), h.node, coalesce(n.address, ''), l.pid IS NOT NULL"       \
              " FROM tally_log.head h LEFT JOIN tally_log.beat b ON b.log = h.id"                                      \
              " LEFT JOIN tally_log.node n ON n.name = h.node LEFT JOIN (SELECT classid, objid, min(pid) AS pid"       \
              "  FROM pg_locks WHERE locktype = 'advisory' AND granted"                                                \
              "  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"                      \
              "  GROUP BY classid, objid) l ON l.classid = 1952541804 + h.id AND l.objid = h.epoch % 2147483648"       \
              " ORDER BY h.log COLLATE \"C\"")                                                                         \
    /* Everything that is read from here on is of one moment; ends with the connection. */                             \
    X(FREEZE, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")                                                       \
    /* What a connection must be fit for; one row. */                                                                  \
    X(CHECK,                                                                                                           \
      "SELECT pg_is_in_recovery(), current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',"       \
      " current_setting('synchronous_commit') = 'on', current_setting('synchronous_standby_names') <> '',"             \
      " current_setting('default_transaction_isolation') = 'read committed',"                                          \
      " current_setting('client_min_messages') = 'warning', current_setting('server_version_num')::int,"               \
      " (SELECT system_identifier FROM pg_control_system()),"                                                          \
      " pg_backend_pid()")                                                                                             \
    /* Must a commit wait for a replica? A session sees a change of that setting before a commit is let go by it. */   \
    X(REPLICAS, "SELECT current_setting('synchronous_standby_names') <> ''")                                           \
    X(REGISTER, "INSERT INTO tally_log.head (log, owner) VALUES ($1::text, $2::uuid) ON CONFLICT DO NOTHING")          \
    X(HEAD, "SELECT h.id, h.epoch, h.owner, h.node, h.system_id,"                                                      \
            " (extract(epoch FROM clock_timestamp()) * 1000)::bigint, coalesce(n.address, '')"                         \
            " FROM tally_log.head h LEFT JOIN tally_log.node n ON n.name = h.node WHERE h.log = $1::text")             \
    /* $2, $3: the epoch and owner that end; $4 the new owner, $5 its name. No row: somebody else was faster. */       \
    X(SEAL,                                                                                                            \
      "UPDATE tally_log.head SET epoch = epoch + 1, owner = $4::uuid, node = $5::text, sealed_at = clock_timestamp()," \
      " timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8),"                                                    \
      " system_id = (SELECT system_identifier FROM pg_control_system())"                                               \
      " WHERE id = $1::int AND epoch = $2::bigint AND owner = $3::uuid RETURNING epoch")                               \
    X(BEGIN_BEAT, "INSERT INTO tally_log.beat (log) VALUES ($1::int) ON CONFLICT DO NOTHING")                          \
    X(BEAT, PG_FENCE "UPDATE tally_log.beat SET number = number + 1 FROM fence WHERE log = $1")                        \
    /* Signs of life of the owner. */                                                                                  \
    X(SIGNS, "SELECT h.epoch, b.number, h.node, coalesce(n.address, '') FROM tally_log.head h"                         \
             " LEFT JOIN tally_log.beat b ON b.log = h.id LEFT JOIN tally_log.node n ON n.name = h.node"               \
             " WHERE h.id = $1::int")                                                                                  \
    /* Where this node is found: $1 its name, $2 its address, $3 its version. */                                       \
    X(NODE, "INSERT INTO tally_log.node (name, address, version) VALUES ($1::text, $2::text, $3::text) ON CONFLICT"    \
            " (name) DO UPDATE SET address = $2, version = $3, began_at = clock_timestamp()")                          \
    X(TRY_LOCK, "SELECT pg_try_advisory_lock(1952541804 + $1::int, ($2::bigint % 2147483648)::int)")                   \
    X(FILES, "SELECT id, name, size FROM tally_log.file WHERE log = $1::int ORDER BY name")                            \
    X(CREATE, PG_FENCE "INSERT INTO tally_log.file (log, name) SELECT $1, $4::text FROM fence RETURNING id")           \
    X(RENAME, PG_FENCE "UPDATE tally_log.file SET name = $5::text FROM fence WHERE log = $1 AND name = $4::text")      \
    X(RESIZE, PG_FENCE "UPDATE tally_log.file SET size = $5::bigint FROM fence WHERE log = $1 AND id = $4::bigint")    \
    X(REMOVE, PG_FENCE "DELETE FROM tally_log.file USING fence WHERE log = $1 AND id = $4::bigint")                    \
    /* A portion of a file that is going: its first $5 chunks. */                                                      \
    X(REMOVE_CHUNKS, PG_FENCE "DELETE FROM tally_log.chunk USING fence WHERE file = $4::bigint AND at IN"              \
                              " (SELECT at FROM tally_log.chunk WHERE file = $4 ORDER BY at LIMIT $5::bigint)")        \
    /* $4 file, $5 offset, $6 hash, $7 the chunks, $8 the epoch that the hash was made with. */                        \
    X(APPEND, PG_FENCE "INSERT INTO tally_log.chunk (file, at, epoch, hash, body) SELECT $4::bigint,"                  \
                       " $5::bigint + (c.n - 1) * 8000, $8::bigint, CASE WHEN c.n = 1 THEN $6::bytea END, c.body"      \
                       " FROM fence, unnest($7::bytea[]) WITH ORDINALITY AS c(body, n)")                               \
    /* The newest write of a file. */                                                                                  \
    X(TAIL,                                                                                                            \
      "SELECT at, hash FROM tally_log.chunk WHERE file = $1::bigint AND hash IS NOT NULL ORDER BY at DESC LIMIT 1")    \
    /* The chunks of a file from offset $2 on, at most $3 of them: with their bytes, or with their sizes. */           \
    X(CHUNKS, "SELECT at, epoch, hash, body FROM tally_log.chunk WHERE file = $1::bigint AND at >= $2::bigint"         \
              " ORDER BY at LIMIT $3::int")                                                                            \
    X(SIZES, "SELECT at, epoch, hash, octet_length(body) FROM tally_log.chunk WHERE file = $1::bigint"                 \
             " AND at >= $2::bigint ORDER BY at LIMIT $3::int")

#define PG_STATEMENT_NUMBER(NAME, TEXT) PG_##NAME,
enum pg_statement { PG_STATEMENT_LIST(PG_STATEMENT_NUMBER) PG_STATEMENT_COUNT };

/* By number: its text, and its name in messages. */
extern const char *const pg_statement_texts[PG_STATEMENT_COUNT];
extern const char *const pg_statement_names[PG_STATEMENT_COUNT];

#endif
