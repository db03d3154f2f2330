"""What regular clients and attackers saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Timed:
    """One request of the regular client."""

    what: str
    at: float
    seconds: float
    status: int  # 0 if there was no response


@dataclass
class Attack:
    """The responses to one attack, its duration and the memory used."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    answers: list[tuple[int, float]] = field(default_factory=list)  # status, seconds
    recovered_seconds: float = 0.0
    peak_bytes: int = 0  # of the API's process
    peak_tree_bytes: int = 0  # including child processes, which read large bodies

    @property
    def slowest(self) -> float:
        return max((seconds for _, seconds in self.answers), default=0.0)

    @property
    def statuses(self) -> dict[int, int]:
        found = [status for status, _ in self.answers]
        return {status: found.count(status) for status in sorted(set(found))}


@dataclass
class Report:
    attacks: list[Attack]
    timed: list[Timed]
    skipped: dict[str, str] = field(default_factory=dict)

    def during(self, attack: Attack, what: str) -> list[Timed]:
        """Requests that overlap with the attack; all but `livez` count as `others`."""
        return [
            one
            for one in self.timed
            if (one.what == "livez") == (what == "livez")
            and one.at <= attack.ended
            and one.at + one.seconds >= attack.began
        ]

    def percentile(self, what: str, share: float = 0.99) -> float:
        found = sorted(one.seconds for attack in self.attacks for one in self.during(attack, what))
        return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0

    def failed(self) -> list[Timed]:
        return [one for one in self.timed if not 200 <= one.status < 300]

    def lines(self) -> Iterator[str]:
        head = f"{'attack':34} {'answers':26} slowest  livez p99  others p99  recovered  "
        yield head + "memory (all)"
        for attack in self.attacks:
            worst = [Report([attack], self.timed).percentile(what) for what in ("livez", "others")]
            statuses = ", ".join(f"{count}x{status}" for status, count in attack.statuses.items())
            yield (
                f"{attack.name:34} {statuses:26} {attack.slowest:6.2f}s  "
                f"{1000 * worst[0]:6.0f} ms  {1000 * worst[1]:7.0f} ms  "
                f"{attack.recovered_seconds:6.2f} s  "
                f"{attack.peak_bytes / 1e6:4.0f} ({attack.peak_tree_bytes / 1e6:.0f}) MB"
            )
        for name, why in self.skipped.items():
            yield f"{name:34} skipped: {why}"
        yield (
            f"all attacks: livez p99 {1000 * self.percentile('livez'):.0f} ms, others p99 "
            f"{1000 * self.percentile('others'):.0f} ms, {len(self.failed())} of "
            f"{len(self.timed)} regular requests failed"
        )
