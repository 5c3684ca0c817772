"""Loads that take turns: what one did beside what another did in the same round, a minute later and on the same
machine."""

import statistics

from harness.measure import figure, undisturbed


def by_round(results):
    """Round -> the run of it that counts; nothing where the runs don't say their round."""
    return {result["round"]: result for result in undisturbed(results) if "round" in result}


def ratios(results, references, path):
    """The figure beside the reference's, of each round in which both have one."""
    mine, theirs = by_round(results), by_round(references)
    pairs = [(figure(mine[at], path), figure(theirs[at], path)) for at in sorted(mine.keys() & theirs.keys())]
    return [value / reference for value, reference in pairs if value is not None and reference]


def middle(found):
    """Median and range; None of nothing."""
    return (statistics.median(found), (min(found), max(found))) if found else (None, None)
