"""The parts of a sweep: prompts, the grid, the file, what the figures say."""

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from specli.bench import intervals, speedup
from specli.bench.analysis import standings, target_seconds, verdict
from specli.bench.grid import Grid, Placement, Point, parse_n_max, parse_numbers
from specli.bench.measurement import Measurement, Question, Widths, point_document
from specli.bench.prompts import Prompt, choose, default_prompts, read_prompts, story_prompts
from specli.bench.results import create, read, resume
from specli.bench.summary import Results
from specli.errors import SpecliError, UsageError
from specli.report.charts import check_plot, terminal_chart, write_plot
from specli.report.sweep_report import print_sweep
from specli.report.sweep_words import conclusion, name, run_line, server_line, table, without_counterpart

# Prompts


def write(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_prompts_come_in_the_common_shapes(tmp_path):
    write(tmp_path, "a.jsonl", {"question_id": 81, "category": "qa", "turns": ["one", "two"], "source": "x"}, "")
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "ignored"},
        {"role": "user", "content": "and then?"},
    ]
    write(tmp_path, "b.jsonl", {"prompt": "alone"}, {"id": "m", "messages": conversation})
    write(tmp_path, "c.txt", "a text", "of two lines")
    (tmp_path / "d.png").write_bytes(b"\x89PNG")
    assert read_prompts([tmp_path]) == [
        Prompt("81", "qa", ("one", "two")),
        Prompt("b:1", "text", ("alone",)),
        Prompt("m", "text", ("hello", "and then?"), "Be brief."),
        Prompt("c.txt", "text", ("a text\nof two lines",)),
    ]


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "line 2"),
        ("[]", "line 2: not a JSON object"),
        ({"turns": []}, "line 2: neither"),
        ({"turns": ["", "x"]}, "line 2: neither"),
        ({"turns": "x"}, "line 2: neither"),
        ({"messages": ["x"]}, "line 2: messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "line 2: neither"),
        ({"prompt": 5}, "line 2: neither"),
        ("[" * 100_000, "line 2"),
        ({"prompt": "again", "id": "x:1"}, "question x:1 of category text is there twice"),
    ],
)
def test_bad_prompts_are_named(tmp_path, line, words):
    path = write(tmp_path, "x.jsonl", {"prompt": "good"}, line)
    with pytest.raises(SpecliError, match=words):
        read_prompts([path])


def test_files_without_prompts_are_named(tmp_path):
    for path in (tmp_path / "missing.jsonl", write(tmp_path, "empty.jsonl"), write(tmp_path, "blank.txt", " ")):
        with pytest.raises(SpecliError, match=path.name):
            read_prompts([path])
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecliError, match="not text"):
        read_prompts([tmp_path / "binary.txt"])


def test_the_prompts_of_the_pair_inside_ask_for_stories_in_both_languages():
    prompts = story_prompts()
    assert len(prompts) >= 6 and {prompt.category for prompt in prompts} == {"english", "chinese"}


def test_the_default_prompts():
    prompts = default_prompts()
    assert len(prompts) == 12 and len({(prompt.category, prompt.id) for prompt in prompts}) == 12
    assert {prompt.category for prompt in prompts} == {"code", "chat", "summary", "translation", "json", "edit"}
    assert any("一" <= character <= "龥" for prompt in prompts for character in prompt.turns[0])
    assert any(len(prompt.turns) > 1 for prompt in prompts)


def test_prompts_are_chosen_by_category_and_seed():
    prompts = [Prompt(str(i), category, ("x",)) for category in ("qa", "rag") for i in range(9)]
    assert [p.id for p in choose(prompts, ["rag"], 2)] == ["0", "1"]
    assert [p.category for p in choose(prompts, (), 1)] == ["qa", "rag"]
    picked = choose(prompts, (), 3, seed=1)
    assert picked == choose(prompts, (), 3, seed=1) != choose(prompts, (), 3, seed=2)
    with pytest.raises(UsageError, match="--categories code: not one of qa, rag"):
        choose(prompts, ["code"])


