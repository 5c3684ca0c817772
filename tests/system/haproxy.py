"""HAProxy before the nodes of a cluster, as a load balancer of connections: it looks at no request.

    with Haproxy(nodes, tmp_path) as front:
        boto3.client("sqs", endpoint_url=front.url)
"""

import shutil
import subprocess

from conftest import clean_environment, free_port, wait_until
from wire import connect_to

PROGRAM = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")

CONFIGURATION = """\
defaults
  mode tcp
  timeout connect 1s
  timeout check 2s
  timeout client 90s
  timeout server 90s
listen tally
  bind 127.0.0.1:{port}
  balance roundrobin
  option redispatch
  option httpchk GET /ready
  default-server check inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions
{servers}
"""


def address_of(node):
    """A node on a machine of its own is reached at its Unix socket."""
    return f"127.0.0.1:{node.port}" if isinstance(node.port, int) else f"unix@{node.port}"


class Haproxy:
    def __init__(self, nodes, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.name = "haproxy"
        servers = "\n".join(f"  server {node.name} {address_of(node)}" for node in nodes)
        path = folder / "haproxy.cfg"
        path.write_text(CONFIGURATION.format(port=self.port, servers=servers), encoding="ascii")
        self.log = open(folder / "haproxy.log", "wb")
        self.process = subprocess.Popen([PROGRAM, "-db", "-f", str(path)], stdout=self.log,
                                        stderr=subprocess.STDOUT, env=clean_environment())

    def _is_there(self):
        assert self.process.poll() is None, self.log.name
        try:
            connect_to(self.port, 5).close()
        except OSError:
            return False
        return True

    def __enter__(self):
        wait_until(self._is_there, what="HAProxy")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()
