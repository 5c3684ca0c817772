-- Tally's tables in a SQLite database: the outbox of its relay, and the inbox of consumers.
--
--   tally relay schema --type sqlite | sqlite3 app.db       makes them, and may be repeated: what is there stays
--   tally relay run --source sqlite:app.db --sink queue     delivers what applications write, for as long as it runs
--
-- Needs SQLite 3.35 or newer with JSON (it always has from 3.38 on), and a disk of this machine: over a network file system
-- SQLite's locks don't hold. Recommended, once for each database, in no transaction: PRAGMA journal_mode = WAL; then the relay's
-- reads and the application's writes don't wait for each other. Give each connection of the application some patience, such as
-- PRAGMA busy_timeout = 5000, and begin what writes with BEGIN IMMEDIATE.
--
-- SEND: one more INSERT of a transaction, in any language. With its commit the message is on its way, with a rollback it never was.
--
--   INSERT INTO tally_outbox(queue, body) VALUES ('orders', '{"order":17}') RETURNING uid;
--
-- The uid is the message's id: it travels as the message attribute Tally.OutboxId. More columns where they are wanted: group_id (the
-- messages of one group are delivered in the order of their commits), dedup_id, attributes (a JSON object: name -> string, number, or
-- {"DataType": …, "StringValue": …} as in SQS), delay_s. Leave id out, change no row later, and never write INSERT OR IGNORE: it
-- drops in silence what these tables refuse.
--
-- ACK: the message that was received is deleted when this transaction has committed, and not before.
--
--   INSERT INTO tally_outbox(kind, body) VALUES (1, :receipt_handle);
--
-- ONCE: the first statement of a consumer's transaction. If the message's effect is already committed, it raises "already done: …": then
-- ROLLBACK, and delete the message. The tool sqlite3 goes on behind an error, unless it was started with -bail.
--
--   INSERT INTO tally_once_or_raise(message_id) VALUES (:message_id);
--
-- The same for programs that look at an answer: a row comes back the first time, and none if the effect is already committed. (Where the
-- driver has no RETURNING: SELECT changes() says 1 or 0.)
--
--   INSERT INTO tally_inbox(message_id) VALUES (:message_id) ON CONFLICT DO NOTHING RETURNING 1;
--
-- The message_id is the attribute Tally.OutboxId, or the MessageId where there is none. Two consumers of one database that both
-- are to act give their names: (consumer, message_id). Forget what can never come again, and nothing that still may be in a
-- dead-letter queue: DELETE FROM tally_inbox WHERE at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-30 days');
--
-- EXAMPLE, in Python: a payment is received and booked, its receipt is sent and the message acknowledged, all or nothing.
--
--   db = sqlite3.connect("app.db", timeout=5, isolation_level=None)
--   db.execute("BEGIN IMMEDIATE")
--   try:
--       first = db.execute("INSERT INTO tally_inbox(message_id) VALUES (?) ON CONFLICT DO NOTHING RETURNING 1", (message_id,)).fetchall()
--       if first:
--           db.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, account))
--           db.execute("INSERT INTO tally_outbox(queue, group_id, body) VALUES ('receipts', ?, ?)", (account, receipt))
--       db.execute("INSERT INTO tally_outbox(kind, body) VALUES (1, ?)", (receipt_handle,))
--       db.execute("COMMIT")
--   except BaseException:
--       db.execute("ROLLBACK")
--       raise
--
-- A COPY of the database has the same rows and the same identity; a relay refuses it while the original is still where it was on this
-- machine. Give a copy an identity of its own, and delete from it the rows that the original sends:
-- UPDATE tally_lease SET path = NULL, source_id = lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4'
--   || substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)));

SAVEPOINT tally_schema; -- all or nothing, also within a transaction of yours

