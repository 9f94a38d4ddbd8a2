"""Measure specli's suffix drafter beside llama.cpp's ngram-simple in llama-server: the same model and prompts, in turn.

Writes a markdown document. The server is the one tools/build_peer.py builds, or --peer.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from statistics import median

from bench_peer import GREEDY, PEER_GREEDY, Question, ask_specli, check_peer, compare, first_turn, read_sets
from build_peer import PEER
from measuring import TARGET, add_inputs, chat_tokens, load_target, machine, table
from peer_report import Comparison
from peer_server import PeerServer, Run

from specli.bench.intervals import RESAMPLES, median_ratio, pooled_ratio
from specli.decoding.options import AUTO_N_MAX, GenerationOptions
from specli.decoding.pair import Pair
from specli.errors import SpecliError, UsageError
from specli.llama.context import physical_cores
from specli.llama.options import ContextOptions


def main() -> None:
    """Run the benchmark."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_lookup: terminated"))  # leaves no server behind
    try:
        text = benchmark(arguments)
    except SpecliError as error:
        sys.exit(f"bench_lookup: {error}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(f"written: {arguments.out}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_inputs(parser)
    add("--category", default="edit", help="whose prompts are asked (default: %(default)s)")
    add("--peer", type=Path, default=os.environ.get("PEER") or PEER, help="llama-server (default: $PEER, else built)")
    add("--out", type=Path, default=Path("docs/bench-lookup.md"), help="the document (default: %(default)s)")
    add("--tokens", type=int, default=128, help="tokens an answer (default: %(default)s)")
    add("--rounds", type=int, default=3, help="how often every prompt is asked (default: %(default)s)")
    add("--threads", type=int, default=physical_cores(), help="threads of both sides (default: %(default)s)")
    add("--ctx-size", type=int, default=4096, help="context of both sides (default: %(default)s)")
    return parser.parse_args()


def benchmark(arguments: argparse.Namespace) -> str:
    """Measure everything and return the document."""
    check_peer(arguments.peer)
    rows = [row for row in read_sets(arguments.prompts) if row["category"] == arguments.category]
    if not rows:
        raise UsageError(f"--category {arguments.category}: there are no such prompts")
    questions = [Question(f"{row['category']} {row['question_id']}", first_turn(row)) for row in rows]
    target = load_target(arguments.models)
    pair = Pair(target, None, ContextOptions(ctx_size=arguments.ctx_size, threads=arguments.threads), n_max=AUTO_N_MAX)
    pair.warm_up()
    pair.measure()
    prompts = [chat_tokens(target, question.text) for question in questions]
    options = GenerationOptions(GREEDY, drafters=("suffix",), n_predict=arguments.tokens, ignore_eos=True)
    drafting = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-m", str(AUTO_N_MAX)]
    server = PeerServer(
        arguments.peer, arguments.models / TARGET, drafting, ctx_size=arguments.ctx_size, threads=arguments.threads
    )
    names = [question.name for question in questions]
    with server:
        comparison = compare(
            "greedy",
            lambda prompt, _: ask_specli(pair, prompt, options),
            lambda prompt, seed: server.ask(prompt, arguments.tokens, {**PEER_GREEDY, "seed": seed}),
            names,
            prompts,
            arguments,
        )
    pair.close()
    return document(names, comparison, server, arguments)


def document(names: list[str], comparison: Comparison, server: PeerServer, arguments: argparse.Namespace) -> str:
    """The document in markdown."""
    decode = median_ratio(*comparison.figures(lambda run: run.decode_speed))
    request = median_ratio(*comparison.figures(lambda run: run.request_speed))
    tokens, rounds = (comparison.figures(figure) for figure in (lambda run: run.round_tokens, lambda run: run.rounds))
    per_round = pooled_ratio((tokens[0], rounds[0]), (tokens[1], rounds[1]))
    rows = [
        [
            name,
            *(f"{_per_round(side):.2f}" for side in (mine, others)),
            *(f"{median(run.decode_speed for run in side):.1f}" for side in (mine, others)),
            f"{median(a.decode_speed / b.decode_speed for a, b in zip(mine, others, strict=True)):.2f}",
        ]
        for name, mine, others in zip(names, comparison.specli, comparison.peer, strict=True)
    ]
    header = ["prompt", "tokens per round specli", "server", "tok/s specli", "server", "ratio"]
    return f"""# Repeating what the text has said: specli beside llama.cpp's server

`make bench-lookup`: Qwen2.5-Coder 1.5B, Q4_K_M, without a draft model, {arguments.threads} threads, greedy,
{arguments.tokens} tokens an answer, {len(names)} prompts that ask for a text to be edited, each asked
{arguments.rounds}× by both sides in turn, from an empty cache. specli drafts with `--drafter suffix --n-max auto`, the
server ({server.version}) with its ngram-simple, both at most {AUTO_N_MAX} tokens a round.

{machine()}

    {server.shown_command}

Tokens per round, ratio over all: {per_round}. Median ratio of tok/s from the first token to the last: {decode}, of the
whole request: {request}. In brackets: 95 % intervals from {RESAMPLES:,} bootstrap samples.

{table(header, rows)}
"""


def _per_round(runs: list[Run]) -> float:
    return sum(run.round_tokens for run in runs) / sum(run.rounds for run in runs)


if __name__ == "__main__":
    main()
