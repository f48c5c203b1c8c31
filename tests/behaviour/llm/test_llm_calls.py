"""Model calls through langchain-openai against a real HTTP server: requests, replies and failures."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from libs.llm.attempts import report_no_deadline
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.llm.errors import (
    ModelDeadlineExceeded,
    ModelRateLimited,
    ModelRefusedCall,
    ModelReplyMalformed,
    ModelUnavailable,
    ReplyNotStructured,
)
from libs.llm.providers import create_chat_model, open_openai_connections
from libs.llm.settings import LLMSettings
from libs.llm.usage import Usage, collect_usage
from tests.fakes.openai_answers import (
    Answer,
    body,
    chat,
    chat_json,
    empty_choices,
    error,
    reset,
    stall,
    truncate,
    without_json_schema,
    without_temperature,
)
from tests.fakes.openai_server import OpenAIServer

HUMAN = [("system", "be kind"), ("human", "hello there, model")]
KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def client_of(
    server: OpenAIServer, *, remaining: Callable[[], float | None] = report_no_deadline, **settings: Any
) -> AsyncIterator[LLMClient]:
    """Return a client as a service has it, except that its pauses take no time."""
    retry_options = {"llm_retry_base_seconds": 0.0, "llm_provider": "openai", "llm_model": "gpt-4o-mini"}
    chosen = LLMSettings.model_validate(
        {**retry_options, "openai_api_key": KEY, "openai_base_url": server.base_url, **settings}
    )
    client = connect_chat(chosen, remaining=remaining)
    try:
        yield client
    finally:
        await client.aclose()


async def test_messages_and_settings_arrive_and_text_and_usage_come_back(server: OpenAIServer) -> None:
    server.script(chat("hello back"))
    async with client_of(server, llm_temperature=0.25, llm_max_tokens=99) as client:
        with collect_usage() as total:
            reply = await client.ainvoke(HUMAN)
    assert reply.content == "hello back"  # G-04
    (request,) = server.requests
    assert request.messages == [("system", "be kind"), ("user", "hello there, model")]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    sent = {name: request.body.get(name) for name in ("model", "temperature", "max_completion_tokens")}
    assert sent == {"model": "gpt-4o-mini", "temperature": 0.25, "max_completion_tokens": 99}
    assert total.usages == [Usage("gpt-4o-mini", 5, 2, total.cost_usd, 1)]
    assert total.cost_usd == pytest.approx((5 * 0.15 + 2 * 0.60) / 1e6)


@pytest.mark.parametrize(
    "fault",
    [
        error(429, retry_after=0),
        error(500),
        error(503),
        reset(),
        truncate(chat("x" * 500)),
        empty_choices(),
        body(b"not json"),
        body(b'{"id": 1}'),
        body(b"[1]"),
        body(b"null"),
        body(b"\xff\xfe"),
        body(b"<html>", content_type="text/html"),
        chat("x", usage=[1]),
        chat("x", usage={"prompt_tokens": "many", "completion_tokens": 1}),
    ],
)
async def test_a_fault_is_passed_over_by_the_next_attempt(server: OpenAIServer, fault: Answer) -> None:
    server.script(fault, fault, chat("at last"))
    async with client_of(server) as client:
        with collect_usage() as total:
            assert (await client.ainvoke(HUMAN)).content == "at last"
    assert len(server.requests) == 3
    assert [usage.attempts for usage in total.usages] == [3]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (error(500), ModelUnavailable),
        (error(429), ModelRateLimited),
        (reset(), ModelUnavailable),
        (truncate(chat("x" * 500)), ModelUnavailable),
        (empty_choices(), ModelReplyMalformed),
        (body(b"not json"), ModelReplyMalformed),
    ],
)
async def test_a_fault_that_stays_is_unavailable_after_the_last_retry(
    server: OpenAIServer, fault: Answer, kind: type[ModelUnavailable]
) -> None:
    server.answer_with(fault)
    async with client_of(server, llm_retries=2) as client:
        with pytest.raises(ModelUnavailable) as caught:
            await client.ainvoke(HUMAN)
    assert type(caught.value) is kind
    assert caught.value.code == "UNAVAILABLE"  # G-13
    assert "gpt-4o-mini" in str(caught.value)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "fault", [error(400), error(401), error(404), error(429, "no credit", code="insufficient_quota")]
)
async def test_a_refusal_is_not_repeated(server: OpenAIServer, fault: Answer) -> None:
    server.answer_with(fault)
    async with client_of(server) as client:
        with pytest.raises(ModelRefusedCall):
            await client.ainvoke(HUMAN)
    assert len(server.requests) == 1


async def test_a_long_retry_after_is_handed_to_the_caller(server: OpenAIServer) -> None:
    server.script(error(429, retry_after=3600))
    async with client_of(server) as client:
        with pytest.raises(ModelRateLimited) as caught:
            await client.ainvoke(HUMAN)
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


async def test_a_stalled_attempt_is_given_up_and_made_again(server: OpenAIServer) -> None:
    server.script(stall(), chat("awake"))
    async with client_of(server, llm_attempt_seconds=0.2) as client:
        assert (await client.ainvoke(HUMAN)).content == "awake"
    assert len(server.requests) == 2


async def test_the_callers_deadline_ends_a_stalled_call(server: OpenAIServer) -> None:
    server.answer_with(stall())
    async with client_of(server, remaining=lambda: 0.2) as client:
        with pytest.raises(ModelDeadlineExceeded):
            await client.ainvoke(HUMAN)
    assert len(server.requests) == 1


async def test_a_cancelled_call_leaves_the_client_usable(server: OpenAIServer) -> None:
    server.script(stall(), chat("still here"))
    async with client_of(server, llm_concurrency=1) as client:
        running = asyncio.create_task(client.ainvoke(HUMAN))
        await asyncio.to_thread(server.wait_for_requests, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await client.ainvoke(HUMAN)).content == "still here"


async def test_no_more_calls_are_open_than_allowed(server: OpenAIServer) -> None:
    server.answer_with(chat("ok"))
    server.hold()
    async with client_of(server, llm_concurrency=3) as client:
        calls = [asyncio.create_task(client.ainvoke(HUMAN)) for _ in range(9)]
        await asyncio.to_thread(server.wait_for_requests, 3)
        server.release()
        assert [reply.content for reply in await asyncio.gather(*calls)] == ["ok"] * 9
    assert server.peak_in_flight == 3


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"total_tokens": 9},
        {"prompt_tokens": -4, "completion_tokens": 3, "total_tokens": -1},
        {"prompt_tokens": "many", "completion_tokens": 3, "total_tokens": 3},
    ],
)
async def test_unreported_usage_is_unknown_and_not_zero(server: OpenAIServer, usage: dict[str, object]) -> None:
    server.script(chat("ok", usage=usage))
    async with client_of(server) as client:
        with collect_usage() as total:
            await client.ainvoke(HUMAN)
    assert (total.calls, total.input_tokens, total.output_tokens, total.cost_usd) == (1, None, None, None)


async def test_the_cost_of_a_model_without_a_price_is_unknown(server: OpenAIServer) -> None:
    server.script(chat("ok"))
    async with client_of(server, llm_model="home-grown") as client:
        with collect_usage() as total:
            await client.ainvoke(HUMAN)
    assert (total.input_tokens, total.cost_usd) == (5, None)


async def test_a_key_that_the_provider_repeats_reaches_neither_error_nor_log(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(error(401, f"Incorrect API key provided: {KEY}"))
    async with client_of(server) as client:
        with caplog.at_level("WARNING"), pytest.raises(ModelRefusedCall) as caught:
            await client.ainvoke(HUMAN)
    assert "Incorrect API key provided" in str(caught.value)
    assert "Traceback" in caplog.text  # G-05
    assert KEY not in caplog.text + str(caught.value)


class Verdict(BaseModel):
    answer: str
    score: int


async def test_the_backend_is_held_to_the_json_schema(server: OpenAIServer) -> None:
    server.script(chat_json({"answer": "はい", "score": 7}))
    async with client_of(server) as client:
        assert await client.ainvoke_structured(HUMAN, Verdict) == Verdict(answer="はい", score=7)
    response_format = server.requests[0].body["response_format"]
    assert (response_format["type"], response_format["json_schema"]["strict"]) == ("json_schema", True)
    assert response_format["json_schema"]["schema"]["required"] == ["answer", "score"]


async def test_a_backend_without_json_schema_is_asked_in_words(server: OpenAIServer) -> None:
    server.answer_with(without_json_schema(chat('Of course:\n```json\n{"answer": "yes", "score": 7}\n```\nBye.')))
    async with client_of(server) as client:
        for _ in range(2):
            assert await client.ainvoke_structured(HUMAN, Verdict) == Verdict(answer="yes", score=7)
    assert ["response_format" in request.body for request in server.requests] == [True, True, False, False]
    assert "JSON schema" in server.requests[1].prompt


async def test_a_server_error_about_the_format_is_not_repeated(server: OpenAIServer) -> None:
    refuse = error(500, "failed to parse grammar of response_format")
    server.script(refuse, chat_json({"answer": "yes", "score": 7}))
    async with client_of(server) as client:
        assert await client.ainvoke_structured(HUMAN, Verdict) == Verdict(answer="yes", score=7)
    assert [request.body["response_format"]["type"] for request in server.requests] == ["json_schema", "json_object"]


async def test_a_model_that_takes_no_temperature_is_called_without_one(server: OpenAIServer) -> None:
    server.answer_with(without_temperature(chat("hello back")))
    for _ in range(2):  # the refusal is cached for the model, not for the client
        async with client_of(server, llm_temperature=0) as client:
            assert (await client.ainvoke(HUMAN)).content == "hello back"
    async with client_of(server, llm_temperature=0, llm_model="another") as client:
        assert (await client.ainvoke(HUMAN)).content == "hello back"
    sent = [(request.body["model"], "temperature" in request.body) for request in server.requests]
    assert sent == [
        ("gpt-4o-mini", True),
        ("gpt-4o-mini", False),
        ("gpt-4o-mini", False),
        ("another", True),
        ("another", False),
    ]


async def test_another_refusal_does_not_drop_the_temperature(server: OpenAIServer) -> None:
    server.script(error(400, "max_tokens is too large"), error(500, "temperature of the processor"), chat("ok"))
    async with client_of(server, llm_temperature=0) as client:
        with pytest.raises(ModelRefusedCall):
            await client.ainvoke(HUMAN)
        await client.ainvoke(HUMAN)
    assert [request.body["temperature"] for request in server.requests] == [0, 0, 0]


async def test_wrong_json_is_requested_again_and_usage_counts_both_calls(
    server: OpenAIServer,
) -> None:
    server.script(chat_json({"answer": "yes"}), chat_json({"answer": "yes", "score": 7}))
    async with client_of(server) as client:
        with collect_usage() as total:
            assert (await client.ainvoke_structured(HUMAN, Verdict)).score == 7
    assert [role for role, _ in server.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert "score: is missing" in server.requests[1].prompt
    assert total.calls == 2


async def test_a_cut_off_reply_is_counted_and_not_structured(server: OpenAIServer) -> None:
    server.answer_with(chat('{"answer": "ye', finish_reason="length"))
    async with client_of(server) as client:
        with collect_usage() as total, pytest.raises(ReplyNotStructured):
            await client.ainvoke_structured(HUMAN, Verdict)
    assert total.calls == 2
    assert total.output_tokens is not None


async def test_a_blocking_call_works_on_a_model_without_a_loop(server: OpenAIServer) -> None:
    server.script(chat("one"), chat("two"))
    program = (
        "import sys; from libs.llm.client import LLMClient; from libs.llm.providers import create_chat_model;"
        "client = LLMClient(create_chat_model('openai', 'm', api_key='k', base_url=sys.argv[1]));"
        "print(client.invoke([('human', 'hi')]).content, client.invoke_with_template('<{x}>', {'x': '{y}'}))"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program, server.base_url], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "one two"  # G-04
    assert server.requests[1].prompt == "<{y}>"  # G-06


async def test_the_scripted_server_streams_and_calls_tools(server: OpenAIServer) -> None:
    server.script(
        chat("hello streaming world"), chat(tool_calls=[("look_up", {"query": "日本"})]), truncate(chat("x" * 99))
    )
    async with open_openai_connections() as connections:
        model: Any = create_chat_model(
            "openai", "m", api_key="k", base_url=server.base_url, http_async_client=connections
        )
        chunks = [chunk async for chunk in model.astream(HUMAN, stream_usage=True)]
        assert "".join(chunk.content for chunk in chunks) == "hello streaming world"
        assert len(chunks) > 3
        assert [chunk.usage_metadata["input_tokens"] for chunk in chunks if chunk.usage_metadata] == [5]
        (call,) = (await model.ainvoke(HUMAN)).tool_calls
        assert (call["name"], call["args"]) == ("look_up", {"query": "日本"})
        with pytest.raises(Exception, match="Connection error"):
            [chunk async for chunk in model.astream(HUMAN)]


async def test_the_scripted_server_runs_as_a_process(tmp_path: Any) -> None:
    (tmp_path / "script.json").write_text('[{"status": 503}, "from the script"]', encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.openai_server", "--script", str(tmp_path / "script.json")),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        base_url = (await process.stdout.readline()).decode().strip().removeprefix("OPENAI_BASE_URL=")
        client = LLMClient(create_chat_model("openai", "m", api_key="k", base_url=base_url, max_retries=1))
        assert (await asyncio.to_thread(client.invoke, HUMAN)).content == "from the script"
        assert (await asyncio.to_thread(client.invoke, HUMAN)).content == "hello there, model"
    finally:
        process.terminate()
        await process.wait()
