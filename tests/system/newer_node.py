"""A node of a newer version, as far as others meet it: it has sealed a log, and writes to it what they do not know.

    newer = NewerNode(cluster)        # it owns the log; the nodes of the cluster follow
    newer.append_frame(version=2)     # behind the last frame: see docs/internals/formats/log.md
    newer.append_frame(payload=b"…")
    newer.begin_segment(version=2)
    newer.take_back()                 # what was written last
    NewerNode(cluster, seals=False)   # writes with the epoch and owner that are there
    NewerNode(cluster, name="111111111111")   # the log of that namespace; without it, of the only one
    newer.close()
"""

import hashlib
import struct
import uuid

SECTOR = 512
FRAME_MAGIC, SEGMENT_MAGIC = 0x46594C54, 0x53594C54  # TLYF, TLYS
EVENTS, SEGMENT_END = 1, 2
LOCK_CLASS = 1952541804


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame_bytes(kind, epoch, sequence, position, time_ms, payload, version):
    size = -(-(64 + len(payload)) // SECTOR) * SECTOR
    body = payload.ljust(size - 64, b"\0")
    zeros = sum(not any((bytes(64) + body)[at : at + SECTOR]) for at in range(SECTOR, size, SECTOR))
    head = struct.pack("<IBBHIIQQQQIQ", FRAME_MAGIC, version, kind, 0, len(payload), crc32c(body), epoch, sequence,
                       position, time_ms, zeros, 0)
    return head + struct.pack("<I", crc32c(head)) + body


class NewerNode:
    def __init__(self, cluster, seals=True, name="000000000000"):
        self.connection = cluster.server.connect(dbname=cluster.database)
        self.log, epoch, self.owner = self.rows("SELECT id, epoch, owner FROM tally_log.head WHERE log = %s", name)[0]
        self.epoch = epoch
        if seals:
            self._seal(epoch)

    def _seal(self, epoch):
        self.epoch, self.owner = epoch + 1, str(uuid.uuid4())
        self.rows("SELECT pg_advisory_lock(%s, %s)", LOCK_CLASS + self.log, self.epoch)
        self.rows("UPDATE tally_log.head SET epoch = %s, owner = %s, node = 'newer' WHERE id = %s AND epoch = %s"
                  " RETURNING 1", self.epoch, self.owner, self.log, epoch)

    def rows(self, statement, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else None

    def close(self):
        self.connection.close()

    def _append(self, file, at, data):
        """Through the fence, with the hash that goes on from the file's last one."""
        found = self.rows("SELECT hash FROM tally_log.chunk WHERE file = %s AND hash IS NOT NULL"
                          " ORDER BY at DESC LIMIT 1", file)
        before = bytes(found[0][0]) if found else hashlib.sha256(b"tallylog" + struct.pack("<Q", file)).digest()[:16]
        body = data.rstrip(b"\0")
        assert len(body) <= 8000
        digest = hashlib.sha256(before + struct.pack("<QQ", self.epoch, at) + hashlib.sha256(body).digest()).digest()
        done = self.rows(
            "WITH fence AS MATERIALIZED (SELECT 1 FROM tally_log.head WHERE id = %s AND epoch = %s AND owner = %s"
            " FOR SHARE) INSERT INTO tally_log.chunk (file, at, epoch, hash, body)"
            " SELECT %s, %s, %s, %s, %s FROM fence RETURNING 1",
            self.log, self.epoch, self.owner, file, at, self.epoch, digest[:16], body)
        assert done == [(1,)], "the fence is not this node's"
        self.last = (file, at)

    def _end(self):
        """(file, start of its segment, offset behind its last frame, sequence and time of that)"""
        file, name, at, body = self.rows(
            "SELECT f.id, f.name, c.at, c.body FROM tally_log.file f JOIN tally_log.chunk c ON c.file = f.id"
            " WHERE f.name LIKE '%%.segment' AND c.hash IS NOT NULL AND f.log = %s"
            " ORDER BY f.name DESC, c.at DESC LIMIT 1", self.log)[0]
        magic, _, kind, _, payload, _, _, sequence, position, time_ms = struct.unpack("<IBBHIIQQQQ", bytes(body)[:48])
        assert magic == FRAME_MAGIC and kind == EVENTS and position == int(name[:16], 16) + at
        return file, int(name[:16], 16), at + -(-(64 + payload) // SECTOR) * SECTOR, sequence, time_ms

    def append_frame(self, version=1, payload=b"", kind=EVENTS):
        file, start, at, sequence, time_ms = self._end()
        sequence += kind == EVENTS
        frame = frame_bytes(kind, self.epoch, sequence, start + at, time_ms, payload, version)
        self._append(file, at, frame)
        return start, sequence, frame

    def begin_segment(self, version):
        """The frame that ends the newest segment, and the header of the next one; not in that order."""
        file, start, at, sequence, time_ms = self._end()
        end = frame_bytes(SEGMENT_END, self.epoch, sequence, start + at, time_ms, b"", 1)
        size, = self.rows("SELECT size FROM tally_log.file WHERE id = %s", file)[0]
        name = f"{start + size:016x}.segment"
        self.rows("DELETE FROM tally_log.file WHERE log = %s AND name = %s", self.log, name)  # made ahead of time
        made, = self.rows("INSERT INTO tally_log.file (log, name, size) VALUES (%s, %s, %s) RETURNING id",
                          self.log, name, size)[0]
        head = struct.pack("<IIQQQQI", SEGMENT_MAGIC, version, (start + size) // size, size, sequence + 1, self.epoch,
                           struct.unpack("<I", end[60:64])[0]).ljust(508, b"\0")
        self._append(made, 0, head + struct.pack("<I", crc32c(head)))
        self._append(file, at, end)
        self.made = made

    def take_back(self):
        """What was written last, and the segment that it began."""
        self.rows("DELETE FROM tally_log.chunk WHERE (file, at) = (%s, %s)", *self.last)
        if hasattr(self, "made"):
            self.rows("DELETE FROM tally_log.chunk WHERE file = %s", self.made)
            self.rows("DELETE FROM tally_log.file WHERE id = %s", self.made)
