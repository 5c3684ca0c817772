"""The whole life of a job, put, taken and acknowledged, in the queues that Tally is chosen over: each at its documented
best settings."""

from harness import machine, measure
from harness.measure import Case
from harness.peers import node_run, version_of
from harness.queue_servers import (Nats, NatsSync, PostgresJobs, PostgresQueue, RabbitMQ, RabbitQuorum, RedisJobs,
                                   RedisStreams)
from harness.servers import RunFailed

TENS = 10


def amqp_run(setting, server, case):
    """One connection declares the queue before many use it."""
    of_case = ["--pipeline", case.pipeline, *case.options]
    first = measure.load_run(setting, "amqp-life", "--port", server.port, "--connections", 1, "--count", 12,
                             *of_case)["total"]
    result = measure.server_load(setting, server, "amqp-life", "--connections", setting.connections, "--body",
                                 setting.body, *of_case, *measure.window_options(setting))
    result["total"] = {name: count + first[name] for name, count in result["total"].items()}
    return result


def around(setting, server, work):
    """Does the work of another client than the generator, and adds to its figures what it cost."""
    before = measure.Clocks.read(setting, server)
    result = work()
    after = measure.Clocks.read(setting, server)
    result.setdefault("seconds", after.now_s - before.now_s)
    result["others_share"] = after.others_since(before)
    result["generator_share"] = (after.load_s - before.load_s) / (after.now_s - before.now_s)
    result["server_cpu_us"] = (after.server_s - before.server_s) / result["messages"] * 1e6
    return result


def postgres_run(setting, server, case):
    """pgbench is the client. A delete may take fewer than ten, so what is left is counted too."""
    script = server.script(case.pipeline, setting.body)
    server.lives(script, setting.connections, setting.warm_up)
    held = server.held()

    def work():
        done = server.lives(script, setting.connections, setting.seconds)
        made = done["transactions"] * case.pipeline
        return {"made": made, "seconds": done["transactions"] / done["per_s"], "messages": made,
                "latency_us": {"mean": done["mean_us"]}}

    result = around(setting, server, work)
    left = server.held() - held
    result["messages"] = result.pop("made") - left
    if result["messages"] <= 0:
        raise RunFailed(f"of the jobs of a run {left} are left")
    result["messages_per_s"] = result["messages"] / result["seconds"]
    result["total"] = {"sent": 0, "deleted": 0}
    return result


def library_run(setting, server, case):
    """A job library's own program in Node.js, on the core of the loads; it checks itself what its server holds."""
    clocks = {}

    def hear(word, process):
        """Of the part that counts; the program says it as it begins and ends. While it runs its time isn't among that
        of the ended."""
        clocks[word] = measure.Clocks.read(setting, server)
        clocks[word].load_s += machine.cpu_of_s(process.pid)

    made = node_run(setting, "jobs.mjs", "--library", case.mode, "--connection", getattr(server, "uri", ""), "--port",
                    server.port, "--seconds", setting.seconds, "--warm-up", setting.warm_up, "--clients",
                    setting.connections, "--body", setting.body, hear=hear)
    before, after = clocks["begin"], clocks["end"]
    return {**made, "messages": made["jobs"], "latency_us": {}, "total": {"sent": 0, "deleted": 0},
            "others_share": after.others_since(before), "generator_share": made["generator_cpu_s"] / made["seconds"],
            "server_cpu_us": (after.server_s - before.server_s) / made["jobs"] * 1e6}


def library_missing(*packages):
    """Why a library can't be measured."""
    def missing():
        absent = [package for package in packages if version_of(package) is None]
        if machine.output_of("node", "--version") == "":
            absent.append("node")
        return f"{', '.join(absent)} isn't there; ./setup bench brings it" if absent else ""
    return missing


CASES = [
    Case("redis.streams", RedisStreams, "redis-life", "Redis Streams always, add read ack, in tens", pipeline=TENS),
    Case("nats", Nats, "nats-life", "NATS JetStream, publish fetch ack, in tens", pipeline=TENS),
    Case("nats.sync", NatsSync, "nats-life", "NATS JetStream, the same, each synced", pipeline=TENS),
    Case("rabbitmq", RabbitMQ, "amqp-life", "RabbitMQ classic queue, 10 in a write", pipeline=TENS, run=amqp_run),
    Case("rabbitmq.v2", RabbitMQ, "amqp-life", "RabbitMQ classic queue version 2, 10 in a write", pipeline=TENS,
         options=("--attribute", "x-queue-version=2"), run=amqp_run, is_extra=True),
    Case("rabbitmq.quorum", RabbitQuorum, "amqp-life", "RabbitMQ quorum queue, 10 in a write", pipeline=TENS,
         options=("--attribute", "x-queue-type=quorum"), run=amqp_run),
    Case("postgresql", PostgresQueue, "pgbench", "PostgreSQL SKIP LOCKED, tens in a statement", pipeline=TENS,
         run=postgres_run, is_of_bar=True),
    Case("graphile", PostgresJobs, "graphile-worker", "graphile-worker, batched", run=library_run,
         missing=library_missing("graphile-worker", "pg")),
    Case("pgboss", PostgresJobs, "pg-boss", "pg-boss, hundreds in a fetch", run=library_run,
         missing=library_missing("pg-boss")),
    Case("bullmq", RedisJobs, "bullmq", "BullMQ on Redis always", run=library_run,
         missing=library_missing("bullmq", "ioredis")),
]


def versions():
    """Versions of what is there, for the head of the report."""
    return {**{name: server.version() if not server.missing() else "not installed" for name, server in
               (("nats-server", Nats), ("rabbitmq", RabbitMQ))}, "pg-boss": version_of("pg-boss") or "not installed"}
