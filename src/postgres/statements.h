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

#define PG_SCHEMA_VERSION 4
#define PG_CHUNK_SIZE 8000u /* bytes: a row with them fills a page, and is stored as it is (PLAIN: no TOAST) */

/* The keys of the advisory lock of one epoch of a log; the class is "tall". An owner has that of its epoch from before
 * the epoch began. So who is given it knows that the connection of that owner, and of no other, has ended. */
#define PG_LOCK_CLASS 1952541804
#define PG_LOCK_EPOCHS 2147483648 /* after so many the second key begins again */

/* Since version 2: where each node is found by the others. */
#define PG_NODE_TABLE                                                                                                  \
    "CREATE TABLE tally_log.node (name text PRIMARY KEY, address text NOT NULL, version text NOT NULL,"                \
    " began_at timestamptz NOT NULL DEFAULT clock_timestamp());"

/* Since version 3: which nodes are alive, and which logs they should have.
 *
 * node.instance is the process that registered last under the name, NULL when that has ended in order. node_beat has a
 * row for each sign of life: a new one is inserted, and the one before deleted, so that the newest is found at once
 * however many old versions somebody's open transaction keeps (an UPDATE each second would leave them in the way).
 * pin: where an operator wants a log. wish: the node follows the log, should have it, and is ready. cluster: one row,
 * which says whose this database is (cluster_secret.h); operators' changes are counted in it. */
#define PG_CLUSTER_TABLES                                                                                              \
    "ALTER TABLE tally_log.node ADD id int GENERATED ALWAYS AS IDENTITY UNIQUE, ADD instance uuid,"                    \
    " ADD lease_ms int NOT NULL DEFAULT 3000, ADD is_draining bool NOT NULL DEFAULT false;"                            \
    "CREATE TABLE tally_log.node_beat (node int REFERENCES tally_log.node (id) ON DELETE CASCADE, number bigint,"      \
    " at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (node, number));"                                 \
    "CREATE TABLE tally_log.pin (log int PRIMARY KEY REFERENCES tally_log.head,"                                       \
    " node int NOT NULL REFERENCES tally_log.node (id) ON DELETE CASCADE);"                                            \
    "CREATE TABLE tally_log.wish (log int REFERENCES tally_log.head,"                                                  \
    " node int REFERENCES tally_log.node (id) ON DELETE CASCADE, PRIMARY KEY (log, node));"                            \
    "CREATE TABLE tally_log.cluster (is_only bool PRIMARY KEY DEFAULT true CHECK (is_only), salt bytea NOT NULL,"      \
    " cost int NOT NULL, fingerprint bytea NOT NULL, node text NOT NULL, address text NOT NULL,"                       \
    " began_at timestamptz NOT NULL DEFAULT clock_timestamp(), changes bigint NOT NULL DEFAULT 0);"

/* Since version 4: a log may be on another server than the rest of its cluster (log_move.h). moved_to says where; in
 * the database of the cluster it leads there, and in one that the log has left since it keeps everybody from taking
 * what is old. is_moving: it is on its way, and nobody may take it. */
#define PG_MOVE_COLUMNS                                                                                                \
    "ALTER TABLE tally_log.head ADD COLUMN IF NOT EXISTS moved_to text,"                                               \
    " ADD COLUMN IF NOT EXISTS is_moving bool NOT NULL DEFAULT false;"

/* Makes this version of an older one, and changes nothing of any other. Nodes of the older version serve meanwhile, so
 * it waits for nobody's transaction: behind its lock, which waits for a dump, all that read the tables would wait as
 * well. It has both tables locked, or neither: a node that has one of them locked and waits for the other gets it in
 * 100 ms, long before PostgreSQL would find a deadlock and refuse what the node asked for. */
