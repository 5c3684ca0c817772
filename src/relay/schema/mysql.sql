-- Tally's tables in a MySQL or MariaDB database: the outbox of its relay, and the inbox of consumers.
--
--   tally relay schema --type mysql | mariadb mydb          makes them, and may be repeated: what is there stays
--   tally relay run --source mysql://relay:password@localhost/mydb --sink queue
--
-- For MariaDB 10.11 and MySQL 8.0.29, or newer. Use the programs mariadb or mysql: the word DELIMITER is theirs. There is no schema
-- inside a database here, so all names begin with tally_. Keep the strict mode that both servers have by default (sql_mode), as for all
-- of your data: without it a server cuts or changes what it can't store, and says nothing.
--
-- SEND: one more INSERT of a transaction, in any language. With its commit the message is on its way, with a rollback it never was.
--
--   INSERT INTO tally_outbox(queue, body) VALUES ('orders', '{"order":17}');
--
-- More columns where they are wanted: group_id (the messages of one group are delivered in the order of their commits), dedup_id,
-- attributes (a JSON object: name -> string, number, or {"DataType": ..., "StringValue": ...} as in SQS), delay_s, uid (the message's
-- id, which travels as the message attribute Tally.OutboxId; UUID() gives one). Leave id out, change no row later, and never write
-- INSERT IGNORE: it drops in silence what these tables refuse.
--
-- ACK: the message that was received is deleted when this transaction has committed, and not before.
--
--   INSERT INTO tally_outbox(kind, body) VALUES (1, 'RECEIPT HANDLE');
--
-- ONCE: the first statement of a consumer's transaction. It does nothing the first time. If the message's effect is committed already,
-- it raises an error, SQLSTATE TALLY: then ROLLBACK, and delete the message.
--
--   CALL tally_once_or_raise('MESSAGE ID', '');
--
-- The same with an answer, 1 or 0, for programs that look at it:
--
--   CALL tally_once('MESSAGE ID', '', @is_first); SELECT @is_first;
--
-- The MESSAGE ID is the attribute Tally.OutboxId, or the MessageId where there is none. Two consumers of one database that both are to
-- act give their names as the second word. While another transaction holds the same message, the call waits: it fails if that one
-- commits, and does nothing if that one rolls back. A deadlock or a time-out (errors 1213 and 1205) says nothing of the message: ROLLBACK,
-- and try the transaction again.
--
-- FORGET what can never come again, and nothing that still may be in a dead-letter queue; again, until ROW_COUNT() is 0:
--
--   DELETE FROM tally_inbox WHERE at < UTC_TIMESTAMP() - INTERVAL 30 DAY LIMIT 10000;
--
-- A COPY of the database has the same rows and the same identity. A relay refuses it under another name of the database, until one of
-- these was called; a copy of the same name on another server, a queue tells from the original only by what both send.
--
--   CALL tally_rekey(TRUE);     -- it stays beside the original, and gets an identity of its own: first delete the rows that the original sends
--   CALL tally_rekey(FALSE);    -- the original is gone for good, and this one takes its place
--
-- RIGHTS. An application can neither choose ids nor change what is there, if it may do only this:
--
--   GRANT INSERT (uid, kind, queue, group_id, dedup_id, attributes, delay_s, body) ON mydb.tally_outbox TO app;
--   GRANT EXECUTE ON PROCEDURE mydb.tally_once_or_raise TO app;
--   GRANT EXECUTE ON PROCEDURE mydb.tally_once TO app;
--
-- A relay:
--
--   GRANT SELECT ON mydb.tally_version TO relay;
--   GRANT SELECT, INSERT, DELETE ON mydb.tally_outbox TO relay;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON mydb.tally_dead TO relay;
--   GRANT SELECT, UPDATE ON mydb.tally_lease TO relay;
--   GRANT SELECT, UPDATE ON mydb.tally_beat TO relay;
--   GRANT SELECT, INSERT, DELETE ON mydb.tally_intent TO relay;
--   GRANT PROCESS ON *.* TO relay;  -- if you like: lets it say which old transaction keeps deleted rows on the disk

