"""sqs-consumer and sqs-producer, unmodified, from npm: one test for each scenario of consumer_life.mjs."""

import pathlib
import subprocess

import pytest
from clients import SecureDaemon, queue_counts, run_node, scenarios_of
from clock import Clock
from conftest import BIN, PATIENCE, ROOT, clean_environment
from pages import blocks_of
from wire import scaled


@pytest.mark.parametrize("scenario", scenarios_of("consumer_life.mjs"))
def test_sqs_consumer(daemon, scenario):
    run_node("consumer_life.mjs", "sqs-consumer", daemon.endpoint, scenario, COUNT=str(scaled(1000, least=200)))


def test_over_https_with_credentials(daemon_factory, tmp_path):
    """The library's own client and that of the SDK, both signed, on sockets of TLS that wait for messages and are
    aborted."""
    secure = SecureDaemon(daemon_factory, tmp_path)
    scenario = "q54_an_aborted_long_poll_takes_nothing"
    run_node("consumer_life.mjs", "sqs-consumer", secure.endpoint, scenario, **secure.environment)
    for scenario in ["messages", "batches_of_sqs"]:
        run_node("sdk_life.mjs", "@aws-sdk/client-sqs", secure.endpoint, scenario, **secure.environment)
        assert secure.daemon.restart()
    assert secure.daemon.stop() == 0


def test_the_recipe_sends_each_page_once_though_it_died_and_is_run_again_a_day_later(daemon_factory, tmp_path):
    """docs/how-to/sqs-consumer-batches.md: it dies before it seals the batch."""
    clock, daemon = Clock(), daemon_factory()
    with clock.around():
        daemon.start()
    blocks = blocks_of((ROOT / "docs/how-to/sqs-consumer-batches.md").read_text())
    files = dict(blocks)
    (tmp_path / "tally.mjs").write_text(files["js tally.mjs"].replace("http://127.0.0.1:9324", daemon.endpoint))
    seal = 'await tally("SealBatch", { BatchId: batch });'
    assert seal in files["js send.mjs"]
    (tmp_path / "send.mjs").write_text(files["js send.mjs"])
    (tmp_path / "dies.mjs").write_text(files["js send.mjs"].replace(seal, "process.exit(0);"))
    (tmp_path / "node_modules").symlink_to(pathlib.Path(__file__).with_name("node_modules"))
    console = next(text for kind, text in blocks if kind == "console" and "queue create pages" in text)
    made = [line[2:].split() for line in console.splitlines() if line.startswith("$ tally ")]
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, AWS_EC2_METADATA_DISABLED="true")
    runs = [["node", name, "book-1", "page-1", "page-2", "page-3"] for name in ["dies.mjs", "send.mjs", "send.mjs"]]
    for words in [[BIN / "tally", *words[1:]] for words in made] + runs:
        subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=60 * PATIENCE)
        clock.spend(86400 if words in runs else 0)
    assert queue_counts(daemon, "pages") == (3, 0, 0)
    batch = daemon.call("Tally.DescribeBatch", {"BatchId": "book-1"})[1]
    assert (batch["State"], batch["Total"]) == ("sealed", 3)