-- What is to be delivered; a row leaves when it is. AUTOINCREMENT: an id is never given twice. SQLite has one writer at a time, so the
-- order of ids is that of the commits. The constraints stop in the writer's own transaction what no destination can take; their names
-- are what the application reads in its error. One thing they let through, a control character in a body: to look for it would hold up
-- all writers. A destination that does not take it has that row parked.
CREATE TABLE IF NOT EXISTS tally_outbox (
  id         INTEGER PRIMARY KEY AUTOINCREMENT CONSTRAINT "id: leave it out" CHECK (id > 0),
  uid        TEXT NOT NULL                -- names the message for ever
             DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a'
                            || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))
             CONSTRAINT "uid: 8-4-4-4-12 lower-case hexadecimal digits"
             CHECK (typeof(uid) = 'text' AND length(CAST(uid AS BLOB)) = 36 AND length(replace(uid, '-', '')) = 32
                    AND substr(uid, 9, 1) || substr(uid, 14, 1) || substr(uid, 19, 1) || substr(uid, 24, 1) = '----'
                    AND uid NOT GLOB '*[^0-9a-f-]*'),
  kind       INTEGER NOT NULL DEFAULT 0   -- 0 sends a message, 1 deletes one that was received
             CONSTRAINT "kind: 0 (send) or 1 (ack)" CHECK (typeof(kind) = 'integer' AND kind IN (0, 1)),
  queue      TEXT NOT NULL DEFAULT ''     -- name or URL; empty: the one queue of the relay's sink
             CONSTRAINT "queue: a name of 1 to 80 letters, digits, - and _, or a URL"
             CHECK (typeof(queue) = 'text' AND length(queue) = length(CAST(queue AS BLOB)) AND
                    (length(queue) <= 80 AND CASE WHEN queue GLOB '?*.fifo' THEN substr(queue, 1, length(queue) - 5) ELSE queue END
                                             NOT GLOB '*[^A-Za-z0-9_-]*'
                     OR length(queue) <= 1000 AND (queue GLOB 'http://?*' OR queue GLOB 'https://?*')
                        AND queue NOT GLOB '*[^!-~]*')),
  group_id   TEXT                         -- rows of one group are delivered in their order; NULL: no order
             CONSTRAINT "group_id: 1 to 128 printable ASCII characters, no space"
             CHECK (group_id IS NULL OR typeof(group_id) = 'text' AND length(group_id) = length(CAST(group_id AS BLOB))
                                        AND length(group_id) BETWEEN 1 AND 128 AND group_id NOT GLOB '*[^!-~]*'),
  dedup_id   TEXT                         -- NULL: the uid
             CONSTRAINT "dedup_id: 1 to 128 printable ASCII characters, no space"
             CHECK (dedup_id IS NULL OR typeof(dedup_id) = 'text' AND length(dedup_id) = length(CAST(dedup_id AS BLOB))
                                        AND length(dedup_id) BETWEEN 1 AND 128 AND dedup_id NOT GLOB '*[^!-~]*'),
  attributes TEXT                         -- of the message, a JSON object; what it may hold is said below; NULL: none
             CONSTRAINT "attributes: a JSON object"
             CHECK (attributes IS NULL OR typeof(attributes) = 'text'
                                          AND CASE WHEN json_valid(attributes) THEN json_type(attributes) = 'object' ELSE 0 END),
  delay_s    INTEGER NOT NULL DEFAULT 0
             CONSTRAINT "delay_s: 0 to 900 seconds" CHECK (typeof(delay_s) = 'integer' AND delay_s BETWEEN 0 AND 900),
  created    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  body       TEXT NOT NULL                -- of the message; of an ack the receipt handle. Last: the rest is read without it
             CONSTRAINT "body: text of 1 to 1,048,576 bytes"
             CHECK (typeof(body) = 'text' AND length(CAST(body AS BLOB)) BETWEEN 1 AND 1048576)
             CONSTRAINT "body: no NUL" CHECK (instr(body, char(0)) = 0),
  CONSTRAINT "ack: only a receipt handle, in body"
  CHECK (kind = 0 OR queue = '' AND group_id IS NULL AND dedup_id IS NULL AND attributes IS NULL AND delay_s = 0)
);

-- A CHECK can't look into JSON. The row's own uid travels besides: to Amazon SQS as one of its ten, so that there is room for nine there.
-- The context of a trace is not counted: a tool that adds it must not make a transaction fail. To Amazon SQS it goes where there is room.
DROP TRIGGER IF EXISTS tally_outbox_attributes;
CREATE TRIGGER tally_outbox_attributes BEFORE INSERT ON tally_outbox WHEN json_valid(NEW.attributes) BEGIN
  SELECT RAISE(ABORT, 'attributes: up to 10, of strings, numbers or DataType objects')
   WHERE (SELECT count(CASE WHEN key NOT IN ('traceparent', 'tracestate', 'baggage') THEN 1 END) > 10
                 OR count(*) <> count(CASE WHEN length(key) BETWEEN 1 AND 256 AND key NOT GLOB '*[^A-Za-z0-9_.-]*'
                                                             AND key <> 'Tally.OutboxId'
                                                             AND (type IN ('integer', 'real') OR type = 'text' AND value <> ''
                                                                  OR type = 'object' AND json_type(value, '$.DataType') = 'text')
                                                        THEN 1 END)
            FROM json_each(NEW.attributes));