-- What is to be delivered; a row leaves when it is. The server draws ids in the inserting transaction, one after the other, so a row
-- that is written after another one was committed has the higher id. The constraints stop in the writer's own transaction what no
-- destination can take; their names, of which no server takes long ones, are what the application reads in its error. What attributes
-- hold, and which characters a body has, is not looked at: a destination that does not take it has that row parked.
CREATE TABLE IF NOT EXISTS tally_outbox (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  uid        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()), -- names the message for ever
  kind       TINYINT NOT NULL DEFAULT 0,      -- 0 sends a message, 1 deletes one that was received
  queue      VARCHAR(1001) NOT NULL DEFAULT '', -- name or URL; empty: the one queue of the relay's sink
  group_id   VARCHAR(129),                    -- 1 to 128 printable ASCII characters; rows of a group keep their order; NULL: no order
  dedup_id   VARCHAR(129),                    -- NULL: the uid
  attributes JSON,                            -- of the message; NULL: none
  delay_s    INT NOT NULL DEFAULT 0,
  created    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  body       MEDIUMTEXT NOT NULL,             -- of the message; of an ack the receipt handle
  CONSTRAINT `tally uid: 8-4-4-4-12 hex`
    CHECK (CHAR_LENGTH(uid) = 36 AND CHAR_LENGTH(REPLACE(uid, '-', '')) = 32 AND uid NOT REGEXP '[^0-9a-f-]'
           AND CONCAT(SUBSTR(uid, 9, 1), SUBSTR(uid, 14, 1), SUBSTR(uid, 19, 1), SUBSTR(uid, 24, 1)) = '----'),
  CONSTRAINT `tally kind: 0 or 1` CHECK (kind IN (0, 1)),
  CONSTRAINT `tally queue: a name, or a URL`
    CHECK (CHAR_LENGTH(queue) = 0
           OR CHAR_LENGTH(queue) <= 80
              AND IF(queue LIKE '_%.fifo', LEFT(queue, CHAR_LENGTH(queue) - 5), queue) NOT REGEXP '[^A-Za-z0-9_-]'
           OR CHAR_LENGTH(queue) <= 1000 AND (queue LIKE 'http://_%' OR queue LIKE 'https://_%') AND queue NOT REGEXP '[^!-~]'),
  CONSTRAINT `tally group_id: 1-128 ASCII`
    CHECK (CHAR_LENGTH(group_id) BETWEEN 1 AND 128 AND group_id NOT REGEXP '[^!-~]'),
  CONSTRAINT `tally dedup_id: 1-128 ASCII`
    CHECK (CHAR_LENGTH(dedup_id) BETWEEN 1 AND 128 AND dedup_id NOT REGEXP '[^!-~]'),
  CONSTRAINT `tally attributes: an object` CHECK (JSON_VALID(attributes) AND JSON_TYPE(attributes) = 'OBJECT'),
  CONSTRAINT `tally delay_s: 0 to 900` CHECK (delay_s BETWEEN 0 AND 900),
  CONSTRAINT `tally body: 1 byte to 1 MiB` CHECK (OCTET_LENGTH(body) BETWEEN 1 AND 1048576),
  CONSTRAINT `tally ack: handle in body`
    CHECK (kind = 0 OR CHAR_LENGTH(queue) = 0 AND group_id IS NULL AND dedup_id IS NULL AND attributes IS NULL AND delay_s = 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rows that a destination refused, or that may have been delivered and must not be tried again. They wait for a person.
CREATE TABLE IF NOT EXISTS tally_dead (
  id         BIGINT UNSIGNED NOT NULL,
  uid        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  kind       TINYINT NOT NULL,
  queue      VARCHAR(1001) NOT NULL,
  group_id   VARCHAR(129),
  dedup_id   VARCHAR(129),
  attributes JSON,
  delay_s    INT NOT NULL,
  created    DATETIME(6) NOT NULL,
  error      VARCHAR(500) NOT NULL,
  is_doubted BOOLEAN NOT NULL, -- 1: it may have been delivered; 0: it was refused
  failed     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  body       MEDIUMTEXT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which relay works: the fence. What changes often stands in tally_beat, apart from it, so that a sign of life waits for no delete.
CREATE TABLE IF NOT EXISTS tally_lease (
  source    VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  source_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()), -- under which a Tally queue remembers these rows
  epoch     BIGINT UNSIGNED NOT NULL DEFAULT 0,
  owner     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()),
  connection_id BIGINT UNSIGNED, -- of the owner, for people
  place     VARCHAR(64)          -- the database's name when it was last taken over: a copy of it must not pass for it
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT INTO tally_lease(source) SELECT 'outbox' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM tally_lease WHERE source = 'outbox');

