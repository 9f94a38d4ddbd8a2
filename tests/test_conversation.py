"""Conversations: what of them the model sees, as which tokens, and what is read anew."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specli.cli.chat_file import load_conversation, save_conversation
from specli.cli.chat_settings import SETTINGS, change, hindrance
from specli.decoding.conversation import Conversation, Encoded, conversation_of
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.stats import DrafterStats, Stats, summed
from specli.decoding.transcript import Transcript
from specli.errors import SpecliError, UsageError
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.sampling.transforms import SamplingOptions

MARK = "|"  # the one 'control token' of the texts here


def render(messages):
    return "".join(f"{MARK}{message['role'][0]}:{message['content']}" for message in messages) + f"{MARK}a:"


def encode(messages):
    text = render(messages)
    return Encoded(text, [ord(char) for char in text])


def conversation(system, *texts):
    made = Conversation(system)
    for i, text in enumerate(texts):
        if i % 2:
            made.answer(text)
        else:
            made.ask(text)
    return made


WORDS = st.text("ab ", max_size=40)


@given(
    st.none() | st.text("s", max_size=10), st.lists(st.tuples(WORDS, WORDS), max_size=12), WORDS, st.integers(4, 200)
)
def test_what_the_model_sees_always_fits(system, turns, newest, n_ctx):
    made = Conversation(system)
    seen_before = 0
    for question, answer in [*turns, (newest, "")]:
        made.ask(question)
        before = list(made.messages), made.n_dropped
        try:
            prompt = made.encoded(encode, n_ctx)
        except SpecliError as error:
            alone = conversation(system, question)
            assert len(encode(alone.messages).tokens) > n_ctx, "only a message that does not fit by itself is refused"
            assert "-c" in error.hint
            assert (made.messages, made.n_dropped) == before, "the conversation is kept"
            made.turns.pop()
            continue
        assert len(prompt.tokens) <= n_ctx
        kept = made.turns[made.n_dropped :]
        assert kept and kept[-1].question == question
        assert prompt.text.startswith(f"{MARK}s:{system}" if system is not None else f"{MARK}u:")
        expected = Conversation(system)
        expected.turns = kept
        assert prompt == encode(expected.messages), "the newest turns, and nothing is left out between them"
        assert made.n_dropped >= seen_before, "what was dropped does not come back"
        seen_before = made.n_dropped
        made.answer(answer)


def test_nothing_is_dropped_while_there_is_room():
    made = conversation("sys", "one", "two", "three")
    assert made.encoded(encode, 1000).tokens == encode(made.messages).tokens
    assert made.n_dropped == 0


def test_dropping_makes_room_for_several_turns():
    made = Conversation("s")
    drops = []
    for i in range(60):
        made.ask(f"question {i:02}")
        before = made.n_dropped
        made.encoded(encode, 400)
        drops.append(made.n_dropped - before)
        made.answer("an answer")
    times = [i for i, n in enumerate(drops) if n]
    assert 2 <= len(times) <= 20 and max(drops) > 2


def test_a_large_message_drops_no_more_than_it_must():
    made = conversation(None, "a" * 40, "b", "c", "d", "e" * 100)
    made.encoded(encode, 152)  # the last takes more than half, and fits with one turn beside it
    assert made.n_dropped == 1


def test_an_answer_is_no_part_of_what_it_is_retried_with():
    made = conversation("s", "one", "two", "three", "four")
    assert made.encoded(encode, 1000).text == encode(conversation("s", "one", "two", "three").messages).text
    assert made.turns[-1].answer == "four"


def test_a_message_without_an_answer_gives_way_to_the_next():
    made = conversation(None, "one", "two", "three")
    made.ask("four")
    assert [message["content"] for message in made.messages] == ["one", "two", "four"]


def test_messages_and_back():
    made = conversation("s", "one", "two", "three")
    assert conversation_of(made.messages).messages == made.messages
    with pytest.raises(ValueError, match="'user' belongs"):
        conversation_of([{"role": "assistant", "content": "?"}])
    with pytest.raises(ValueError, match="'assistant' belongs"):
        conversation_of([{"role": "user", "content": "?"}, {"role": "system", "content": "?"}])


# Tokens


def pairs(text):
    """A tokeniser of two characters a token: what a text's tokens are depends on where it begins."""
    return [text[i : i + 2] for i in range(0, len(text), 2)]


def transcript(asked):
    def tokenize(text):
        asked.append(text)
        return pairs(text)

    return Transcript(render, tokenize, lambda rest: pairs(rest) if rest[:1] in ("", MARK) else None)