END;

-- Rows that a destination refused, or that may have been delivered and must not be tried again. They wait for a person.
CREATE TABLE IF NOT EXISTS tally_dead (
  id INTEGER NOT NULL, uid TEXT NOT NULL PRIMARY KEY, kind INTEGER NOT NULL, queue TEXT NOT NULL, group_id TEXT, dedup_id TEXT,
  attributes TEXT, delay_s INTEGER NOT NULL, created TEXT NOT NULL,
  error TEXT NOT NULL,
  is_doubted INTEGER NOT NULL, -- 1: it may have been delivered; 0: it was refused
  failed TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  body TEXT NOT NULL
);

-- Which relay works: the fence. The sign that it lives is not here but in the file beside the database, named after it with -tally at
-- the end, so that a long transaction of the application does not depose it and an idle database is not written to.
CREATE TABLE IF NOT EXISTS tally_lease (
  source    TEXT NOT NULL PRIMARY KEY,
  source_id TEXT NOT NULL -- under which a Tally queue remembers what it has of this outbox
            DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a'
                           || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
  epoch     INTEGER NOT NULL DEFAULT 0,
  owner     TEXT NOT NULL
            DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a'
                           || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
  pid       INTEGER, -- of the owner, for people
  path      TEXT,    -- of this database when it was last taken over, and its inode: a copy of it must not pass for it
  inode     INTEGER
);
INSERT INTO tally_lease(source) SELECT 'outbox' WHERE NOT EXISTS (SELECT 1 FROM tally_lease WHERE source = 'outbox');

-- Rows that are about to be tried at a destination that does not remember what it has; a row of this table for each.
CREATE TABLE IF NOT EXISTS tally_intent (
  source TEXT NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL, id INTEGER NOT NULL, uid TEXT NOT NULL,
  started TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  moment TEXT, -- the same by the relay's clocks, for its own eyes: when the wall clock was set meanwhile
  PRIMARY KEY (source, epoch, number, id)
) WITHOUT ROWID;

-- A row: this consumer's effect of this message is committed.
CREATE TABLE IF NOT EXISTS tally_inbox (
  consumer   TEXT NOT NULL DEFAULT '',
  message_id TEXT NOT NULL CONSTRAINT "message_id: 1 to 500 bytes" CHECK (length(CAST(message_id AS BLOB)) BETWEEN 1 AND 500),
  at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (consumer, message_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tally_inbox_at ON tally_inbox(at);

-- An INSERT notes the message in the inbox, or raises. INSERT OR IGNORE reaches into the trigger and makes the failure of its INSERT
-- pass in silence, but not its RAISE. So the trigger looks itself for the row, before the INSERT and behind it.
DROP VIEW IF EXISTS tally_once_or_raise;
CREATE VIEW tally_once_or_raise(message_id, consumer) AS SELECT message_id, consumer FROM tally_inbox;
CREATE TRIGGER tally_once_or_raise_insert INSTEAD OF INSERT ON tally_once_or_raise BEGIN
  SELECT RAISE(ABORT, 'already done: ROLLBACK, then delete the message')
   WHERE EXISTS (SELECT 1 FROM tally_inbox
                  WHERE consumer = CAST(coalesce(NEW.consumer, '') AS TEXT) AND message_id = CAST(NEW.message_id AS TEXT));
  INSERT INTO tally_inbox(consumer, message_id) VALUES (CAST(coalesce(NEW.consumer, '') AS TEXT), CAST(NEW.message_id AS TEXT));
  SELECT RAISE(ABORT, 'message_id: 1 to 500 bytes')
   WHERE NOT EXISTS (SELECT 1 FROM tally_inbox
                      WHERE consumer = CAST(coalesce(NEW.consumer, '') AS TEXT) AND message_id = CAST(NEW.message_id AS TEXT));
END;

-- Of these tables; a relay refuses another one than its own.
DROP VIEW IF EXISTS tally_version;
CREATE VIEW tally_version AS SELECT 1 AS version;

RELEASE tally_schema;
