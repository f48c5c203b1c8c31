"""Test `hansei doctor` and `hansei eval`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.fakes.http_wire import WireResponse
from tests.fakes.openai_answers import ModelRequest, chat, error
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.commands import Hansei, runner
from tests.support.postgres_server import PostgresServer


@pytest.fixture
def hansei(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hansei:
    """Return the command in an empty folder, without variables of hansei in the environment."""
    for name in (
        "LLM_PROVIDER",
        "HANSEI_LLM_PROVIDER",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "HANSEI_ADDR",
        "EMBEDDING_PROVIDER",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capfd)


def test_a_new_installation_passes_all_checks(hansei: Hansei) -> None:
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 0, outcome.out
    assert all(line["ok"] and line["do"] is None for line in outcome.lines)
    assert {line["check"].split(":")[0] for line in outcome.lines} == set(systems.SERVICES) | {"models"}
    (embedding,) = (line["found"] for line in outcome.lines if line["check"] == "models: embedding")
    assert embedding.startswith("bundled ")
    shown = hansei("doctor", "--no-server").out
    assert [line["check"] for line in outcome.lines if f"✓ {line['check']} " not in shown] == []


def test_a_missing_key_is_named_with_both_ways_out(hansei: Hansei, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 1
    wrong = [line for line in outcome.lines if not line["ok"]]
    assert {line["check"] for line in wrong} == {
        "models: chat",
        "models: embedding",
        "curator: model",
        "reflector: model",
        "search: model",
        "planner: model",
    }
    assert all("OPENAI_API_KEY is not set" in line["found"] for line in wrong)
    assert all("LLM_PROVIDER=offline" in line["do"] for line in wrong if not line["check"].startswith("models: "))


def test_a_key_is_never_shown(hansei: Hansei, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-show-this")
    with OpenAIServer(otherwise=chat("OK")) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        outcome = hansei("doctor", "--no-server")
    assert outcome.code == 0, outcome.out
    assert "do-not-show" not in outcome.out + outcome.err


def test_each_configured_model_is_called_once(hansei: Hansei, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_MODEL", "shared")
    monkeypatch.setenv("JUDGE_MODEL", "openai:gpt-4o")
    with OpenAIServer(otherwise=chat("OK")) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        outcome = hansei("doctor", "--no-server", "--json")
        names = [request.body["model"] for request in model.requests]
        model.answer_with(error(401, "no such key"))
        refused = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 0, outcome.out
    assert sorted(names) == ["gpt-4o", "shared", "text-embedding-3-small"]
    shared, judge, embedding = [line["found"] for line in outcome.lines if line["check"].startswith("models: ")]
    assert re.fullmatch(r"openai shared answers in \d+\.\d\d s, price unknown; used by: reflector, .*evaluator", shared)
    assert re.fullmatch(r"openai gpt-4o answers in .* s, price known; used by: judge", judge)
    assert re.fullmatch(
        r"openai text-embedding-3-small answers in .*, price known; used by: curator, search", embedding
    )
    assert refused.code == 1
    assert sum("HTTP 401" in line["found"] for line in refused.lines) == 2
    assert refused.err == ""  # the finding names the error; no log record adds its stack


def test_a_missing_package_of_a_provider_is_named_with_the_line_that_installs_it(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 1
    (wrong,) = (line for line in outcome.lines if not line["ok"])
    assert wrong["check"] == "models: chat"
    assert "provider anthropic needs langchain-anthropic, which is not installed" in wrong["found"]
    assert wrong["do"].startswith("pip install 'hansei[anthropic]'; used by: reflector, ")


def test_a_database_server_is_entered_or_named_without_its_password(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    monkeypatch.setenv("HANSEI_CURATOR_DATABASE_URL", postgres.database())
    assert hansei("doctor", "--no-server").code == 0
    monkeypatch.setenv("LEADERBOARD_DB", f"postgresql://hansei:hunter2@127.0.0.1:{systems.free_port()}/nothing")
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 1
    found = {line["check"]: line for line in outcome.lines if "database" in line["check"]}
    assert found["curator: curator_database_url"]["ok"]
    wrong = found["validator: validator_database_url"]
    assert not wrong["ok"]
    assert "hunter2" not in outcome.out
    assert "LEADERBOARD_DB" in wrong["do"]


@pytest.mark.parametrize("url", ["postgresql://h:x:y@/?=", "oracle://h/db"])
def test_a_broken_database_url_is_a_finding(hansei: Hansei, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HANSEI_GATEWAY_DATABASE_URL", url)
    outcome = hansei("doctor", "--no-server", "--json")
    (wrong,) = (line for line in outcome.lines if not line["ok"])
    assert wrong["check"] == "gateway: gateway_database_url"
    assert "HANSEI_GATEWAY_DATABASE_URL" in wrong["found"] + wrong["do"]


def test_a_setting_that_is_out_of_range_is_named(hansei: Hansei, monkeypatch: pytest.MonkeyPatch) -> None:  # G-10
    monkeypatch.setenv("SEARCH_ALPHA", "7")
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 1
    (wrong,) = (line for line in outcome.lines if not line["ok"])
    assert wrong["check"] == "search: settings"
    assert "SEARCH_ALPHA" in wrong["found"]


def test_data_that_cannot_be_written_is_named(hansei: Hansei, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    monkeypatch.setenv("PLAYBOOK_DATA_DIR", str(tmp_path / "file" / "playbooks"))
    outcome = hansei("doctor", "--no-server", "--json")
    assert outcome.code == 1
    (wrong,) = (line for line in outcome.lines if not line["ok"])
    assert wrong["check"] == "curator: playbook_data_dir"
    assert "PLAYBOOK_DATA_DIR" in wrong["do"]


def test_an_unreachable_server_is_an_error_with_a_remedy(hansei: Hansei) -> None:
    outcome = hansei("doctor", "--addr", f"127.0.0.1:{systems.free_port()}", "--json")
    assert outcome.code == 1
    (wrong,) = (line for line in outcome.lines if not line["ok"])
    assert "does not answer" in wrong["found"]
    assert "hansei up" in wrong["do"]


def test_a_server_that_refuses_the_credential_is_one_error_with_its_remedy(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HANSEI_TOKEN", raising=False)
    with systems.one_service(tmp_path, "gateway", GATEWAY_API_TOKEN="token") as gateway:
        missing = hansei("doctor", "--addr", gateway.address, "--json")
        monkeypatch.setenv("HANSEI_TOKEN", "another")
        invalid = hansei("doctor", "--addr", gateway.address, "--json")
    for outcome, message in ((missing, "a credential is needed"), (invalid, "is unknown, expired or revoked")):
        assert outcome.code == 1
        (wrong,) = (line for line in outcome.lines if not line["ok"])
        assert wrong["check"] == "server: gateway"
        assert message in wrong["found"]
        assert "HANSEI_TOKEN" in wrong["do"]


def test_every_service_behind_a_running_server_is_asked(hansei: Hansei, system: systems.System) -> None:
    outcome = hansei("doctor", "--addr", system.address, "--json")
    assert outcome.code == 0, outcome.out
    checked = {line["check"].removeprefix("server: ") for line in outcome.lines if line["check"].startswith("server: ")}
    assert checked == set(systems.SERVICES) - {"gateway"}
    assert all(line["found"].startswith("answers; ") for line in outcome.lines if line["check"].startswith("server: "))


RETRIEVAL_SET = {
    "docs": {"git": "Pull before you push to git.", "sql": "Read the schema before you write a query."},
    "queries": {"q1": "the push was rejected by git", "q2": "which columns does the schema have"},
    "qrels": {"q1": {"git": 1}, "q2": {"sql": 1}},
}


def test_retrieval_is_measured_beside_named_variants(hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(RETRIEVAL_SET), encoding="utf-8")
    outcome = hansei("eval", "retrieval", file, "--variant", "bm25", "--json")
    assert outcome.code == 0, outcome.err
    assert set(outcome.document) == {"default", "bm25"}
    scores = ("ndcg_at_10", "ndcg_low", "ndcg_high", "recall_at_5", "recall_at_10")
    assert outcome.document["default"] == dict.fromkeys(scores, 1.0) | {"queries": 2}
    shown = hansei("eval", "retrieval", file).out
    assert "nDCG@10" in shown
    assert "2 judged queries" in shown
    assert hansei("eval", "retrieval", file, "--variant", "nonsense").code == 2


@pytest.mark.parametrize("content", ["", "{}", '{"docs": {}, "queries": {}, "qrels": {}}'])
def test_an_invalid_retrieval_set_is_refused(hansei: Hansei, tmp_path: Path, content: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(content, encoding="utf-8")
    outcome = hansei("eval", "retrieval", file)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")


def test_blame_is_measured_beside_simple_rules(hansei: Hansei, tmp_path: Path) -> None:
    log = {
        "history": [
            {"role": "human", "name": "human", "content": "How many orders are open?"},
            {"role": "assistant", "name": "Analyst", "content": "There are 7."},
            {"role": "assistant", "name": "Checker", "content": "Error: 7 stands in no result."},
        ],
        "question": "How many orders are open?",
        "ground_truth": "5",
        "mistake_agent": "Analyst",
        "mistake_step": "1",
        "mistake_reason": "It made the number up.",
    }
    file = tmp_path / "logs.jsonl"
    file.write_text(json.dumps(log) + "\n", encoding="utf-8")
    outcome = hansei("eval", "blame", file, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["n"] == 1
    second_turn = outcome.document["baselines"]["second_turn"]
    assert {name: second_turn[name] for name in ("step_accuracy", "agent_accuracy", "any_labelled_failure")} == {
        "step_accuracy": 1.0,
        "agent_accuracy": 1.0,
        "any_labelled_failure": 1.0,
    }
    shown = hansei("eval", "blame", file).out
    assert "1 labelled trajectory" in shown
    assert "hansei blames the first writing call" in " ".join(shown.split())


def _write_refunds(file: Path, failing: int, passing: int) -> Path:
    """Write runs that fail when the order was not looked up before the refund."""
    lookup = {"name": "get_order", "arguments": {"id": "A-1"}, "result": {"total": 30}}
    refund = {"name": "refund", "arguments": {"id": "A-1"}, "result": {"status": "done"}}
    lines = [
        json.dumps(
            {
                "domain": "shop",
                "task_id": f"task-{number}",
                "passed": number >= failing,
                "conversation": [
                    {"role": "user", "content": "Refund order A-1."},
                    {
                        "role": "assistant",
                        "content": "Done.",
                        "tool_calls": [refund] if number < failing else [lookup, refund],
                    },
                ],
            }
        )
        for number in range(failing + passing)
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_mined_guards_are_measured_on_other_tasks(hansei: Hansei, tmp_path: Path) -> None:
    train = _write_refunds(tmp_path / "train.jsonl", 10, 80)
    outcome = hansei("eval", "guards", train, "--json")
    assert outcome.code == 0, outcome.err
    report = outcome.document
    assert sorted(report) == ["baselines", "by_domain", "coverage", "false_alarms", "guards"]
    assert (report["coverage"], report["false_alarms"]) == (1.0, 0.0)
    assert report["by_domain"]["shop"]["coverage_trajectories"] == 10
    assert [guard["target"] for guard in report["guards"]] == ["call.tool == 'refund' && !succeeded('get_order')"]

    test = _write_refunds(tmp_path / "test.jsonl", 2, 3)
    report = hansei("eval", "guards", train, "--test", test, "--json").document
    assert (report["coverage"], report["by_domain"]["all"]["coverage_trajectories"]) == (1.0, 2)
    shown = hansei("eval", "guards", train, "--test", test).out
    assert "first write call" in shown
    assert "predicates tried" in shown


def answer_from_the_notes(request: ModelRequest) -> WireResponse:
    """Name the action whose words stand most often in the notes; without notes, the first."""
    notes = set(re.findall(r"\w+", request.prompt.partition("Notes from earlier work:")[2].partition("Request:")[0]))
    options = re.findall(r"^([A-D]): (.*\nInput: .*)$", request.prompt, re.MULTILINE)
    words = {letter: set(re.findall(r"\w+", text)) for letter, text in options}
    best = max(words, key=lambda letter: len(words[letter] & notes) / len(words[letter]), default="A")
    return chat(best)(request)


def test_the_lift_of_memories_is_measured_with_a_model(hansei: Hansei, tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    with OpenAIServer(otherwise=answer_from_the_notes) as server:
        outcome = hansei(
            "eval", "lift", "--base-url", server.base_url, "--tasks", 12, "--tokens", 60, "--cache", scores, "--json"
        )
    assert outcome.code == 0, outcome.err
    report = outcome.document
    rows = {row["memory"]: row for row in report["rows"]}
    assert (report["tasks"], report["tokens"], report["method"]) == (12, 60, "chosen letter")
    assert rows["hansei, offline"]["right_call"] > rows["no memory"]["right_call"]
    assert rows["hansei, offline"]["hansei_minus_this_right_call"] == "0"
    assert len(scores.read_text().splitlines()) > 12


def test_a_model_server_that_is_away_ends_the_measurement(hansei: Hansei) -> None:
    outcome = hansei("eval", "lift", "--base-url", "http://127.0.0.1:9/v1", "--tasks", 1)
    assert outcome.code == 6
    assert "the model server http://127.0.0.1:9/v1 failed" in outcome.err


def test_a_target_is_tested_on_a_file(hansei: Hansei, tmp_path: Path) -> None:
    file = _write_refunds(tmp_path / "runs.jsonl", 2, 3)
    outcome = hansei("guards", "backtest", "call.tool == 'refund' && !called('get_order')", file, "--json")
    assert outcome.code == 0, outcome.err
    assert {name: outcome.document[name] for name in ("failed", "failed_firing", "passed", "passed_firing")} == {
        "failed": 2,
        "failed_firing": 2,
        "passed": 3,
        "passed_firing": 0,
    }
    assert "false alarm:" in hansei("guards", "backtest", "call.tool == 'get_order'", file).out
    refused = hansei("guards", "backtest", "call.tool ==", file)
    assert refused.code != 0
    assert "at character 12" in refused.err


def test_a_model_writes_targets_from_the_policy_and_is_asked_once_more(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _write_refunds(tmp_path / "runs.jsonl", 10, 80)
    lookup = {"lesson": "Look the order up first.", "target": "call.tool == 'refund' && !called('get_order')"}
    always = {"lesson": "Never refund.", "target": "call.tool == 'refund'"}
    broken = {"lesson": "Wait.", "target": "call.tool == 'refund' && today() > 3"}
    everywhere = {"lesson": "Do nothing twice.", "target": "repeats() > 0"}
    targets = tmp_path / "targets.json"
    with OpenAIServer() as model:
        for name, value in {"LLM_PROVIDER": "openai", "LLM_MODEL": "m", "OPENAI_API_KEY": "k"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        replies = ([lookup, broken], [lookup, always, everywhere])
        model.script(*(chat(json.dumps({"targets": reply})) for reply in replies))
        outcome = hansei("guards", "from-policy", file, "--out", targets, "--json")
        assert outcome.code == 0, outcome.err
        first, second = model.requests
        assert "Refund order A-1." not in first.messages[1][1]  # the policy is not what users say
        assert "- refund(id: A-1)" in first.messages[1][1]
        assert "today() > 3" in second.prompt
    found = {item["target"]: (item["failed_firing"], item["passed_firing"]) for item in outcome.document["targets"]}
    assert found == {lookup["target"]: (10, 0), always["target"]: (10, 80)}
    assert [item["target"] for item in outcome.document["refused"]] == [everywhere["target"]]
    report = hansei("eval", "guards", file, "--targets", targets, "--json").document
    assert (report["coverage"], report["false_alarms"]) == (1.0, 0.0)
    assert report["by_source"]["unfiltered"]["all"]["false_alarms"] == 1.0
    assert report["by_source"]["written"]["shop"]["coverage"] == 1.0
    assert [item["folds"] for item in report["targets"] if item["target"] == always["target"]] == [0]
    monkeypatch.setenv("LLM_PROVIDER", "offline")
    assert "no model is configured" in hansei("guards", "from-policy", file).err
    for name in ("LLM_PROVIDER", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name)
    keyless = hansei("guards", "from-policy", file)
    assert keyless.code == 1
    assert keyless.err == (
        "Error: OPENAI_API_KEY is not set: a chat model writes the targets; "
        "set LLM_PROVIDER, LLM_MODEL and the key of the provider\n"
    )


def test_a_model_writes_targets_from_each_failed_trajectory(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _write_refunds(tmp_path / "runs.jsonl", 4, 80)
    lookup = {"lesson": "Look the order up first.", "target": "call.tool == 'refund' && !called('get_order')"}
    other = {"lesson": "Cancel nothing.", "target": "call.tool == 'cancel'"}
    reply = {"analysis": "The order was not looked up.", "targets": [lookup, other]}
    outputs = tmp_path / "policy.json", tmp_path / "failures.json"
    with OpenAIServer(otherwise=chat(json.dumps(reply))) as model:
        for name, value in {"LLM_PROVIDER": "openai", "LLM_MODEL": "m", "OPENAI_API_KEY": "k"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        outcome = hansei("guards", "from-failures", file, "--limit", 3, "--out", outputs[1], "--json")
        assert outcome.code == 0, outcome.err
        first = [request for request in model.requests if len(request.messages) == 2]
        corrections = [request.prompt for request in model.requests if len(request.messages) > 2]
        assert [request.messages[1][1].count("Refund order A-1.") for request in first] == [1, 1, 1]
        schema = first[0].body["response_format"]["json_schema"]["schema"]
        assert list(schema["properties"]) == ["analysis", "targets"]  # the cause comes before the targets
        assert not any("task-" in text for request in first for _, text in request.messages)
        assert ["is true for no call of the trajectory" in prompt for prompt in corrections] == [True] * 3
        assert hansei("guards", "from-policy", file, "--out", outputs[0]).code == 0
        model.script(error(400, "bad request"), error(400, "bad request"))
        partial = hansei("guards", "from-failures", file, "--json").document
    found = outcome.document
    assert [(item["task"], item["target"]) for item in found["targets"]] == [
        (f"task-{number}", lookup["target"]) for number in range(3)
    ]
    assert [(item["failed_firing"], item["passed_firing"]) for item in found["targets"]] == [(4, 0)] * 3
    assert [item["rule"] for item in found["refused"]] == [
        "is true for no call of the trajectory that it was written from"
    ] * 3
    assert found["skipped"] == 1
    assert (len(partial["unanswered"]), len(partial["targets"])) == (2, 2)
    report = hansei(
        "eval", "guards", file, *(part for path in outputs for part in ("--targets", path)), "--json"
    ).document
    assert (report["coverage"], report["false_alarms"]) == (1.0, 0.0)
    assert [item["task"] for item in report["targets"]] == ["", "", "task-0", "task-1", "task-2"]


def test_failures_are_needed_to_write_targets_from_them(hansei: Hansei, tmp_path: Path) -> None:
    file = _write_refunds(tmp_path / "runs.jsonl", 0, 3)
    assert "none of the 3 trajectories failed" in hansei("guards", "from-failures", file).err
    assert "name a FILE or --archive DATASET" in hansei("guards", "from-failures").err


def test_a_file_of_another_kind_is_refused_for_guards(hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text('{"rows": []}', encoding="utf-8")
    outcome = hansei("eval", "guards", file)
    assert outcome.code != 0
    assert outcome.err.startswith("Error: ")


def test_foresight_grows_with_what_was_learned(hansei: Hansei, tmp_path: Path) -> None:
    def run(number: int, seat: str) -> dict[str, object]:
        call = {"id": "1", "name": "book_seat", "arguments": json.dumps({"seat": seat})}
        again = {"id": "2", "name": "book_seat", "arguments": json.dumps({"seat": "30C"})}
        return {
            "id": f"run-{number}",
            "dataset": "seats",
            "query": f"Book seat {seat}",
            "status": "success",
            "generated_answer": "Seat 30C is booked.",
            "steps": [
                {"role": "user", "content": f"Book seat {seat}, or else any other"},
                {"role": "assistant", "content": "I book it.", "tool_calls": [call]},
                {"role": "tool", "name": "book_seat", "tool_call_id": "1", "content": f"Error: seat {seat} is taken"},
                {"role": "assistant", "content": "I take another one.", "tool_calls": [again]},
                {"role": "tool", "name": "book_seat", "tool_call_id": "2", "content": "seat 30C is booked"},
            ],
        }

    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(json.dumps(run(number, f"1{number}A")) for number in range(3)), encoding="utf-8")
    outcome = hansei("eval", "foresight", file, "--json", "--out", tmp_path / "curve")
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert (found["trajectories"], found["errors"], found["errors_seen_before"]) == (3, 3, 2)
    assert (found["foreseen_of_all"], found["foreseen_of_seen"]) == (round(1 / 3, 4), 0.5)
    assert found["bullets"] >= 1
    assert set(found["baselines"]) == {"uncurated", "random"}
    curve = json.loads((tmp_path / "curve" / "foresight.json").read_text(encoding="utf-8"))
    assert [point["trajectories"] for point in curve] == [1, 2, 3]
    assert curve[0]["foreseen_of_all"] == 0
    assert curve[-1] == found


def test_foresight_of_nothing_is_refused(hansei: Hansei, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    outcome = hansei("eval", "foresight", tmp_path / "empty.jsonl")
    assert (outcome.code, outcome.out) == (2, "")
