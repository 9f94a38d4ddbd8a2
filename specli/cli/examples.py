"""Command lines to copy, which ``--help`` of each command ends with."""

_PAIR = "--target big.gguf --draft small.gguf"

EXAMPLES = {
    "run": f"""\
specli run
specli run --target qwen2.5-coder-7b "Write a quicksort in Go."
specli run {_PAIR} --compare "Why?"
specli run --target model.gguf --corpus notes.txt -f question.txt""",
    "chat": f"""\
specli chat
specli chat --target qwen2.5-coder-7b
specli chat {_PAIR} -sys "Be brief."
specli chat --target model.gguf --temp 0 < questions.txt > answers.txt""",
    "sweep": f"""\
specli sweep
specli sweep {_PAIR} --n-max 1,2,4,8,auto
specli sweep --target model.gguf --prompts mine.jsonl --budget 20m
specli sweep {_PAIR} --out sweep.jsonl""",
    "report": """\
specli report sweep.jsonl --by-category
specli report old.jsonl new.jsonl
specli report sweep.jsonl --plot sweep.html""",
    "pull": """\
specli pull qwen2.5-coder-7b
specli pull USER/REPOSITORY:Q8_0 --without-draft
specli pull USER/REPOSITORY/FILE.gguf --to ~/models""",
    "models": """\
specli models --all
specli models path qwen2.5-coder-7b
specli models remove qwen2.5-coder-7b:Q8_0""",
    "inspect": """\
specli inspect qwen2.5-coder-7b
specli inspect big.gguf --with small.gguf
specli inspect model.gguf --format json""",
    "verify": f"""\
specli verify
specli verify {_PAIR}
specli verify --target model.gguf --drafter suffix --temp 0.8 --thorough
specli verify --target model.gguf --replay specli-verify.json""",
    "doctor": """\
specli doctor
specli doctor --format json""",
}
"""By command."""