# The grid


@pytest.mark.parametrize(
    "text, values",
    [
        ("1,2,4", [1, 2, 4]),
        ("1-4", [1, 2, 3, 4]),
        ("2-16:2", [2, 4, 6, 8, 10, 12, 14, 16]),
        ("auto,0,3-3,3", [None, 0, 3]),
    ],
)
def test_draft_lengths_are_lists_and_ranges(text, values):
    assert parse_n_max(text) == values


@pytest.mark.parametrize("text", ["", "1,", "4-2", "1-4:0", "x", "-1", "1.5", "1--3", "²", "9" * 5000, "1-99999999999"])
def test_bad_draft_lengths_are_refused(text):
    with pytest.raises(UsageError, match="--n-max"):
        parse_n_max(text)


def test_numbers_are_read_or_refused():
    assert parse_numbers("--temp", "0,0.8,0") == [0.0, 0.8]
    with pytest.raises(UsageError, match="--temp x"):
        parse_numbers("--temp", "x")


BIG, SMALL = Path("big.gguf"), Path("small.gguf")


def grid(**changes):
    values = {"n_max": [2, None], "drafts": {BIG: "model", SMALL: "model"}, "drafters": [None], "lookups": ("suffix",)}
    values |= {"temperatures": [0.0], "has_heads": False}
    return Grid(**{**values, "verifications": ["block"], "placements": [Placement()], **changes})


def test_plain_decoding_is_always_in_the_grid_and_nothing_twice():
    points = grid(temperatures=[0.0, 0.8], verifications=["block", "match"], drafters=[None, ("suffix",)]).points()
    assert len(set(points)) == len(points)
    for temperature in (0.0, 0.8):
        assert Point(Placement(), temperature) in points
    greedy = [point for point in points if point.temperature == 0.0]
    assert {point.verification for point in greedy} == {"block"}  # at temperature 0 all are one
    assert all(point.draft is None for point in points if point.drafters == ("suffix",))
    assert len(greedy) == 1 + 2 * 2 + 2  # plain; two drafts, two lengths; suffix with two lengths


def test_who_drafts_by_default_is_as_in_run():
    drafters = {(point.n_max, point.drafters) for point in grid().points()}
    assert drafters == {(0, ()), (2, ("model",)), (None, ("suffix", "model"))}
    assert {point.drafters for point in grid(drafts={}).points()} == {(), ("suffix",)}
    both = ("suffix", "corpus")
    assert {point.drafters for point in grid(lookups=both).points()} == {(), ("model",), (*both, "model")}


def test_heads_and_draft_modules_draft_by_their_kind():
    of_heads = {(point.n_max, point.drafters) for point in grid(drafts={}, has_heads=True).points()}
    assert of_heads == {(0, ()), (2, ("mtp",)), (None, ("suffix", "mtp"))}
    points = grid(drafts={BIG: "eagle3", SMALL: "mtp"}, has_heads=True).points()
    assert {(point.draft, point.drafters) for point in points} == {
        *((None, ()), (BIG, ("eagle3",)), (SMALL, ("mtp",))),
        *((BIG, ("suffix", "mtp", "eagle3")), (SMALL, ("suffix", "mtp"))),
    }
    alone = grid(drafts={BIG: "eagle3"}, drafters=[("model",), ("eagle3",)], n_max=[2]).points()
    assert [(point.draft, point.drafters) for point in alone] == [(None, ()), (BIG, ("eagle3",))], "nobody is a model"


# The speed-up


def test_the_prediction_is_what_rounds_come_to():
    """Simulated round by round."""
    rng = np.random.default_rng(0)
    acceptance, step, costs = [0.9, 0.7, 0.5], 0.2, {1: 1.0, 4: 1.6}
    tokens = seconds = 0.0
    for _ in range(200_000):
        accepted = next((i for i, alpha in enumerate(acceptance) if rng.random() >= alpha), 3)
        tokens, seconds = tokens + accepted + 1, seconds + costs[4] + 3 * step
    assert speedup.predicted(acceptance, costs.__getitem__, step) == pytest.approx(tokens / seconds, rel=0.005)


