"""A real PostgreSQL server in a temporary folder, reached through a socket file."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    """The folder of ``initdb`` and ``postgres``; distributions keep it off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return folders[-1].parent if folders else None


def why_not() -> str | None:
    """The reason why no server can be started here, or None."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "needs psycopg (the 'postgres' extra)"
    return None if binaries() else "needs a PostgreSQL server (Debian: apt install postgresql)"


def _user() -> str | None:
    """PostgreSQL refuses to run as root: someone who may less."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def server(*, durable: bool = False) -> Iterator[str]:
    """The URL of a fresh server; ``durable`` keeps its writes safe from a power cut, as in earnest."""
    tools, user = binaries(), _user()
    assert tools is not None
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if user:
            folder.chmod(0o711)
            data = folder / "d"
            data.mkdir()
            shutil.chown(data, user)
        else:
            data = folder / "d"
            data.mkdir()
        options = {"user": user, "cwd": data, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        setup = [tools / "initdb", "-D", data / "db", "-U", "analyst", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*setup, "--locale=C"], check=True, **options)
        settings = ["listen_addresses=", "max_connections=60", f"unix_socket_directories={data}", "shared_buffers=32MB"]
        settings += [] if durable else ["fsync=off", "synchronous_commit=off"]
        flags = [part for setting in settings for part in ("-c", setting)]
        running = subprocess.Popen([tools / "postgres", "-D", data / "db", *flags], **options)
        url = f"postgresql://analyst@/postgres?host={data}"
        try:
            _wait(url, running)
            yield url
        finally:
            running.send_signal(signal.SIGINT)  # a fast shutdown
            running.wait(timeout=60)


def _wait(url: str, running: subprocess.Popen) -> None:
    import psycopg

    for _ in range(300):
        assert running.poll() is None, "the server did not start"
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")
