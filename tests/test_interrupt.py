"""An interruption is never lost, wherever inside llama.cpp it falls."""

import pytest
from tiny_gguf import write_model

from specli.llama import callbacks, log
from specli.llama.context import Context
from specli.llama.model import Model
from specli.llama.options import ContextOptions


def interrupt(*_arguments):
    raise KeyboardInterrupt


def test_while_a_model_reports_its_progress(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Model(write_model(tmp_path / "model.gguf"), on_progress=interrupt)


def test_while_llama_cpp_logs(tmp_path, monkeypatch):
    model = Model(write_model(tmp_path / "model.gguf"))

    class Interrupted(list):
        append = interrupt

    monkeypatch.setattr(log, "_captures", [Interrupted()])
    with pytest.raises(KeyboardInterrupt):
        Context(model, ContextOptions(ctx_size=256))


def test_it_is_raised_once(tmp_path):
    callbacks.keeps_interrupt(None)(interrupt)()
    with pytest.raises(KeyboardInterrupt):
        callbacks.raise_kept()
    callbacks.raise_kept()


def test_decoding_that_is_interrupted_leaves_the_cache_as_it_says(tmp_path):
    context = Context(Model(write_model(tmp_path / "model.gguf")), ContextOptions(ctx_size=256))
    callbacks.keeps_interrupt(None)(interrupt)()
    with pytest.raises(KeyboardInterrupt):
        context.decode([1, 2, 3], 1)
    assert context.tokens == [1, 2, 3]
    assert context.decode([4], 1).shape == (1, context.model.vocab.n_tokens)
