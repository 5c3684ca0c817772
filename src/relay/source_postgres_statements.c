/* The SQL of PostgreSQL's source. "@." is the schema. What changes something checks the fence first: $1 and $2 are
 * epoch and owner. */
#include "relay/source_postgres_parts.h"

#define ROW_COLUMNS                                                                                                    \
    "o.id, o.uid, o.kind, o.delay_s, o.queue, o.group_id, o.dedup_id, o.attributes::text, o.body,"                     \
    " o.created, clock_timestamp()"

/* What a scan looks at: rising pieces of ids, without those that are gone in between, given as $1 and $2: `low` stands
 * before the first id of a piece and `high` behind the last one. The pieces come one after the other, and so the server
 * sorts only within each. */
#define PIECES "unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS g(low, high, place) CROSS JOIN LATERAL"
#define SIZE_OF_ROW "octet_length(body) + coalesce(pg_column_size(attributes), 0) + 100"

/* The rows of the outbox `o` that are named by `ids` and by `pairs`, a query for ids and uids. The server can only look
 * for each id in the primary key, and compare each row that it finds with a hash table of the pairs: CASE keeps it from
 * making a join of them. Its statistics of the outbox say nothing, because rows live for milliseconds: it takes the
 * table for empty while thousands of rows wait, and a join would compare each of them with each name (R59). */
#define NAMED(ids, pairs) "o.id = ANY(" ids ") AND CASE WHEN (o.id, o.uid) IN (" pairs ") THEN true ELSE false END"
#define NAMED_BY_3_4 NAMED("$3::bigint[]", "SELECT * FROM unnest($3::bigint[], $4::uuid[])")
#define NAMED_BY_5_6 NAMED("$5::bigint[]", "SELECT * FROM unnest($5::bigint[], $6::uuid[])")
#define NAMED_BY_INTENT_I                                                                                              \
    NAMED("(SELECT ids FROM i)::bigint[]", "SELECT u.id, u.uid FROM i, unnest(ids, uids) AS u(id, uid)")

/* Which rows a statement deleted: array_agg() of none is NULL. */
#define DELETED_IDS "(SELECT array_agg(id) FROM d)"

/* MATERIALIZED keeps the row lock to one; without it the lease row was locked once per row. */
#define FENCE                                                                                                          \
    "f AS MATERIALIZED (SELECT 1 FROM @.lease WHERE source = 'outbox' AND epoch = $1::bigint AND owner = $2::uuid "    \
    "FOR SHARE)"

