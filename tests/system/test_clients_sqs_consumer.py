"""sqs-consumer and sqs-producer, unmodified, from npm: one test for each scenario of consumer_life.mjs."""

import pytest
from clients import run_node, scenarios_of
from wire import scaled


@pytest.mark.parametrize("scenario", scenarios_of("consumer_life.mjs"))
def test_sqs_consumer(daemon, scenario):
    run_node("consumer_life.mjs", "sqs-consumer", daemon.endpoint, scenario, COUNT=str(scaled(1000, least=200)))
