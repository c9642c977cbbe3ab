"""Every test that takes ``place`` runs on a file and on a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import postgres_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def database():
    """The URL of a server of our own."""
    if reason := postgres_server.why_not():
        pytest.skip(reason)
    with postgres_server.server() as url:
        yield url


@pytest.fixture
def path():
    # In memory where that can be had: what is tested is locking and counting, not the speed of a disk.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder) / "study.ledger"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request):
    """Where a new ledger may be made."""
    if request.param == "sqlite":
        return request.getfixturevalue("path")
    return f"{request.getfixturevalue('database')}&ledger=study_{next(_numbers)}"