const char *const source_postgres_statements[STATEMENT_COUNT] = {
    /* $1: the floor; $2: ids in flight; $3: rows; $4: bytes, of which the row that crosses the limit is the last. The
     * size of a large body is known without reading it. The ids stand in a subquery because the server makes a hash
     * table of that; of an array it compares each of a thousand ids with each row, and of a held backlog many
     * thousands. */
    [STATEMENT_SCAN] =
        "SELECT " ROW_COLUMNS " FROM (SELECT *, sum(" SIZE_OF_ROW ")"
        "  OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
        "  FROM @.outbox WHERE id > $1::bigint AND id NOT IN (SELECT unnest($2::bigint[])) ORDER BY id LIMIT $3::int) o"
        " WHERE coalesce(o.before, 0) < $4::bigint ORDER BY o.id",
    /* $3, $4: names; $5, $6: their range, which may be empty. Where the rows of the range are those named, no more and
     * no fewer, they are deleted as a range, which takes a quarter of the time; else, as when one has become visible
     * between them, each by itself. Both halves see what the comparison saw: they are one statement. */
    [STATEMENT_DONE] =
        "WITH " FENCE ","
        " s AS MATERIALIZED (SELECT 1 FROM f WHERE"
        "   (SELECT array_agg(r.id) = $3::bigint[] AND array_agg(r.uid) = $4::uuid[]"
        "      FROM (SELECT id, uid FROM @.outbox WHERE id BETWEEN $5::bigint AND $6::bigint ORDER BY id) r)),"
        " d AS (DELETE FROM @.outbox o USING s WHERE o.id BETWEEN $5::bigint AND $6::bigint RETURNING o.id),"
        " e AS (DELETE FROM @.outbox o USING f WHERE NOT EXISTS (SELECT 1 FROM s) AND " NAMED_BY_3_4
        "        RETURNING o.id)"
        " SELECT (SELECT count(*) FROM f), (SELECT array_agg(id) FROM (TABLE d UNION ALL TABLE e) a)",
    [STATEMENT_PARK] =
        "WITH " FENCE ","
        " x AS (DELETE FROM @.outbox o USING f WHERE o.id = $3::bigint AND o.uid = $4::uuid RETURNING o.*),"
        " n AS (INSERT INTO @.dead(id, uid, kind, queue, group_id, dedup_id, attributes, delay_s, body, created,"
        "       error, is_doubted)"
        "       SELECT id, uid, kind, queue, group_id, dedup_id, attributes, delay_s, body, created,"
        "       $5::text, $6::boolean FROM x"
        "       ON CONFLICT (uid) DO UPDATE SET error = EXCLUDED.error, is_doubted = EXCLUDED.is_doubted,"
        "       failed = clock_timestamp() RETURNING 1)"
        " SELECT (SELECT count(*) FROM f), (SELECT array_agg(id) FROM x), (SELECT count(*) FROM n)",
    /* $3: the intent that is over; $4: the next; $5, $6: its rows; $7: the relay's time. A repeat finds the one gone
     * and the other there. */
    [STATEMENT_NOTE] =
        "WITH " FENCE ","
        " i AS (DELETE FROM @.intent t USING f WHERE t.source = 'outbox' AND t.epoch = $1::bigint"
        "       AND t.seq = $3::bigint RETURNING t.ids, t.uids),"
        " d AS (DELETE FROM @.outbox o USING i WHERE " NAMED_BY_INTENT_I " RETURNING o.id),"
        " n AS (INSERT INTO @.intent(source, epoch, seq, ids, uids, moment, grps)"
        "       SELECT 'outbox', $1::bigint, $4::bigint, $5::bigint[], $6::uuid[], $7::text,"
        "              ARRAY(SELECT coalesce((SELECT o.group_id FROM @.outbox o WHERE o.id = u.id AND o.uid = u.uid),"
        "                                    u.uid::text)"
        "                      FROM unnest($5::bigint[], $6::uuid[]) WITH ORDINALITY AS u(id, uid, place)"
        "                     ORDER BY u.place)"
        "         FROM f WHERE cardinality($5::bigint[]) > 0 ON CONFLICT DO NOTHING RETURNING 1)"
        " SELECT (SELECT count(*) FROM f), " DELETED_IDS ", (SELECT count(*) FROM n)",
    [STATEMENT_FIND_INTENT] =
        "SELECT epoch, seq, (extract(epoch FROM clock_timestamp() - started) * 1000)::bigint, moment"
        " FROM @.intent WHERE source = 'outbox' AND (epoch, seq) > ($1::bigint, $2::bigint)"
        " ORDER BY epoch, seq LIMIT 1",
    [STATEMENT_READ_INTENT] = "WITH i AS MATERIALIZED (SELECT ids, uids FROM @.intent"
                              "  WHERE source = 'outbox' AND epoch = $1::bigint AND seq = $2::bigint)"
                              " SELECT " ROW_COLUMNS " FROM @.outbox o WHERE " NAMED_BY_INTENT_I " ORDER BY o.id",
    [STATEMENT_END_INTENT] = "WITH " FENCE ","
                             " i AS (DELETE FROM @.intent t USING f WHERE t.source = 'outbox' AND t.epoch = $3::bigint"
                             "       AND t.seq = $4::bigint RETURNING 1),"
                             " d AS (DELETE FROM @.outbox o USING f WHERE " NAMED_BY_5_6 " RETURNING o.id)"
                             " SELECT (SELECT count(*) FROM f), " DELETED_IDS ", (SELECT count(*) FROM i)",

    /* --- the settled floor */
    [STATEMENT_HIGH] = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM @.outbox_id_seq",
    [STATEMENT_WRITERS] =
        "SELECT virtualtransaction, (pid IS NULL)::int FROM pg_locks WHERE locktype = 'relation' AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND relation = '@.outbox'::regclass AND pid IS DISTINCT FROM pg_backend_pid()"
        " AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')",
    [STATEMENT_LOWEST] =
        "SELECT p.id FROM " PIECES " (SELECT id FROM @.outbox WHERE id > g.low AND id < g.high ORDER BY id LIMIT 1) p"
        " ORDER BY g.place LIMIT 1",
    /* The scan in pieces, the rest from $3 on. It costs a twentieth more where there is nothing to pass over. */
    [STATEMENT_SCAN_PIECES] =
        "SELECT " ROW_COLUMNS " FROM (SELECT g.place, p.*, sum(" SIZE_OF_ROW ")"
        "  OVER (ORDER BY g.place, p.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM " PIECES
        "  (SELECT * FROM @.outbox WHERE id > g.low AND id < g.high AND id NOT IN (SELECT unnest($3::bigint[]))"
        "    ORDER BY id LIMIT $4::int) p ORDER BY g.place, p.id LIMIT $4::int) o"
        " WHERE coalesce(o.before, 0) < $5::bigint ORDER BY o.place, o.id",

    /* --- replicas */
    /* Where the next record goes, and not what is written or flushed: a row committed with synchronous_commit = off is
     * visible before. */
    [STATEMENT_POSITION] = "SELECT pg_current_wal_insert_lsn()",
    /* Whoever takes the log to decode it is no replica, nor is a backup that is being made. */
    [STATEMENT_REPLICAS] = "SELECT (pg_current_wal_flush_lsn() >= $1::pg_lsn)::int, count(*), count(*) FILTER (WHERE "
                           "flush_lsn >= $1::pg_lsn)"
                           "  FROM pg_stat_replication r WHERE application_name <> 'pg_basebackup'"
                           "   AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND "
                           "s.slot_type = 'logical')",
    /* A commit takes all that is before it to the disk; this one waits for no replica. */
    [STATEMENT_FLUSH] =
        "SELECT set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'tally', '')",

    /* --- admin queries */
    /* Counts exactly up to a thousand; where there are more, the highest id says how many: not by max(), for which the
     * server reads a table that it takes for empty. The horizon: what is old, of a few minutes or of many
     * transactions. */
    [STATEMENT_HEALTH] =
        "WITH w AS MATERIALIZED (SELECT g.place, p.id, p.created FROM " PIECES
        "  (SELECT id, created FROM @.outbox WHERE id > g.low AND id < g.high ORDER BY id LIMIT 1001) p"
        "  ORDER BY g.place, p.id LIMIT 1001)"
        " SELECT (SELECT count(*) FROM w),"
        " (SELECT (greatest(extract(epoch FROM clock_timestamp() - created), 0) * 1000)::bigint FROM w ORDER BY id "
        "LIMIT 1),"
        " (SELECT count(*) FROM @.dead), (SELECT min(id) FROM w),"
        " CASE WHEN (SELECT count(*) FROM w) > 1000 THEN (SELECT id FROM @.outbox ORDER BY id DESC LIMIT 1) END",
    [STATEMENT_HORIZON] =
        "SELECT what, xids::bigint, seconds FROM ("
        " SELECT format('process %s of %s (%s) has had a transaction open', pid,"
        "               coalesce(usename, 'an unknown user'), coalesce(nullif(application_name, ''), 'no name')),"
        "        age(backend_xmin), extract(epoch FROM clock_timestamp() - coalesce(xact_start,"
        "        backend_start))::bigint"
        "   FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
        "    AND backend_type NOT LIKE 'autovacuum%'"
        " UNION ALL"
        " SELECT format('the prepared transaction %s has been open', gid), age(transaction),"
        "        extract(epoch FROM clock_timestamp() - prepared)::bigint"
        "   FROM pg_prepared_xacts WHERE database = current_database()"
        " UNION ALL"
        " SELECT format('the replication slot %s has stood still', slot_name), age(xmin), 0"
        "   FROM pg_replication_slots WHERE xmin IS NOT NULL"
        ") AS h(what, xids, seconds) WHERE seconds > 300 OR xids > 100000 ORDER BY xids DESC LIMIT 1",
    [STATEMENT_LIST_PARKED] = "SELECT id, uid, queue, group_id, error, is_doubted::int,"
                              " (greatest(extract(epoch FROM clock_timestamp() - failed), 0) * 1000)::bigint"
                              " FROM @.dead ORDER BY failed, uid LIMIT $1::int",
    [STATEMENT_SEND_PARKED] =
        "WITH x AS (DELETE FROM @.dead WHERE uid = $1::uuid RETURNING *)"
        " INSERT INTO @.outbox(uid, kind, queue, group_id, dedup_id, attributes, delay_s, body)"
        " SELECT uid, kind, queue, group_id, dedup_id, attributes, delay_s, body FROM x RETURNING 1",
    [STATEMENT_DROP_PARKED] = "DELETE FROM @.dead WHERE uid = $1::uuid RETURNING 1",
};
