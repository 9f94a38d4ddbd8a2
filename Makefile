# make run     install and tell a story               make check        ruff and mypy
# make test    install and run the tests              make test-long    the slower proofs too
# make run MODELS=folder     the Qwen2.5-Coder pair in it; TARGET=… DRAFT=… PROMPT=…: others
# make install CMAKE_ARGS=…  build llama.cpp for a GPU (docs/hardware.md)
# make check-wheel           the wheel, installed by pip, pipx and uv          make picture   README's picture
# make stories               train the pair inside specli from nothing (under 90 minutes); make story-card describes it
# make bench-peer PROMPTS=…  beside llama-server                make bench-rounds   the loop's own cost
# make bench-auto PROMPTS=…  automatic draft lengths            make bench-policy   the same, replayed on traces
# make bench-lookup PROMPTS=…       drafting without a model, beside llama-server
# make bench-long-prompt PROMPTS=…  what automatic lengths cost at worst
# make bench-exact PROMPTS=…        what --exact costs

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MODELS ?= $(HOME)/models
TARGET ?= $(MODELS)/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
DRAFT  ?= $(MODELS)/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
PROMPT ?= Write a Python function that merges two sorted lists.

# GCC drops the tile configuration that llama.cpp builds on the stack for AMX (llama.cpp PR 26954): the first decode
# on such a CPU dies of SIGILL. Without dead-store elimination it does not, and AMX stays.
GCC_X86 := $(shell uname -m | grep -qE 'x86_64|amd64' && $${CXX:-c++} --version 2>/dev/null | grep -q 'Free Software' && echo yes)
ifeq ($(GCC_X86),yes)
override CXXFLAGS += -fno-tree-dse -fno-dse
export CXXFLAGS
endif

.PHONY: run models install rebuild test test-long check bench-peer bench-lookup bench-auto bench-exact bench-policy bench-long-prompt bench-rounds picture check-wheel stories story-card clean

# The models that somebody names, else the pair inside specli.
given = $(filter-out file,$(origin $1))
NAMED := $(call given,MODELS)$(call given,TARGET)$(call given,DRAFT)

run: install $(if $(NAMED),models)
	$(BIN)/specli run $(if $(NAMED),--target "$(TARGET)" --draft "$(DRAFT)") $(if $(NAMED)$(call given,PROMPT),"$(PROMPT)") </dev/null

models:
	@test -f "$(TARGET)" -a -f "$(DRAFT)" || { \
	  echo "These models are not there:"; \
	  for file in "$(TARGET)" "$(DRAFT)"; do test -f "$$file" || echo "    $$file"; done; \
	  echo "Get them (1.6 GB) with"; \
	  echo "    $(BIN)/hf download Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --local-dir $(MODELS)"; \
	  echo "    $(BIN)/hf download Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --local-dir $(MODELS)"; \
	  echo "or name models you have: make run TARGET=… DRAFT=…; make run alone needs none."; exit 1; }

# pip keeps the llama.cpp it built without regard to how it was built: CMAKE_ARGS, and rebuild, build it anew.
LLAMA := $(shell sed -n 's/.*"\(llama-cpp-python[^"]*\)".*/\1/p' pyproject.toml)
STAMP := $(VENV)/.installed$(if $(CMAKE_ARGS),-$(shell echo '$(CMAKE_ARGS)' | cksum | cut -d' ' -f1))
BUILD_ANEW = $(BIN)/pip install --no-cache-dir --force-reinstall --no-deps --no-binary llama-cpp-python "$(LLAMA)"

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing; building llama.cpp takes some minutes the first time."
	$(if $(CMAKE_ARGS),$(BUILD_ANEW))
	$(BIN)/pip install --no-binary llama-cpp-python -e '.[dev]'
	rm -f $(VENV)/.installed*
	touch $@

rebuild: install
	$(BUILD_ANEW)

test: install
	$(BIN)/pytest -n 2 -m "not long"

test-long: install
	$(BIN)/pytest -n 2

check: install
	$(BIN)/ruff check specli tests tools
	$(BIN)/ruff format --check specli tests tools
	$(BIN)/mypy

# PEER=path uses a llama-server that is there; else one is built, about ten minutes. PROMPTS: JSONL files in Spec-Bench's
# shape, separated by ':'.
bench-peer: install models
	PEER="$$($(BIN)/python tools/build_peer.py)" MODELS="$(MODELS)" $(BIN)/python tools/bench_peer.py

bench-lookup: install models
	PEER="$$($(BIN)/python tools/build_peer.py)" MODELS="$(MODELS)" $(BIN)/python tools/bench_lookup.py

bench-auto: install models
	MODELS="$(MODELS)" $(BIN)/python tools/bench_auto.py

bench-long-prompt: install models
	MODELS="$(MODELS)" $(BIN)/python tools/bench_long_prompt.py

bench-exact: install models
	MODELS="$(MODELS)" $(BIN)/python tools/bench_exact.py

bench-policy: install
	$(BIN)/python tools/bench_policy.py

bench-rounds: install
	MODELS="$(MODELS)" $(BIN)/python tools/bench_rounds.py --out docs/bench-rounds.md

# Drawn with termtosvg, in an environment of its own.
picture: install
	$(BIN)/python tools/picture.py docs/run.svg

check-wheel: install
	$(BIN)/python tools/check_wheel.py

stories: install
	$(BIN)/pip install --quiet -e '.[train]'
	$(BIN)/python tools/train_stories.py

story-card: install
	$(BIN)/python tools/story_card.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
