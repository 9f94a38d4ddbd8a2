"""Measure specli beside llama.cpp's own server: the same models, prompts, threads and draft length, in turn.

Writes a markdown document. The server is the one tools/build_peer.py builds, or --peer.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from build_peer import PEER
from measuring import DRAFT, TARGET, add_inputs, chat_tokens, load_pair, rows_along
from peer_report import Acceptance, Comparison, Settings, document
from peer_server import PeerServer, Run

from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.errors import SpecliError, UsageError
from specli.llama.context import physical_cores
from specli.llama.decoder import Logits
from specli.llama.options import ContextOptions
from specli.sampling.transforms import SamplingOptions, Transforms

CATEGORIES = ("writing", "coding", "qa", "math_reasoning", "translation", "summarization", "rag", "edit")
GREEDY = SamplingOptions(temperature=0.0)
SAMPLED = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
PEER_GREEDY = {"temperature": 0.0}
PEER_SAMPLED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "samplers": ["temperature"]}

Ask = Callable[[list[int], int], Run]
"""Answers a prompt; the second argument is the seed."""


@dataclass(frozen=True)
class Question:
    """One prompt of a set."""

    name: str
    text: str


def main() -> None:
    """Run the benchmark."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_peer: terminated"))  # leaves no server behind
    try:
        text = benchmark(arguments)
    except SpecliError as error:
        sys.exit(f"bench_peer: {error}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(f"written: {arguments.out}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_inputs(parser)
    add("--peer", type=Path, default=os.environ.get("PEER") or PEER, help="llama-server (default: $PEER, else built)")
    add("--out", type=Path, default=Path("docs/bench-peer.md"), help="the document (default: %(default)s)")
    add("--n-max", type=int, default=4, help="the most tokens a round drafts (default: %(default)s)")
    add("--tokens", type=int, default=96, help="tokens an answer (default: %(default)s)")
    add("--rounds", type=int, default=3, help="how often every prompt is asked (default: %(default)s)")
    add("--limit", type=int, default=len(CATEGORIES), help="how many prompts (default: %(default)s)")
    add("--threads", type=int, default=physical_cores(), help="threads of both sides (default: %(default)s)")
    add("--ctx-size", type=int, default=2048, help="context of both sides (default: %(default)s)")
    return parser.parse_args()


def benchmark(arguments: argparse.Namespace) -> str:
    """Measure everything and return the document."""
    check_peer(arguments.peer)
    questions = choose_questions(read_sets(arguments.prompts), arguments.limit)
    target, draft = load_pair(arguments.models)
    options = ContextOptions(ctx_size=arguments.ctx_size, threads=arguments.threads)
    pair = Pair(target, draft, options, options, arguments.n_max)
    pair.warm_up()
    prompts = [chat_tokens(target, question.text) for question in questions]
    drafting = ["-md", str(arguments.models / DRAFT), "--spec-type", "draft-simple"]
    drafting += ["--spec-draft-n-max", str(arguments.n_max)]
    server = PeerServer(
        arguments.peer, arguments.models / TARGET, drafting, ctx_size=arguments.ctx_size, threads=arguments.threads
    )

    def specli(sampling: SamplingOptions) -> Ask:
        return lambda prompt, seed: ask_specli(
            pair,
            prompt,
            GenerationOptions(sampling, n_max=arguments.n_max, n_predict=arguments.tokens, ignore_eos=True, seed=seed),
        )

    def peer(sampling: Mapping[str, object]) -> Ask:
        return lambda prompt, seed: server.ask(prompt, arguments.tokens, {**sampling, "seed": seed})

    names = [question.name for question in questions]
    with server:
        greedy = compare("greedy", specli(GREEDY), peer(PEER_GREEDY), names, prompts, arguments)
        sampled = compare("temp 1", specli(SAMPLED), peer(PEER_SAMPLED), names, prompts, arguments)
    acceptance = []
    for prompt, answers in zip(prompts, sampled.specli, strict=True):
        answer = list(answers[0].token_ids)
        target_rows, draft_rows = (rows_along(model, prompt, answer, arguments.threads) for model in (target, draft))
        acceptance.append(expected_acceptance(target_rows, draft_rows, target.vocab.eog_tokens))
    pair.close()
    settings = Settings(
        command=_command(arguments),
        peer_command=server.shown_command,
        peer_version=server.version,
        n_max=arguments.n_max,
        tokens=arguments.tokens,
        rounds=arguments.rounds,
        threads=arguments.threads,
    )
    return document(settings, names, [len(prompt) for prompt in prompts], greedy, sampled, acceptance)


def check_peer(program: Path) -> None:
    """Refuse a server that is not there."""
    if not program.is_file():
        raise UsageError(f"{program}: no llama-server there", "Build it with tools/build_peer.py, or give --peer.")


def _command(arguments: argparse.Namespace) -> str:
    """The command that measures this again, with files and folders by name only."""
    prompts = " ".join(file.name for file in arguments.prompts)
    return (
        f"tools/bench_peer.py --models MODELS --prompts {prompts} --n-max {arguments.n_max} "
        f"--tokens {arguments.tokens} --rounds {arguments.rounds} --limit {arguments.limit} "
        f"--threads {arguments.threads} --ctx-size {arguments.ctx_size}"
    )


def read_sets(files: Sequence[Path]) -> list[dict[str, object]]:
    """Read files of one JSON object a line."""
    if not files:
        raise UsageError(
            "there are no prompts",
            "Give --prompts FILE, one JSON object a line with question_id, category and turns, as Spec-Bench's "
            "question.jsonl has them.",
        )
    try:
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        raise UsageError(f"--prompts {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--prompts: not one JSON object a line: {error}") from error


def first_turn(row: Mapping[str, object]) -> str:
    """What a prompt asks first."""
    turns = row["turns"]
    assert isinstance(turns, list)
    return str(turns[0])


def choose_questions(rows: Sequence[dict[str, object]], limit: int) -> list[Question]:
    """The first question of each category: those of CATEGORIES, then any others in the order they come in."""
    first: dict[str, Question] = {}
    for row in rows:
        category = str(row["category"])
        first.setdefault(category, Question(f"{category} {row['question_id']}", first_turn(row)))
    order = [name for name in CATEGORIES if name in first] + [name for name in first if name not in CATEGORIES]
    return [first[name] for name in order[:limit]]


def ask_specli(pair: Pair, prompt: list[int], options: GenerationOptions) -> Run:
    """Let specli answer with empty caches."""
    contexts = [context for context in (pair.target, pair.draft) if context]
    for context in contexts:
        context.truncate(0)
    before = sum(context.seconds for context in contexts)
    arrivals = {}
    started = time.perf_counter()
    generation = pair.generate(prompt, options)
    for _ in generation:
        arrivals[generation.stats.tokens] = time.perf_counter() - started
    stats = generation.stats
    n_first = min(arrivals)
    return Run(
        text=generation.text,
        n_tokens=stats.tokens,
        n_first=n_first,
        first_seconds=arrivals[n_first],
        seconds=arrivals[stats.tokens],
        drafted=stats.accepted + stats.rejected,
        accepted=stats.accepted,
        rounds=stats.rounds,
        round_tokens=stats.tokens,
        token_ids=tuple(generation.token_ids),
        llama_seconds=sum(context.seconds for context in contexts) - before,
    )


def compare(
    title: str, specli: Ask, peer: Ask, names: list[str], prompts: list[list[int]], arguments: argparse.Namespace
) -> Comparison:
    """Ask both everything, turn and turn about, so that whatever else the machine does falls on both alike."""
    comparison = Comparison([[] for _ in prompts], [[] for _ in prompts])
    for ask in (specli, peer):
        ask(prompts[0], 0)  # the first answer pays for buffers and pages
    for round_ in range(arguments.rounds):
        for i, prompt in enumerate(prompts):
            turns = [(specli, comparison.specli[i]), (peer, comparison.peer[i])]
            for ask, runs in turns if (round_ + i) % 2 == 0 else reversed(turns):
                run = ask(prompt, round_ + 1)
                if run.n_tokens != arguments.tokens:
                    raise SpecliError(f"{names[i]}: {run.n_tokens} tokens came instead of {arguments.tokens}")
                runs.append(run)
            a, b = comparison.specli[i][-1], comparison.peer[i][-1]
            print(
                f"{title}, round {round_ + 1}, {names[i]}: decode {a.decode_speed:.2f} : {b.decode_speed:.2f} tok/s, "
                f"request {a.request_speed:.2f} : {b.request_speed:.2f} tok/s, "
                f"accepted {a.accepted}/{a.drafted} : {b.accepted}/{b.drafted}",
                file=sys.stderr,
            )
    return comparison


def expected_acceptance(target_rows: Logits, draft_rows: Logits, forbidden: Sequence[int] = ()) -> Acceptance:
    """How likely a drafted token is accepted at temperature 1, on average over contexts.

    A token drawn from q and verified against p stays with probability Σ min(p, q); a greedy draft that must equal what
    the target draws stays with probability p(argmax q).
    """
    transforms = Transforms(replace(SAMPLED, logit_bias=tuple((token, -np.inf) for token in forbidden)))
    overlap, match = [], []
    for target_row, draft_row in zip(target_rows, draft_rows, strict=True):
        p = transforms.distribution(target_row, ())
        q = transforms.distribution(draft_row, ())
        overlap.append(float(np.minimum(p.weights_over(q) / p.total, q.probabilities).sum()))
        match.append(p.probability(q.token_at(int(q.weights.argmax()))))
    return Acceptance(float(np.mean(overlap)), float(np.mean(match)), len(overlap))


if __name__ == "__main__":
    main()