def test_generated_tokens_are_kept():
    asked = []
    made = transcript(asked)
    said = [{"role": "user", "content": "odd"}]
    prompt = made.encode(said)
    made.add(prompt, "answer", ["a", "ns", "wer"])
    longer = made.encode([*said, {"role": "assistant", "content": "answer"}, {"role": "user", "content": "more"}])
    assert longer.tokens[: len(prompt.tokens) + 3] == [*prompt.tokens, "a", "ns", "wer"]
    assert "".join(longer.tokens) == longer.text
    assert asked == [prompt.text], "only what is new is tokenised"
    assert made.encode(said) == prompt, "a retry finds the same prompt"


def test_a_template_that_changes_what_was_said_begins_anew():
    asked = []
    made = transcript(asked)
    said = [{"role": "user", "content": "odd"}]
    made.add(made.encode(said), "<think>x</think>y", ["<think>x</think>", "y"])
    longer = made.encode([*said, {"role": "assistant", "content": "y"}, {"role": "user", "content": "more"}])
    assert longer.tokens[: len(asked[0]) // 2] == pairs(asked[0])[: len(asked[0]) // 2]
    assert "".join(longer.tokens) == longer.text


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab", max_size=3), st.text("ab", max_size=3), st.booleans())))
def test_tokens_are_always_those_of_the_text(turns):
    """However far conversations go back and go on otherwise, and with whatever tokens they were read."""
    made, messages = transcript([]), []
    for n_back, question, answer, as_letters in turns:
        del messages[len(messages) - min(2 * n_back, len(messages)) :]
        prompt = made.encode([*messages, {"role": "user", "content": question}])
        assert "".join(prompt.tokens) == prompt.text
        made.add(Encoded(prompt.text, list(prompt.text)) if as_letters else prompt, answer, list(answer))
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def test_where_tokens_may_join_all_is_tokenised():
    made = Transcript(lambda messages: "".join(m["content"] for m in messages), pairs, lambda rest: None)
    made.add(made.encode([{"content": "abc"}]), "d", ["d"])
    assert made.encode([{"content": "abc"}, {"content": "d"}, {"content": "e"}]).tokens == ["ab", "cd", "e"]


# Models


@pytest.mark.parametrize("kind", ["target", "sliding", "hybrid", "mamba"])
@pytest.mark.parametrize("n_max", [0, 4, None])
def test_only_new_tokens_are_read(tiny, kind, n_max, monkeypatch):
    """Of the target and of the draft, whose caches go on where the last answer ended."""
    target = Model(tiny / f"{kind}.gguf")
    draft = Model(tiny / ("draft.gguf" if kind == "target" else f"{kind}-draft.gguf"))
    options = ContextOptions(ctx_size=512, threads=1)
    pair = Pair(target, draft, options, options, n_max=8)
    vocab, template = target.vocab, chat_template(target)
    made = Transcript(
        lambda messages: apply_chat_template(target, template, list(messages)),
        vocab.tokenize_chat,
        vocab.tokenize_after,
    )
    ascii_only = SamplingOptions(logit_bias=tuple((token, -math.inf) for token in range(128, 256)))
    drafters = None if n_max == 0 else ("model",)
    how = GenerationOptions(ascii_only, n_max=n_max, drafters=drafters, n_predict=12, seed=5)
    pair.measure()
    of_draft = []
    decode = pair.draft.decode
    monkeypatch.setattr(pair.draft, "decode", lambda tokens, n: (of_draft.extend(tokens), decode(tokens, n))[1])
    talk = Conversation("Be brief.")
    n_read = []
    for question in ("Hello there", "And now?", "Once more"):
        talk.ask(question)
        prompt = talk.encoded(made.encode, 512)
        of_draft.clear()
        generation = pair.generate(prompt.tokens, how)
        rounds = iter(generation)
        next(rounds)
        n_read.append(generation.stats.prompt_tokens - generation.stats.kept_tokens)
        if n_max == 4:
            assert 0 < len(of_draft) <= n_read[-1] + 2 * n_max, "the draft model keeps its cache, too"
        list(rounds)
        talk.answer(generation.text)
        tokens = generation.token_ids
        tokens = tokens[:-1] if vocab.is_eog(tokens[-1]) else tokens
        made.add(prompt, generation.text, tokens)
    around = len(vocab.tokenize_chat("<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"))
    for question, n in zip(("And now?", "Once more"), n_read[1:], strict=True):
        assert n <= len(question) + around + 1  # and the last token of the answer
    for one in (pair, draft, target):
        one.close()


# Statistics, settings, files


def test_stats_add_up():
    one = Stats(tokens=3, rounds=2, drafted_by_position=[2], by_drafter={"model": DrafterStats(1, 2, 1, 1)})
    other = Stats(tokens=4, rounds=1, drafted_by_position=[1, 1], by_drafter={"suffix": DrafterStats(3, 3, 0, 3)})
    both = summed([one, other, one])
    assert (both.tokens, both.rounds, both.drafted_by_position) == (10, 5, [5, 1])
    assert both.by_drafter == {"model": DrafterStats(2, 4, 2, 2), "suffix": DrafterStats(3, 3, 0, 3)}
    assert summed([]) == Stats()


@pytest.mark.parametrize(
    "name, value, shown",
    [
        ("n-max", "8", "8"),
        ("n-max", "auto", "auto"),
        ("drafter", "suffix,model", "suffix,model"),
        ("drafter", "none", "none"),
        ("drafter", "default", "default"),
        ("verification", "match", "match"),
        ("draft-temp", "0.5", "0.5"),
        ("temp", "0", "0.0"),
        ("top-k", "5", "5"),
        ("top-p", "0.5", "0.5"),
        ("min-p", "0", "0.0"),
        ("seed", "7", "7"),
        ("n-predict", "-1", "-1"),
        ("--temp", "1", "1.0"),
    ],
)
def test_settings(name, value, shown):
    changed = change(GenerationOptions(), name, value)
    assert SETTINGS[name.removeprefix("--")].shown(changed) == shown


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("tmep", "1", "temp"),
        ("temp", "warm", "a number"),
        ("temp", "nan", "--temp"),
        ("n-max", "-1", "auto"),
        ("n-max", "many", "auto"),
        ("verification", "hope", "block"),
        ("drafter", "oracle", "suffix"),
        ("drafter", "suffix,suffix", "twice"),
        ("n-predict", "0", "−1"),
    ],
)
def test_settings_that_mean_nothing(name, value, said):
    with pytest.raises(UsageError) as refused:
        change(GenerationOptions(), name, value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "changes, words",
    [
        (["drafter none", "n-max 8"], "/set drafter default"),
        (["n-max 0", "drafter suffix"], "/set n-max auto"),
        (["drafter none"], None),
        (["drafter none", "n-max 0"], None),
        (["n-max 8", "drafter suffix"], None),
        (["n-max 0", "temp 1"], None),
    ],
)
def test_settings_that_do_nothing_are_said(changes, words):
    options = GenerationOptions()
    for name, value in map(str.split, changes):
        options = change(options, name, value)
        why = hindrance(options, name)
    assert (words in why) if words else why is None


