-- The outbox and the inbox of Tally in PostgreSQL 13 or newer, as printed by: tally relay schema --type postgres
--
--   tally relay schema --type postgres | psql -v ON_ERROR_STOP=1 -1
--
-- It may be run again at any time: what is there stays as it is, and what a newer text brings is added.
--
-- The outbox: an application writes a message in the transaction of its own data, with tally.send(). If the transaction commits,
-- a relay delivers the message and then deletes the row; if it rolls back, there is no message. The inbox: a consumer calls
-- tally.once() in the transaction of its effect, and so the effect happens once, however often the message is delivered.

SET client_min_messages = warning; -- "already exists, skipping" is no news

CREATE SCHEMA IF NOT EXISTS tally;

-- 1. Version -----------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS tally.version (
  is_the_one boolean PRIMARY KEY DEFAULT true CHECK (is_the_one),
  number     int NOT NULL
);

-- A newer version is left alone. A later text stands here with the steps from each older version to its own.
DO $$
DECLARE
  installed int := (SELECT number FROM tally.version);
BEGIN
  IF installed > 1 THEN
    RAISE EXCEPTION 'the schema tally has version %, and this text knows versions up to 1', installed
      USING HINT = 'Take the text that a newer Tally prints: tally relay schema --type postgres';
  END IF;
  IF installed IS NULL THEN
    INSERT INTO tally.version (number) VALUES (1);
  END IF;
END $$;

-- 2. Outbox ------------------------------------------------------------------------------------------------------------

-- Names as SQS takes them; values are a string, a number, or what SQS itself takes: {"DataType": ..., "StringValue": ...}. The row's own
-- id travels besides: to Amazon SQS as one of its ten, so that there is room for nine there. The context of a trace is not counted:
-- a tool that adds it must not make a transaction fail. To Amazon SQS it goes where there is room.
CREATE OR REPLACE FUNCTION tally.attributes_are_sound(attributes jsonb) RETURNS boolean
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN jsonb_typeof(attributes) <> 'object' THEN false ELSE
  (SELECT count(*) FILTER (WHERE key NOT IN ('traceparent', 'tracestate', 'baggage')) <= 10 AND coalesce(bool_and(
            key COLLATE "C" ~ '^[A-Za-z0-9_.-]+$' AND length(key) <= 256 AND key <> 'Tally.OutboxId'
            AND CASE jsonb_typeof(value)
                  WHEN 'string' THEN value <> '""'
                  WHEN 'number' THEN true
                  WHEN 'object' THEN value ? 'DataType'
                  ELSE false END), true)
     FROM jsonb_each(attributes)) AND convert_to(attributes::text, 'UTF8') IS NOT NULL END
$$;

