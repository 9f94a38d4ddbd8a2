"""Loading what a command line names: the target, then the draft and contexts for both."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from specli.cli.draft_options import DraftFlags
from specli.cli.exact import ExactSetup, exact_setup
from specli.cli.failures import note, raise_held, warn
from specli.cli.lookup_options import LookupFlags
from specli.cli.lookups import add_lookups
from specli.cli.target_options import TargetFlags
from specli.decoding.heads import drafters_for_heads, with_heads
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.drafters.names import MODEL, TRAINED
from specli.errors import UsageError
from specli.llama import devices, log
from specli.llama.budget import check_fits, need_of
from specli.llama.model import Model
from specli.llama.options import ModelOptions
from specli.report.live import LiveView

CTX_SIZE = 8192
_ROOM_FOR_ANSWER = 4096
_ANY = 1 << 40  # tokens: as many as a model was trained with

_ROLLBACKS = {
    "cut": "cutting them off the cache",
    "snapshots": "going back to a snapshot of the recurrent state, of which there is one a token",
    "checkpoint": "restoring the recurrent state saved before the draft, and computing what was accepted again",
}


def start_llama(target: TargetFlags, *, verbose: bool) -> None:
    """Begin to use llama.cpp: where its log goes, and the devices of other machines."""
    log.install(verbose=verbose)
    if target.rpc:
        devices.add_rpc_servers(target.rpc.split(","))


class Loader:
    """Loads the models of a command line.

    Args:
        target: The target and its context.
        draft_path: The draft's file, if there is one.
        draft: The draft's own options.
        options: What will be generated, or the like of it.
        n_max: The most tokens a round may ever draft.
        view: Shows progress.
        exact: Whether texts are to be bit by bit plain decoding's.

    Raises:
        UsageError: An option that cannot be used as given.
        LoadError: The models do not fit into memory.
    """

    def __init__(
        self,
        target: TargetFlags,
        draft_path: Path | None,
        draft: DraftFlags,
        options: GenerationOptions,
        n_max: int,
        view: LiveView,
        *,
        exact: bool = False,
    ) -> None:
        self._target, self._draft, self._options, self._n_max, self._view = target, draft, options, n_max, view
        target_options = target.model_options()
        target.context_options(0).check()
        draft.context_options(target.context_options(0), 0).check("d")
        _warn_of_offloading(target, draft)
        wanted = options.n_max != 0 and (options.drafters is None or set(TRAINED) & set(options.drafters))
        self._draft_path = draft_path if wanted else None
        asked = drafters_for_heads(options.drafters, options.n_max, draft_path)
        self._model_options = with_heads(target.path(), target_options, asked)
        check_memory(target, self._model_options, [self._draft_path] if self._draft_path else [], draft, n_max)
        self.exact: ExactSetup | None = None
        if exact:
            self.exact = exact_setup(target.path(), self._model_options, target.context_options(0), self._load_model)
            self._model_options = self.exact.model
            if self.exact.width == 1:
                self._draft_path = None

    def load_target(self) -> Model:
        """Load the target."""
        return self._load_model(self._target.path(), self._model_options)

    def load_pair(self, target: Model, ctx_size: int, *, verbose: bool = False) -> Pair:
        """Load the draft, if there is one, make contexts, and bring all weights into memory.

        Args:
            target: The loaded target.
            ctx_size: Its context, in tokens.
            verbose: Say how rejected tokens are taken back even where it costs nothing.
        """
        context_options = given = self._target.context_options(ctx_size)
        width = None
        if self.exact:
            context_options, width = self.exact.of_context(given), self.exact.width
        draft_model = None
        n_ctx_train = target.n_ctx_train
        if self._draft_path:
            draft_model = self._load_draft(target)
            n_ctx_train = draft_model.n_ctx_train
        draft_options = self._draft.context_options(given, n_ctx_train)
        pair = Pair(target, draft_model, context_options, draft_options, self._n_max, width)
        pair.warm_up()
        if pair.names(self._options) and (verbose or pair.target.rollback == "checkpoint"):
            note(f"{target.path.name}: rejected tokens are taken back by {_ROLLBACKS[pair.target.rollback]}")
        return pair

    def ctx_size(self, target: Model, n_prompt: int) -> int:
        """The context to make: what was asked for, or enough for a prompt of so many tokens and its answer."""
        if self._target.ctx_size is not None:
            return self._target.ctx_size or target.n_ctx_train
        n_predict = self._options.n_predict
        needed = n_prompt + (n_predict if n_predict > 0 else _ROOM_FOR_ANSWER)
        return min(target.n_ctx_train, max(CTX_SIZE, needed))

    def _load_draft(self, target: Model) -> Model:
        assert self._draft_path
        draft = self._load_model(self._draft_path, self._draft.model_options(self._target.model_options()))
        if draft.n_parameters > target.n_parameters:
            warn("the draft model is larger than the target: are --target and --draft swapped?")
        if self._draft.ctx_size_draft and draft.kind != MODEL:
            raise UsageError(f"--draft-ctx-size: {self._draft_path.name} follows the target's context", "Leave it out.")
        return draft

    def _load_model(self, path: Path, options: ModelOptions) -> Model:
        with self._view.loading(path.name) as show:

            def on_progress(fraction: float) -> None:
                raise_held()
                show(fraction)

            return Model(path, options, on_progress)


def ready_pair(
    loader: Loader, target: Model, n_prompt: int, options: GenerationOptions, lookups: LookupFlags, *, verbose: bool
) -> tuple[Pair, GenerationOptions]:
    """Load the rest beside the target.

    Args:
        loader: Has loaded the target.
        target: The target.
        n_prompt: Tokens of a prompt that has to fit.
        options: How texts are to be generated.
        lookups: Where drafters without a model look.
        verbose: As for ``Loader.load_pair``.

    Returns:
        The pair, and the options as they can be kept: where no batch is exact, plain decoding.
    """
    pair = loader.load_pair(target, loader.ctx_size(target, n_prompt), verbose=verbose)
    if loader.exact and loader.exact.width == 1:
        options = replace(options, n_max=0, n_min=0, drafters=None)
    add_lookups(pair, lookups, options.drafters or ())
    return pair, options


def check_memory(
    target: TargetFlags,
    model_options: ModelOptions,
    drafts: Sequence[Path],
    draft: DraftFlags,
    n_max: int,
    n_contexts: int = 1,
) -> None:
    """Refuse models that do not fit into memory, before any is loaded; warn of those that hardly do.

    Args:
        target: The target and its context.
        model_options: How it is loaded.
        drafts: Files of drafts.
        draft: Their options.
        n_max: The most tokens a round may ever draft.
        n_contexts: How many contexts the target gets, and each draft.

    Raises:
        LoadError: They do not fit.
    """
    most = CTX_SIZE if target.ctx_size is None else None
    context = target.context_options(target.ctx_size or 0)
    needs = [need_of(target.path(), model_options, context, most, n_max + 1)]
    as_target = None if draft.ctx_size_draft else most or context.ctx_size or _ANY
    for path in drafts:
        options, draft_context = draft.model_options(target.model_options()), draft.context_options(context, _ANY)
        needs.append(need_of(path, options, draft_context, as_target, 1, "d"))
    needs += [replace(need, weights=0) for _ in range(n_contexts - 1) for need in needs]
    if warning := check_fits(needs):
        warn(warning)


def _warn_of_offloading(target: TargetFlags, draft: DraftFlags) -> None:
    for flag, value in (("-ngl", target.n_gpu_layers), ("-ngld", draft.n_gpu_layers_draft)):
        if value not in (None, "0", "auto") and not devices.supports_offload():
            warn(f"{flag} {value}: this build of llama.cpp has no GPU to offload to; running on the CPU")
