"""`Server`: from models and settings to a process that answers, and stops when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import uvicorn

from readoff.serve.app import make_app
from readoff.serve.errors import StartError
from readoff.serve.forward import Forward, forwarding
from readoff.serve.front import App
from readoff.serve.keys import Keys
from readoff.serve.log import Log
from readoff.serve.protocol import protocol_of
from readoff.serve.served import Answering, Models
from readoff.serve.settings import Settings
from readoff.serve.tracing import Tracing

Loaders = Mapping[str, Callable[[], Answering]]

_BACKLOG = 1024
_THREADS = 32
_MOST_ACCEPTED = 10_000


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises StartError for a host that isn't this machine's, a port in use, or
    one that isn't allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise StartError(f"The host {host!r} can't be looked up.") from error
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            why = "is in use. Choose another with --port (0: any that is free)"
        elif error.errno == errno.EACCES:
            why = "needs rights that this user doesn't have. Choose one above 1023 with --port"
        else:
            raise StartError(f"{host}:{port} can't be listened on: {error.strerror}.") from error
        raise StartError(f"Port {port} of {host} {why}.") from error
    sock.setblocking(False)
    return sock


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(sock.getsockname()[0].partition("%")[0]).is_loopback


def url_of(sock: socket.socket) -> str:
    """http://HOST:PORT"""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    models: Models,
    loaders: Loaders,
    sock: socket.socket,
    settings: Settings | None = None,
    *,
    keys: Keys | None = None,
    log: Log | None = None,
    tracing: Tracing | None = None,
) -> bool:
    """Listen, load every model by its loader, answer until SIGTERM or SIGINT, finish what was
    accepted, and return. A second signal ends the process at once.

    Returns False if it was stopped while a model was being loaded: a daemon thread is then still
    at it. Raises what a loader raised.
    """
    keys, log, tracing = keys or Keys(), log or Log(), tracing or Tracing()
    app = make_app(models, settings, keys=keys, log=log, tracing=tracing)
    server = Server(app, models, loaders, settings or Settings(), log)
    _tell(log, sock, keys)
    try:
        with forwarding(log):
            try:
                server.run(sockets=[sock])
            finally:
                models.close()
                tracing.close()
    finally:
        log("info", "stopped")
        log.close()
    if server.failure is not None:
        raise server.failure
    return not server.loading.is_alive()


def _config(app: App, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol_of(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        timeout_graceful_shutdown=max(1, round(settings.drain_limit)),
        backlog=_BACKLOG,
    )


class Server(uvicorn.Server):
    """uvicorn's, with loading beside listening, and another way of stopping.

    `run(sockets=[…])` ends after a signal, or after `stop()` by whichever thread.

    `failure`: what a loader raised.
    """

    def __init__(
        self,
        app: App,
        models: Models,
        loaders: Loaders,
        settings: Settings,
        log: Log,
    ) -> None:
        super().__init__(_config(app, settings))
        self.failure: BaseException | None = None
        self._models, self._loaders, self._settings, self._log = models, loaders, settings, log
        self._stop_at = float("inf")
        self._signal: int | None = None
        self._said = False
        self.loading = threading.Thread(target=self._load, name="readoff load", daemon=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and begin to load."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, "readoff text"))
        logging.getLogger("uvicorn.error").handlers = [Forward(self._log)]
        logging.getLogger("uvicorn.error").propagate = False
        await super().startup(sockets)
        self.loading.start()

    def _load(self) -> None:
        """A daemon: a stop doesn't wait for a model that nobody will ask."""
        try:
            for model in self._models.all:
                if self._models.draining.is_set():
                    return
                begun = time.perf_counter()
                engine = self._loaders[model.name]()
                engine.warmup()
                model.open(engine)
                seconds = round(time.perf_counter() - begun, 2)
                self._log("info", "model warm", model=model.name, seconds=seconds, **_brief(engine))
        except BaseException as error:
            self.failure = error
            return
        seconds = round(time.perf_counter() - self._models.started, 2)
        self._log("info", "ready", seconds=seconds, models=[m.name for m in self._models.all])

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop now."""
        stop = await super().on_tick(counter)
        self._say_signal()
        return stop or self.failure is not None or time.monotonic() >= self._stop_at

    def stop(self) -> None:
        """Not ready any more, and in a moment no more connections; then the end."""
        self._models.draining.set()
        self._stop_at = time.monotonic() + self._settings.drain_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal is `stop`; the second ends the process at once.

        It may come in the middle of whatever holds a lock, so nothing is logged here.
        """
        if self._signal is not None or self._models.draining.is_set():
            os._exit(128 + sig)
        self._signal = sig
        self.stop()

    def _say_signal(self) -> None:
        if self._signal is not None and not self._said:
            self._said = True
            self._log("info", "stopping", signal=signal.Signals(self._signal).name)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGTERM and SIGINT meanwhile. They aren't raised again afterwards: a server that
        finished its work as it was told exits with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take over the connections that the system has accepted already: closing the socket would
        reset them. Then finish."""
        self._say_signal()
        loop = asyncio.get_running_loop()
        for sock in sockets or ():
            for _ in range(_MOST_ACCEPTED):
                try:
                    connection, _address = sock.accept()
                except OSError:
                    break
                connection.setblocking(False)
                await loop.connect_accepted_socket(self._protocol, connection)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def _tell(log: Log, sock: socket.socket, keys: Keys) -> None:
    url = url_of(sock)
    if is_loopback(sock):
        message = f"Listening on {url}: on loopback, so only this machine reaches it (see --host)."
        log("info", "listening", url=url, keys=len(keys), message=message)
        return
    message = f"LISTENING ON {url}: OTHER MACHINES CAN REACH THIS SERVER"
    message += "." if len(keys) else ", AND IT ASKS FOR NO KEY. Set one with --api-key-file."
    log("warning", "listening", url=url, keys=len(keys), message=message)


def _brief(engine: Answering) -> dict[str, object]:
    told = engine.info()
    return {key: told[key] for key in ("device", "dtype", "threads") if key in told}