def test_the_popular_shortcut_is_too_good():
    flat = lambda width: 1.0  # noqa: E731
    assert speedup.shortcut(0.8, 5, 0.05) == pytest.approx(3.2)
    assert speedup.predicted([0.8] * 5, flat, 0.05) == pytest.approx(2.95, abs=0.005)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(slope=st.floats(0.0, 1.0), step=st.floats(0.0, 1.0), acceptance=st.floats(0.0, 1.0))
def test_what_would_have_to_change_is_enough_and_no_more(slope, step, acceptance):
    def seconds(width):
        return 1.0 + slope * (width - 1)

    needed = speedup.needed_acceptance(seconds, step)
    if needed is not None:
        assert speedup.best_predicted(min(1.0, needed + 1e-6), seconds, step) >= 1.02
        assert needed < 1e-6 or speedup.best_predicted(needed - 1e-6, seconds, step) < 1.02
    else:
        assert speedup.best_predicted(1.0, seconds, step) < 1.02
    cheaper = speedup.needed_cheapness(acceptance, seconds, step)
    if cheaper is not None:
        assert cheaper >= 1.0 and speedup.best_predicted(acceptance, seconds, step / (cheaper * (1 + 1e-6))) >= 1.0199


# Measurements


def measurement(point, speed, question=Question("qa", "1", 0), block=0, prefill_seconds=1.0, **changes):
    """A text of 60 tokens at so many tokens a second, 20 rounds of which 2 of 4 drafted tokens were accepted."""
    drafts = point.n_max != 0
    values = {
        "prompt_tokens": 30,
        "tokens": 60,
        "rounds": 20 if drafts else 60,
        "accepted": 40 if drafts else 0,
        "rejected": 20 if drafts else 0,
        "drafted": 60 if drafts else 0,
        "judged_by_position": (20, 20, 15) if drafts else (),
        "accepted_by_position": (20, 15, 5) if drafts else (),
        "prefill_seconds": prefill_seconds,
        "draft_prefill_seconds": 0.5 * prefill_seconds if drafts else 0.0,
        "draft_seconds": 12.0 / speed if drafts else 0.0,
        "verify_seconds": 40.0 / speed,
        "decode_seconds": 60.0 / speed,
        "widths": {4: Widths(20, 40.0 / speed)} if drafts else {1: Widths(60, 60.0 / speed)},
        "text": "a\u2028b\n",
    }
    return Measurement(point=point, question=question, block=block, **{**values, **changes})


PLAIN = Point(Placement(), 0.0)
DRAFTED = Point(Placement(), 0.0, 3, BIG, ("model",))
SUFFIX = Point(Placement(), 0.0, None, None, ("suffix",))


def measured(speeds, n_questions=4, n_blocks=3, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        measurement(point, speed * scale * np.exp(noise * rng.normal()), Question("qa", str(i), 0), block, 1.0 / scale)
        for block in range(n_blocks)
        for i in range(n_questions)
        for scale in [rng.uniform(0.5, 2.0)]  # how fast the machine is just now
        for point, speed in speeds.items()
    ]


def test_speed_ups_are_taken_within_a_block():
    plain, drafted = standings(measured({PLAIN: 10.0, DRAFTED: 15.0}), [PLAIN, DRAFTED])
    assert plain.decode == (1.0, 1.0, 1.0)
    assert drafted.decode == pytest.approx((1.5, 1.5, 1.5))
    assert drafted.request.value < 1.5  # reading the prompt is not faster
    assert drafted.acceptance == pytest.approx((1.0, 0.75, 1 / 3)) and drafted.acceptance_rate == pytest.approx(2 / 3)
    assert drafted.mean_accepted_length == 3.0


