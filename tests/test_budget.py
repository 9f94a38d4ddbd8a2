"""Whether models fit into memory, told before any is loaded."""

from dataclasses import replace

import pytest

from specli.llama import memory
from specli.llama.budget import Need, check_fits, need_of
from specli.llama.errors import LoadError
from specli.llama.options import ContextOptions, ModelOptions

GIB = 2**30
TARGET = Need("target.gguf", weights=4 * GIB, cache=GIB, logits=0, is_mapped=True)
DRAFT = Need("draft.gguf", weights=GIB, cache=GIB // 2, logits=0, is_mapped=True, flag="d")


@pytest.fixture
def free(monkeypatch):
    def say(gib: float, address_space: float | None = None) -> None:
        monkeypatch.setattr(memory, "free_bytes", lambda: int(gib * GIB))
        limit = None if address_space is None else int(address_space * GIB)
        monkeypatch.setattr(memory, "address_space_left", lambda: limit)

    return say


def test_what_fits_passes_in_silence(free):
    free(8)
    assert check_fits([TARGET, DRAFT]) is None


def test_weights_that_can_be_read_again_are_warned_of(free):
    free(3)
    warning = check_fits([TARGET, DRAFT])
    assert "target.gguf takes 4.0 GiB of weights" in warning and "3.0 GiB are free" in warning
    assert "--no-repack" in warning


@pytest.mark.parametrize(
    "needs, words",
    [
        ([replace(TARGET, cache=9 * GIB), DRAFT], ("9.0 GiB of KV cache", "-c", "-ctk q8_0")),
        ([TARGET, replace(DRAFT, cache=9 * GIB)], ("--draft-ctx-size", "-ctkd q8_0")),
        ([replace(TARGET, is_mapped=False)], ("4.0 GiB of weights", "quantised model")),
        ([replace(TARGET, logits=9 * GIB)], ("9.0 GiB of logits", "--n-max")),
        ([TARGET, replace(DRAFT, weights=9 * GIB, is_mapped=False)], ("--draft",)),
    ],
)
def test_what_cannot_fit_is_refused_with_the_flag_to_change(free, needs, words):
    free(3)
    with pytest.raises(LoadError) as refused:
        check_fits(needs)
    assert all(word in str(refused.value) for word in ("not enough memory", "3.0 GiB are free", *words))


def test_a_limit_of_addresses_counts_mapped_files(free):
    free(100, address_space=6.0)
    with pytest.raises(LoadError, match=r"6\.0 GiB are free"):
        check_fits([TARGET, DRAFT])
    free(100, address_space=7.0)
    assert check_fits([TARGET, DRAFT]) is None


def test_a_system_that_does_not_say(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    assert check_fits([replace(TARGET, cache=1 << 50)]) is None


def test_what_a_file_needs(tiny):
    options = ContextOptions(ctx_size=1024)
    need = need_of(tiny / "target.gguf", ModelOptions(), options, None, 5)
    assert need.weights == pytest.approx((tiny / "target.gguf").stat().st_size, rel=0.2)
    assert need.cache == 1024 * 2 * 2 * (2 * 16) * 2, "two layers, keys and values, two heads of 16, half precision"
    assert need.logits == 5 * 288 * 4
    assert need_of(tiny / "target.gguf", ModelOptions(), options, 8192, 5).cache == need.cache / 2, "trained for 512"


def test_a_containers_limit(tmp_path):
    for name, text in (("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "inactive_file 200\n")):
        (tmp_path / name).write_text(text)
    assert memory._container_left(tmp_path) == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._container_left(tmp_path) is None
    assert memory._container_left(tmp_path / "none") is None
