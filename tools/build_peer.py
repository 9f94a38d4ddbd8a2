"""Build llama-server from the very llama.cpp that the installed llama-cpp-python carries.

Its source distribution holds llama.cpp's whole tree. The path of the program is printed to stdout, everything else
goes to stderr; nothing is done where the program is there already. CMAKE_ARGS (-DGGML_CUDA=on and the like) are those
that llama-cpp-python was built with.
"""

import argparse
import os
import platform
import shlex
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "peer"
PEER = FOLDER / "bin" / "llama-server"


def main() -> None:
    """Build it if need be, and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peer", type=Path, default=os.environ.get("PEER") or None, help="use this llama-server (default: $PEER)"
    )
    arguments = parser.parse_args()
    peer = arguments.peer or PEER
    if not arguments.peer and not PEER.is_file():
        try:
            configure(unpack(download()))
            build()
        except subprocess.CalledProcessError as error:
            sys.exit(f"building llama-server failed: {shlex.join(map(str, error.cmd))} returned {error.returncode}")
    if not peer.is_file():
        sys.exit(f"{peer}: no such file")
    print(peer.absolute())


def download() -> Path:
    """Fetch the source distribution of the installed llama-cpp-python."""
    release = version("llama-cpp-python")
    archive = FOLDER / f"llama_cpp_python-{release}.tar.gz"
    if not archive.is_file():
        options = ["--no-deps", "--no-binary", "llama-cpp-python", "--dest", str(FOLDER)]
        _run(sys.executable, "-m", "pip", "download", f"llama-cpp-python=={release}", *options)
    return archive


def unpack(archive: Path) -> Path:
    """Unpack it and return llama.cpp's folder inside."""
    source = FOLDER / archive.name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"
    if not source.is_dir():
        with tarfile.open(archive) as tar:
            tar.extractall(FOLDER, filter="data")
    return source


def configure(source: Path) -> None:
    """Run cmake's first half."""
    options = ["CMAKE_BUILD_TYPE=Release", "LLAMA_BUILD_UI=OFF", "LLAMA_CURL=OFF", "BUILD_SHARED_LIBS=OFF"]
    if _miscompiles_amx():
        options.append("CMAKE_CXX_FLAGS=-fno-tree-dse -fno-dse")
    extra = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    _run("cmake", "-S", source, "-B", FOLDER, *[f"-D{option}" for option in options], *extra)


def _miscompiles_amx() -> bool:
    """Whether the compiler is GCC on x86-64, which optimises the set-up of AMX tiles away."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    about = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return platform.machine() in ("x86_64", "AMD64") and "Free Software Foundation" in about


def build() -> None:
    """Run cmake's second half, which takes minutes."""
    _run("cmake", "--build", FOLDER, "--target", "llama-server", "--parallel", str(os.cpu_count() or 1))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
