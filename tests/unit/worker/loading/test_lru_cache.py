from __future__ import annotations

from worker.loading.lru_cache import LruCache


def test_the_cache_evicts_the_least_recently_used_object() -> None:
    cache = LruCache(10)
    loaded_names: list[str] = []

    def get(name: str, size: int) -> str:
        def load() -> str:
            loaded_names.append(name)
            return name

        return cache.get(name, load, lambda _: size)

    get("a", 4)
    get("b", 4)
    get("a", 4)  # now b is the least recently used
    get("c", 4)
    assert cache.used_bytes == 8
    get("a", 4)
    get("b", 4)
    assert loaded_names == ["a", "b", "c", "b"]
    get("too large", 11)
    get("too large", 11)
    assert loaded_names[-2:] == ["too large", "too large"]
    assert cache.used_bytes == 8


def test_the_newest_object_can_be_kept_although_it_is_too_large() -> None:
    cache = LruCache(10, keeps_newest=True)
    cache.get("a", lambda: "a", lambda _: 4)
    large = cache.get("large", lambda: "large", lambda _: 11)
    assert cache.get("large", lambda: "loaded again", lambda _: 11) is large
    assert cache.get("a", lambda: "loaded again", lambda _: 4) == "loaded again"  # was evicted
    assert cache.get("large", lambda: "loaded again", lambda _: 11) == "loaded again"
    cache.clear()
    assert cache.used_bytes == 0
