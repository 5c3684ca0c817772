"""A server of MySQL's protocol that lets everybody in, and answers each statement with rows without end, so fast that
a client never has to wait for more.

    with MysqlFlood() as server:        # server.url for a relay's source
"""

import contextlib
import socket
import struct
import threading

OK = b"\x00\x00\x00\x02\x00\x00\x00"
END_OF_COLUMNS = b"\xfe\x00\x00\x02\x00"
GREETING = (b"\x0a5.5.5-10.11.6-MariaDB\0" + struct.pack("<I", 7) + b"abcdefgh\0" + struct.pack("<H", 0xF7FE) + b"\x21"
            + struct.pack("<HH", 2, 0x81BF) + b"\x15" + bytes(10) + b"ijklmnopqrst\0mysql_native_password\0")
COLUMN = (b"\x03def\0\0\0\x01a\x01a\x0c" + struct.pack("<HIBHB", 33, 255, 253, 0, 0) + b"\0\0")
EMPTY_ROW = b"\0"


def packet(number, payload):
    return struct.pack("<I", len(payload))[:3] + bytes([number % 256]) + payload


class MysqlFlood:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mysql://u:p@127.0.0.1:{self.listener.getsockname()[1]}/shop?ssl-mode=disabled"
        self.connections = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for one in (self.listener, *self.connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(self.listener.accept()[0])
                threading.Thread(target=self._serve, args=(self.connections[-1],), daemon=True).start()

    def _serve(self, connection):
        rows = b"".join(packet(4 + i, EMPTY_ROW) for i in range(256 * 256))
        with contextlib.suppress(OSError):
            connection.sendall(packet(0, GREETING))
            connection.recv(65536)  # who wants to come in, in one piece
            connection.sendall(packet(2, OK))
            connection.recv(65536)
            connection.sendall(packet(1, b"\x01") + packet(2, COLUMN) + packet(3, END_OF_COLUMNS))
            while True:
                connection.sendall(rows)