#define PG_UPGRADE                                                                                                     \
    "DO $$DECLARE found int; gives_up timestamptz := clock_timestamp() + interval '2 s'; BEGIN"                        \
    " PERFORM set_config('lock_timeout', '1s', true);"                                                                 \
    " SELECT number INTO found FROM tally_log.version FOR UPDATE;"                                                     \
    " IF found NOT IN (1, 2, 3) THEN RETURN; END IF;"                                                                  \
    " IF found = 1 THEN " PG_NODE_TABLE " END IF;"                                                                     \
    " PERFORM set_config('lock_timeout', '100ms', true);"                                                              \
    " LOOP BEGIN LOCK TABLE tally_log.head, tally_log.node; EXIT; EXCEPTION WHEN lock_not_available THEN"              \
    " IF clock_timestamp() > gives_up THEN RAISE; END IF; PERFORM pg_sleep(0.05); END; END LOOP;"                      \
    " IF found < 3 THEN " PG_CLUSTER_TABLES " END IF;"                                                                 \
    " " PG_MOVE_COLUMNS " UPDATE tally_log.version SET number = 4; END$$"

/* Runs as one transaction; "tallyd --init" sends it. */
#define PG_SCHEMA                                                                                                      \
    "BEGIN;"                                                                                                           \
    "CREATE SCHEMA tally_log;"                                                                                         \
    "CREATE TABLE tally_log.version (number int NOT NULL);"                                                            \
    "INSERT INTO tally_log.version VALUES (4);" PG_NODE_TABLE "CREATE TABLE tally_log.head ("                          \
    " id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, log text NOT NULL UNIQUE,"                                      \
    " epoch bigint NOT NULL DEFAULT 0, owner uuid NOT NULL, node text NOT NULL DEFAULT '',"                            \
    " sealed_at timestamptz, timeline text, system_id bigint, moved_to text, is_moving bool NOT NULL DEFAULT false)"   \
    " WITH (fillfactor = 50);"                                                                                         \
    "CREATE TABLE tally_log.beat (log int PRIMARY KEY REFERENCES tally_log.head, number bigint NOT NULL DEFAULT 0)"    \
    " WITH (fillfactor = 50);" PG_CLUSTER_TABLES "CREATE TABLE tally_log.file ("                                       \
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

/* Is the log elsewhere, or on its way? */
#define PG_IS_AWAY "(h.moved_to IS NOT NULL OR h.is_moving)"

/* How pg_stat_activity names the connection on which a node reads or writes a log, before the log's name (session.h,
 * link.h): who has one and not the lock of its epoch follows the log. A log for which another one decides is not waited
 * for by its lock (pg_options.leads); where the connection string names the application, only those that wait are
 * counted. */
#define PG_READER "'tallyd, owner of '"

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* A node whose newest beat is older is not alive: milliseconds. */
#define PG_ALIVE_LIMIT "greatest(5000, 2 * n.lease_ms)"

/* Each node, with its newest beat. The age is of this server's clock. */
#define PG_NODE_COLUMNS                                                                                                \
    "n.id, n.name, n.address, n.version, n.is_draining, n.instance,"                                                   \
    " CASE WHEN b.at > clock_timestamp() THEN 0 ELSE (extract(epoch FROM clock_timestamp() - b.at) * 1000)::bigint"    \
    " END, " PG_ALIVE_LIMIT ", b.number"
#define PG_NODE_ROWS                                                                                                   \
    " FROM tally_log.node n LEFT JOIN LATERAL (SELECT at, number FROM tally_log.node_beat WHERE node = n.id"           \
    " ORDER BY number DESC LIMIT 1) b ON true"
#define PG_TIME(column) "coalesce(to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), '')"

/* A head that was written since moment $1 of the past, as an earlier statement saw it; empty: any. */
#define PG_HEAD_IS_NEW "($1::text = '' OR age(h.xmin) BETWEEN 0 AND age(nullif($1, '')::xid8::xid))"

/* NODE_REGISTER: $1 name, $2 address, $3 version, $4 the process, $5 its lease, $6 'true': whoever had the name.
 * Otherwise the name is left to another process that is alive; no row says that it is.
 *
 * NODE_BEAT, a sign of life, and all nodes: $1 a moment, $2 id, $3 the process, $4 the number of the beat. Behind the
 * nodes' columns: how many heads are new, how often operators have changed something, which wishes concern logs of this
 * node (a sum that differs when they do), and the moment of this statement.
 *
 * MOVE_FIND: where the log is (empty: here), whether it was written on another server, whether a copy may replace what
 * is here (it has left, or nobody has had it since it was put here), and the longest lease of a node.
 *
 * MOVE_MARK: the owner of a row that leads elsewhere is drawn anew, and so tells one command that moves the log from
 * another one. Where the log is here, the seal does that. */
