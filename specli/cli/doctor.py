"""``specli doctor``: this machine, this build of llama.cpp, and whether it computes.

Nothing here loads llama.cpp into this process: that may be just what is broken.
"""

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import typer

from specli.cli.common_options import Debug, Format, check_format
from specli.cli.examples import EXAMPLES
from specli.cli.failures import worded
from specli.cli.help import GroupedHelp
from specli.llama.memory import ram_bytes
from specli.report.sizes import binary_size

_TEST = [sys.executable, "-m", "specli.llama.self_test"]
_TIMEOUT = 120  # seconds
_STEPS = {
    "library": "loading llama.cpp",
    "devices": "asking for devices",
    "models": "loading the models inside specli",
    "decode": "decoding with the models inside specli",
}
_PACKAGES = ("specli", "llama-cpp-python", "huggingface-hub", "numpy")
_DEATHS = {
    "SIGILL": "llama.cpp was built with instructions that this CPU does not have, or that the compiler got wrong",
    "SIGKILL": "it was killed, most likely because memory ran out",
}
_GCC = 'CXXFLAGS="-fno-tree-dse -fno-dse" ' if platform.machine() in ("x86_64", "AMD64") else ""  # for AMX
_INSTALL = "pip install --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python"
_REBUILD = f"{_GCC}{_INSTALL} llama-cpp-python=={version('llama-cpp-python')}" if find_spec("llama_cpp") else _INSTALL

app = typer.Typer(
    name="specli",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The command alone, for where llama.cpp cannot be loaded."""


@worded
def command(format: Format = "text", debug: Debug = False) -> None:
    """Show this machine and this build of llama.cpp, and test whether it computes."""
    check_format(format)
    document = examine()
    if format == "json":
        print(json.dumps(document, ensure_ascii=False))
    else:
        for line in _words(document):
            print(line)
    if document["failure"]:
        raise typer.Exit(1)


@app.callback()
def _program() -> None:
    pass


app.command("doctor", cls=GroupedHelp, epilog=EXAMPLES["doctor"])(command)


def examine() -> dict[str, Any]:
    """Everything found out, for programs; ``failure`` is None, or the step that failed and why."""
    steps, failure = _self_test()
    return {
        "schema": "specli.doctor/1",
        "versions": {name: _version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": _usable_cores(),
        "ram_bytes": ram_bytes(),
        "gpu_hardware": _gpu_hardware(),
        **{name: facts for name, facts in steps.items() if name != "decode"},
        "decodes": "decode" in steps,
        "failure": failure,
    }


def _self_test() -> tuple[dict[str, dict[str, Any]], dict[str, str] | None]:
    """What each step said, and what stopped them."""
    try:
        result = subprocess.run(_TEST, capture_output=True, timeout=_TIMEOUT, check=False, text=True, errors="replace")
        code, output, complaint = result.returncode, result.stdout, result.stderr
    except subprocess.TimeoutExpired as error:
        partial = error.stdout or b""
        code, output, complaint = None, partial.decode(errors="replace") if isinstance(partial, bytes) else partial, ""
    steps = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError, KeyError, AttributeError):  # something else printed it
            facts = json.loads(line)
            steps[facts.pop("step")] = facts
    if code == 0:
        return steps, None
    stopped = next((step for step in _STEPS if step not in steps), "decode")
    return steps, {"step": stopped, **_reason(stopped, code, complaint)}


def _reason(step: str, code: int | None, complaint: str) -> dict[str, str]:
    """Why a self-test stopped, and what to do about it."""
    if code is None:
        return {"what": f"nothing happened within {_TIMEOUT} s", "cure": "Try again when the machine has less to do."}
    if code < 0:
        name = signal.Signals(-code).name
        what = _DEATHS.get(name, "llama.cpp crashed")
        return {"what": f"{what} ({name})", "cure": f"Build it again for this machine: {_REBUILD}"}
    last = (complaint.strip().splitlines() or [f"exit code {code}"])[-1]
    if step == "models":
        return {"what": last, "cure": "Install specli again: its own models are missing, or damaged."}
    return {"what": last, "cure": f"Install llama-cpp-python again: {_REBUILD}"}


def _words(document: dict[str, Any]) -> list[str]:
    library, failure = document.get("library"), document["failure"]
    versions = ", ".join(f"{name} {number or 'missing'}" for name, number in document["versions"].items())
    lines = [
        f"versions     {versions}, Python {document['python']}",
        f"system       {document['system']}",
        f"CPU          {document['cpu']}, {document['cores']} usable cores",
    ]
    if document["ram_bytes"]:
        lines.append(f"RAM          {binary_size(document['ram_bytes'])}")
    if library:
        lines += [
            f"llama.cpp    {library['path']}",
            f"features     {_features(library['system_info'])}",
            f"threads      {library['physical_cores']}, one a physical core (-t changes it)",
            f"GPU offload  {'compiled in' if library['gpu_offload'] else 'not compiled in'}",
        ]
        if not library["hidden_states"]:
            lines.append("drafters     no mtp, eagle3, dflash, dspark: this build does not give hidden states")
        lines += _advice(document)
    for device in document.get("devices", {}).get("devices", []):
        size = f"{binary_size(device['bytes'])}, {binary_size(device['bytes_free'])} free"
        lines.append(f"device       {device['name']}: {device['description']} ({size})")
    if failure:
        lines += [
            f"self-test    FAILED while {_STEPS[failure['step']]}: {failure['what']}",
            f"             {failure['cure']}",
        ]
    else:
        lines.append("self-test    passed: the models inside specli were loaded and decoded")
    return lines


def _features(system_info: str) -> str:
    """The features that are there, of llama.cpp's 'NAME = 1 | …'."""
    parts = (part.strip().rpartition(":")[2].strip() for part in system_info.split("|"))
    return " ".join(name.strip() for name, _, value in (part.partition("=") for part in parts) if value.strip() == "1")


def _advice(document: dict[str, Any]) -> list[str]:
    """How to get the GPU that is there, or none."""
    hardware = document["gpu_hardware"]
    if not hardware or document["library"]["gpu_offload"]:
        return []
    option = {"NVIDIA": "-DGGML_CUDA=on", "Apple": "-DGGML_METAL=on", "AMD": "-DGGML_HIP=on"}[hardware]
    return [f'             There is a GPU of {hardware}: CMAKE_ARGS="{option}" {_REBUILD}']


def _gpu_hardware() -> str | None:
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "Apple"
    if shutil.which("nvidia-smi"):
        return "NVIDIA"
    return "AMD" if shutil.which("rocminfo") else None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 (a device, not a path of ours)
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
