"""Certificates for the tests, made on the spot by the openssl command."""

import socket
import ssl
import subprocess
import threading


class Certificate:
    """A key and a certificate for this machine that it has signed itself."""

    def __init__(self, folder, name="tally"):
        self.certificate = folder / f"{name}.crt"
        self.key = folder / f"{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
            + ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            + ["-keyout", self.key, "-out", self.certificate],
            check=True,
            capture_output=True,
        )

    def options(self, port):
        return ["--tls-listen", f"127.0.0.1:{port}", "--tls-certificate", self.certificate, "--tls-key", self.key]

    def context(self):
        """For clients that trust this certificate and no other."""
        return ssl.create_default_context(cafile=self.certificate)


class TrustingContext:
    """Wraps sockets as ssl.SSLContext does, with the name that our certificates have."""

    def __init__(self, certificate):
        self.context = certificate.context()

    def wrap_socket(self, plain):
        return self.context.wrap_socket(plain, server_hostname="127.0.0.1")


class SharedTlsSocket:
    """A TLS socket on which one thread may send while another receives.

    An ssl.SSLSocket is none: OpenSSL wants one thread in a session at a time, and Python before 3.13 does not see to
    it. Two threads then end the connection, hang, or crash the interpreter."""

    def __init__(self, plain, context):
        self.plain = plain
        self.records_in, self.records_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.context.wrap_bio(self.records_in, self.records_out, server_hostname="127.0.0.1")
        self.lock = threading.Lock()  # held while OpenSSL works, never while the socket is waited for
        self._until_done(self.session.do_handshake)
        self.plain.sendall(self._take_records())

    def __getattr__(self, name):  # close, shutdown, setsockopt
        return getattr(self.plain, name)

    def _take_records(self):
        with self.lock:
            return self.records_out.read()

    def _until_done(self, step):
        while True:
            try:
                with self.lock:
                    return step()
            except ssl.SSLWantReadError:
                self.plain.sendall(self._take_records())
            piece = self.plain.recv(65536)
            with self.lock:
                self.records_in.write(piece) if piece else self.records_in.write_eof()

    def sendall(self, data):
        with self.lock:
            self.session.write(data)
        self.plain.sendall(self._take_records())

    def recv(self, size):
        try:
            return self._until_done(lambda: self.session.read(size))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def unwrap(self):
        self._until_done(self.session.unwrap)
        return self.plain


def secure_socket(certificate, port, seconds=20):
    plain = socket.create_connection(("127.0.0.1", port), seconds)
    return TrustingContext(certificate).wrap_socket(plain)


class Authority:
    """Issues the certificates of a cluster's nodes."""

    def __init__(self, folder, name="cluster"):
        self.folder = folder
        self.certificate, self.key = folder / f"{name}-ca.crt", folder / f"{name}-ca.key"
        openssl("req", "-x509", *KIND, "-days", "30", "-subj", f"/CN={name}", "-keyout", self.key, "-out",
                self.certificate)

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", days=30):
        """The paths of a certificate for these names and of its key. With -1 day it has expired."""
        made, key, request = (self.folder / f"{self.certificate.stem}-{name}.{end}" for end in ("crt", "key", "csr"))
        openssl("req", *KIND, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", "-addext",
                "extendedKeyUsage=serverAuth,clientAuth", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days",
                days, "-copy_extensions", "copy", "-out", made)
        return made, key

    def options(self, port, issued, address="127.0.0.1"):
        certificate, key = issued
        return ["--cluster-listen", f"{address}:{port}", "--cluster-certificate", certificate, "--cluster-key", key,
                "--cluster-ca", self.certificate]


KIND = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