#define PG_CLUSTER_STATEMENT_LIST(X)                                                                                   \
    X(NODE_REGISTER,                                                                                                   \
      "WITH registered AS (INSERT INTO tally_log.node AS n (name, address, version, instance, lease_ms)"               \
      " VALUES ($1::text, $2::text, $3::text, $4::uuid, $5::int) ON CONFLICT (name) DO UPDATE SET address = $2,"       \
      " version = $3, lease_ms = $5, began_at = CASE n.instance WHEN $4 THEN n.began_at ELSE clock_timestamp() END,"   \
      " instance = $4 WHERE $6::text = 'true' OR n.instance IS NULL OR n.instance = $4 OR coalesce((SELECT"            \
      "  extract(epoch FROM clock_timestamp() - b.at) * 1000 FROM tally_log.node_beat b WHERE b.node = n.id"           \
      "  ORDER BY number DESC LIMIT 1), 1e9) > " PG_ALIVE_LIMIT " RETURNING id),"                                      \
      " unwished AS (DELETE FROM tally_log.wish w USING registered WHERE w.node = registered.id),"                     \
      " tidied AS (DELETE FROM tally_log.node_beat b USING registered WHERE b.node = registered.id AND b.number <"     \
      "  (SELECT max(number) FROM tally_log.node_beat WHERE node = registered.id))"                                    \
      " SELECT id, coalesce((SELECT max(number) FROM tally_log.node_beat b WHERE b.node = registered.id), 0)"          \
      " FROM registered")                                                                                              \
    X(NODE_BEAT,                                                                                                       \
      "WITH me AS MATERIALIZED (SELECT id, name FROM tally_log.node WHERE id = $2::int AND instance = $3::uuid),"      \
      " gone AS (DELETE FROM tally_log.node_beat b USING me WHERE b.node = me.id"                                      \
      "  AND b.number BETWEEN $4::bigint - 8 AND $4 - 1),"                                                             \
      " beat AS (INSERT INTO tally_log.node_beat (node, number) SELECT id, $4 FROM me)"                                \
      " SELECT " PG_NODE_COLUMNS ", (SELECT count(*) FROM tally_log.head h WHERE " PG_HEAD_IS_NEW "),"                 \
      " (SELECT changes FROM tally_log.cluster), (SELECT coalesce(sum(hashint8(w.log::bigint << 32 | w.node)), 0)"     \
      "  FROM tally_log.wish w"                                                                                        \
      "  WHERE (SELECT h.node FROM tally_log.head h WHERE h.id = w.log) = (SELECT name FROM me)),"                     \
      " pg_snapshot_xmin(pg_current_snapshot())::text" PG_NODE_ROWS)                                                   \
    /* The process ends in order. */                                                                                   \
    X(NODE_LEAVE, "WITH me AS (UPDATE tally_log.node SET instance = NULL WHERE id = $1::int AND instance = $2::uuid"   \
                  " RETURNING id) DELETE FROM tally_log.wish w USING me WHERE w.node = me.id")                         \
    X(NODES, "SELECT " PG_NODE_COLUMNS ", " PG_TIME("n.began_at") ", " PG_TIME("b.at") PG_NODE_ROWS)                   \
    /* The heads that are new since moment $1, from id $2 on, $3 of them. */                                           \
    X(HEADS,                                                                                                           \
      "SELECT h.id, h.log, h.epoch, h.node, h.moved_to, h.is_moving FROM tally_log.head h WHERE " PG_HEAD_IS_NEW       \
      " AND h.id > $2::int ORDER BY h.id LIMIT $3::int")                                                               \
    X(PINS, "SELECT log, node FROM tally_log.pin ORDER BY log")                                                        \
    /* The wishes for logs of the node named $1; empty: all. */                                                        \
    X(WISHES, "SELECT w.log, w.node FROM tally_log.wish w WHERE $1::text = '' OR"                                      \
              " (SELECT h.node FROM tally_log.head h WHERE h.id = w.log) = $1")                                        \
    /* $1 id of the node, $2 ids of logs, with commas. */                                                              \
    X(WISH, "INSERT INTO tally_log.wish (log, node) SELECT log, n.id FROM tally_log.node n,"                           \
            " unnest(string_to_array($2::text, ',')::int[]) AS log WHERE n.id = $1::int ON CONFLICT DO NOTHING")       \
    X(UNWISH, "DELETE FROM tally_log.wish WHERE node = $1::int"                                                        \
              " AND log = ANY (string_to_array($2::text, ',')::int[])")                                                \
    /* Of a log that is elsewhere: $1 its name, $2 the node that has it, empty: it is at rest, $3 its epoch there. */  \
    X(TELL_OWNER, "UPDATE tally_log.head SET node = $2::text, epoch = $3::bigint WHERE log = $1::text"                 \
                  " AND moved_to IS NOT NULL AND epoch <= $3 AND (node <> $2 OR epoch < $3)")                          \
    X(CLUSTER, "SELECT salt, cost, fingerprint, node, address, " PG_TIME("began_at") " FROM tally_log.cluster")        \
    /* $1 salt, $2 cost, $3 fingerprint, $4 and $5 name and address of the node that begins the cluster. */            \
    X(CLUSTER_BEGIN, "INSERT INTO tally_log.cluster (salt, cost, fingerprint, node, address)"                          \
                     " VALUES ($1::bytea, $2::int, $3::bytea, $4::text, $5::text) ON CONFLICT DO NOTHING")             \
    /* What operators do; each returns the rows that it changed, and has the nodes look. $1 the name of a node. */     \
    X(DRAIN, "WITH changed AS (UPDATE tally_log.node SET is_draining = $2::text = 'true' WHERE name = $1::text"        \
             " RETURNING 1)" PG_COUNT_CHANGE)                                                                          \
    X(FORGET, "WITH changed AS (DELETE FROM tally_log.node n WHERE n.name = $1::text AND (n.instance IS NULL OR"       \
              " coalesce((SELECT extract(epoch FROM clock_timestamp() - b.at) * 1000 FROM tally_log.node_beat b"       \
              "  WHERE b.node = n.id ORDER BY number DESC LIMIT 1), 1e9) > " PG_ALIVE_LIMIT ")"                        \
              " RETURNING 1)" PG_COUNT_CHANGE)                                                                         \
    /* $2 the name of a log. */                                                                                        \
    X(PIN, "WITH changed AS (INSERT INTO tally_log.pin (log, node) SELECT h.id, n.id FROM tally_log.head h,"           \
           " tally_log.node n WHERE h.log = $2::text AND n.name = $1::text"                                            \
           " ON CONFLICT (log) DO UPDATE SET node = excluded.node RETURNING 1)" PG_COUNT_CHANGE)                       \
    X(UNPIN, "WITH changed AS (DELETE FROM tally_log.pin p USING tally_log.head h WHERE h.id = p.log"                  \
             " AND h.log = $1::text RETURNING 1)" PG_COUNT_CHANGE)                                                     \
    /* The way of a log to another server (log_move.c), see above; $1 its name. */                                     \
    X(MOVE_FIND, "SELECT h.id, h.epoch, h.owner, coalesce(h.moved_to, ''),"                                            \
                 " h.system_id <> (SELECT system_identifier FROM pg_control_system()),"                                \
                 " h.moved_to IS NOT NULL OR h.sealed_at IS NULL,"                                                     \
                 " (SELECT coalesce(max(n.lease_ms), 0) FROM tally_log.node n)"                                        \
                 " FROM tally_log.head h WHERE h.log = $1::text")                                                      \
    /* In the cluster's own database, if it is at $2 so far (empty: here): nobody may take it. */                      \
    X(MOVE_MARK, "UPDATE tally_log.head SET is_moving = true,"                                                         \
                 " owner = CASE WHEN moved_to IS NULL THEN owner ELSE gen_random_uuid() END"                           \
                 " WHERE log = $1::text" PG_IS_AT " RETURNING owner")                                                  \
    /* The same, with mark $3: from now on it is at $4, in epoch $5, and nobody has it. */                             \
    X(MOVE_LEAD, "UPDATE tally_log.head SET moved_to = $4::text, is_moving = false, node = '',"                        \
                 " epoch = greatest(epoch, $5::bigint) WHERE log = $1::text AND is_moving" PG_IS_AT                    \
                 " AND owner = $3::uuid RETURNING 1")                                                                  \
    /* The same: it is marked so, and nobody changes that before the transaction ends. */                              \
    X(MOVE_HOLD, "SELECT 1 FROM tally_log.head WHERE log = $1::text AND is_moving" PG_IS_AT " AND owner = $3::uuid"    \
                 " FOR UPDATE")                                                                                        \
    /* The same: it stays there, in the way that $4 says it, and does not move. */                                     \
    X(MOVE_STAY, "UPDATE tally_log.head SET moved_to = nullif($4::text, ''), is_moving = false"                        \
                 " WHERE log = $1::text" PG_IS_AT " AND (owner = $3::uuid OR NOT is_moving) RETURNING 1")              \
    /* Where it is to be, but for the cluster's own: it is in epoch $2 there, and a copy may replace it. */            \
    X(MOVE_AIM, "SELECT 1 FROM tally_log.head WHERE log = $1::text AND epoch = $2::bigint"                             \
                " AND (moved_to IS NOT NULL OR sealed_at IS NULL) FOR UPDATE")                                         \
    /* $2, $3 the epoch and owner that end; $4 where it is from now on; empty: that is not said here. */               \
    X(MOVE_SEAL, "UPDATE tally_log.head SET epoch = epoch + 1, owner = gen_random_uuid(), node = '',"                  \
                 " sealed_at = clock_timestamp(), moved_to = nullif($4::text, '') WHERE log = $1::text"                \
                 " AND epoch = $2::bigint AND owner = $3::uuid RETURNING epoch, owner")                                \
    /* It is here, behind epoch $2, and who wants it takes it. */                                                      \
    X(MOVE_OPEN, "UPDATE tally_log.head SET epoch = greatest(epoch, $2::bigint) + 1, owner = gen_random_uuid(),"       \
                 " node = '', moved_to = NULL, is_moving = false, sealed_at = NULL,"                                   \
                 " system_id = (SELECT system_identifier FROM pg_control_system())"                                    \
                 " WHERE log = $1::text RETURNING epoch")                                                              \
    /* Its files are removed here; $2 'true': if it is elsewhere. */                                                   \
    X(MOVE_CLEAN, "WITH gone AS (DELETE FROM tally_log.file f USING tally_log.head h WHERE f.log = h.id"               \
                  " AND h.log = $1::text AND ($2::text <> 'true' OR h.moved_to IS NOT NULL) RETURNING f.id)"           \
                  " DELETE FROM tally_log.chunk c USING gone WHERE c.file = gone.id")

