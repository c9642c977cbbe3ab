"""Property tests draw the same examples in every run, so that a green run stays green; and they are not timed.

Tests marked ``slow`` are left out of `make test`, and so are those listed in ``slow_tests.txt``. Of a test marked
``mostly_slow`` the first cases run there, and the others count as slow, or after ``slow=`` of them as nightly. Those
marked ``nightly`` run in `make test-all` alone.
"""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: dict[str, int] = {}
    listed = set(Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.split("[")[0] in listed:
            item.add_marker(pytest.mark.slow)
        mark = item.get_closest_marker("mostly_slow")
        if mark is None:
            continue
        test = item.nodeid.split("[")[0]
        seen[test] = seen.get(test, 0) + 1
        if seen[test] > mark.kwargs.get("fast", 1):
            last = mark.kwargs.get("slow")
            item.add_marker(pytest.mark.slow)
            if last is not None and seen[test] > mark.kwargs.get("fast", 1) + last:
                item.add_marker(pytest.mark.nightly)
