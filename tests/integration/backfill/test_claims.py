"""Claims of key ranges: who may have one, and for how long."""

from datetime import timedelta

import pytest

from schema.backfill import claims, ledger
from schema.backfill.claims import LeaseLostError

LONG, SHORT = timedelta(minutes=10), timedelta(0)


@pytest.fixture
def run_id(cluster):
    """A run of two chunks."""
    return ledger.begin(cluster.connection, "kernel_groups", {}, [(None, "7"), ("7", None)]).id


def claim(connection, run_id, owner, lease=LONG):
    found = claims.claim(connection, run_id, owner, lease)
    return found and found.number


def test_each_is_claimed_once_and_again_when_its_lease_ran_out(cluster, run_id):
    assert [claim(cluster.connection, run_id, owner) for owner in ("a", "b", "c")] == [0, 1, None]
    cluster.connection.execute("UPDATE backfill_chunks SET lease_expires_at = now() - interval '1 s' WHERE number = 1")
    assert [claim(cluster.connection, run_id, owner) for owner in ("c", "d")] == [1, None]


def test_one_in_the_middle_of_a_batch_is_passed_over_whatever_its_lease_says(cluster, connect, run_id):
    other = connect()
    other.execute("SET lock_timeout = '2s'")
    first = claims.claim(cluster.connection, run_id, "a", SHORT)
    with cluster.connection.transaction():
        claims.fenced(cluster.connection, first)
        assert [claim(other, run_id, "b"), claim(other, run_id, "c")] == [1, None]
    assert claim(other, run_id, "c") == 0


def test_renewed_is_kept_and_lost_is_said(cluster, run_id):
    mine = claims.claim(cluster.connection, run_id, "a", SHORT)
    claims.renew(cluster.connection, mine, LONG, "something")
    assert claim(cluster.connection, run_id, "b") == 1
    assert claim(cluster.connection, run_id, "b") is None
    claims.renew(cluster.connection, mine, SHORT, None)
    assert claim(cluster.connection, run_id, "c") == 0
    with pytest.raises(LeaseLostError, match=r"chunk 0 of run .* was taken over by another worker"):
        claims.renew(cluster.connection, mine, LONG, None)
    # The same name is no proof: a fence grows with each claim.
    again = claims.claim(cluster.connection, run_id, "a", LONG)
    assert again is None
    claims.release(cluster.connection, mine)
    assert claim(cluster.connection, run_id, "d") is None


def test_each_batch_renews_the_lease(cluster):
    for _ in range(4):
        cluster.kernel(cluster.session())
    left = []

    def advance(_):
        left.append(
            cluster.connection.execute(
                "SELECT lease_expires_at > now() + interval '9 min' FROM backfill_chunks"
            ).fetchone()
        )
        cluster.connection.execute("UPDATE backfill_chunks SET lease_expires_at = now() + interval '5 s'")

    assert cluster.run(batch_size=2, lease=LONG, watch={"advance": advance}).end == "complete"
    assert left == [(True,), (True,)]
