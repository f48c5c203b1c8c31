from __future__ import annotations

import logging
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field

from libs.llm.chat import OfflineChatModel
from libs.llm.client import LLMClient
from libs.llm.errors import (
    ModelOffline,
    ModelRefusedCall,
    ModelUnavailable,
    PromptTooLong,
    ReplyNotStructured,
    ReplyRefused,
    ReplyTruncated,
    ResponseFormatRefused,
)
from libs.llm.structured_output import build_response_format
from libs.prompts.templates import TemplateError


class ScriptedModel:
    """A chat model that answers from a list and records its prompts."""

    def __init__(self, *replies: Any, takes_schema: bool = False) -> None:
        self.replies = list(replies)
        self.requests: list[list[Any]] = []
        self.options: list[dict[str, Any]] = []
        self.takes_schema = takes_schema

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        self.requests.append(list(messages))
        self.options.append(options)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, AIMessage) else AIMessage(content=reply)

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        return self.invoke(messages, **options)


class Verdict(BaseModel):
    answer: str
    score: int = Field(ge=0, le=100)
    tags: list[Literal["good", "bad"]] = []


PARTS: list[Any] = [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"]


async def test_a_reply_is_a_message_with_text_in_content() -> None:
    model = ScriptedModel("plain", "plain", PARTS, PARTS)
    client = LLMClient(model)
    assert client.invoke([("human", "hi")]).content == "plain"  # G-04
    assert (await client.ainvoke([("human", "hi")])).content == "plain"
    assert client.invoke([("human", "hi")]).content == "ab"  # G-07
    assert (await client.ainvoke([("human", "hi")])).content == "ab"
    assert model.requests == [[("human", "hi")]] * 4


def test_a_template_is_filled_in_one_pass_and_its_reply_is_text() -> None:
    model = ScriptedModel("one", PARTS)
    client = LLMClient(model)
    assert client.invoke_with_template("<{a}>", {"a": "{b}", "b": "x"}) == "one"  # G-04, G-06
    assert client.invoke_with_template("<{a}>", {"a": "{}"}) == "ab"
    assert model.requests == [[("human", "<{b}>")], [("human", "<{}>")]]


def test_a_placeholder_without_value_is_an_error_and_nothing_is_sent() -> None:
    model = ScriptedModel("never")
    with pytest.raises(TemplateError, match=r"placeholder \{b\} has no value"):
        LLMClient(model).invoke_with_template("{a} {b}", {"a": "1"})  # G-06
    assert model.requests == []


async def test_a_failure_is_logged_with_its_traceback_and_raised_without_a_retry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(*[ModelUnavailable("down") for _ in range(3)])
    client = LLMClient(model)
    with pytest.raises(ModelUnavailable, match="down"):
        client.invoke([])
    with pytest.raises(ModelUnavailable, match="down"):
        await client.ainvoke([])
    with pytest.raises(ModelUnavailable, match="down"):
        client.invoke_with_template("", {})
    assert len(model.requests) == 3  # G-05
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(logging.ERROR, True)] * 3
    assert "Traceback" in caplog.text


async def test_a_backend_that_takes_a_schema_is_held_to_it() -> None:
    model = ScriptedModel('{"answer": "x", "score": 7, "tags": ["good"]}', takes_schema=True)
    verdict = await LLMClient(model).ainvoke_structured([("human", "judge")], Verdict)
    assert verdict == Verdict(answer="x", score=7, tags=["good"])
    assert (model.requests, model.options) == ([[("human", "judge")]], [{"extra_body": build_response_format(Verdict)}])


async def test_a_backend_without_schemas_gets_the_schema_in_the_prompt() -> None:
    model = ScriptedModel('Sure!\n```json\n{"answer": "x", "score": 7}\n```', '{"answer": "y", "score": 8}')
    client = LLMClient(model)
    assert (await client.ainvoke_structured([("human", "judge")], Verdict)).score == 7
    assert model.requests[0][0] == ("human", "judge")
    assert '"maximum": 100' in model.requests[0][1][1]
    await client.ainvoke_structured([("human", "judge")], Verdict, describe_schema=False)
    assert model.requests[1] == [("human", "judge")]


async def test_a_backend_that_refuses_a_response_format_gets_the_next_one_from_then_on() -> None:
    good = '{"answer": "x", "score": 7}'
    refused = ResponseFormatRefused("HTTP 400: unknown response_format")
    model = ScriptedModel(refused, good, refused, good, good, takes_schema=True)
    client = LLMClient(model)
    for _ in range(3):
        await client.ainvoke_structured([("human", "judge")], Verdict)
    bodies = [options.get("extra_body", {}).get("response_format", {}) for options in model.options]
    assert [body.get("type") for body in bodies] == ["json_schema", "json_object", "json_object", None, None]
    assert [len(request) for request in model.requests] == [1, 2, 2, 2, 2]
    assert bodies[1]["schema"]["required"] == ["answer", "score", "tags"]


CUT = AIMessage(
    '{"analysis": "long", "lessons": [{"answer": "a", "score": 1}, {"answer": "b", "sco',
    response_metadata={"finish_reason": "length"},
)


class Lessons(BaseModel):
    analysis: str
    lessons: list[Verdict]