def test_the_prediction_goes_by_the_measured_costs():
    everything = measured({PLAIN: 10.0, DRAFTED: 15.0}, n_blocks=1, n_questions=1)
    _, drafted = standings(everything, [PLAIN, DRAFTED])
    seconds = target_seconds(everything, PLAIN.placement, 0.0)
    tokens = 1 + 1.0 + 0.75 + 0.25  # what 20, 15 and 5 accepted tokens of 20 rounds come to
    assert tokens == drafted.mean_accepted_length
    assert drafted.predicted == pytest.approx(tokens * seconds(1) / (seconds(4) + 3 * drafted.step_seconds))
    assert seconds(1) < seconds(2) < seconds(4) < seconds(8)


def test_each_placement_is_predicted_by_its_own_costs():
    """With four threads everything takes half the time: its speed-up over plain decoding with one is twice as large."""
    other = replace(DRAFTED, placement=Placement(4))
    speeds = {PLAIN: 10.0, DRAFTED: 15.0, Point(Placement(4), 0.0): 20.0, other: 30.0}
    found = {one.point: one for one in standings(measured(speeds), list(speeds))}
    assert found[other].predicted == pytest.approx(2 * found[DRAFTED].predicted)
    assert found[other].decode.value == pytest.approx(3.0)


def cost(point):
    return (1.0 if point.draft else 0.0, float(len(point.drafters)))


def test_the_fastest_is_recommended_where_it_is_clearly_faster():
    found = verdict(standings(measured({PLAIN: 10.0, DRAFTED: 20.0}), [PLAIN, DRAFTED]), cost)
    assert found.recommended.point == found.best.point == DRAFTED and found.decided


def test_within_a_tie_the_cheapest_is_recommended():
    speeds = {PLAIN: 10.0, SUFFIX: 14.9, DRAFTED: 15.0}
    found = verdict(standings(measured(speeds, noise=0.02), list(speeds)), cost)
    assert found.recommended.point == SUFFIX and len(found.tied) == 2


def test_one_text_decides_nothing():
    found = verdict(standings(measured({PLAIN: 10.0, DRAFTED: 20.0}, 1, 1), [PLAIN, DRAFTED]), cost)
    assert not found.decided and "undecided" in conclusion(found)


def test_prompts_that_differ_more_than_the_settings_leave_it_undecided_but_are_not_asked_again():
    """Half of them gain a lot and half lose a little, exactly the same every time."""
    uneven = [
        measurement(point, speed, Question("qa", str(i), 0), block)
        for block in range(3)
        for i in range(6)
        for point, speed in ((PLAIN, 10.0), (DRAFTED, 20.0 if i % 2 else 9.0))
    ]
    found = swept([PLAIN, DRAFTED], uneven)
    [said] = found.verdicts().values()
    assert said.settled and not said.decided and found.contenders(3) == []
    assert said.recommended.point == said.best.point == DRAFTED, "plain decoding is cheaper, but much slower here"
    assert "more prompts" in conclusion(said)


def test_what_noise_hides_is_undecided():
    speeds = {PLAIN: 10.0, DRAFTED: 11.0}
    assert not verdict(standings(measured(speeds, noise=0.5), list(speeds)), cost).decided


def test_later_blocks_measure_what_may_still_lead():
    slow = replace(DRAFTED, n_max=8)
    speeds = {PLAIN: 10.0, slow: 6.0, DRAFTED: 15.0, SUFFIX: 15.1}
    undecided = swept(speeds, measured(speeds, noise=0.1))
    for block in range(3):
        assert undecided.contenders(block) == list(speeds)
    assert undecided.contenders(3) == [PLAIN, DRAFTED, SUFFIX]
    assert not swept(speeds, measured(speeds, n_blocks=25, n_questions=8, noise=0.01)).contenders(25)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), kept=st.integers(0, 12), noise=st.sampled_from([0.02, 0.1, 0.3]))