#define PG_IS_AT " AND coalesce(moved_to, '') = $2::text"

#define PG_COUNT_CHANGE                                                                                                \
    ", counted AS (UPDATE tally_log.cluster SET changes = changes + 1 WHERE EXISTS (SELECT 1 FROM changed))"           \
    " SELECT count(*) FROM changed"

/* X(NAME, text) */
#define PG_STATEMENT_LIST(X)                                                                                           \
    /* Each log: who has it, since when, how many follow it (PG_READER). */                                            \
    X(LOGS, "SELECT h.log, h.epoch, h.node, coalesce(to_char(h.sealed_at AT TIME ZONE 'UTC', "                         \
            "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), ''), coalesce(l.owners, 0) > 0,"                                       \
            " greatest(coalesce(l.waiters, 0), (SELECT count(*) FROM pg_stat_activity a"                               \
            "  WHERE a.datname = current_database() AND a.application_name = left(" PG_READER " || h.log, 63)"         \
            "  AND NOT a.pid = ANY (coalesce(l.owner_pids, '{}')))),"                                                  \
            " coalesce(h.moved_to, ''), h.is_moving"                                                                   \
            " FROM tally_log.head h LEFT JOIN (SELECT classid, objid, count(*) FILTER (WHERE granted) AS owners,"      \
            "  count(*) FILTER (WHERE NOT granted) AS waiters, array_agg(pid) FILTER (WHERE granted) AS owner_pids"    \
            "  FROM pg_locks WHERE locktype = 'advisory'"                                                              \
            "  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"                        \
            "  GROUP BY classid, objid) l ON l.classid = 1952541804 + h.id AND l.objid = h.epoch % 2147483648"         \
            " ORDER BY h.log")                                                                                         \
    /* Each not at rest: its owner's signs of life, who that is, where it is found, and is its process connected? */   \
    X(OWNERS, "SELECT h.log, h.epoch, coalesce(b.number, 0), h.node, coalesce(n.address, ''), l.pid IS NOT NULL"       \
              " FROM tally_log.head h LEFT JOIN tally_log.beat b ON b.log = h.id"                                      \
              " LEFT JOIN tally_log.node n ON n.name = h.node LEFT JOIN (SELECT classid, objid, min(pid) AS pid"       \
              "  FROM pg_locks WHERE locktype = 'advisory' AND granted"                                                \
              "  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"                      \
              "  GROUP BY classid, objid) l ON l.classid = 1952541804 + h.id AND l.objid = h.epoch % 2147483648"       \
              " WHERE h.node <> '' ORDER BY h.log COLLATE \"C\"")                                                      \
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
            " (extract(epoch FROM clock_timestamp()) * 1000)::bigint, coalesce(n.address, ''), " PG_IS_AWAY            \
            " FROM tally_log.head h LEFT JOIN tally_log.node n ON n.name = h.node WHERE h.log = $1::text")             \
    /* $2, $3: the epoch and owner that end; $4 the new owner, $5 its name. No row: somebody else was faster. */       \
    X(SEAL,                                                                                                            \
      "UPDATE tally_log.head SET epoch = epoch + 1, owner = $4::uuid, node = $5::text, sealed_at = clock_timestamp()," \
      " timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8),"                                                    \
      " system_id = (SELECT system_identifier FROM pg_control_system())"                                               \
      " WHERE id = $1::int AND epoch = $2::bigint AND owner = $3::uuid AND moved_to IS NULL AND NOT is_moving"         \
      " RETURNING epoch")                                                                                              \
    /* Its owner leaves the log, and nothing in it has to be looked after. */                                          \
    X(REST, "UPDATE tally_log.head SET node = '' WHERE id = $1::int AND epoch = $2::bigint AND owner = $3::uuid")      \
    X(BEGIN_BEAT, "INSERT INTO tally_log.beat (log) VALUES ($1::int) ON CONFLICT DO NOTHING")                          \
    X(BEAT, PG_FENCE "UPDATE tally_log.beat SET number = number + 1 FROM fence WHERE log = $1")                        \
    /* Beats of many logs: ids, epochs and owners, with commas. Where somebody has a row locked, it is passed over. */ \
    X(PULSE, "WITH mine AS MATERIALIZED (SELECT h.id FROM tally_log.head h JOIN unnest("                               \
             "string_to_array($1::text, ',')::int[], string_to_array($2::text, ',')::bigint[],"                        \
             " string_to_array($3::text, ',')::uuid[]) AS m(id, epoch, owner)"                                         \
             " ON h.id = m.id AND h.epoch = m.epoch AND h.owner = m.owner JOIN tally_log.beat b ON b.log = h.id"       \
             " ORDER BY h.id FOR SHARE OF h SKIP LOCKED FOR NO KEY UPDATE OF b SKIP LOCKED)"                           \
             " UPDATE tally_log.beat b SET number = number + 1 FROM mine WHERE b.log = mine.id RETURNING b.log")       \
    /* Signs of life of the owner. */                                                                                  \
    X(SIGNS, "SELECT h.epoch, b.number, h.node, coalesce(n.address, ''), " PG_IS_AWAY " FROM tally_log.head h"         \
             " LEFT JOIN tally_log.beat b ON b.log = h.id LEFT JOIN tally_log.node n ON n.name = h.node"               \
             " WHERE h.id = $1::int")                                                                                  \
    /* Where this node is found: $1 its name, $2 its address, $3 its version. One that registers says so itself. */    \
    X(NODE, "INSERT INTO tally_log.node AS n (name, address, version) VALUES ($1::text, $2::text, $3::text)"           \
            " ON CONFLICT (name) DO UPDATE SET address = $2, version = $3, instance = NULL, began_at = DEFAULT"        \
            " WHERE (n.address <> $2 OR n.version <> $3) AND (n.instance IS NULL OR $2 = '')")                         \
    PG_CLUSTER_STATEMENT_LIST(X)                                                                                       \
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
