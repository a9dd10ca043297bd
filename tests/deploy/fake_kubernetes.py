"""A stand-in for Kubernetes, as far as Spark's driver needs it: an API server on loopback. It runs the pod of each
executor as a process, with the image's entrypoint and the words and variables that Spark gives it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.deploy.rendered import Object
from tests.job.spark_cluster import UP_S, environment
from tests.job.warm import ROOT
from tests.processes import kill_with_children

NAMESPACE, DRIVER = "payments", "enrichment-0"
FIELDS = {"status.podIP": "127.0.0.1", "spec.nodeName": "node-1"}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Kubernetes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: dict[str, Object] = {DRIVER: _running({"metadata": {"name": DRIVER, "uid": "1"}, "spec": {}})}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.asked: set[tuple[str, str]] = set()  # verb and resource
        self.stopped = threading.Event()

    def create(self, resource: str, body: Any) -> Object:
        for one in body["items"] if body.get("kind", "").endswith("List") else [body]:
            one["metadata"].setdefault("uid", "2")
            if resource == "pods":
                self._start(one)
                self.pods[one["metadata"]["name"]] = _running(one)
        return dict(body)

    def _start(self, pod: Object) -> None:
        (container,) = pod["spec"]["containers"]
        name = pod["metadata"]["name"]
        given = {one["name"]: one.get("value") or _field(pod, one) for one in container["env"]}
        folder = self.folder / name
        folder.mkdir()
        variables = {**environment(folder), **given, "SPARK_LOCAL_DIRS": str(folder)}
        variables["PATH"] = f"{variables['JAVA_HOME']}/bin:{os.environ['PATH']}"
        with (folder / "log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [ROOT / "deploy" / "entrypoint.sh", *container["args"]],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=variables, start_new_session=True,
                )
            )  # fmt: skip

    def stop(self) -> None:
        self.stopped.set()
        for process in self.processes:
            kill_with_children(process, UP_S)


def _running(pod: Object) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Pod", **pod, "status": status}


def _field(pod: Object, variable: Object) -> str:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    return str(pod["metadata"]["name"]) if path == "metadata.name" else FIELDS.get(path, "")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kubernetes: Kubernetes

    def log_message(self, *_: Any) -> None:
        """Requests are no news."""

    def do_GET(self) -> None:
        resource, name = self._place()
        query = parse_qs(urlsplit(self.path).query)
        watches = query.get("watch") == ["true"]
        self.kubernetes.asked.add(("watch" if watches else "get" if name else "list", resource))
        pods = self.kubernetes.pods
        if watches and "Upgrade" in self.headers:
            self._answer({})  # like a proxy without web sockets: the client then asks again without one
        elif watches:
            self._watch()
        elif name:
            self._answer(*((pods[name],) if name in pods else ({"kind": "Status", "code": 404}, 404)))
        else:
            items = list(pods.values()) if resource == "pods" else []
            self._answer({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})

    def _watch(self) -> None:
        """Nothing changes: the executors themselves tell the driver that they are there."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        self.kubernetes.stopped.wait()
        self.close_connection = True

    def do_POST(self) -> None:
        resource, _ = self._place()
        self._answer(self.kubernetes.create(resource, self._change(resource)), 201)

    def do_PUT(self) -> None:
        self._answer(self._change(self._place()[0]))

    def do_PATCH(self) -> None:
        resource, name = self._place()
        self._change(resource)
        self._answer(self.kubernetes.pods.get(name, {"metadata": {"name": name}}))

    def do_DELETE(self) -> None:
        resource, name = self._place()
        self._body()
        self.kubernetes.asked.add(("delete" if name else "deletecollection", resource))
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _change(self, resource: str) -> Any:
        self.kubernetes.asked.add((VERBS[self.command], resource))
        return json.loads(self._body() or b"{}")

    def _place(self) -> tuple[str, str]:
        """The resource, and the name of one object."""
        parts = urlsplit(self.path).path.partition(f"/namespaces/{NAMESPACE}/")[2].split("/")
        return parts[0], parts[1] if len(parts) > 1 else ""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, content: Any, code: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def kubernetes(folder: Path) -> Iterator[tuple[str, Kubernetes]]:
    """The address of the API server, and what it knows."""
    its = Kubernetes(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"kubernetes": its}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"k8s://http://127.0.0.1:{server.server_port}", its
    finally:
        its.stop()
        server.shutdown()
        server.server_close()
