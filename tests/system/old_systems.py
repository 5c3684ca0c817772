"""The systems from which docs/how-to/moving-in.md moves messages in: each started in a folder and on ports of its own.

    redis = Redis(folder).start()     # .port .client
    redis.stop()
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess

from conftest import PATIENCE, free_port, wait_until


class Server:
    program = None

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.processes = []

    @classmethod
    def is_there(cls):
        return shutil.which(cls.program) is not None

    def run(self, *command, **more):
        with open(self.folder / "said", "ab") as said:
            words = [str(word) for word in command]
            self.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                                   cwd=self.folder, **more))

    def answers(self):
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self):
        self.run(*self.command())
        wait_until(self.answers, 60, f"that {self.program} answers")
        return self

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait(20 * PATIENCE)


class Redis(Server):
    program = "redis-server"

    def command(self):
        return [self.program, "--port", self.port, "--bind", "127.0.0.1", "--save", ""]

    @property
    def client(self):
        import redis

        return redis.Redis(port=self.port, decode_responses=True)


class Beanstalkd(Server):
    program = "beanstalkd"

    def command(self):
        return [self.program, "-l", "127.0.0.1", "-p", self.port, "-z", "1048576"]

    def ask(self, *commands):
        """The first words of the answers."""
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            lines = link.makefile("rwb")
            answers = []
            for command in commands:
                lines.write(command.encode() + b"\r\n")
                lines.flush()
                answers.append(lines.readline().decode().split())
                if answers[-1][0] in ("RESERVED", "OK"):
                    lines.read(int(answers[-1][-1]) + 2)
            return answers


class RabbitMQ(Server):
    """A node of its own name, with a port mapper of its own."""

    program = "rabbitmq-server"
    FOLDER = pathlib.Path("/usr/lib/rabbitmq/bin")  # the wrappers on PATH change the user

    def start(self):
        mapper_port = free_port()
        settings = {"NODENAME": f"tally-test-{self.port}@localhost", "DIST_PORT": free_port(),
                    "MNESIA_BASE": self.folder / "data", "LOG_BASE": self.folder / "logs",
                    "CONFIG_FILE": self.folder / "rabbitmq", "ENABLED_PLUGINS_FILE": self.folder / "plugins",
                    "CONF_ENV_FILE": "/dev/null",
                    "SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}"}
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{self.port}\n")
        self.run("epmd", "-port", mapper_port, "-address", "127.0.0.1")
        self.run(self.FOLDER / self.program, env={
            **os.environ, "HOME": str(self.folder), "ERL_EPMD_PORT": str(mapper_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RUNNING_UNDER_SYSTEMD": "true",  # one process, without a shell around it
            **{f"RABBITMQ_{name}": str(value) for name, value in settings.items()}})
        wait_until(self.answers, 120, "that RabbitMQ answers")
        return self

    def connect(self):
        import pika

        return pika.BlockingConnection(pika.ConnectionParameters("localhost", self.port))
