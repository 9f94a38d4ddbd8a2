"""Names of models: the registry, what is on the disk, and what a name means."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specli.errors import SpecliError
from specli.models import local, stories
from specli.models import registry as registry_module
from specli.models.file_names import model_of, quantization_of
from specli.models.hub import RemoteFile, RemoteModel, choose
from specli.models.local import find_models
from specli.models.names import HubName, entry_of, entry_of_model, find, hub_name, locate
from specli.models.registry import is_safe_path, load_registry


@pytest.fixture(autouse=True)
def _no_models_of_one_s_own(tmp_path, monkeypatch):
    monkeypatch.setattr(registry_module, "own_models_file", lambda: tmp_path / "none.toml")


# The registry


def test_the_known_models_are_consistent():
    registry = load_registry()
    assert len(registry.entries) > 50
    for entry in registry.entries.values():
        assert not entry.drafts or entry.why, entry.name
        for draft in entry.drafts:
            assert registry.entries[draft].drafter, f"{draft} drafts for {entry.name}"
            assert draft != entry.name
    for measured in registry.measured:
        assert {measured.target, measured.draft} <= set(registry.entries) and measured.source.startswith(
            ("http", "docs/")
        )
    known = registry.entries["qwen2.5-coder-1.5b"]
    assert known.bytes == 1_117_320_768 and known.drafts == ("qwen2.5-coder-0.5b",)


def test_one_s_own_models_add_and_override(tmp_path):
    own = tmp_path / "models.toml"
    own.write_text(
        '[models.mine]\nfamily = "Mine"\nrepository = "me/mine"\ndrafts = ["smollm2-135m"]\n'
        '[models."qwen2.5-coder-0.5b"]\nfamily = "Mine"\nrepository = "me/other"\n'
    )
    registry = load_registry(own)
    assert [draft.name for draft in registry.drafts_for("mine")] == ["smollm2-135m"]
    assert registry.entries["qwen2.5-coder-0.5b"].repository == "me/other"
    assert registry.entries["qwen2.5-coder-0.5b"].sha256 is None


BAD_FILES = {
    "[models.x": "not a TOML file",
    "models = 3": "models is not a table",
    "[models.x]\nfamily = 'a'": "[models.x]: repository missing",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\ncolour = 'red'": "[models.x]: unknown key 'colour'",
    "[models.x]\nfamily = 3\nrepository = 'a/b'": "[models.x] family: 3 is not a text",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nbytes = 'many'": "[models.x] bytes",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nbytes = true": "[models.x] bytes",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\ndrafts = 'y'": "[models.x] drafts: 'y' is not a list",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\ndrafts = ['nobody']": "drafts: there is no model 'nobody'",
    "[models.x]\nfamily = 'a'\nrepository = '../../etc'": "[models.x] repository",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nfile = '../x.gguf'": "[models.x] file",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nfile = '/x.gguf'": "[models.x] file",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nfile = 'x.bin'": "[models.x] file",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\nsha256 = 'abc'": "[models.x] sha256",
    "[models.x]\nfamily = 'a'\nrepository = 'a/b'\ndrafter = 'parrot'": "[models.x] drafter: 'parrot' is not one of",
    "[models.'a b']\nfamily = 'a'\nrepository = 'a/b'": "a name is made of",
    "[colours]\nx = 1": "unknown table colours",
    "[[measured]]\ntarget = 'x'": "draft, gain, hardware, source missing",
}


@pytest.mark.parametrize("text, words", BAD_FILES.items())
def test_a_bad_models_file_is_named(tmp_path, text, words):
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(SpecliError) as caught:
        load_registry(own)
    assert str(own) in str(caught.value) and words in str(caught.value)


def test_a_missing_models_file_is_named(tmp_path):
    with pytest.raises(SpecliError, match="cannot be read"):
        load_registry(tmp_path / "none.toml")


@given(st.text(alphabet="ab./\\:\0g", max_size=12))
def test_no_safe_path_leaves_its_folder(name):
    name += ".gguf"
    if is_safe_path(name):
        folder = Path("/cache/repository")
        assert (folder / name).resolve().is_relative_to(folder)


# Names


def test_what_a_name_means_on_the_hub():
    registry = load_registry()
    known = registry.entries["qwen2.5-coder-1.5b"]
    assert hub_name("qwen2.5-coder-1.5b", registry) == HubName(known.repository, None, known.file, known)
    assert hub_name("qwen2.5-coder-1.5b:Q8_0", registry) == HubName(known.repository, "Q8_0", None, known)
    assert hub_name("user/repo", registry) == HubName("user/repo")
    assert hub_name("user/repo:Q4_K_M", registry) == HubName("user/repo", "Q4_K_M")
    assert hub_name("user/repo/sub/x.gguf", registry) == HubName("user/repo", None, "sub/x.gguf")
    for text in ("nobody", "user/repo/../x.gguf", "a/b/c", "", "/x", "user/repo:", "folder/x.gguf"):
        assert hub_name(text, registry) is None, text
    assert entry_of(f"{known.repository}:Q8_0", registry) == known


@pytest.mark.parametrize(
    "name, quantization",
    [
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("sub/Model-UD-Q4_K_XL.gguf", "Q4_K_XL"),
        ("model.IQ2_XXS.gguf", "IQ2_XXS"),
        ("model-f16.gguf", "F16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("big-Q8_0-00001-of-00003.gguf", "Q8_0"),
        ("model.gguf", ""),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
    ],
)
def test_the_quantisation_is_in_the_name(name, quantization):
    assert quantization_of(name) == quantization


def test_without_a_wish_llama_cpp_s_choice_is_taken():
    def models(*names):
        return [RemoteModel((RemoteFile("u/r", f"x-{name}.gguf"),)) for name in names]

    assert choose(models("Q8_0", "Q4_K_M", "F16"), None) == models("Q4_K_M")
    assert choose(models("Q8_0", "Q4_K_M"), "q8_0") == models("Q8_0")
    assert choose(models("UD-Q4_K_XL", "Q8_0"), "UD-Q4_K_XL") == models("UD-Q4_K_XL")
    assert len(choose(models("Q6_K", "Q5_K_M"), None)) == 2  # to be asked about
    assert choose(models("Q8_0"), "Q2_K") == []


# On this disk


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A home where four programs have put models."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LLAMA_CACHE", raising=False)
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setattr(local.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    places = {
        "hub": tmp_path / "hub/models--user--repo/snapshots/abc/x-q8_0.gguf",
        "part": tmp_path / "hub/models--user--repo/snapshots/abc/y-q4_0-00002-of-00002.gguf",
        "first": tmp_path / "hub/models--user--repo/snapshots/abc/y-q4_0-00001-of-00002.gguf",
        "llama.cpp": tmp_path / ".cache/llama.cpp/user_repo_z.gguf",
        "LM Studio": tmp_path / ".lmstudio/models/other/repo/w-Q4_K_M.gguf",
        "Ollama": tmp_path / ".ollama/models/blobs/sha256-77",
    }
    for path in places.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF" + bytes(96))
    for name, digest in (("llama3/8b", "sha256:77"), ("gone/1b", "sha256:88")):
        manifest = tmp_path / ".ollama/models/manifests/a.registry/library" / name
        manifest.parent.mkdir(parents=True)
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest}
        manifest.write_text(json.dumps({"layers": [{"mediaType": "other", "digest": "x"}, layer]}))
    return places


def test_what_other_programs_have_put_on_the_disk_is_found(disk):
    found = {model.name: (model.owner, model.bytes) for model in find_models()}
    assert found == {
        "user/repo/x-q8_0.gguf": ("Hub", 100),
        "user/repo/y-q4_0-00001-of-00002.gguf": ("Hub", 200),
        "user_repo_z.gguf": ("llama.cpp", 100),
        "other/repo/w-Q4_K_M.gguf": ("LM Studio", 100),
        "llama3:8b": ("Ollama", 100),
        **{path.stem: ("specli", path.stat().st_size) for path in (stories.TARGET, stories.DRAFT)},
    }


def test_each_is_located_by_its_name(disk):
    registry = load_registry()
    for name, place in {
        "user/repo:Q8_0": "hub",
        "user/repo/x-q8_0": "hub",
        "user/repo:Q4_0": "first",
        "user_repo_z": "llama.cpp",
        "other/repo:q4_k_m": "LM Studio",
        "llama3:8b": "Ollama",
        str(disk["hub"]): "hub",
    }.items():
        assert locate(name, registry) == disk[place], name
    assert find("user/repo:Q2_K", registry, find_models()) == []


def test_files_of_one_repository_are_told_apart(disk, tmp_path):
    """Targets, their MTP heads and block drafts lie side by side; a name means its own files and no other's."""
    registry = load_registry()
    target = registry.entries["qwen3.6-27b"]
    folder = tmp_path / f"hub/models--{target.repository.replace('/', '--')}/snapshots/abc"
    folder.mkdir(parents=True)

    def add(name):
        (folder / name).write_bytes(b"GGUF")

    add(target.file.replace("Q4_K_M", "Q8_0"))
    add(f"mmproj-{target.file}")
    here = find_models()
    assert [entry_of_model(model, registry) for model in here if model.path.parent == folder] == [target]
    assert [model.path.name for model in find("qwen3.6-27b", registry, here)] == ["Qwen3.6-27B-Q8_0.gguf"]
    for other in ("qwen3.6-27b-mtp", "qwen3.6-27b-dflash", "qwen3.6-27b:Q4_K_M"):
        assert find(other, registry, here) == [], other
    add(registry.entries["qwen3.6-27b-mtp"].file)
    [mtp] = find("qwen3.6-27b-mtp", registry, find_models())
    assert mtp.path.name.startswith("mtp-")


