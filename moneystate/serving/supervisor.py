"""The processes of `moneystate serve`: one follower, the workers that answer, and this supervisor.

    serve ── follower     reads the changelog into the replica's files; their only writer
          ├─ worker 1     a server over the same files, read only
          └─ worker N     on the same port; the system spreads connections over the workers

Children end when this process ends, for whatever reason. If a child ends by itself, the whole command ends. A
supervisor such as systemd or Kubernetes then starts it again. A start costs no more than catching up.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import wait
from typing import Any, Final

from moneystate.errors import JobError, SetupError
from moneystate.kafka.announcements import METRICS, STATE, Announcement, Announcer
from moneystate.kafka.client import check_reachable
from moneystate.log import get_log
from moneystate.monitoring import Labelled, expose
from moneystate.replica import files, follower
from moneystate.replica.log import Topics
from moneystate.replica.saved_state import unusable
from moneystate.serving import addresses, metrics, worker
from moneystate.serving.child import Child, start
from moneystate.serving.options import ServeOptions
from moneystate.serving.savepoint import saved_state
from moneystate.serving.state.served import ServedService
from moneystate.stop_signals import stop_signals

_log = get_log(__name__)

START_S: Final = 60.0  # to import and listen, on a busy machine
METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
ANNOUNCE: Final = "--announce"
SAME_SIGNAL_S: Final = 1.0


def serve(options: ServeOptions, served: ServedService) -> None:
    """Serves until SIGTERM or SIGINT. Raises ConfigError, SetupError, and JobError if a child ends by itself."""
    addresses.split(options.listen, "--listen")
    options.security.check(options.listen)
    if options.announced:
        addresses.announced(options.announced, 0, ANNOUNCE)
    check_reachable(options.bootstrap_servers, options.kafka_config)
    with ExitStack() as at_end:
        _make_folder(options)
        files.check_unused(options.data)
        address, held = _hold_port(options.listen)
        at_end.callback(held.close)
        stopped = at_end.enter_context(stop_signals()).fileno()
        _metrics(options, served.name, at_end)
        task = worker.WorkerTask(options, served, address, worker.page_token_key(options))
        children = [start("follower", _follower(options, served), options, served.replica)]
        at_end.callback(_stop, children, options.grace_s)
        children += [start(f"worker {n + 1}", worker.run, task) for n in range(options.workers)]
        _await_listening(children[1:], stopped)
        if options.announced:
            at_end.enter_context(_announcer(options, served.name, address))
        for line in options.security.warnings():
            _log.warning(line)
        security = options.security.in_words(address)
        _log.info(f"listening on {address} ({security})", workers=options.workers, replica=options.data)
        _watch(children, stopped)


def _make_folder(options: ServeOptions) -> None:
    try:
        os.makedirs(options.data, exist_ok=True)
    except OSError as e:
        raise SetupError(
            f"--data {options.data}: expected a folder, but {e.strerror}.", "check the path and its permissions."
        ) from None


def _follower(options: ServeOptions, served: ServedService) -> Callable[..., None]:
    """Returns what the follower's process runs. Raises SetupError if the replica cannot continue from
    --from-snapshot."""
    if not options.from_snapshot:
        return follower.run
    open_saved = partial(saved_state, options.from_snapshot)
    if files.generation(options.data) is None:  # else the replica has its own files
        why = unusable(open_saved(), Topics(options, served.replica.changelog).describe())
        if why:
            raise SetupError(
                f"--from-snapshot {options.from_snapshot}: expected a changelog that continues it, but {why}.",
                "make a newer savepoint, or leave the flag out to read the whole changelog.",
            )
    return partial(follower.run, open_saved=open_saved)


def _hold_port(listen: str) -> tuple[str, socket.socket]:
    """HOST:PORT with the port for all workers, and a socket that reserves it until they listen. Raises SetupError if
    another process has the port."""
    host, port = addresses.split(listen, "--listen")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        with socket.socket(family, socket.SOCK_STREAM) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))  # fails if anyone listens there, because it does not share the port
            port = alone.getsockname()[1]
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((host, port))
    except OSError as e:
        held.close()
        raise SetupError(
            f"--listen {listen}: expected a free port, but {e.strerror}.",
            "stop the process that has it, or give another port.",
        ) from None
    return f"{f'[{host}]' if family == socket.AF_INET6 else host}:{port}", held


def _metrics(options: ServeOptions, service: str, at_end: ExitStack) -> None:
    """Serves the metrics. Workers write theirs to files in a folder that an environment variable names. Raises
    SetupError."""
    if not options.metrics_port:
        return
    folder = at_end.enter_context(tempfile.TemporaryDirectory(prefix="moneystate-metrics-"))
    os.environ[METRICS_FOLDER] = folder
    values = metrics.of_all_processes(folder)
    live, ready = partial(metrics.live, values), partial(metrics.ready, values)
    expose(options.metrics_host, options.metrics_port, Labelled({service: values}), live, ready)


def _announcer(options: ServeOptions, service: str, listening: str) -> Announcer:
    _, port = addresses.split(listening, "--listen")
    address, host = addresses.announced(options.announced, port, ANNOUNCE), socket.gethostname()
    announced = [Announcement(address, STATE, service, host, bool(options.security.tls_cert))]
    if options.metrics_port:
        address = addresses.of_metrics(options.announced, options.metrics_host, options.metrics_port, ANNOUNCE)
        announced.append(Announcement(address, METRICS, service, host, False))
    return Announcer(options.bootstrap_servers, options.kafka_config, options.topic_prefix, announced)


def _await_listening(workers: list[Child], stopped: int) -> None:
    """Raises JobError if a worker ends or does not listen in time."""
    missing: dict[Any, Child] = {w.line: w for w in workers}
    while missing:
        ready = wait([*missing, stopped], START_S)
        if stopped in ready:
            return
        lines = [line for line in ready if line in missing]
        if not lines:
            raise JobError(
                f"{next(iter(missing.values())).name}: expected it to listen, but it does not.", "see its log above."
            )
        for line in lines:
            child = missing.pop(line)
            try:
                child.line.recv()
            except EOFError:
                raise JobError(
                    f"{child.name}: expected it to listen, but it has ended.", "see its log above."
                ) from None


def _watch(children: list[Child], stopped: int) -> None:
    """Watches the children until told to stop. Raises JobError if a child ends first."""
    ended = wait([*(c.line for c in children), stopped])
    # a signal for the whole group may reach a child first
    if stopped in ended or wait([stopped], SAME_SIGNAL_S):
        return
    gone = next(c for c in children if c.line in ended)
    raise JobError(
        f"{gone.name}: expected it to run, it ended with code {gone.process.wait()}.",
        "see its log above; a new start continues where this one ended.",
    )


def _stop(children: list[Child], grace_s: float) -> None:
    for child in children:
        child.process.terminate()
    for child in children:
        try:
            child.process.wait(grace_s + START_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        child.line.close()
        if child.errors is not None:
            child.errors.join()