-- The constraints stop what no sink would take where it can still be mended: in the transaction that writes it. Their names
-- are what the application reads in its error. In a database of another encoding than UTF8 that goes for characters, too, that have
-- no place in UTF-8: convert_to() fails.
CREATE TABLE IF NOT EXISTS tally.outbox (
  -- A relay finds rows by their presence and delivers them in the order of their ids. ALWAYS and CACHE 1 carry that order: with
  -- chosen or set-aside ids, a row that was written later could stand before one that was written earlier.
  id         bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  uid        uuid        NOT NULL DEFAULT gen_random_uuid(), -- names the message for ever, also where an id is given again
  kind       smallint    NOT NULL DEFAULT 0                  -- 0 sends a message, 1 deletes one that was received
    CONSTRAINT "kind: 0 (send) or 1 (ack)" CHECK (kind IN (0, 1)),
  queue      text        NOT NULL                            -- name or URL; empty: the one queue of the relay's sink
    CONSTRAINT "queue: a name of 1 to 80 letters, digits, - and _, or a URL"
    CHECK (queue = '' OR (length(queue) <= 80 AND queue COLLATE "C" ~ '^[A-Za-z0-9_-]+(\.fifo)?$')
           OR (length(queue) <= 1000 AND queue COLLATE "C" ~ '^https?://[!-~]+$')),
  group_id   text        COLLATE "C"                         -- rows of one group are delivered in their order; NULL: no order
    CONSTRAINT "group_id: 1 to 128 printable ASCII characters, no space" CHECK (group_id ~ '^[!-~]{1,128}$'),
  dedup_id   text                                            -- NULL: the uid
    CONSTRAINT "dedup_id: 1 to 128 printable ASCII characters, no space" CHECK (dedup_id COLLATE "C" ~ '^[!-~]{1,128}$'),
  attributes jsonb                                           -- of the message; NULL: none
    CONSTRAINT "attributes: up to 10, of strings, numbers or DataType objects" CHECK (tally.attributes_are_sound(attributes)),
  delay_s    int         NOT NULL DEFAULT 0
    CONSTRAINT "delay_s: 0 to 900 seconds" CHECK (delay_s BETWEEN 0 AND 900),
  body       text        NOT NULL                            -- of the message; of an ack the receipt handle
    CONSTRAINT "body: 1 to 1,048,576 bytes" CHECK (octet_length(convert_to(body, 'UTF8')) BETWEEN 1 AND 1048576)
    CONSTRAINT "body: no control characters except tab and line ends"
    CHECK (body COLLATE "C" !~ '[\u0001-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]'),
  created    timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT "ack: only a receipt handle, in body"
    CHECK (kind = 0 OR (queue = '' AND group_id IS NULL AND dedup_id IS NULL AND attributes IS NULL AND delay_s = 0))
) WITH (
  -- Rows live for milliseconds. What counts is how many are dead, not how they compare to how many there are.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 2000, toast.autovacuum_vacuum_cost_delay = 0
);

-- Large bodies are not compressed inside the application's transaction. Only once: the statement locks the table.
DO $$ BEGIN
  IF (SELECT attstorage <> 'e' FROM pg_catalog.pg_attribute WHERE attrelid = 'tally.outbox'::regclass AND attname = 'body') THEN
    ALTER TABLE tally.outbox ALTER body SET STORAGE EXTERNAL;
  END IF;
END $$;