def test_a_block_that_broke_off_goes_on_with_the_same_points(seed, kept, noise):
    speeds = {PLAIN: 10.0, DRAFTED: 15.0, SUFFIX: 14.0}
    everything = measured(speeds, n_blocks=4, noise=noise, seed=seed)
    before = [m for m in everything if m.block < 3]
    part = [m for m in everything if m.block == 3][:kept]
    assert swept(speeds, before + part).contenders(3) == swept(speeds, before).contenders(3)


def test_an_estimate_lies_in_its_interval_however_unequal_the_prompts_are():
    for figures in ([[2.0] * 30] + [[1.0]] * 8, [[1.0, 2.0, 3.0]], [[1.0], [3.0]], [[1.0, 9.0], [5.0]]):
        found = intervals.median_estimate(figures)
        assert found.low <= found.value <= found.high, figures
    assert intervals.median_estimate([[1.0, 2.0], [3.0, 4.0]]).value == 2.5


# The file

NO_WORDS = {where: {"target": [], "draft": [], "lookups": []} for where in ("run", "server")}
POINTS = json.loads(json.dumps([point_document(PLAIN), point_document(DRAFTED)]))  # as a file has them
SETTINGS = {"n_predict": 64, "points": POINTS, "target": "t.gguf", "draft_bytes": {}, "words": NO_WORDS}


def test_results_are_read_as_they_were_written(tmp_path):
    everything = measured({PLAIN: 10.0, DRAFTED: 15.0, SUFFIX: 12.0}, noise=0.1)
    file = create(tmp_path / "x.jsonl", SETTINGS)
    for one in everything:
        file.append(one)
    file.close()
    assert read(tmp_path / "x.jsonl") == (SETTINGS, everything)
    with pytest.raises(UsageError, match="--resume"):
        create(tmp_path / "x.jsonl", SETTINGS)
    with pytest.raises(UsageError, match="n_predict was 64, is 32"):
        resume(tmp_path / "x.jsonl", {**SETTINGS, "n_predict": 32})


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_killed_at_any_byte_and_resumed_every_measurement_is_there_once(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("sweep") / "x.jsonl"
    everything = measured({PLAIN: 10.0, DRAFTED: 15.0}, n_questions=2, n_blocks=2)
    for _ in range(3):
        file = resume(path, SETTINGS)
        done = {one.key for one in file.measurements}
        for one in everything:
            if one.key not in done:
                file.append(one)
        file.close()
        whole = path.read_bytes()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    path.write_bytes(whole)
    assert read(path)[1] == everything


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "model.gguf"
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="not a file"):
        resume(tmp_path / "folder", SETTINGS)
    for content in (b"GGUF without a line end", b"lines\nof something\nelse", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(SpecliError, match=r"model\.gguf"):
            resume(path, SETTINGS)
        assert path.read_bytes() == content


FIELDS = ("tokens", "rounds", "decode_seconds", "prefill_seconds", "verify_seconds", "accepted", "point", "widths")


@pytest.mark.parametrize("field", [*FIELDS, "judged_by_position", "question", "text", "block"])
@pytest.mark.parametrize("value", [0, -1, None, "x", [], ["x"], float("nan")])
def test_a_line_of_odd_values_is_named(tmp_path, field, value):
    fine = [("text", "x"), ("judged_by_position", [])]
    fine += [(name, 0) for name in ("prefill_seconds", "verify_seconds", "accepted", "block")]
    if (field, value) in fine:
        pytest.skip("such a text there may be")
    path = tmp_path / "x.jsonl"
    file = create(path, SETTINGS)
    file.append(measurement(PLAIN, 10.0))
    file.close()
    first, second = path.read_text().splitlines()
    path.write_text(first + "\n" + json.dumps({**json.loads(second), field: value}) + "\n")
    with pytest.raises(SpecliError, match="line 2"):
        read(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "specli.sweep/1", "settings": {}}\n',
        "[" * 100_000 + "\n",
        "",
        "x\n",
        "{}\n",
        '{"schema": "specli.run/1"}\n',
        "[]\n",
    ],
)
def test_other_files_are_no_results(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(SpecliError, match=r"x\.jsonl"):
        read(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"points": [1]},
        {"points": []},
        {"points": None},
        {"points": [{**point_document(PLAIN), "temperature": "hot"}]},
        {"points": [{**point_document(PLAIN), "n_max": [2]}]},
        {"target": 5},
        {"words": {}},
        {"words": {"run": 3, "server": 3}},
        {"draft_bytes": 3},
        {"draft_bytes": {"x": "big"}},
    ],
)
def test_odd_settings_are_named(tmp_path, changes):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"schema": "specli.sweep/1", "settings": {**SETTINGS, **changes}}) + "\n")
    with pytest.raises(SpecliError, match="line 1"):
        read(path)


