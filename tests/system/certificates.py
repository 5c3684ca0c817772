"""Certificates for the tests, made on the spot by the openssl command."""

import socket
import ssl
import subprocess


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


def secure_socket(certificate, port, seconds=20):
    plain = socket.create_connection(("127.0.0.1", port), seconds)
    return TrustingContext(certificate).wrap_socket(plain)
