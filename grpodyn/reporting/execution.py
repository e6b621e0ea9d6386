"""Runs notebooks without a browser: parameters in, one kernel for all of them, outputs back in the notebook."""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

from grpodyn.errors import UnknownNameError
from grpodyn.reporting.choosing import KINDS

NOTEBOOKS = "grpodyn.notebooks"
_PYTHON = "python3"
_LONGEST_SOCKET = 90
"""Characters of a socket's path that every system takes, with room for its number."""


@dataclass(frozen=True)
class Executed:
    """A notebook that was run, whole or not."""

    kind: str
    notebook: Any
    failed: str | None
    """Why it is not whole: the error of a cell, or of the kernel."""


def read(kind: str) -> Any:
    """Return a notebook as it is stored.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if kind not in KINDS:
        raise UnknownNameError.among("kind of report", kind, KINDS)
    text = (resources.files(NOTEBOOKS) / f"{kind}.ipynb").read_text(encoding="utf-8")
    return nbformat.reads(text, as_version=4)


def execute(
    kinds: Sequence[str], parameters: Mapping[str, Any], done: Callable[[Executed], None] = lambda _: None
) -> list[Executed]:
    """Run notebooks one after another in one kernel, whose imports they share; one that dies is replaced.

    Nothing is written outside of a temporary folder, and no display is needed.

    Args:
        kinds: names of notebooks.
        parameters: what papermill puts into the cell tagged `parameters`.
        done: is told of each.
    """
    notebooks = [(kind, _with(read(kind), parameters)) for kind in kinds]
    with tempfile.TemporaryDirectory(prefix="grpodyn-") as folder:
        return _run(lambda: _execute(notebooks, Path(folder), done))


def _run(make: Callable[[], Coroutine[Any, Any, list[Executed]]]) -> list[Executed]:
    """Run a coroutine here, so that Ctrl-C ends it; on another thread where a loop is running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(make())).result()


def _with(notebook: Any, parameters: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        # Papermill imports what other packages have deprecated.
        warnings.simplefilter("ignore")
        from papermill.parameterize import parameterize_notebook  # noqa: PLC0415
    notebook.metadata.setdefault("papermill", {})
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])
    return parameterize_notebook(notebook, dict(parameters), kernel_name=_PYTHON, language="python")


async def _execute(
    notebooks: Sequence[tuple[str, Any]], folder: Path, done: Callable[[Executed], None]
) -> list[Executed]:
    found: list[Executed] = []
    kernel: AsyncKernelManager | None = None
    try:
        for number, (kind, notebook) in enumerate(notebooks):
            if kernel is None:
                kernel = _kernel(folder / f"kernel-{number}.json")
            client = NotebookClient(notebook, km=kernel, timeout=None, allow_errors=True)
            failed = None
            try:
                await client.async_execute(env=_environment(folder))
                failed = _first_error(notebook)
            except (DeadKernelError, CellControlSignal, RuntimeError) as error:
                failed = f"the notebook's process ended: {error}"
            if client.kc is not None:
                client.kc.stop_channels()
            if failed is not None and not await kernel.is_alive():
                await kernel.shutdown_kernel(now=True)
                kernel = None
            found.append(Executed(kind, notebook, failed))
            done(found[-1])
    finally:
        if kernel is not None and kernel.has_kernel:
            await kernel.shutdown_kernel(now=True)
    return found


def _kernel(connection: Path) -> AsyncKernelManager:
    # Without folders to search it is ipykernel of this very Python, whatever kernels a user has installed.
    manager = AsyncKernelManager(kernel_name=_PYTHON, kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    manager.connection_file = str(connection)
    socket = str(connection.with_suffix(""))
    if os.name == "posix" and len(socket) < _LONGEST_SOCKET:
        # No other user of the machine can listen, as one could on a port.
        manager.transport, manager.ip = "ipc", socket
    return manager


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment for the kernel: no display, and a home that may be read-only is left alone."""
    own = {
        name: str(folder) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
    }
    return {**os.environ, **own, "MPLBACKEND": "agg"}


def _first_error(notebook: Any) -> str | None:
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                return f"{output.ename}: {output.evalue}"
    return None
