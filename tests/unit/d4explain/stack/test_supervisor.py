from __future__ import annotations

from d4explain.stack.supervisor import worker_queues


def test_two_cores_train_two_networks_at_once() -> None:
    assert sorted(worker_queues(1).values()) == ["sample,light", "train"]
    assert sorted(worker_queues(2).values()) == ["sample,light", "train", "train"]
    assert worker_queues(8) == worker_queues(2)
