"""Trains the pair of models inside specli from nothing: corpus, tokenizer, target, draft, GGUF files."""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from stories import tokens
from stories.export import export
from stories.lessons import Lessons
from stories.network import Network
from stories.plan import DRAFT, DRAFT_STAGES, N_TOKENIZED, TARGET, TARGET_STAGES
from stories.training import loss_on, train

HELD_OUT = 10_000_000  # the first seed that is not trained on


def main() -> None:
    """Train both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("specli/stories"), help="where the two files go, at the end")
    parser.add_argument("--hurry", type=int, metavar="N", help="train N times shorter, to try this script; needs --out")
    arguments = parser.parse_args()
    if arguments.hurry is not None and (arguments.hurry < 1 or arguments.out == parser.get_default("out")):
        parser.error("--hurry N: N is 1 or more, and --out names a folder that is not the package's")
    torch.set_num_threads(2)
    tokenizer = tokens.train_tokenizer(N_TOKENIZED)
    networks = {}
    for name, shape, stages in (("stories", TARGET, TARGET_STAGES), ("stories-draft", DRAFT, DRAFT_STAGES)):
        stages = [replace(stage, steps=stage.steps // (arguments.hurry or 1)) for stage in stages]
        torch.manual_seed(1)
        networks[name] = network = train(Network(shape), stages, Lessons(tokenizer, first_seed=0), name)
        held_out = loss_on(network, Lessons(tokenizer, HELD_OUT), 20)
        print(f"{name}: {network.parameters_in_all():,} parameters, {held_out:.4f} nats a token on stories held out")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, network in networks.items():
        export(network, tokenizer, f"specli {name}", arguments.out / f"{name}.gguf")


if __name__ == "__main__":
    main()
