"""The server: its routes, and how it is started. It listens only on the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.studio.errors import RefusedError
from dpeigen.studio.guard import RequestGuard
from dpeigen.studio.jobs import let_go
from dpeigen.studio.workspace import Workspace

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["LOOPBACK", "Handler", "serve", "studio_app"]

LOOPBACK = "127.0.0.1"
_LARGEST_FORM = 8 * 2**20
_loading = threading.Lock()
_SETTLED = 1.0  # seconds in which the first page is shown
_MISSING = "dpeigen studio needs a few packages more: pip install 'dpeigen[studio]'"
Handler = Callable[..., Any]


def studio_app(folder: Path, *, token: str, hosts: tuple[str, ...], start: str | None = None) -> Any:
    """The ASGI application over a folder. ``hosts`` are the values of Host that it answers to, ``start`` a table."""
    try:
        import jinja2  # noqa: F401
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles

        from dpeigen.studio.rendering import Pages
    except ImportError as error:
        raise ImportError(_MISSING) from error
    from dpeigen.studio import choosing, releasing, views

    site = views.Site(Workspace(folder), Pages(f"/{token}"), start)
    routes: list[Any] = [
        Route("/", _handled(site, views.start)),
        Route("/open", _handled(site, views.open_table), methods=["POST"]),
        Route("/drop/{name}", _dropped(site), methods=["POST"]),
        Route("/help", _handled(site, views.help_page)),
    ]
    of_project: dict[str, Handler] = {
        "columns": views.columns,
        "question": views.question,
        "privacy": choosing.privacy,
        "check": releasing.check,
        "history": releasing.history,
        "export": releasing.export,
    }
    for name, handler in of_project.items():
        routes.append(Route(f"/p/{{project}}/{name}", _handled(site, handler), methods=["GET", "POST"]))
    more: dict[str, Handler] = {
        "foresee": choosing.foreseen,
        "export/{file}": releasing.exported,
        "releases/{number}": releasing.release,
        "releases/{number}/progress": releasing.progress,
        "releases/{number}/file/{file:path}": releasing.released_file,
        "releases/{number}/zip": releasing.released_zip,
    }
    for name, handler in more.items():
        routes.append(Route(f"/p/{{project}}/{name}", _handled(site, handler)))
    for name in ("spend", "ledger"):
        handler = {"spend": releasing.spend, "ledger": choosing.ledger}[name]
        routes.append(Route(f"/p/{{project}}/{name}", _handled(site, handler), methods=["POST"]))
    for name, handler in {"stop": releasing.stop, "card": releasing.card}.items():
        routes.append(Route(f"/p/{{project}}/releases/{{number}}/{name}", _handled(site, handler), methods=["POST"]))
    routes.append(Mount("/static", StaticFiles(directory=Path(__file__).with_name("static"))))
    inner = Starlette(routes=[Mount(f"/{token}", routes=routes)])
    return RequestGuard(inner, token, hosts)


def _handled(site: Any, handler: Handler) -> Handler:
    """A handler that runs in a thread and gets the fields of the form; a refusal becomes a page with the remedy."""
    from starlette.concurrency import run_in_threadpool

    async def call(request: Request) -> Response:
        try:
            form = await _form(request) if request.method == "POST" else None
            if "project" in request.path_params or form is not None:
                await run_in_threadpool(_warm)
            return await run_in_threadpool(handler, site, request, form)
        except RefusedError as refused:
            return site.refusal(refused)
        except Exception as error:
            # The message is not shown: it may contain values of the data.
            words = (
                f"Unexpected {type(error).__name__}; this is a bug, please report what you did. If you were starting a "
                "release, it may be running: the project's list of releases shows it."
            )
            return site.refusal(RefusedError(words, 500))

    return call


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError("This is not a form of the studio.", 415)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise RefusedError("The form is too large.", 413)
    pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200_000)
    return dict(pairs)


def _dropped(site: Any) -> Handler:
    """A file that is dropped on the page: it is streamed to the folder, and never held in memory."""

    async def call(request: Request) -> Response:
        from starlette.responses import JSONResponse

        try:
            name = await site.workspace.receive(request.path_params["name"], request.stream())
            return JSONResponse({"project": site.workspace.open(name).name})
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        except Exception as error:  # the browser has gone, or the disk is full: what was half written is removed
            return JSONResponse({"error": f"The file could not be copied ({type(error).__name__})."}, 500)

    return call


def serve(
    path: Path,
    *,
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the folder of a table, or a folder, until the process is told to end."""
    try:
        import uvicorn
    except ImportError as error:
        raise ImportError(_MISSING) from error
    folder, table = (path, None) if path.is_dir() else (path.parent, path.name)
    if not path.exists():
        raise ValueError(f"No such file or folder: {path}. Give the path of a table, or of the folder that it is in.")
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            raise ValueError(f"Port {port} is in use. Choose another with --port, or leave it out.") from None
        listener.listen()  # before the address is printed: an early request then waits and is not refused
        port = listener.getsockname()[1]
        token = SystemRandomness().token().hex()
        hosts = (f"{LOOPBACK}:{port}", f"localhost:{port}")
        app = studio_app(folder or Path(), token=token, hosts=hosts, start=table)
        address = f"http://{LOOPBACK}:{port}/{token}/"
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none"
        )
        server = uvicorn.Server(config)
        tell(f"dpeigen studio is at {address}")
        tell("Only this machine can open it, and only with the whole address. Ctrl-C ends it.")
        warm = threading.Timer(_SETTLED, _warm)
        warm.daemon = True
        warm.start()
        if browser:
            code = SystemRandomness().token().hex()
            app.admit_once(code)
            threading.Timer(0.5, webbrowser.open, [f"http://{LOOPBACK}:{port}/{code}"]).start()
        with contextlib.suppress(KeyboardInterrupt):  # it has ended in order by then
            server.run(sockets=[listener])
        let_go()
        tell("dpeigen studio has ended. A release that was begun is finished all the same.")


def _warm() -> None:
    """Import what the pages of a project need. One thread does it, and others wait.

    If two threads import modules that import each other, one may see a partially imported module.
    """
    with _loading:
        import dpeigen.cli._fit
        import dpeigen.cli.score_map
        import dpeigen.estimators
        import dpeigen.methods.foreseen
        import dpeigen.planner.planning
        import dpeigen.sources.arrow  # noqa: F401
