"""Making a release: claimed once, run as the command that the page shows, monitored, and stopped on request.

A release has a number, and creating its folder claims the number. Of all requests for the same number, from any tabs,
windows or servers, only one creates the folder and runs the command. The others show its progress.

The command runs in a separate process that continues if the server ends. It reserves in the ledger, draws, saves the
release and then commits (`estimators.course`). So whichever process is killed, a paid release is on the disk or counts
as spent in the ledger. A lock that the process holds shows whether it still runs.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dpeigen._text import clean
from dpeigen.io import replace_file
from dpeigen.sources.progress import FILE
from dpeigen.studio.errors import RefusedError
from dpeigen.studio.project import SETTINGS, Project
from dpeigen.studio.runner import ENDED, PROGRESS
from dpeigen.studio.toml import render

__all__ = ["JOB", "LOCK", "MESSAGES", "OUTPUT", "PROGRESS", "Job", "arguments", "begin", "command_text", "let_go"]

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: whether a process runs is then known to the server that started it
    fcntl = None  # type: ignore[assignment]

JOB, LOCK, OUTPUT, MESSAGES = "job.json", "running.lock", "output.txt", "messages.txt"
_RUN = "import sys; sys.path[:] = [p for p in sys.path if p]; from dpeigen.studio.runner import main; main()"
_children: dict[int, subprocess.Popen[bytes]] = {}


def arguments(project: Project, config: str, out: str) -> list[str]:
    """The arguments of the command, without ``dpeigen``. Paths are relative to the folder of the table."""
    given = ["--config", config, "--ledger", project.ledger, "--out", out]
    table = _plain(project.table)
    if project.question == "scoremap":
        asked = project.map
        plane = f"{project.name}/releases/{asked.get('release')}/release"
        more = ["--label", asked["label"], "--labels", ",".join(asked["labels"])] if asked.get("label") else []
        return ["scoremap", _plain(plane), table, "--epsilon", repr(project.epsilon), *given, *more]
    return [project.question, table, *given]


def command_text(words: list[str]) -> str:
    """The command, quoted for a shell."""
    return shlex.join(["dpeigen", *words])


def _plain(path: str) -> str:
    """A path that cannot be mistaken for an option."""
    return f"./{path}" if path.startswith("-") else path


def begin(project: Project, number: str, digest: str, reads: int | None = None) -> bool:
    """Make release ``number``; False if it was begun before. Refuses if the settings are not those that were shown.

    This is the only function that spends anything. ``reads``: how often rows are read, as the dry run states.
    """
    if number in project.numbers():
        return False
    if number != project.next_number or digest != project.digest:
        raise RefusedError(
            "The settings, or the releases of this project, have changed since the page was shown. Nothing was spent. "
            "Open the dry run again.",
            409,
        )
    running = [other for other in project.numbers() if Job(project, other).running]
    if running:
        raise RefusedError(
            f"Release {running[-1]} is being made. Wait until it is finished, then open the dry run again.", 409
        )
    project.releases_path.mkdir(exist_ok=True)
    folder = project.releases_path / number
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    _start(project, folder, number, digest, reads)
    return True


def _start(project: Project, folder: Path, number: str, digest: str, reads: int | None) -> None:
    within = f"{project.name}/releases/{number}"
    replace_file(
        folder / SETTINGS, render(project.content).encode()
    )  # those of the digest, even if the project changes
    words = arguments(project, _plain(f"{within}/{SETTINGS}"), _plain(f"{within}/release"))
    about = {
        "question": project.question,
        "epsilon": project.epsilon,
        "delta": 0.0 if project.question == "scoremap" else project.content.get("delta", 0.0),
        "table": project.table,
        "arguments": words,
        "digest": digest,
        "passes": reads,
        "begun": datetime.now(timezone.utc).isoformat(timespec="minutes"),
    }
    replace_file(folder / JOB, json.dumps(about, indent=2, ensure_ascii=False).encode() + b"\n")
    with (
        (folder / OUTPUT).open("wb") as out,
        (folder / MESSAGES).open("wb") as said,
        (folder / LOCK).open("wb") as lock,
    ):
        more: dict[str, Any] = {}
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the process inherits it, and it is released when the process ends
            more = {"pass_fds": (lock.fileno(),), "start_new_session": True}
        child = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(folder), *words],
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=said,
            env={**os.environ, FILE: str(folder / PROGRESS)},
            **more,
        )
    replace_file(folder / "process.json", json.dumps({"pid": child.pid}).encode())
    _children[child.pid] = child


def let_go() -> None:
    """Forget the started processes when the server ends: they continue, and Python should not warn."""
    for child in _children.values():
        child.returncode = child.poll() or 0
    _children.clear()


@dataclass(frozen=True)
class Job:
    """A release that was begun."""

    project: Project
    number: str

    @property
    def folder(self) -> Path:
        return self.project.release_path(self.number)

    @property
    def out(self) -> Path:
        return self.folder / "release"

    @property
    def about(self) -> dict[str, Any]:
        """What was requested; empty if the server was killed before it was saved."""
        found = _json(self.folder / JOB)
        return found if isinstance(found, dict) else {}

    @property
    def running(self) -> bool:
        """Whether its process exists."""
        for child in list(_children.values()):
            if child.poll() is not None:
                _children.pop(child.pid, None)
        if (self.folder / ENDED).exists():
            return False
        if fcntl is None:
            return self._pid in _children
        try:
            with (self.folder / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    @property
    def _pid(self) -> int | None:
        found = _json(self.folder / "process.json")
        return found.get("pid") if isinstance(found, dict) else None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, and if it was killed."""
        found = _json(self.folder / ENDED)
        return found.get("code") if isinstance(found, dict) else None

    @property
    def made(self) -> bool:
        """Whether there is a release, or a map."""
        return (self.out / "release.json").is_file()

    @property
    def state(self) -> str:
        """running, done, killed, stopped or refused; "elsewhere": it was paid for, and the messages say where it is."""
        if self.running:
            return "running"
        if self.made:
            return "done"
        if self.code is None:
            return "killed"
        return {5: "elsewhere", 130: "stopped", 143: "stopped"}.get(self.code, "refused")

    @property
    def messages(self) -> list[str]:
        """The output of the command on standard error, which contains no value of the data."""
        try:
            text = (self.folder / MESSAGES).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return [clean(line.removeprefix("dpeigen: ")) for line in text.splitlines() if line.strip()]

    def progress(self, passes: int | None = None) -> dict[str, Any]:
        """The progress: the pass, and the rows read if their number is public."""
        last: dict[str, Any] = {}
        with suppress(OSError):
            lines = (self.folder / PROGRESS).read_text(encoding="utf-8").splitlines()
            for line in reversed(lines):
                with suppress(ValueError):
                    last = json.loads(line)
                    break
        number, rows, total = last.get("pass", 0), last.get("rows"), last.get("of")
        part = 1.0 if last.get("ended") else rows / total if rows and total else 0.0
        done = None if not passes else min(0.99, max(0.0, (number - 1 + part) / passes)) if number else 0.0
        return {"pass": number, "passes": passes, "rows": rows, "of": total, "done": done}

    @property
    def can_stop(self) -> bool:
        """Whether it can be asked to stop. On Windows it could only be killed, which may lose a paid release."""
        return fcntl is not None

    def stop(self) -> None:
        """Ask it to stop: at once if no noise was drawn yet, otherwise after the release is saved."""
        pid = self._pid if self.can_stop else None
        if self.running and pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def files(self) -> list[str]:
        """The files of the release, by their paths in its folder."""
        if not self.out.is_dir():
            return []
        home = self.project.root.resolve() / self.out.relative_to(self.project.root)  # a link leads elsewhere
        found = [
            path
            for path in self.out.rglob("*")
            if path.is_file() and path.resolve() == home / path.relative_to(self.out)
        ]
        return sorted(path.relative_to(self.out).as_posix() for path in found)

    def file(self, name: str) -> Path:
        """One of these."""
        if name not in self.files():
            raise RefusedError(f"There is no file {name!r} in this release.", 404)
        return self.out / name


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
