"""The options of a sweep: its grid, its prompts, and when it stops."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from specli.bench.grid import Grid, Placement, parse_n_max, parse_numbers
from specli.bench.prompts import Prompt, choose, default_prompts, read_prompts, story_prompts
from specli.cli.completion import complete_model
from specli.cli.draft_options import draft_path
from specli.cli.failures import note
from specli.cli.generation_options import check_draft
from specli.cli.groups import OURS, option
from specli.decoding.heads import usable_heads
from specli.drafters.names import CORPUS, MTP, SUFFIX, TRAINED, check_names
from specli.errors import UsageError
from specli.models import stories
from specli.models.draft_module import drafter_kind
from specli.sampling.verification import VERIFICATIONS

_PANEL = "Sweep"


@dataclass(frozen=True)
class SweepFlags:
    """The grid, the prompts, and when to stop."""

    draft: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "--draft -md --spec-draft-model",
            "A draft model (repeatable).",
            metavar="FILE|NAME",
            autocompletion=complete_model,
        ),
    ] = None
    n_max: Annotated[
        str,
        option(
            _PANEL,
            "--n-max --spec-draft-n-max",
            f"Draft lengths: 1,2,4 or 1-16 or 2-16:2, and auto. {OURS}",
            metavar="LIST",
        ),
    ] = "1,2,4,8,16,auto"
    drafter: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "--drafter",
            f"Who drafts, as in specli run (repeatable). Default: what specli run would take. {OURS}",
            metavar="NAME,…",
        ),
    ] = None
    temperature: Annotated[str, option(_PANEL, "--temp --temperature", "Temperatures.", metavar="LIST")] = "0"
    verification: Annotated[
        str | None, option(_PANEL, "--verification", f"Of block (the default), token, match. {OURS}", metavar="LIST")
    ] = None
    exact: Annotated[
        bool, option(_PANEL, "--exact", f"Bit by bit plain decoding's texts, as specli run --exact writes them. {OURS}")
    ] = False
    sweep_threads: Annotated[
        str | None, option(_PANEL, "--sweep-threads", f"CPU threads to compare. {OURS}", metavar="LIST")
    ] = None
    sweep_cache_types: Annotated[
        str | None,
        option(_PANEL, "--sweep-cache-types", f"KV cache types to compare, of K and V. {OURS}", metavar="LIST"),
    ] = None
    prompts: Annotated[
        list[Path] | None,
        option(
            _PANEL,
            "--prompts",
            "JSONL with turns, messages or prompt; a text; or a folder (repeatable). Default: some of specli's own. "
            f"{OURS}",
            metavar="FILE",
        ),
    ] = None
    categories: Annotated[
        str | None, option(_PANEL, "--categories", f"Only these of the prompts' own. {OURS}", metavar="NAME,…")
    ] = None
    limit: Annotated[
        int | None, option(_PANEL, "--limit", f"Most prompts of each category. {OURS}", metavar="N", min=1)
    ] = None
    seed: Annotated[
        int | None, option(_PANEL, "-s --seed", "Of the choice of prompts, their order, and the texts.", metavar="N")
    ] = None
    n_predict: Annotated[
        int, option(_PANEL, "-n --predict --n-predict", "Most tokens of an answer.", metavar="N", min=2)
    ] = 64
    ignore_eos: Annotated[bool, option(_PANEL, "--ignore-eos", "Never end an answer before.")] = False
    budget: Annotated[
        str | None, option(_PANEL, "--budget", f"Stop after this time, such as 20m. {OURS}", metavar="TIME")
    ] = None
    out: Annotated[
        Path | None, option(_PANEL, "--out", f"Keep every measurement in this file. {OURS}", metavar="FILE")
    ] = None
    resume: Annotated[bool, option(_PANEL, "--resume", f"Continue the file of --out. {OURS}")] = False
    plot: Annotated[
        Path | None,
        option(_PANEL, "--plot", f"Draw the results: .html, or .png or .svg with matplotlib. {OURS}", metavar="FILE"),
    ] = None
    dry_run: Annotated[bool, option(_PANEL, "--dry-run", f"Show the plan, and stop. {OURS}")] = False
    by_category: Annotated[bool, option(_PANEL, "--by-category", f"A table for each category too. {OURS}")] = False

    @property
    def draft_kinds(self) -> set[str]:
        """As what a draft's file may draft to be of use."""
        if self.drafter is None:
            return set(TRAINED)
        return set(TRAINED) & {name for names in self.drafter for name in names.split(",")}

    def grid(self, *, has_corpus: bool) -> Grid:
        """The grid, of draft models and heads nothing yet.

        Args:
            has_corpus: Whether there is a corpus to look up in.

        Raises:
            UsageError: Naming the flag that cannot be used as given.
        """
        lengths = parse_n_max(self.n_max)
        if 0 in lengths:
            note("--n-max 0 is plain decoding, which every sweep measures")
        drafters = [tuple(names.split(",")) for names in self.drafter or ()]
        if ("none",) in drafters:
            note("--drafter none is plain decoding, which every sweep measures")
            drafters = [names for names in drafters if names != ("none",)]
        for names in drafters:
            check_names(names)
            if CORPUS in names and not has_corpus:
                raise UsageError(f"--drafter {CORPUS} takes --corpus FILE")
        verifications = (self.verification or ("match" if self.exact else "block")).split(",")
        if self.exact and verifications != ["match"]:
            raise UsageError(f"--verification {self.verification}: with --exact it can only be match")
        for name in verifications:
            if name not in VERIFICATIONS:
                raise UsageError(f"--verification {name}: not one of {', '.join(VERIFICATIONS)}")
        return Grid(
            n_max=[length for length in lengths if length != 0],
            drafts={},
            has_heads=False,
            drafters=drafters or [None],
            lookups=(SUFFIX, CORPUS) if has_corpus else (SUFFIX,),
            temperatures=list(dict.fromkeys(0.0 if t <= 0.0 else t for t in parse_numbers("--temp", self.temperature))),
            verifications=verifications,
            placements=self._placements(),
        )

    def with_models(self, grid: Grid, target: Path) -> Grid:
        """The grid with what the models' files offer.

        Args:
            grid: Made before they were found.
            target: The target's file.

        Raises:
            SpecliError: A file that cannot be used.
        """
        for names in grid.drafters:
            check_draft(names, has_draft=bool(self.draft))
        drafts = {path: drafter_kind(path) for path in self._drafts()}
        grid = replace(grid, drafts=drafts, has_heads=usable_heads(target))
        there = {*drafts.values(), *([MTP] if grid.has_heads else [])}
        for names in grid.drafters:
            if missing := set(TRAINED) & set(names or ()) - there:
                kinds = ", ".join(f"{path} drafts as {kind}" for path, kind in drafts.items())
                raise UsageError(f"--drafter {missing.pop()}: {kinds or 'the target has no such heads'}")
        return grid

    def _drafts(self) -> list[Path]:
        """The draft models, none twice."""
        by_file = {path.resolve(): path for path in map(draft_path, self.draft or ())}
        by_stem: dict[str, Path] = {}
        for path in by_file.values():
            if (other := by_stem.setdefault(path.stem, path)) != path:
                raise UsageError(f"--draft: {other} and {path} have the same name", "Give one of them another.")
        return list(by_file.values())

    def _placements(self) -> list[Placement]:
        threads: list[int | None] = [None]
        if self.sweep_threads is not None:
            parts = self.sweep_threads.split(",")
            if not all(part.isdecimal() and int(part) for part in parts):
                raise UsageError(f"--sweep-threads {self.sweep_threads}: not numbers of threads, such as 2,4")
            threads = [int(part) for part in parts]
        types = self.sweep_cache_types.split(",") if self.sweep_cache_types else [None]
        return [Placement(n, kind) for n in threads for kind in types]

    def chosen_prompts(self, target: Path | None) -> list[Prompt]:
        """The prompts.

        Args:
            target: What is named as the model to ask: the pair inside specli is asked for stories.

        Raises:
            SpecliError: Naming the file, or the category.
        """
        usual = story_prompts if stories.is_target(target) else default_prompts
        there = read_prompts(self.prompts) if self.prompts else usual()
        return choose(there, self.categories.split(",") if self.categories else (), self.limit, self.seed)