def test_damage_in_the_middle_is_named(tmp_path):
    file = create(tmp_path / "x.jsonl", SETTINGS)
    for one in measured({PLAIN: 10.0}):
        file.append(one)
    file.close()
    lines = (tmp_path / "x.jsonl").read_text().split("\n")
    lines[3] = lines[3].replace('"rounds"', '"around"')
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(SpecliError, match="line 4"):
        read(tmp_path / "x.jsonl")


# Pictures


def results(noise=0.05):
    lengths = {Point(Placement(), 0.0, n_max, BIG, ("model",)): 10.0 + n_max for n_max in (1, 2, 4)}
    speeds = {PLAIN: 10.0, **lengths, SUFFIX: 12.0, replace(SUFFIX, draft=BIG, drafters=("suffix", "model")): 15.0}
    return swept(speeds, measured(speeds, noise=noise))


def swept(points, measurements, words=NO_WORDS):
    documents = [point_document(point) for point in points]
    settings = {"target": "t.gguf", "points": documents, "draft_bytes": {str(BIG): 9}, "words": words}
    return Results(settings, measurements)


class Page(HTMLParser):
    """Checks that every element is closed, and collects titles and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.titles, self.addresses = [], [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    write_plot(tmp_path / "x.html", results())
    text = (tmp_path / "x.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open and not page.addresses and "http" not in text
    for who in ("big, n-max 4", "suffix, n-max auto", "suffix + big, n-max auto"):
        assert any(title.startswith(who) for title in page.titles)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_matplotlib_draws_it_too(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    write_plot(tmp_path / f"x{suffix}", results())
    assert (tmp_path / f"x{suffix}").stat().st_size > 5000


def test_bars_in_the_terminal_are_as_long_as_the_speed_ups():
    lines = list(terminal_chart(results(noise=0.0).standings(0.0)))
    assert len(lines) == 5
    lengths = [line.count("█") + line.count("▓") for line in lines]
    values = [float(line.rsplit(" ", 1)[1].rstrip("×")) for line in lines]
    assert [length / max(lengths) for length in lengths] == pytest.approx(
        [value / max(values) for value in values], abs=0.05
    )


@pytest.mark.parametrize("name, words", [("x.pdf", "neither"), ("missing/x.html", "no folder")])
def test_pictures_that_cannot_be_made_are_refused_beforehand(tmp_path, name, words):
    with pytest.raises(UsageError, match=words):
        check_plot(tmp_path / name)


# What is printed


def test_what_to_paste_is_what_was_measured(capsys):
    print_sweep(results(noise=0.0), "text", by_category=True)
    text = capsys.readouterr().out
    assert "specli run --target t.gguf --draft big.gguf --drafter suffix,model --n-max auto --temp 0" in text
    server = "llama-server -m t.gguf --spec-type draft-simple --spec-draft-model big.gguf --spec-draft-n-max 4 --temp 0"
    assert server in text and "llama-server has no automatic lengths or suffix drafting" in text
    assert "temp 0, qa" in text
    rows = text.splitlines()
    for point in results().points:
        assert any(row.startswith(name(point)) and "×" not in row for row in rows), name(point)


@pytest.mark.parametrize("columns", [40, 80, 100, 160])
def test_every_row_says_which_setting_it_is(columns):
    long = replace(DRAFTED, draft=Path("a-model-of-a-rather-long-name-q4_k_m.gguf"))
    found = standings(measured({PLAIN: 10.0, long: 15.0}), [PLAIN, long])
    console = Console(width=columns, file=io.StringIO())
    console.print(table(found, "temp 0", columns))
    text = console.file.getvalue()
    assert "…" not in text.replace(" … ", "")  # nothing is cut
    squeezed = "".join(line[: line.rfind("1.00 (")][:40] if "(" in line else line for line in text.split("\n"))
    assert "a-model-of-a-rather" in squeezed


def test_what_to_paste_repeats_the_sweep_s_options(capsys):
    words = {
        "run": {"target": ["-ngl", "9"], "draft": ["-ngld", "8"], "lookups": ["--corpus", "a b.txt"]},
        "server": {"target": ["-ngl", "9"], "draft": ["-ngld", "8"], "lookups": []},
    }
    corpus = replace(SUFFIX, drafters=("suffix", "corpus"))
    other = replace(DRAFTED, placement=Placement(4))
    twice = {"target": ["-t", "1", "-ngl", "9"], "draft": [], "lookups": []}
    assert run_line(other, Path("t.gguf"), twice).endswith("--temp 0 -ngl 9 -t 4")
    for point, run in (
        (DRAFTED, "--draft big.gguf --drafter model --n-max 3 --temp 0 -ngl 9 -ngld 8"),
        (SUFFIX, "--drafter suffix --n-max auto --temp 0 -ngl 9"),
        (corpus, "--drafter suffix,corpus --n-max auto --temp 0 -ngl 9 --corpus 'a b.txt'"),
    ):
        speeds = {PLAIN: 10.0, point: 20.0}
        print_sweep(swept(speeds, measured(speeds), words), "json")
        [found] = json.loads(capsys.readouterr().out)["recommendations"]
        assert found["run"] == f"specli run --target t.gguf {run}" and found["decided"]
        if point == DRAFTED:
            assert found["server"].endswith("--spec-draft-n-max 3 --temp 0 -ngl 9 -ngld 8")
        else:
            assert found["server"] == "llama-server -m t.gguf --temp 0 -ngl 9" and "suffix" in found["not_in_server"]


@pytest.mark.parametrize(
    "drafter, words, lacking",
    [
        ("ngram-mod", "--spec-type ngram-mod --spec-ngram-mod-n-max 3", None),
        ("ngram-simple", "--spec-type ngram-simple", "limit of 3 tokens on what is looked up"),
    ],
)
def test_lengths_of_lookups_are_llama_server_s_or_said_to_be_lacking(drafter, words, lacking):
    point = replace(DRAFTED, draft=None, drafters=(drafter,))
    assert words in server_line(point, Path("t.gguf"), NO_WORDS["server"])
    assert without_counterpart(point) == lacking
    sampled = replace(DRAFTED, temperature=0.8, verification="match")
    assert without_counterpart(sampled) is None, "llama-server verifies by matching, too"


def test_nothing_measured_is_said():
    for some in ([], [measurement(DRAFTED, 10.0)]):  # without plain decoding beside it
        with pytest.raises(SpecliError, match="nothing was measured"):
            print_sweep(replace(results(), measurements=some), "csv")


def test_rows_are_for_programs(capsys):
    print_sweep(results(), "json")
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "specli.standings/1" and len(document["standings"]) == 6
    print_sweep(results(), "csv")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7 and set(lines[0].split(",")) == set(document["standings"][0])
    print_sweep(results(), "markdown")
    assert capsys.readouterr().out.count("\n| ") >= 7
