"""llama.cpp's options that specli does not have: refused by name, never ignored."""

import sys
from typing import Annotated

import typer

from specli.errors import UsageError

NAMES = """
    --usage -cl --cache-list --completion-bash --server-base --verbose-prompt --display-prompt
    --no-display-prompt -co --color -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb
    --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch -lcs
    --lookup-cache-static -lcd --lookup-cache-dynamic --kv-unified-per-slot --keep -ctxcp --ctx-checkpoints
    --swa-checkpoints -cms --checkpoint-min-step -cram --cache-ram -kvu --kv-unified -no-kvu --no-kv-unified
    --cache-idle-slots --no-cache-idle-slots --context-shift --no-context-shift --chunks --perf --no-perf
    --show-timings --no-show-timings --in-file -bf --binary-file -e --escape --no-escape -ptc
    --print-token-count --prompt-cache --prompt-cache-all --prompt-cache-ro -r --reverse-prompt -sp
    --special -cnv --conversation -no-cnv --no-conversation -st --single-turn -i --interactive -if
    --interactive-first -mli --multiline-input --in-prefix-bos --in-prefix --in-suffix --warmup --no-warmup
    --spm-infill --samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma --xtc-probability
    --xtc-threshold --typical --typical-p --dry-multiplier --dry-base --dry-allowed-length
    --dry-penalty-last-n --dry-sequence-breaker --adaptive-target --adaptive-decay --dynatemp-range
    --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent --grammar --grammar-file -j --json-schema -jf
    --json-schema-file -bs --backend-sampling --pooling --attention --rope-scaling --rope-scale
    --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow
    --yarn-beta-fast -gan --grp-attn-n -gaw --grp-attn-w --no-host --hellaswag
    --hellaswag-tasks --winogrande --winogrande-tasks --multiple-choice --multiple-choice-tasks
    --kl-divergence --save-all-logits --kl-divergence-base --ppl-stride --ppl-output-type -dt --defrag-thold
    -np --parallel -ns --sequences -cb --cont-batching -nocb --no-cont-batching -mm --mmproj -mmu
    --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload -mmdev
    --mmproj-device --image --audio --video --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens
    --video-fps --video-timestamp-interval --video-ffmpeg-dir -lzm --lazy-mode --numa -ncffn --n-cpu-ffn
    -fit --fit -fitp --fit-print -fitt --fit-target -fitc --fit-ctx --check-tensors --op-offload
    --no-op-offload --control-vector --control-vector-scaled --control-vector-layer-range -a --alias --tags
    -mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file -hft --hf-token --mtp --dflash
    --eagle3 --context-file --chunk-size --chunk-separator --junk --pos -o --output --output-file -ofreq
    --output-frequency --output-format --save-frequency --process-output --ppl --no-ppl --chunk --from-chunk
    --show-statistics --parse-special --ids --stdin --no-bos --no-parse-special --show-count -pps -tgs -npp
    -ntg -npl --embd-normalize --embd-output-format --embd-separator --cls-separator --host --port
    --reuse-port --path --cors-origins --cors-methods --cors-headers --cors-credentials
    --no-cors-credentials --api-prefix --ui-config --webui-config --ui-config-file --webui-config-file
    --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy --tools --tools-runtime
    --mcp-servers-config --mcp-servers-json -ag --agent -no-ag --no-agent --ui --webui --no-ui --no-webui
    --embedding --embeddings --rerank --reranking --api-key --api-key-file --ssl-key-file --ssl-cert-file
    --chat-template-kwargs -to --timeout --sse-ping-interval --threads-http --cache-prompt --no-cache-prompt
    --cache-reuse --metrics --props --slots --no-slots --slot-save-path --media-path --models-dir
    --models-preset --models-max --models-autoload --no-models-autoload --jinja --no-jinja
    --reasoning-format --reasoning-effort --reasoning-budget --reasoning-budget-message --reasoning-preserve
    --no-reasoning-preserve --skip-chat-parsing --no-skip-chat-parsing --prefill-assistant
    --no-prefill-assistant -sps --slot-prompt-similarity --lora-init-without-apply --sleep-idle-seconds
    --simple-io --positive-file --negative-file --pca-batch --pca-iter --method --log-disable --log-file
    --log-jsonl --no-log-jsonl --log-prompts-dir --log-colors --log-verbose --offline -lv --verbosity
    --log-verbosity --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --spec-draft-hf -hfd
    -hfrd --hf-repo-draft --spec-draft-cpu-mask -Cd --cpu-mask-draft --spec-draft-cpu-range -Crd
    --cpu-range-draft --spec-draft-cpu-strict --cpu-strict-draft --spec-draft-prio --prio-draft
    --spec-draft-poll --poll-draft --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft
    --spec-draft-cpu-range-batch -Crbd --cpu-range-batch-draft --spec-draft-cpu-strict-batch
    --cpu-strict-batch-draft --spec-draft-prio-batch --prio-batch-draft --spec-draft-poll-batch
    --poll-batch-draft --spec-synth-len --spec-synth-rates --spec-draft-p-split --draft-p-split
    --spec-draft-backend-sampling --no-spec-draft-backend-sampling --spec-ngram-size-n --spec-ngram-size-m
    --spec-ngram-min-hits --tts-lang --tts-speaker-file --diffusion-steps --diffusion-visual --diffusion-eps
    --diffusion-algorithm --diffusion-alg-temp --diffusion-block-length --diffusion-cfg-scale
    --diffusion-add-gumbel-noise -lr --learning-rate -lr-min --learning-rate-min -decay-epochs
    --learning-rate-decay-epochs -wd --weight-decay -val-split --val-split -epochs --epochs -opt --optimizer
    --check --save-logits --logits-output-dir --tensor-filter --embd-gemma-default --fim-qwen-1.5b-default
    --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec
    --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default
    --vision-gemma-12b-default --spec-default
""".split()


def _refuse(given: bool) -> None:
    if given:
        names = (argument.partition("=")[0] for argument in sys.argv[1:])
        name = next((name for name in names if name in NAMES), "this option")
        raise UsageError(f"{name}: an option of llama.cpp that specli does not have", "See: specli run --help")


Unsupported = Annotated[bool, typer.Option(*NAMES, hidden=True, is_eager=True, expose_value=False, callback=_refuse)]
"""The type of a hidden parameter that stands for all of them."""