-- Rows that a sink refused, or that may have been delivered and must not be tried again. They wait for a person.
CREATE TABLE IF NOT EXISTS tally.dead (
  id bigint NOT NULL, uid uuid PRIMARY KEY, kind smallint NOT NULL, queue text NOT NULL, group_id text COLLATE "C", dedup_id text,
  attributes jsonb, delay_s int NOT NULL, body text NOT NULL, created timestamptz NOT NULL,
  error      text        NOT NULL,
  is_doubted boolean     NOT NULL, -- it may have been delivered; else it was refused
  failed     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Sends a message: when the transaction commits, it will be delivered; if it rolls back, never. The answer names the message for
-- ever: it travels as the attribute Tally.OutboxId, and is what a consumer gives to tally.once(). Messages of one group_id are
-- delivered in the order in which they were written; a transaction that begins after another one has committed comes behind it.
CREATE OR REPLACE FUNCTION tally.send(queue text, body text, group_id text DEFAULT NULL, dedup_id text DEFAULT NULL,
                                      attributes jsonb DEFAULT '{}', delay_seconds int DEFAULT 0) RETURNS uuid
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  message_id uuid;
BEGIN
  INSERT INTO tally.outbox AS o (queue, group_id, dedup_id, attributes, delay_s, body)
  VALUES (send.queue, send.group_id, send.dedup_id, nullif(send.attributes, '{}'), coalesce(send.delay_seconds, 0), send.body)
  RETURNING o.uid INTO message_id;
  RETURN message_id;
END $$;

-- Deletes a message that was received from a Tally queue, when the transaction commits: the effect and the ack are one.
-- A handle that is not the newest any more may be refused then (Tally.StaleReceipts), and the message comes again; so
-- call tally.once() besides.
CREATE OR REPLACE FUNCTION tally.ack(receipt_handle text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tally.outbox (kind, queue, body) VALUES (1, '', ack.receipt_handle);
END $$;

-- 3. What relays keep ----------------------------------------------------------------------------------------------------

-- Which relay works: the fence. One version of the row for each takeover; what changes often stands in tally.beat, so that an old
-- snapshot elsewhere does not make this row slow to read.
CREATE TABLE IF NOT EXISTS tally.lease (
  source    text   PRIMARY KEY,
  source_id uuid   NOT NULL DEFAULT gen_random_uuid(), -- under which a Tally queue remembers the rows of this outbox
  epoch     bigint NOT NULL DEFAULT 0,
  owner     uuid   NOT NULL DEFAULT gen_random_uuid(),
  pid       int,
  system_id bigint,                                    -- of the database cluster: a copy of it must not pass for it
  timeline  text
);
CREATE TABLE IF NOT EXISTS tally.beat (
  source text PRIMARY KEY REFERENCES tally.lease, n bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO tally.lease (source) VALUES ('outbox') ON CONFLICT DO NOTHING;
INSERT INTO tally.beat (source) VALUES ('outbox') ON CONFLICT DO NOTHING;

-- A relay refuses an outbox that has come to another database cluster, by pg_dump for example, until this was called: by the
-- owner, and with the outbox as it is to go on. rekey() for a copy beside the original: it gets an identity of its own, and rows that
-- are in it are new messages; delete those first that the original sends. rekey(is_copy => false) if the original is gone for
-- good and this one takes its place: then a queue still knows what it has of these rows.
CREATE OR REPLACE FUNCTION tally.rekey(is_copy boolean DEFAULT true) RETURNS uuid LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
UPDATE tally.lease SET source_id = CASE WHEN is_copy THEN gen_random_uuid() ELSE source_id END, system_id = NULL, timeline = NULL
 WHERE source = 'outbox' RETURNING source_id
$$;

-- For sinks that do not remember rows: which ones are about to be tried, noted before the first attempt.
CREATE TABLE IF NOT EXISTS tally.intent (
  source  text        NOT NULL,
  epoch   bigint      NOT NULL,
  seq     bigint      NOT NULL, -- from 1 on within its epoch
  ids     bigint[]    NOT NULL,
  uids    uuid[]      NOT NULL,
  grps    text[]      NOT NULL,
  started timestamptz NOT NULL DEFAULT clock_timestamp(),
  moment  text, -- the same by the relay's clocks, for its own eyes: when the clock of this database was set meanwhile
  PRIMARY KEY (source, epoch, seq)
);

ALTER TABLE tally.intent ADD COLUMN IF NOT EXISTS moment text;

-- 4. Inbox ---------------------------------------------------------------------------------------------------------------

-- A row: this consumer's effect of this message is committed.
CREATE TABLE IF NOT EXISTS tally.inbox (
  consumer   text        NOT NULL,
  message_id text        NOT NULL CONSTRAINT "message_id: 1 to 500 bytes" CHECK (octet_length(message_id) BETWEEN 1 AND 500),
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, message_id)
);
CREATE INDEX IF NOT EXISTS inbox_at ON tally.inbox (at);

-- A row: the last message of this group whose effect is committed.
CREATE TABLE IF NOT EXISTS tally.inbox_group (
  consumer        text        NOT NULL,
  queue           text        NOT NULL,
  group_id        text        COLLATE "C" NOT NULL,
  sequence_number numeric(39) NOT NULL,
  at              timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, queue, group_id)
) WITH (fillfactor = 80);

-- True the first time; false if this consumer's effect of this message is committed: then ROLLBACK, and delete the message.
-- message_id is the attribute Tally.OutboxId of the message, or its MessageId if it has none. Different consumers of one database
-- give different names.
--
-- Call it first, then do the effect, then COMMIT, all in one transaction at READ COMMITTED (the default). While another worker's
-- transaction holds the same message, the call waits: for false if that one commits, for true if it rolls back. So effects
-- outside the database do not run side by side either. At REPEATABLE READ or SERIALIZABLE the call fails instead with SQLSTATE
-- 40001 if the other one commits: try the transaction again; it is no failure of the message.
-- If the answer to COMMIT was lost, call it again in a new transaction: it knows.
CREATE OR REPLACE FUNCTION tally.once(message_id text, consumer text DEFAULT '') RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tally.inbox (consumer, message_id) VALUES (coalesce(once.consumer, ''), once.message_id) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

-- The same, but it raises where tally.once says false, with SQLSTATE TALLY: no later statement of the transaction takes effect.
-- Then ROLLBACK, and delete the message.
CREATE OR REPLACE FUNCTION tally.once_or_raise(message_id text, consumer text DEFAULT '') RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT tally.once(once_or_raise.message_id, once_or_raise.consumer) THEN
    RAISE EXCEPTION 'already done: the effect of message % is committed', once_or_raise.message_id
      USING ERRCODE = 'TALLY', HINT = 'ROLLBACK, then delete the message.';
  END IF;
END $$;

-- Like tally.once, for FIFO queues, in the space of one row for each group, instead of one for each message: true if sequence_number
-- (the SequenceNumber of the message) is above the last one of its group. It knows a message that is delivered again, but not a copy
-- that was sent twice, since that has a number of its own; nor one that was moved back from a dead-letter queue.
CREATE OR REPLACE FUNCTION tally.once_in_group(queue text, group_id text, sequence_number numeric, consumer text DEFAULT '')
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO tally.inbox_group AS g (consumer, queue, group_id, sequence_number)
  VALUES (coalesce(once_in_group.consumer, ''), once_in_group.queue, once_in_group.group_id, once_in_group.sequence_number)
  ON CONFLICT (consumer, queue, group_id) DO UPDATE SET sequence_number = EXCLUDED.sequence_number, at = EXCLUDED.at
   WHERE g.sequence_number < EXCLUDED.sequence_number;
  RETURN FOUND;
END $$;

-- Forgets the oldest rows of the inbox, at most "max" of them, and says how many; call it again until it says 0. A message that
-- comes again after its row was forgotten has its effect again. So nothing younger than "horizon" is forgotten: the longest time
-- after which a message can still come, which is the retention of its queue plus that of its dead-letter queue. Both are 14 days at
-- most; give a shorter one if yours are, and a longer one if people move messages back later than that.
CREATE OR REPLACE FUNCTION tally.forget(older_than interval DEFAULT '30 days', max int DEFAULT 10000,
                                        horizon interval DEFAULT '28 days') RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forgotten int;
BEGIN
  IF older_than < horizon THEN
    RAISE EXCEPTION 'older_than is %, which is less than the % after which a message can still come again', older_than, horizon
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'If your queues and their dead-letter queues together keep messages for less, say so: horizon => ''8 days''';
  END IF;
  DELETE FROM tally.inbox
   WHERE ctid = ANY (ARRAY(SELECT i.ctid FROM tally.inbox i WHERE i.at < clock_timestamp() - older_than
                            ORDER BY i.at LIMIT forget.max));
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  RETURN forgotten;
END $$;

-- 5. Rights --------------------------------------------------------------------------------------------------------------

-- Nobody but the owner until you say so. The functions act with the owner's rights, so an application needs no right to a table.
REVOKE ALL ON FUNCTION tally.send, tally.ack, tally.once, tally.once_or_raise, tally.once_in_group, tally.forget, tally.rekey
  FROM PUBLIC;

-- An application (put the name of its role for app):
--   GRANT USAGE ON SCHEMA tally TO app;
--   GRANT EXECUTE ON FUNCTION tally.send, tally.ack, tally.once, tally.once_or_raise, tally.once_in_group TO app;
-- and, if it is to write many rows with one INSERT or COPY, these columns and no others; it can then neither choose ids nor read
-- or change what is there:
--   GRANT INSERT (queue, group_id, dedup_id, attributes, delay_s, body) ON tally.outbox TO app;
--
-- Whoever cleans up:
--   GRANT USAGE ON SCHEMA tally TO cleaner;
--   GRANT EXECUTE ON FUNCTION tally.forget TO cleaner;
--
-- A relay:
--   GRANT USAGE ON SCHEMA tally TO relay;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON tally.outbox, tally.dead, tally.lease, tally.beat, tally.intent TO relay;
--   GRANT SELECT ON tally.version TO relay;
--   GRANT SELECT ON SEQUENCE tally.outbox_id_seq TO relay;
--   GRANT pg_read_all_stats TO relay;   -- lets it say who holds back VACUUM; PublishAfterReplicas needs it

RESET client_min_messages;