def test_a_split_model_is_here_when_all_of_it_is(disk):
    disk["part"].unlink()
    assert not any("y-q4_0" in model.name for model in find_models())


@pytest.mark.parametrize("digest", ["sha256:../../x", "/etc/passwd", "sha256:77/../88", 7, None, [], "[" * 9])
def test_manifests_may_say_anything(disk, tmp_path, digest):
    manifest = tmp_path / ".ollama/models/manifests/a.registry/library/bad/1b"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": [{"mediaType": local._OLLAMA_MODEL, "digest": digest}]}))
    assert [model.name for model in find_models() if model.owner == "Ollama"] == ["llama3:8b"]
    for text in ("[" * 100_000, "{}", "[]", '{"layers": 3}'):
        manifest.write_text(text)
        assert len(find_models()) == 5 + 2


@pytest.mark.parametrize(
    "name, model",
    [
        ("Qwen3.6-27B-Q4_K_M.gguf", "qwen3-6-27b"),
        ("Q4_K_M/Qwen3-235B-A22B-Q4_K_M-00001-of-00005.gguf", "qwen3-235b-a22b"),
        ("mtp-Qwen3.6-27B-UD-Q8_0.gguf", "mtp-qwen3-6-27b"),
        ("plain.gguf", "plain"),
    ],
)
def test_what_a_file_is_of_is_in_its_name(name, model):
    assert model_of(name) == model


@pytest.mark.parametrize(
    "name, words",
    [
        ("user/repo:Q2_K", "Fetch it: specli pull user/repo:Q2_K"),
        ("qwen2.5-coder-7b", "Fetch it: specli pull qwen2.5-coder-7b"),
        ("qwen2.5-codr-7b", "Did you mean qwen2.5-coder-7b"),
        ("xyzzy", "specli models --all"),
    ],
)
def test_what_is_not_here_is_said_with_what_to_do(disk, name, words):
    with pytest.raises(SpecliError) as caught:
        locate(name, load_registry())
    assert words in str(caught.value)


def test_a_missing_path_is_left_to_whoever_opens_it(disk, tmp_path):
    for name in ("missing.gguf", "./a/b.gguf", f"{tmp_path}/x.gguf"):
        assert locate(name, load_registry()) == Path(name)
