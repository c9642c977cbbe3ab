"""Files that are written whole or not at all, whatever somebody else left in the folder."""

from __future__ import annotations

import os
from itertools import count

import pytest

from dpeigen import io
from dpeigen.local.store import write_reports


def planted(folder, name, target):
    """Links under every name that an unfinished file of this process could have, now or soon."""
    (folder / f"{name}.part").symlink_to(target)
    for number in range(5):
        (folder / f"{name}.{os.getpid()}-{number}.part").symlink_to(target)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("write", ["release", "reports"])
def test_a_link_under_the_name_of_an_unfinished_file_is_not_followed(tmp_path, monkeypatch, write):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr(io, "_PARTS", count(), raising=False)
    if write == "release":
        planted(folder, "card.html", victim)
        io.replace_file(folder / "card.html", b"new")
        assert (folder / "card.html").read_bytes() == b"new"
    else:
        planted(folder, "r.parquet", victim)
        write_reports(folder / "r.parquet", [b"x"])
        assert not (folder / "r.parquet").is_symlink()
    assert victim.read_bytes() == b"precious"


def test_a_folder_full_of_unfinished_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "_PARTS", count(), raising=False)
    monkeypatch.setattr(io, "_PART_NAMES", 3, raising=False)
    for number in range(3):
        (tmp_path / f"a.{os.getpid()}-{number}.part").touch()
    with pytest.raises(FileExistsError, match="unfinished"):
        io.replace_file(tmp_path / "a", b"")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        io.replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="other permissions there")
def test_files_get_the_usual_permissions(tmp_path):
    io.replace_file(tmp_path / "a", b"")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
