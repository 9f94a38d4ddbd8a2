"""Chat templates: rendered in a sandbox, refused in words."""

import pytest
from tiny_gguf import write_model

from specli.errors import SpecliError
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.model import Model

USER = [{"role": "user", "content": "Hello"}]
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 < 2 & {{ 3 }}?"},
    {"role": "assistant", "content": "Yes.\n"},
    {"role": "user", "content": "你好 🙂"},
]


@pytest.fixture(scope="module")
def model(tiny):
    model = Model(tiny / "target.gguf")
    yield model
    model.close()


def refusal(model: Model, template: str) -> str:
    with pytest.raises(SpecliError) as caught:
        apply_chat_template(model, template, USER)
    assert caught.value.message.startswith("--chat-template: ")
    assert "--chat-template" in caught.value.hint
    return caught.value.message


def test_the_models_own_template(model):
    """Content is neither escaped nor rendered itself."""
    assert apply_chat_template(model, chat_template(model), CONVERSATION) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n1 < 2 & {{ 3 }}?<|im_end|>\n"
        "<|im_start|>assistant\nYes.\n<|im_end|>\n"
        "<|im_start|>user\n你好 🙂<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_model_without_a_template(tmp_path):
    model = Model(write_model(tmp_path / "model.gguf", chat_template=None))
    try:
        assert chat_template(model) is None
    finally:
        model.close()


@pytest.mark.parametrize("thinking, ending", [(None, ""), (True, "<think>"), (False, "<no-think>")])
def test_thinking_is_passed_on(model, thinking, ending):
    rendered = apply_chat_template(model, chat_template(model), USER, thinking=thinking)
    assert rendered == f"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n{ending}"


def test_bos_and_eos(model):
    assert apply_chat_template(model, "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", USER) == (
        "<|bos|>Hello<|eos|>"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{% for message in messages %}",
        "{{ messages[0",
        "{% endfor %}",
        "{{ 'a' | no_such_filter }}",
        "{% no_such_tag %}",
    ],
)
def test_a_template_that_does_not_parse(model, template):
    refusal(model, template)


def test_a_template_that_refuses(model):
    assert "system role not supported" in refusal(model, "{{ raise_exception('system role not supported') }}")


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1 // 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ nobody.content }}",
        "{{ messages[0].content.index('z') }}",
        "{{ {}.popitem() }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_a_template_that_fails(model, template):
    refusal(model, template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__ }}",
        "{{ raise_exception.__globals__['os'].system('true') }}",
        "{{ ''['__class__'].__mro__ }}",
        "{{ (''|attr('__class__')).__mro__ }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_the_sandbox_holds(model, template):
    """What a template could use to reach Python, other files, the messages or all the time there is."""
    refusal(model, template)
