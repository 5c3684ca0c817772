"""sqs-consumer and sqs-producer, unmodified, from npm: one test for each scenario of consumer_life.mjs."""

import pytest
from clients import SecureDaemon, run_node, scenarios_of
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