CREATE TABLE IF NOT EXISTS tally_beat (
  source VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  n      BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT INTO tally_beat(source) SELECT 'outbox' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM tally_beat WHERE source = 'outbox');

-- Rows that are about to be tried at a destination that does not remember what it has; a row of this table for each.
CREATE TABLE IF NOT EXISTS tally_intent (
  source  VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch   BIGINT UNSIGNED NOT NULL,
  number  BIGINT UNSIGNED NOT NULL, -- from 1 on within its epoch
  id      BIGINT UNSIGNED NOT NULL,
  uid     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  started DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  moment  VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin, -- the same by the relay's clocks, for its own eyes
  PRIMARY KEY (source, epoch, number, id)
) ENGINE = InnoDB;

-- A row: this consumer's effect of this message is committed. Bytes, because two texts that differ in a blank at the end count as one.
CREATE TABLE IF NOT EXISTS tally_inbox (
  consumer   VARBINARY(250) NOT NULL DEFAULT '',
  message_id VARBINARY(501) NOT NULL,
  at         DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  calls      BIGINT UNSIGNED NOT NULL DEFAULT 1,
  PRIMARY KEY (consumer, message_id),
  KEY tally_inbox_at (at),
  CONSTRAINT `tally message_id: 500 bytes` CHECK (OCTET_LENGTH(message_id) BETWEEN 1 AND 500)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- A procedure has the sql_mode with which it was made.
SET @tally_sql_mode = @@SESSION.sql_mode, SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';

DELIMITER //

-- The count tells the first call from the others, because how many rows an update that changes nothing "affects" depends on the client.
CREATE PROCEDURE IF NOT EXISTS tally_once(IN message_id TEXT CHARACTER SET utf8mb4, IN consumer TEXT CHARACTER SET utf8mb4,
                                          OUT is_first BOOLEAN)
  MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  INSERT INTO tally_inbox(consumer, message_id) VALUES (COALESCE(consumer, ''), message_id) ON DUPLICATE KEY UPDATE calls = calls + 1;
  SET is_first = (ROW_COUNT() = 1);
END //

CREATE PROCEDURE IF NOT EXISTS tally_once_or_raise(IN message_id TEXT CHARACTER SET utf8mb4, IN consumer TEXT CHARACTER SET utf8mb4)
  MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE is_first BOOLEAN;
  CALL tally_once(message_id, consumer, is_first);
  IF NOT is_first THEN
    SIGNAL SQLSTATE 'TALLY' SET MESSAGE_TEXT = 'already done: ROLLBACK, then delete the message';
  END IF;
END //

CREATE PROCEDURE IF NOT EXISTS tally_rekey(IN is_copy BOOLEAN)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  UPDATE tally_lease SET source_id = IF(is_copy, UUID(), source_id), place = NULL WHERE source = 'outbox';
END //

DELIMITER ;

SET SESSION sql_mode = @tally_sql_mode;

-- Of these tables; a relay refuses another one than its own.
CREATE OR REPLACE VIEW tally_version AS SELECT 1 AS version;
