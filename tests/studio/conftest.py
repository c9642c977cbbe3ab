"""A messy table in a folder, and the studio over it."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cli")]
import messy_table  # noqa: E402
from studio_client import SECRET, Client  # noqa: E402


@pytest.fixture(scope="session")
def messy(tmp_path_factory):
    """Visits of patients in an office's form; a note of one row holds a secret."""
    path = tmp_path_factory.mktemp("messy") / "visits.csv"
    messy_table.written(path, *messy_table.drawn(people=3000), office=True)
    raw = path.read_bytes()
    return raw.replace(b'"siehe Akte; Blatt 3"', f'"siehe {SECRET}; Blatt 3"'.encode("latin-1"), 1)


@pytest.fixture
def client(tmp_path, messy):
    (tmp_path / "visits.csv").write_bytes(messy)
    return Client(tmp_path)
