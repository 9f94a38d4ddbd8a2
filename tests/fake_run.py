"""Drives the live view without a model: python tests/fake_run.py [options] (see --help)."""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.report.live import LiveView

TEXT = (
    "Héllo 🎉! Merging two sorted lists is a matter of looking at two heads at a time and taking the smaller.\n\n"
    "```go\nfunc merge(a, b []int) []int {\n\tif len(a) == 0 {\n\t\treturn b\n\t}\n\tx:=1\t// tab\n}\n```\n"
    "合并两个有序列表的函数非常简单：每次比较两个列表的第一个元素，取出较小的那个，直到其中一个列表为空为止。"
    "然后把另一个列表剩下的元素全部接在后面🚀就完成了。\n"
    + "a long paragraph that goes on and on over many rows so that it wraps softly, "
    * 12
    + "and ends.\n"
    "Hijack: \x1b[2J\x1b]0;title\x07 bell\x07 del\x7f csi\x9b31m back\x08space\n"
    "Widths: ⚠️ e\u0301 👩\u200d💻 🇫🇷 👍🏽 नमस्ते ✔️ done. " + "0123456789" * 20 + "\n"
    "最后一行没有换行符，就这样结束了"
)


def rounds(text: str, seed: int, n_max: int) -> Iterator[Round]:
    """Cut a text into rounds as a draft model of changing luck would."""
    rng = random.Random(seed)
    pieces = []
    while text:
        n = rng.choice((1, 1, 2, 3, 4, 6))
        pieces.append(text[:n])
        text = text[n:]
    start = 0
    while start < len(pieces):
        taken = pieces[start : start + 1 + rng.randint(0, n_max)]
        start += len(taken)
        ended = start >= len(pieces)
        yield Round(
            drafter="model",
            drafted=tuple(range(n_max)),
            n_accepted=len(taken) - 1,
            n_rejected=0 if ended else n_max - len(taken) + 1,
            n_discarded=n_max - len(taken) + 1 if ended else 0,
            tokens=tuple(range(len(taken))),
            texts=tuple(taken),
            stop_reason="eog" if ended else None,
            draft_prefill_seconds=0.0,
            draft_seconds=0.01,
            verify_seconds=0.04,
            rollback_seconds=0.0,
            seconds=0.05,
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-max", type=int, default=4)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds a round")
    parser.add_argument("--load", type=float, default=0.0, help="seconds of loading shown")
    parser.add_argument("--pid-file")
    options = parser.parse_args()
    if options.pid_file:
        Path(options.pid_file).write_text(str(os.getpid()))
    stats = Stats()
    try:
        with LiveView(Console(), Console(stderr=True), options.n_max) as view:
            if options.load:
                with view.loading("a-model-with-a-rather-long-name-q4_k_m.gguf") as on_progress:
                    for i in range(51):
                        on_progress(i / 50)
                        time.sleep(options.load / 50)
            with view.prefilling(600) as (on_prefill, _):
                on_prefill(300, 600)
                for round_ in rounds(TEXT * options.repeat, options.seed, options.n_max):
                    stats.add(round_)
                    view.show(round_, stats)
                    time.sleep(options.delay)
        print(f"shown: {stats.tokens} tokens", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("closed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
