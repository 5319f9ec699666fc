"""The size of batches, and the rests between them."""

from datetime import timedelta

import pytest

from schema.backfill.pace import Pace
from schema.backfill.settings import Settings


def test_size_settles_where_a_batch_takes_the_target_time():
    pace = Pace(Settings())
    assert pace.size == 250
    for _ in range(30):
        pace.note(pace.size, pace.size * 0.0001)
    assert pace.size in (749, 750)
    for _ in range(30):
        pace.note(pace.size, pace.size * 0.0003)
    assert pace.size in (249, 250)


@pytest.mark.parametrize(("row_s", "size"), [(1.0, 50), (0.0000001, 2000)])
def test_bounds(row_s, size):
    pace = Pace(Settings())
    for _ in range(30):
        pace.note(pace.size, pace.size * row_s)
    assert pace.size == size


def test_shrinks_at_once_and_grows_slowly():
    pace = Pace(Settings(batch_start=800))
    pace.note(800, 0.04)
    before = pace.size
    pace.shrink()
    assert pace.size == before // 2
    pace.note(pace.size, pace.size * 0.00005)
    assert pace.size == before // 2 * 3 // 2


def test_given_size_stays():
    pace = Pace(Settings(batch_size=7))
    pace.note(7, 10)
    pace.shrink()
    assert pace.size == 7


@pytest.mark.parametrize(("duty", "rest"), [(1.0, 0.0), (0.5, 0.08), (0.1, 0.72)])
def test_duty(duty, rest):
    assert Pace(Settings(duty=duty)).rest(0.08) == pytest.approx(rest)


def test_rest_ends_before_the_lease():
    assert Pace(Settings(duty=0.01)).rest(1) == 15


def test_rate_has_the_rests_in_it():
    pace = Pace(Settings(duty=0.5))
    assert pace.rate is None
    pace.note(100, 0.5)
    assert pace.rate == pytest.approx(100)


def test_full_speed():
    settings = Settings(limits={"dead_rows": 0.1}).at_full_speed()
    assert (settings.duty, settings.target) == (1.0, timedelta(milliseconds=500))
    assert settings.limits == {"wal_rate": None, "dead_rows": 0.1}
