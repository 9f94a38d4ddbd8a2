"""llama.cpp's options of its n-gram drafters."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from specli.cli.groups import OURS, option
from specli.drafters.ngram import NgramOptions

_PANEL = "Lookups"


@dataclass(frozen=True)
class LookupFlags:
    """Where drafters without a model look, and how."""

    corpus: Annotated[
        list[Path] | None,
        option(
            _PANEL,
            "--corpus",
            f"Also guess from this text or code (repeatable); indexed once, then kept in the cache folder. {OURS}",
            metavar="FILE",
        ),
    ] = None
    spec_ngram_simple_size_n: Annotated[
        int, option(_PANEL, "--spec-ngram-simple-size-n", "ngram-simple: tokens looked up.", metavar="N")
    ] = NgramOptions.spec_ngram_simple_size_n
    spec_ngram_simple_size_m: Annotated[
        int, option(_PANEL, "--spec-ngram-simple-size-m", "ngram-simple: most tokens guessed.", metavar="N")
    ] = NgramOptions.spec_ngram_simple_size_m
    spec_ngram_simple_min_hits: Annotated[
        int,
        option(_PANEL, "--spec-ngram-simple-min-hits", "ngram-simple: without effect, as in llama.cpp.", metavar="N"),
    ] = NgramOptions.spec_ngram_simple_min_hits
    spec_ngram_map_k_size_n: Annotated[
        int, option(_PANEL, "--spec-ngram-map-k-size-n", "ngram-map-k: tokens looked up.", metavar="N")
    ] = NgramOptions.spec_ngram_map_k_size_n
    spec_ngram_map_k_size_m: Annotated[
        int, option(_PANEL, "--spec-ngram-map-k-size-m", "ngram-map-k: most tokens guessed.", metavar="N")
    ] = NgramOptions.spec_ngram_map_k_size_m
    spec_ngram_map_k_min_hits: Annotated[
        int, option(_PANEL, "--spec-ngram-map-k-min-hits", "ngram-map-k: without effect, as in llama.cpp.", metavar="N")
    ] = NgramOptions.spec_ngram_map_k_min_hits
    spec_ngram_map_k4v_size_n: Annotated[
        int, option(_PANEL, "--spec-ngram-map-k4v-size-n", "ngram-map-k4v: tokens looked up.", metavar="N")
    ] = NgramOptions.spec_ngram_map_k4v_size_n
    spec_ngram_map_k4v_size_m: Annotated[
        int, option(_PANEL, "--spec-ngram-map-k4v-size-m", "ngram-map-k4v: most tokens guessed.", metavar="N")
    ] = NgramOptions.spec_ngram_map_k4v_size_m
    spec_ngram_map_k4v_min_hits: Annotated[
        int,
        option(
            _PANEL, "--spec-ngram-map-k4v-min-hits", "ngram-map-k4v: successful lookups before it guesses.", metavar="N"
        ),
    ] = NgramOptions.spec_ngram_map_k4v_min_hits
    spec_ngram_mod_n_match: Annotated[
        int, option(_PANEL, "--spec-ngram-mod-n-match", "ngram-mod: tokens looked up.", metavar="N")
    ] = NgramOptions.spec_ngram_mod_n_match
    spec_ngram_mod_n_min: Annotated[
        int, option(_PANEL, "--spec-ngram-mod-n-min", "ngram-mod: guess no fewer tokens.", metavar="N")
    ] = NgramOptions.spec_ngram_mod_n_min
    spec_ngram_mod_n_max: Annotated[
        int, option(_PANEL, "--spec-ngram-mod-n-max", "ngram-mod: most tokens guessed.", metavar="N")
    ] = NgramOptions.spec_ngram_mod_n_max

    def ngram_options(self) -> NgramOptions:
        """The options of llama.cpp's n-gram drafters.

        Raises:
            UsageError: Naming the flag whose value means nothing.
        """
        options = NgramOptions(**{name: value for name, value in asdict(self).items() if name != "corpus"})
        options.check()
        return options
