"""Everything that bench/run can measure: the loads of every server, and the parts that are no plain load."""

from harness import (auth, backup, log_postgres, look, measure, order, peers, pool_checks, pool_peers, pools,
                     queue_peers, relay)

CASES = measure.CASES + queue_peers.CASES + log_postgres.CASES
PARTS = (auth.PARTS + order.PARTS + peers.PARTS + relay.PARTS + log_postgres.PARTS + pools.PARTS + pool_peers.PARTS +
         pool_checks.PARTS + look.PARTS + backup.PARTS)
