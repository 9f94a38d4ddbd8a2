"""llama.cpp's options of how the draft model is loaded, and of its context."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from specli.cli.completion import complete_model
from specli.cli.groups import OURS, option
from specli.cli.option_values import device_names, layers, tensor_overrides, thread_count
from specli.errors import UsageError
from specli.llama.options import ContextOptions, ModelOptions

_PANEL = "Draft model"


@dataclass(frozen=True)
class DraftFile:
    """Which draft model."""

    draft: Annotated[
        str | None,
        option(
            _PANEL,
            "--draft -md --spec-draft-model --model-draft",
            "What guesses ahead: a small GGUF model of the target's family, or MTP heads, EAGLE-3, DFlash or DSpark "
            "trained for this target.",
            metavar="FILE|NAME",
            env="LLAMA_ARG_SPEC_DRAFT_MODEL",
            autocompletion=complete_model,
        ),
    ] = None

    def path(self) -> Path | None:
        """The draft model's file, if one was named."""
        return None if self.draft is None else draft_path(self.draft)


@dataclass(frozen=True)
class DraftFlags:
    """How the draft model is loaded, and its context."""

    n_gpu_layers_draft: Annotated[
        str | None,
        option(
            _PANEL,
            "-ngld --spec-draft-ngl --n-gpu-layers-draft --gpu-layers-draft",
            "Layers of the draft to offload. Default: all, where the build can offload.",
            metavar="N|all",
            env="LLAMA_ARG_N_GPU_LAYERS_DRAFT",
        ),
    ] = None
    device_draft: Annotated[
        str | None,
        option(
            _PANEL,
            "-devd --spec-draft-device --device-draft",
            "Devices for the draft. Default: as -dev.",
            metavar="DEV,…",
        ),
    ] = None
    override_tensor_draft: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "-otd --spec-draft-override-tensor --override-tensor-draft",
            "As -ot, for the draft.",
            metavar="PATTERN=BUFFER,…",
        ),
    ] = None
    cpu_moe_draft: Annotated[
        bool,
        option(
            _PANEL,
            "-cmoed --spec-draft-cpu-moe --cpu-moe-draft",
            "As -cmoe, for the draft.",
            env="LLAMA_ARG_SPEC_DRAFT_CPU_MOE",
        ),
    ] = False
    n_cpu_moe_draft: Annotated[
        int,
        option(
            _PANEL,
            "-ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe --n-cpu-moe-draft",
            "As -ncmoe, for the draft.",
            metavar="N",
            env="LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE",
            min=0,
        ),
    ] = 0
    ctx_size_draft: Annotated[
        int | None,
        option(
            _PANEL,
            "--draft-ctx-size -cd --ctx-size-draft",
            f"Context of the draft; smaller than the target's, it sees a recent window. Default: the target's. {OURS}",
            metavar="N",
            min=8,
        ),
    ] = None
    threads_draft: Annotated[
        int | None,
        option(
            _PANEL, "-td --spec-draft-threads --threads-draft", "CPU threads of the draft. Default: as -t.", metavar="N"
        ),
    ] = None
    threads_batch_draft: Annotated[
        int | None,
        option(
            _PANEL,
            "-tbd --spec-draft-threads-batch --threads-batch-draft",
            "CPU threads of the draft for batches of several tokens. Default: as -td.",
            metavar="N",
        ),
    ] = None
    cache_type_k_draft: Annotated[
        str,
        option(
            _PANEL,
            "-ctkd --spec-draft-type-k --cache-type-k-draft",
            "As -ctk, for the draft.",
            metavar="TYPE",
            env="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
        ),
    ] = "f16"
    cache_type_v_draft: Annotated[
        str,
        option(
            _PANEL,
            "-ctvd --spec-draft-type-v --cache-type-v-draft",
            "As -ctv, for the draft.",
            metavar="TYPE",
            env="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
        ),
    ] = "f16"

    def model_options(self, target: ModelOptions) -> ModelOptions:
        """The draft's loading options; what has no flag of its own follows the target's."""
        return ModelOptions(
            n_gpu_layers=layers("-ngld", self.n_gpu_layers_draft),
            device=target.device if self.device_draft is None else device_names(self.device_draft),
            split_mode=target.split_mode,
            main_gpu=target.main_gpu,
            load_mode=target.load_mode,
            repack=target.repack,
            override_tensor=tensor_overrides("-otd", self.override_tensor_draft),
            cpu_moe=self.cpu_moe_draft,
            n_cpu_moe=self.n_cpu_moe_draft,
        )

    def context_options(self, target: ContextOptions, n_ctx_train: int) -> ContextOptions:
        """The draft's context options; what has no flag of its own follows the target's, as far as it was trained."""
        own_threads = thread_count(self.threads_draft)
        return ContextOptions(
            ctx_size=self.ctx_size_draft or min(target.ctx_size, n_ctx_train),
            batch_size=target.batch_size,
            ubatch_size=target.ubatch_size,
            threads=own_threads or target.threads,
            threads_batch=thread_count(self.threads_batch_draft) or own_threads or target.threads_batch,
            flash_attn=target.flash_attn,
            cache_type_k=self.cache_type_k_draft,
            cache_type_v=self.cache_type_v_draft,
            kv_offload=target.kv_offload,
            swa_full=target.swa_full,
        )


def draft_path(name: str) -> Path:
    """A draft model's file.

    Raises:
        UsageError: A number, which older versions of llama.cpp took here.
    """
    if name.isdigit() and not Path(name).exists():
        raise UsageError(
            f"--draft {name}: --draft names the draft model's file",
            f"For the number of drafted tokens, which --draft once was in llama.cpp, use --n-max {name}.",
        )
    return Path(name)
