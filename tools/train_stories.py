"""Trains the pair of models inside specli from nothing: corpus, tokenizer, target, draft, GGUF files."""

import argparse
from pathlib import Path

import torch
from stories import tokens
from stories.export import export
from stories.network import Network
from stories.plan import DRAFT, DRAFT_STAGES, N_TOKENIZED, TARGET, TARGET_STAGES, Stage
from stories.training import loss_on, train

HELD_OUT = 10_000_000  # the first seed that is not trained on


def main() -> None:
    """Train both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("specli/stories"), help="where the two files go")
    parser.add_argument("--hurry", type=int, default=1, metavar="N", help="train N times shorter, to try this script")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    tokenizer = tokens.train_tokenizer(N_TOKENIZED)
    for name, shape, stages in (("stories", TARGET, TARGET_STAGES), ("stories-draft", DRAFT, DRAFT_STAGES)):
        stages = [Stage(stage.layers, stage.steps // arguments.hurry) for stage in stages]
        network = train(Network(shape), stages, tokens.stream(tokenizer, first_seed=0), name)
        held_out = loss_on(network, tokens.stream(tokenizer, HELD_OUT), 20)
        print(f"{name}: {network.parameters_in_all():,} parameters, {held_out:.4f} nats a token on stories held out")
        export(network, tokenizer, f"specli {name}", arguments.out / f"{name}.gguf")


if __name__ == "__main__":
    main()
