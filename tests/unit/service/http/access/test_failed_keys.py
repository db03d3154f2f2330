from __future__ import annotations

from service.http.access.failed_keys import MAX_FAILURES, SECONDS_PER_FAILURE, FailedKeys


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_client_may_fail_ten_times_at_once_and_then_once_per_interval() -> None:
    clock = Clock()
    failures = FailedKeys(clock)
    for _ in range(MAX_FAILURES):
        assert failures.seconds_until_next("10.0.0.1") == 0
        failures.note("10.0.0.1")
    assert 0 < failures.seconds_until_next("10.0.0.1") <= SECONDS_PER_FAILURE
    assert failures.seconds_until_next("10.0.0.2") == 0
    for _ in range(3):
        clock.now += SECONDS_PER_FAILURE
        assert failures.seconds_until_next("10.0.0.1") == 0
        failures.note("10.0.0.1")
        assert failures.seconds_until_next("10.0.0.1") > 0
    clock.now += MAX_FAILURES * SECONDS_PER_FAILURE
    assert failures.seconds_until_next("10.0.0.1") == 0


def test_addresses_of_one_ipv6_network_count_as_one_client() -> None:
    failures = FailedKeys(Clock())
    for number in range(MAX_FAILURES):
        failures.note(f"2001:db8::{number:x}")
    assert failures.seconds_until_next("2001:db8::ffff") > 0
    assert failures.seconds_until_next("2001:db8:0:1::1") == 0


def test_the_memory_for_clients_is_bounded() -> None:
    failures = FailedKeys(Clock())
    for number in range(20_000):
        failures.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failures._forgiven_at) == 10_000
