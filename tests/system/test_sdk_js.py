"""The AWS SDK for JavaScript v3, unmodified, from npm: one test for each scenario of sdk_life.mjs."""

import pytest
from clients import run_node, scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("sdk_life.mjs"))
def test_sdk_for_javascript(daemon, scenario):
    run_node("sdk_life.mjs", "@aws-sdk/client-sqs", daemon.endpoint, scenario)
