"""Who may import whom: downward only."""

import ast
from pathlib import Path

import pytest

import specli

ROOT = Path(specli.__file__).parent
LAYERS = (
    "models",
    "llama",
    "sampling",
    "drafters",
    "decoding",
    "proof",
    "bench",
    "report",
    "cli",
)  # from the bottom up
BESIDE = {
    "__main__": set(LAYERS),
    "__init__": {"api"},
    "api": {*LAYERS} - {"cli", "report", "bench", "proof"},
    "errors": set(),
    "whole_file": set(),
}
OF_LLAMA_CPP = {"llama_cpp", "ctypes"}
MODULES = sorted(ROOT.rglob("*.py"))


def imports(path):
    """Full names of everything a module imports, wherever in it."""
    package = ("specli", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, *([node.module] if node.module else [])))
            yield from (f"{name}.{alias.name}" for alias in node.names)


def layer(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def allowed(name):
    return set(LAYERS[: LAYERS.index(name) + 1]) if name in LAYERS else BESIDE[name]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downward(path):
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "specli" and len(parts) > 1 and parts[1] not in ("errors", "whole_file", "__version__"):
            assert parts[1] in allowed(layer(path)), f"{path.relative_to(ROOT)} imports {name}"
        if parts[0] in OF_LLAMA_CPP:
            assert layer(path) == "llama", f"{path.relative_to(ROOT)} imports {name}"


def test_every_module_has_its_layer():
    assert {layer(path) for path in MODULES} <= {*LAYERS, *BESIDE}
    assert {"llama", "sampling", "drafters", "decoding"} <= {layer(path) for path in MODULES}


@pytest.mark.parametrize(
    "source, names",
    [
        ("import specli.cli.run", ["specli.cli.run"]),
        ("def f():\n    from specli.report import live", ["specli.report.live"]),
        ("from . import vocab", ["specli.llama.vocab"]),
        ("from ..cli import run", ["specli.cli.run"]),
        ("from specli import cli", ["specli.cli"]),
    ],
)
def test_imports_are_seen(monkeypatch, source, names):
    path = ROOT / "llama" / "vocab.py"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: source)
    assert list(imports(path)) == names
