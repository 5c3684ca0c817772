"""The parts of bench/run: servers, measurements, machine and report."""
