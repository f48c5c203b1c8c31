"""Test the adapters for OpenAI's client and LangChain with the real libraries, a scripted model and a real stack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import APIStatusError, AsyncOpenAI, OpenAI
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from hansei.client import AsyncClient, Client
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.errors import InvalidArgument, Unavailable, Unimplemented
from hansei.client.langchain import PlaybookRetriever, TrajectoryRecorder
from hansei.client.openai import AgentSession, AsyncAgentSession
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, VOTE_TAG_HARMFUL, VOTE_TAG_HELPFUL, Bullet, Delta
from hansei.reflector.v1 import trajectory_pb2 as tpb
from tests.fakes.openai_answers import chat, error
from tests.fakes.openai_server import OpenAIServer

LESSON = "Set user.email before the first git commit of a new clone."
TASK = "git commit refuses, there is no user.email. What do I do?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client.local(**build_temp_settings(tmp_path_factory.mktemp("adapters"))) as client:
        yield client


@pytest.fixture
def memory(stack: Client, request: pytest.FixtureRequest) -> str:
    """Return a new dataset with one lesson that search can find."""
    dataset = f"d{abs(hash(request.node.nodeid))}"
    done = stack.playbooks.apply_deltas(
        dataset=dataset,
        deltas=[Delta(type=DELTA_TYPE_ADD, section="git", content=LESSON)],
    )
    stack.search(dataset, TASK, min_revision=done.revision)
    return dataset


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def openai(model: OpenAIServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=model.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def asynchronous(model: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=model.base_url, api_key="none", max_retries=0) as client:
        yield client


def lesson(stack: Client, dataset: str) -> Bullet:
    (bullet,) = (bullet for bullet in stack.playbooks.list_bullets(dataset=dataset).bullets if bullet.content == LESSON)
    return bullet


@pytest.fixture
def outages(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the datasets of the warnings about outages."""
    datasets: list[object] = []

    def warn(event: str, *, dataset: str, error: object) -> None:
        assert event == "hansei is unavailable; the agent continues without memory"
        assert "127.0.0.1:1" in str(error)
        datasets.append(dataset)

    monkeypatch.setattr("hansei.client.outages.warn", warn)
    return datasets


def messages_for(text: str = TASK) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


@retry(stop=stop_after_delay(30), wait=wait_fixed(0.1), retry=retry_if_exception_type(AssertionError), reraise=True)
def _wait_for_outcomes(client: Client, dataset: str, *, sessions: int, without: int) -> None:
    """Wait until `without` sessions have no outcome: the gateway delivers trajectories after `learn` has answered."""
    status = client.evidence.get_trials(dataset=dataset)
    assert (status.sessions, status.sessions_without_outcome) == (sessions, without)