async def test_the_complete_parts_of_a_truncated_reply_are_kept() -> None:
    problems: list[str] = []
    reply = await LLMClient(ScriptedModel(CUT)).ainvoke_structured([], Lessons, report_truncation=problems.append)
    assert [(lesson.answer, lesson.score) for lesson in reply.lessons] == [("a", 1)]
    assert problems == ["the reply was cut off at the token limit; its complete parts were used"]


async def test_a_truncated_reply_without_a_complete_part_is_asked_again_and_named() -> None:
    cut = AIMessage('{"analysis": "a very', response_metadata={"finish_reason": "length"})
    model = ScriptedModel(cut, cut)
    with pytest.raises(ReplyTruncated, match="was cut off at the token limit"):
        await LLMClient(model).ainvoke_structured([("human", "x")], Lessons)
    assert "was cut off at the token limit" in model.requests[1][-2][1]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I cannot help with that."}),
        AIMessage('{"answer": "x"', response_metadata={"finish_reason": "content_filter"}),
    ],
)
async def test_a_refusal_is_named_and_not_asked_again(message: AIMessage) -> None:
    model = ScriptedModel(message, "never")
    with pytest.raises(ReplyRefused, match=r"the model declined to reply: (I cannot|finish reason content_filter)"):
        await LLMClient(model).ainvoke_structured([], Verdict)
    assert model.replies == ["never"]


async def test_the_size_of_the_context_is_learned_from_an_error() -> None:
    client = LLMClient(ScriptedModel(PromptTooLong("too long", 4096)))
    assert await client.find_context_tokens() is None
    with pytest.raises(PromptTooLong):
        await client.ainvoke([])
    assert await client.find_context_tokens() == 4096


async def test_another_refusal_is_raised() -> None:
    model = ScriptedModel(ModelRefusedCall("HTTP 401: no"), takes_schema=True)
    with pytest.raises(ModelRefusedCall, match="401"):
        await LLMClient(model).ainvoke_structured([("human", "judge")], Verdict)


async def test_an_invalid_reply_is_requested_again_with_its_errors() -> None:
    model = ScriptedModel('{"answer": 1, "score": 700}', '{"answer": "x", "score": 70}', takes_schema=True)
    assert (await LLMClient(model).ainvoke_structured([("human", "judge")], Verdict)).score == 70
    question, reply, correction = model.requests[1]
    assert (question, reply) == (("human", "judge"), ("ai", '{"answer": 1, "score": 700}'))
    assert "answer: must be a text; score: must be at most 100" in correction[1]


async def test_a_reply_that_stays_invalid_is_an_error_with_its_reason() -> None:
    model = ScriptedModel("no JSON", '{"answer": "x"}', "never")
    with pytest.raises(ReplyNotStructured, match="does not fit Verdict: score: is missing"):
        await LLMClient(model).ainvoke_structured([("human", "judge")], Verdict)
    assert model.replies == ["never"]
    model = ScriptedModel("no JSON", "never")
    with pytest.raises(ReplyNotStructured, match="no JSON object in the reply: 'no JSON'"):
        await LLMClient(model).ainvoke_structured([("human", "judge")], Verdict, corrections=0)
    assert model.replies == ["never"]


def test_the_schema_is_strict_where_all_fields_are_known() -> None:
    class Inner(BaseModel):
        note: str = "none"

    class Outer(BaseModel):
        inner: list[Inner]
        maybe: int | None = None

    class Open(BaseModel):
        anything: dict[str, int]

    strict = build_response_format(Outer)["response_format"]["json_schema"]
    assert (strict["name"], strict["strict"]) == ("Outer", True)
    assert strict["schema"]["required"] == ["inner", "maybe"]
    assert strict["schema"]["additionalProperties"] is False
    assert strict["schema"]["$defs"]["Inner"]["required"] == ["note"]
    assert "default" not in str(strict)
    assert "'title'" not in str(strict)
    assert build_response_format(Open)["response_format"]["json_schema"]["strict"] is False


def test_keywords_outside_the_strict_subset_are_not_sent() -> None:
    class Add(BaseModel):
        op: Literal["ADD"]
        text: str = Field(max_length=20_000, description="the text")

    class Skip(BaseModel):
        op: Literal["SKIP"]

    class Reply(BaseModel):
        title: str = Field(pattern="x+")
        operations: list[Add | Skip] = Field(max_length=5)
        nested: Verdict | None = Field(default=None, description="not beside a reference")

    sent = build_response_format(Reply)["response_format"]["json_schema"]
    schema = sent["schema"]
    assert sent["strict"] is True
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["operations"]["items"] == {"anyOf": [{"$ref": "#/$defs/Add"}, {"$ref": "#/$defs/Skip"}]}
    assert schema["$defs"]["Add"]["properties"]["op"] == {"type": "string", "enum": ["ADD"]}
    assert schema["$defs"]["Add"]["properties"]["text"] == {"type": "string", "description": "the text"}
    for keyword in ("maxLength", "maxItems", "pattern", "minimum", "maximum", "const", "oneOf", "discriminator"):
        assert f"'{keyword}'" not in str(schema)


async def test_offline_a_chat_call_raises_model_offline() -> None:
    client = LLMClient(OfflineChatModel())
    assert client.is_offline
    assert not LLMClient(ScriptedModel()).is_offline
    with pytest.raises(ModelOffline, match="LLM_PROVIDER=offline has no chat model"):
        await client.ainvoke([("human", "hi")])
    with pytest.raises(ModelOffline, match="LLM_PROVIDER=offline has no chat model"):
        client.invoke([("human", "hi")])