def test_a_seed_makes_answers_repeat():
    assert change(GenerationOptions(), "seed", "7").repeatable
    assert not change(GenerationOptions(repeatable=True), "seed", "-1").repeatable


def test_files(tmp_path):
    made, file = conversation("s", "one", "two\n", "three"), tmp_path / "talk.json"
    save_conversation(file, made, {"target": "x.gguf"})
    assert json.loads(file.read_text())["schema"] == "specli.chat/1"
    assert load_conversation(file).messages == made.messages
    save_conversation(file, Conversation(), {"target": "caf\udce9.gguf"})
    assert load_conversation(file).messages == []
    file.write_text(r'{"schema": "specli.chat/1", "messages": [{"role": "user", "content": "\ud83d"}]}')
    save_conversation(file, load_conversation(file), {})
    assert load_conversation(file).messages == [{"role": "user", "content": "\ufffd"}]


@pytest.mark.parametrize(
    "content, said",
    [
        (b"not json", "not a conversation"),
        (b"\xff", "UTF-8"),
        (b"[" * 100_000, "not a conversation"),
        (b"[1]", "schema"),
        (b'{"schema": "specli.chat/2", "messages": []}', "schema"),
        (b'{"schema": "specli.chat/1"}', "'messages' is missing"),
        (b'{"schema": "specli.chat/1", "messages": [{"role": "user"}]}', "'content' is missing"),
        (b'{"schema": "specli.chat/1", "messages": [{"role": "user", "content": 3}]}', "not text"),
        (b'{"schema": "specli.chat/1", "messages": [{"role": "tool", "content": "x"}]}', "'tool'"),
        (b'{"schema": "specli.chat/1", "messages": 5}', "damaged"),
        (None, "No such file"),
    ],
)
def test_files_that_are_none(tmp_path, content, said):
    file = tmp_path / "talk.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecliError, match=said):
        load_conversation(file)


def test_nothing_else_is_written_over(tmp_path):
    file = tmp_path / "model.gguf"
    for content, why in ((b"GGUF", "not a conversation"), (b"\xff", "UTF-8")):
        file.write_bytes(content)
        with pytest.raises(SpecliError, match=f"{why}.*not replaced"):
            save_conversation(file, Conversation(), {})
        assert file.read_bytes() == content
    with pytest.raises(SpecliError, match="missing"):
        save_conversation(tmp_path / "missing" / "talk.json", Conversation(), {})