class TestOpenAI:
    def test_the_prompt_gets_the_bullet_and_a_citation_that_helped_is_a_vote(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        bullet = lesson(stack, memory)
        model.script(chat(f"Set user.email first [{bullet.id}]."))
        with AgentSession(openai, stack, memory) as session:
            reply = session.chat.completions.create(model="scripted", messages=messages_for())
            session.mark_success()
        assert reply.choices[0].message.content.startswith("Set user.email")
        roles, texts = zip(*model.requests[0].messages, strict=True)
        assert roles == ("system", "system", "user")
        assert f"[{bullet.id}] {LESSON}" in texts[1]
        assert [served.id for served in session.served_bullets] == [bullet.id]
        assert session.learn_response is not None
        (vote,) = session.learn_response.curation.votes
        assert (vote.vote.bullet_id, vote.vote.tag, vote.applied) == (bullet.id, VOTE_TAG_HELPFUL, True)
        assert lesson(stack, memory).helpful == bullet.helpful + 1

    def test_a_failed_trajectory_gives_harmful_votes_and_a_lesson(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        bullet = lesson(stack, memory)
        model.script(
            chat(tool_calls=[("git", {"command": "git push"})]),
            chat(f"Pushed, as [{bullet.id}] says."),
        )
        with AgentSession(openai, stack, memory, task_id="push") as session:
            messages = messages_for()
            reply = session.chat.completions.create(model="scripted", messages=messages).choices[0].message
            failure = "exit code 1\nerror: failed to push some refs"
            messages += [reply, {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": failure}]
            session.chat.completions.create(model="scripted", messages=messages)
            session.mark_failure("nothing was pushed")
        trajectory = session.trajectory()
        roles = [tpb.StepRole.Name(step.role).removeprefix("STEP_ROLE_").lower() for step in trajectory.steps]
        assert roles == ["system", "user", "assistant", "tool", "assistant"]
        assert trajectory.steps[2].tool_calls[0].arguments == '{"command": "git push"}'
        assert (trajectory.task_id, trajectory.status) == ("push", tpb.TRAJECTORY_STATUS_FAILURE)
        assert session.learn_response is not None
        assert session.learn_response.curation.votes[0].vote.tag == VOTE_TAG_HARMFUL
        insights = session.learn_response.reflection.insights
        assert any("failed to push some refs" in insight.error_identification for insight in insights)

    def test_trials_measure_sessions_by_the_verdict(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        stack.evidence.start_trials(dataset=memory)
        for number, has_verdict in enumerate((True, True, False)):
            model.script(chat("Set user.email first."))
            with AgentSession(openai, stack, memory, guard=stack.guard(memory, f"session-{number}")) as session:
                session.chat.completions.create(model="scripted", messages=messages_for())
                if has_verdict:
                    session.mark_success()
        _wait_for_outcomes(stack, memory, sessions=3, without=1)
        reports = [
            stack.guards.report_session(dataset=memory, session_id=f"session-{number}", succeeded=True)
            for number in (1, 2)
        ]
        assert [report.counted for report in reports] == [False, True]  # without a verdict, nothing was reported

    def test_a_stream_is_recorded_whole_and_when_it_is_left(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        model.script(chat("A long answer in pieces."), chat(tool_calls=[("add", {"a": 1})]), chat("Another long one."))
        with AgentSession(openai, stack, memory) as session:
            create = session.chat.completions.create
            texts = [
                chunk.choices[0].delta.content or ""
                for chunk in create(model="scripted", messages=messages_for(), stream=True)
            ]
            assert len(texts) > 2
            for _ in create(model="scripted", messages=messages_for(), stream=True):
                pass
            with create(model="scripted", messages=messages_for("more"), stream=True) as stream:
                next(stream)  # the first chunk says who speaks, as that of OpenAI's own stream
                left = next(stream)
            session.mark_success("passed")
        replies = [step for step in session.trajectory().steps if step.role == tpb.STEP_ROLE_ASSISTANT]
        assert replies[0].content == "".join(texts) == "A long answer in pieces."
        assert (replies[1].tool_calls[0].name, replies[1].tool_calls[0].arguments) == ("add", '{"a": 1}')
        assert replies[2].content == left.choices[0].delta.content
        assert session.learn_response is not None
        assert session.learn_response.reflection.signal == tpb.SIGNAL_STRENGTH_TEST_REPORT

    def test_an_error_that_leaves_the_block_is_a_failure(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        model.script(error(400, "the context is too long"))
        with pytest.raises(APIStatusError), AgentSession(openai, stack, memory) as session:
            session.chat.completions.create(model="scripted", messages=messages_for())
        trajectory = session.trajectory(ValueError("x"))
        assert (trajectory.status, trajectory.error_message) == (tpb.TRAJECTORY_STATUS_FAILURE, "ValueError: x")
        assert session.learn_response is not None
        assert session.learn_response.reflection.status == tpb.TRAJECTORY_STATUS_FAILURE

    def test_an_interrupted_session_is_not_learned(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        def interrupt() -> None:
            with session:
                session.chat.completions.create(model="scripted", messages=messages_for())
                raise KeyboardInterrupt

        model.script(chat("Wait."))
        session = AgentSession(openai, stack, memory)
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert len(session.trajectory().steps) == 3
        assert session.learn_response is None

    def test_without_a_verdict_no_vote_is_cast(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer
    ) -> None:
        before = lesson(stack, memory)
        model.script(chat(f"See [{before.id}]."))
        with AgentSession(openai, stack, memory) as session:
            session.chat.completions.create(model="scripted", messages=messages_for())
        assert session.learn_response is not None
        assert session.learn_response.reflection.signal == tpb.SIGNAL_STRENGTH_SELF_REPORT
        after = lesson(stack, memory)
        assert (after.helpful, after.harmful) == (before.helpful, before.harmful)

    def test_unwrapped_methods_are_those_of_the_client(self, stack: Client, memory: str, openai: OpenAI) -> None:
        with AgentSession(openai, stack, memory) as session:
            assert [model.id for model in session.models.list()] == ["scripted"]
        assert session.learn_response is None

    def test_an_unavailable_hansei_is_an_error(self, openai: OpenAI, model: OpenAIServer) -> None:
        model.script(chat("never asked"))
        with (
            Client("127.0.0.1:1") as nobody,
            pytest.raises(Unavailable) as raised,
            AgentSession(openai, nobody, "d", on_error="raise") as session,
        ):
            session.chat.completions.create(model="scripted", messages=messages_for())
        assert "127.0.0.1:1" in str(raised.value)
        assert any("nothing was learned" in note for note in raised.value.__notes__)
        assert model.requests == []

    async def test_an_agent_continues_while_hansei_is_unavailable(
        self, openai: OpenAI, asynchronous: AsyncOpenAI, model: OpenAIServer, outages: list[object]
    ) -> None:
        model.script(chat("First."), chat("Second."), chat("Third."))
        options = {"model": "scripted", "messages": messages_for()}
        with Client("127.0.0.1:1") as nobody:
            for expected in ("First.", "Second."):
                with AgentSession(openai, nobody, "away") as session:
                    assert session.chat.completions.create(**options).choices[0].message.content == expected
                assert (session.learn_response, session.served_bullets) == (None, ())
        async with AsyncClient("127.0.0.1:1") as nobody:
            async with AsyncAgentSession(asynchronous, nobody, "away") as waiting:
                assert (await waiting.chat.completions.create(**options)).choices[0].message.content == "Third."
            assert waiting.learn_response is None
        assert outages == ["away"], "logged once"

    def test_the_bullets_for_a_task_follow_after_an_outage(
        self, stack: Client, memory: str, openai: OpenAI, model: OpenAIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: object, **options: object) -> None:
            raise Unavailable("hansei is restarted")

        model.script(chat("First."), chat("Second."))
        with AgentSession(openai, stack, memory) as session:
            with monkeypatch.context() as outage:
                outage.setattr(stack, "recall", refuse)
                session.chat.completions.create(model="scripted", messages=messages_for())
            assert LESSON not in str(model.requests)
            session.chat.completions.create(model="scripted", messages=messages_for())
            assert [bullet.content for bullet in session.served_bullets] == [LESSON]

    def test_an_error_that_does_not_pass_is_raised(self, stack: Client, openai: OpenAI, model: OpenAIServer) -> None:
        model.script(chat("never asked"))
        with pytest.raises(InvalidArgument), AgentSession(openai, stack, "no such name!") as session:
            session.chat.completions.create(model="scripted", messages=messages_for())
        assert model.requests == []

    def test_the_responses_api_is_refused_with_an_error(self, stack: Client, openai: OpenAI, memory: str) -> None:
        session = AgentSession(openai, stack, memory)
        with pytest.raises(Unimplemented, match=r"use session\.chat\.completions\.create"):
            session.responses.create(model="scripted", input="x")

    async def test_async_calls_and_streams_are_recorded_like_blocking_ones(
        self, stack: Client, memory: str, asynchronous: AsyncOpenAI, model: OpenAIServer
    ) -> None:
        bullet = lesson(stack, memory)
        model.script(chat("One."), chat(f"Two pieces, at least [{bullet.id}]."))
        async with AsyncClient(stack.address) as client, AsyncAgentSession(asynchronous, client, memory) as session:
            await session.chat.completions.create(model="scripted", messages=messages_for())
            stream = await session.chat.completions.create(model="scripted", messages=messages_for(), stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            session.mark_success()
        assert session.trajectory().generated_answer == text
        assert session.learn_response is not None
        assert [vote.vote.tag for vote in session.learn_response.curation.votes] == [VOTE_TAG_HELPFUL]


@tool
def git(command: str) -> str:
    """Run git."""
    if "push" in command:
        raise RuntimeError("failed to push some refs")
    return "exit code 128\nfatal: unable to auto-detect email address"


def agent(model: OpenAIServer, **options: Any) -> Runnable[Any, Any]:
    """Return a chain whose model may call git as often as it wants."""
    llm = ChatOpenAI(model="scripted", base_url=model.base_url, api_key="none", max_retries=0, **options)
    bound = llm.bind_tools([git])

    def steps(task: str, config: RunnableConfig) -> str:
        messages: list[Any] = [HumanMessage(task)]
        while True:
            reply = bound.invoke(messages, config)
            messages.append(reply)
            if not reply.tool_calls:
                return reply.text
            for call in reply.tool_calls:
                try:
                    messages.append(git.invoke(call, config))
                except RuntimeError as problem:
                    messages.append(ToolMessage(f"Error: {problem}", tool_call_id=call["id"], status="error"))

    return RunnableLambda(steps)


def outline(trajectory: tpb.Trajectory) -> list[tuple[str, str]]:
    name = tpb.StepRole.Name
    return [(name(step.role).removeprefix("STEP_ROLE_").lower(), step.content) for step in trajectory.steps]


class TestLangChain:
    def test_bullets_are_documents_with_ids_and_scores(self, stack: Client, memory: str) -> None:
        bullet = lesson(stack, memory)
        (found,) = PlaybookRetriever(client=stack, dataset=memory).invoke(TASK)
        (result,) = stack.search(memory, TASK).results
        assert (found.id, found.page_content) == (bullet.id, LESSON)
        assert found.metadata == {
            "bullet_id": bullet.id,
            "dataset": memory,
            "section": "git",
            "score": result.combined_score,
            "vector_score": result.vector_score,
            "bm25_score": result.bm25_score,
            "helpful": 0,
            "harmful": 0,
        }

    def test_trials_measure_chains_by_the_reward_of_the_trajectory(
        self, stack: Client, memory: str, model: OpenAIServer
    ) -> None:
        stack.evidence.start_trials(dataset=memory)
        for number, reward in enumerate((1.0, None)):
            retriever = PlaybookRetriever(client=stack, dataset=memory, session_id=f"session-{number}")
            recorder = TrajectoryRecorder(memory)
            chain: Runnable[str, Any] = retriever | RunnableLambda(str)
            chain.invoke(TASK, config={"callbacks": [recorder]})
            (trajectory,) = recorder.take()
            assert len(trajectory.serving_ids) == 1
            if reward is not None:
                trajectory.reward, trajectory.signal = reward, tpb.SIGNAL_STRENGTH_REWARD
            stack.learn(trajectory)
        status = stack.evidence.get_trials(dataset=memory)
        assert status.sessions == 2
        _wait_for_outcomes(stack, memory, sessions=2, without=1)

    def test_a_session_of_trials_takes_no_other_filter(self, stack: Client, memory: str) -> None:
        with pytest.raises(ValueError, match="cannot be combined"):
            PlaybookRetriever(client=stack, dataset=memory, session_id="s", min_confidence=0.5)

    async def test_a_chain_continues_while_hansei_is_unavailable(self, outages: list[object]) -> None:
        with Client("127.0.0.1:1") as nobody:
            retriever = PlaybookRetriever(client=nobody, dataset="away-chain")
            assert (retriever.invoke(TASK), retriever.invoke(TASK)) == ([], [])
            recorder = TrajectoryRecorder("away-chain", on_trajectory=nobody.learn)
            chain: Runnable[Any, str] = RunnableLambda(lambda task: "done")
            assert chain.invoke({"input": TASK}, {"callbacks": [recorder]}) == "done"
            assert len(recorder.take()) == 1
            with pytest.raises(Unavailable):
                PlaybookRetriever(client=nobody, dataset="away-chain", on_error="raise").invoke(TASK)
        async with AsyncClient("127.0.0.1:1") as nobody:
            assert await PlaybookRetriever(async_client=nobody, dataset="away-chain").ainvoke(TASK) == []
        assert outages == ["away-chain"], "logged once"

    async def test_async_chains_await_the_async_client(self, stack: Client, memory: str) -> None:
        async with AsyncClient(stack.address) as client:
            (found,) = await PlaybookRetriever(async_client=client, dataset=memory).ainvoke(TASK)
        (same,) = await PlaybookRetriever(client=stack, dataset=memory).ainvoke(TASK)
        assert found == same
        with pytest.raises(ValueError, match="works only in async chains"):
            PlaybookRetriever(dataset=memory).invoke(TASK)

    def test_a_trajectory_with_tools_and_errors_is_recorded_and_learned(
        self, stack: Client, memory: str, model: OpenAIServer
    ) -> None:
        model.script(
            chat(tool_calls=[("git", {"command": "git commit"})]),
            chat(tool_calls=[("git", {"command": "git push"})]),
            chat("I gave up."),
        )
        recorder = TrajectoryRecorder(memory)
        agent(model).invoke(TASK, {"callbacks": [recorder]})
        (trajectory,) = recorder.take()
        assert recorder.take() == []
        assert outline(trajectory) == [
            ("user", TASK),
            ("assistant", ""),
            ("tool", "exit code 128\nfatal: unable to auto-detect email address"),
            ("assistant", ""),
            ("tool", "Error: RuntimeError: failed to push some refs"),
            ("assistant", "I gave up."),
        ]
        assert (trajectory.query, trajectory.generated_answer) == (TASK, "I gave up.")
        learned = stack.learn(trajectory, test_report="failed: nothing was committed")
        errors = [insight.error_identification for insight in learned.reflection.insights]
        assert any("auto-detect email" in text for text in errors)
        assert learned.reflection.signal == tpb.SIGNAL_STRENGTH_TEST_REPORT

    def test_retrieved_bullets_are_served_and_named_ones_are_cited(
        self, stack: Client, memory: str, model: OpenAIServer
    ) -> None:
        bullet = lesson(stack, memory)
        model.script(chat(f"Set it [{bullet.id}]."))
        llm = ChatOpenAI(model="scripted", base_url=model.base_url, api_key="none", max_retries=0)
        retriever = PlaybookRetriever(client=stack, dataset=memory)
        prompt = ChatPromptTemplate.from_template("{lessons}\n\n{question}")
        chain = {"lessons": retriever, "question": RunnableLambda(str)} | prompt | llm
        recorder = TrajectoryRecorder(memory)
        chain.invoke(TASK, {"callbacks": [recorder]})
        (trajectory,) = recorder.take()
        assert (list(trajectory.used_bullet_ids), list(trajectory.cited_bullet_ids)) == ([bullet.id], [bullet.id])
        assert stack.learn(trajectory, test_report="passed").curation.votes[0].vote.tag == VOTE_TAG_HELPFUL

    def test_concurrent_chains_are_recorded_separately(self, memory: str, model: OpenAIServer) -> None:
        model.answer_with(lambda request: chat(f"echo {request.prompt}")(request))
        recorder = TrajectoryRecorder(memory)
        tasks = [f"task {number}" for number in range(12)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda task: agent(model).invoke(task, {"callbacks": [recorder]}), tasks))
        trajectories = {trajectory.query: trajectory for trajectory in recorder.take()}
        assert set(trajectories) == set(tasks)
        for task, trajectory in trajectories.items():
            assert outline(trajectory) == [("user", task), ("assistant", f"echo {task}")]

    async def test_concurrent_async_chains_are_recorded_separately_with_streams(
        self, memory: str, model: OpenAIServer
    ) -> None:
        model.answer_with(lambda request: chat(f"echo in pieces {request.prompt}")(request))
        llm = ChatOpenAI(model="scripted", base_url=model.base_url, api_key="none", max_retries=0)
        recorder = TrajectoryRecorder(memory)

        async def stream_text(task: str) -> str:
            return "".join([piece.text async for piece in llm.astream(task, {"callbacks": [recorder]})])

        tasks = [f"task {number}" for number in range(6)]
        texts = await asyncio.gather(*map(stream_text, tasks))
        assert {trajectory.query: trajectory.generated_answer for trajectory in recorder.take()} == dict(
            zip(tasks, texts, strict=True)
        )

    def test_a_chain_that_raises_is_a_failure_with_its_error(self, memory: str, model: OpenAIServer) -> None:
        model.script(error(400, "the context is too long"))
        recorder = TrajectoryRecorder(memory)
        with pytest.raises(Exception, match="the context is too long"):
            agent(model).invoke(TASK, {"callbacks": [recorder]})
        (trajectory,) = recorder.take()
        assert trajectory.status == tpb.TRAJECTORY_STATUS_FAILURE
        assert "the context is too long" in trajectory.error_message
        assert [role for role, _ in outline(trajectory)] == ["user", "tool"]

    async def test_a_part_may_end_after_its_chain_has_failed(self, memory: str) -> None:
        chain_has_failed, results = asyncio.Event(), asyncio.Queue[str]()

        @tool
        async def push(task: str) -> str:
            """Push the commits."""
            await chain_has_failed.wait()
            return "pushed"

        async def push_slowly(task: str) -> None:
            results.put_nowait(await push.ainvoke(task))
            results.put_nowait(await push.ainvoke(task))

        async def fail(task: str) -> None:
            raise RuntimeError("no remote")

        recorder = TrajectoryRecorder(memory)
        chain: Runnable[str, Any] = RunnableParallel(slow=RunnableLambda(push_slowly), fast=RunnableLambda(fail))
        with pytest.raises(RuntimeError, match="no remote"):
            await chain.ainvoke(TASK, {"callbacks": [recorder]})
        chain_has_failed.set()
        async with asyncio.timeout(20):
            assert [await results.get(), await results.get()] == ["pushed", "pushed"]
        (trajectory,) = recorder.take()
        assert trajectory.status == tpb.TRAJECTORY_STATUS_FAILURE

    def test_a_finished_trajectory_is_passed_to_the_callback(
        self, stack: Client, memory: str, model: OpenAIServer
    ) -> None:
        recorder = TrajectoryRecorder(memory, on_trajectory=stack.learn)
        for task in (TASK, f"{TASK} It is about the notes."):  # a quoted message waits for a second source
            model.script(chat(tool_calls=[("git", {"command": "git commit"})]), chat("I gave up."))
            agent(model).invoke(task, {"callbacks": [recorder]})
        contents = [bullet.content for bullet in stack.playbooks.list_bullets(dataset=memory).bullets]
        assert any("auto-detect email" in content for content in contents)
