"""Tenants of one hansei, over real sockets, gRPC and HTTP: permitted calls, and facts that stay hidden."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from chassis.errors import HanseiError, NotFound, PermissionDenied, Unauthenticated
from hansei.client import Client
from hansei.planner.v1 import planner_pb2 as pb
from hansei.search.v1.collection_pb2 import CollectionQuery
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories, parts
from tests.support.tenants import SECONDS, Gate, Question, add, key_of, outcome, plan, step, two_tenants


# One gateway, because the tests also call it over HTTP, at an address that two gateways cannot share.
@pytest.fixture(scope="module", params=["one process", "separate processes", "one process on PostgreSQL"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with two_tenants(request.param, tmp_path_factory.mktemp("access")) as opened:
        yield opened


@pytest.fixture(scope="module")
def book(gate: Gate) -> str:
    """Return a dataset of acme's with a bullet in it."""
    with gate.client("acme") as client:
        add(client, "acme--book", "Set user.email before the first commit.")
    return "acme--book"


def test_no_call_passes_without_a_credential(gate: Gate) -> None:
    with gate.client("nobody") as client, pytest.raises(Unauthenticated) as caught:
        client.playbooks.get(dataset="acme--book")
    assert caught.value.reason == "CREDENTIAL_MISSING"
    with Client(gate.address, token="hansei_0123456789abcdef_" + "A" * 43) as client, pytest.raises(Unauthenticated):
        client.index.get_status(dataset="acme--book")
    assert httpx.get(f"{gate.url}/v1/playbooks/acme--book").json() == {"error": "Unauthorized"}  # G-30
    assert httpx.get(f"{gate.url}/health").status_code == 200  # G-18


def test_a_tenant_learns_and_finds_its_own(gate: Gate, book: str) -> None:
    with gate.client("acme") as client:
        revision = client.playbooks.get(dataset=book).playbook.revision
        found = client.search(book, "commit", min_revision=revision)
        (bullet,) = [result.bullet for result in found.results]
        (change,) = client.playbooks.get_history(dataset=book).revisions
        names = [dataset.name for dataset in client.playbooks.list_datasets().datasets]
    assert bullet.content == "Set user.email before the first commit."
    assert change.author.startswith("ci.")  # the author is set without a field of the request
    assert names == [book]


def test_an_edit_by_hand_has_its_caller_as_author(gate: Gate) -> None:
    with gate.client("acme") as client:
        made = client.remember("acme--by-hand", "Run the zebra check.")
        client.forget("acme--by-hand", made.operations[0].bullet_id)
        authors = {change.author for change in client.playbooks.get_history(dataset="acme--by-hand").revisions}
        own_name = client.access.who_am_i().name
        client.playbooks.delete_dataset(dataset="acme--by-hand")
    assert authors == {own_name}
    with gate.client("evil") as client, pytest.raises(NotFound):
        client.remember("acme--by-hand", "Run the quagga check.")


def test_a_tenant_deletes_only_its_own_dataset_and_leaves_a_record(gate: Gate) -> None:
    with gate.client("acme") as client:
        client.remember("acme--gone", "Run the zebra check.")
    with gate.client("evil") as client, pytest.raises(NotFound):
        client.playbooks.delete_dataset(dataset="acme--gone")
    headers = {"Authorization": f"Bearer {gate.keys['acme']}", "Idempotency-Key": str(uuid.uuid4())}
    url = f"{gate.url}/v1/playbooks/acme--gone"
    response = httpx.delete(url, headers=headers)
    assert (response.status_code, response.json()["bullets"]) == (200, 1), response.text
    assert httpx.delete(url, headers=headers).json() == response.json()
    assert httpx.get(url, headers=headers).status_code == 404
    with gate.client("acme") as client:
        records = client.access.list_audit_records().audit_records
        tombstones = [dataset.name for dataset in client.playbooks.list_datasets(deleted=True).datasets]
    (deletion, *_) = [record for record in records if record.method.endswith("/DeleteDataset") and record.code == "OK"]
    assert list(deletion.names) == ["acme--gone"]
    assert "acme--gone" in tombstones


def test_another_tenant_can_neither_see_nor_search_nor_watch_nor_guess_it(gate: Gate, book: str) -> None:
    """Existing and absent datasets get responses that are equal to the letter."""
    absent = "acme--kooo"
    with gate.client("evil") as client:
        calls = {
            "read": lambda name: client.playbooks.get(dataset=name),
            "search": lambda name: client.search(name, "commit"),
            "watch": lambda name: next(iter(client.playbooks.watch(dataset=name))),
            "resumed watch": lambda name: next(iter(client.playbooks.watch(dataset=name, from_revision=1))),
            "history": lambda name: client.playbooks.get_history(dataset=name),
            "write": lambda name: add(client, name, "x"),
            "merge": lambda name: client.playbooks.merge(dataset="evil--d", from_datasets=[name]),
            "answer": lambda name: client.gateway.run_workflow(query="q", dataset=name),
            "index": lambda name: client.index.get_status(dataset=name),
            "list": lambda name: client.playbooks.list_datasets(prefix=name),
        }
        for name, call in calls.items():
            here, nowhere = outcome(lambda call=call: call(book)), outcome(lambda call=call: call(absent))
            assert (here[0], name) == ("NOT_FOUND", name)
            assert here[1].replace(book, absent) == nowhere[1]
        assert [dataset.name for dataset in client.playbooks.list_datasets().datasets] == []
    with gate.http("evil") as http:
        for path in ("", "/history", "/events", "/index", "/pending"):
            answers = [http.get(f"/v1/playbooks/{name}{path}") for name in (book, absent)]
            assert {answer.status_code for answer in answers} == {404}
            assert answers[0].text.replace(book, absent) == answers[1].text


def test_scopes_are_not_confused(gate: Gate, book: str) -> None:
    with gate.client("acme reader") as client:
        client.playbooks.get(dataset=book)
        for call in (
            lambda: add(client, book, "x"),
            lambda: client.playbooks.restore_revision(dataset=book, revision=0),
            lambda: key_of(client, "mine", "acme", "ADMIN"),
            lambda: client.access.list_audit_records(),
        ):
            with pytest.raises(PermissionDenied) as caught:
                call()
            assert caught.value.reason == "SCOPE_MISSING"


def test_an_administrator_of_a_tenant_makes_keys_of_that_tenant_alone(gate: Gate) -> None:
    with gate.client("acme") as client:
        with pytest.raises(PermissionDenied):
            key_of(client, "spy", "evil", "READ")
        own = key_of(client, "own", "", "READ")
        assert {key.tenant for key in client.access.list_keys().keys} == {"acme"}
        evil_key = gate.keys["evil"].split("_")[1]
        with pytest.raises(NotFound):
            client.access.revoke_key(key_id=evil_key)
    with Client(gate.address, token=own) as client:
        assert client.access.who_am_i().tenant == "acme"


def test_only_operators_change_state_that_tenants_share(gate: Gate) -> None:
    with gate.client("acme") as client, pytest.raises(PermissionDenied) as caught:
        client.planner.submit_feedback(confidence=0.9, correct=True)
    assert caught.value.reason == "OPERATOR_ONLY"
    with gate.client("root") as client:
        client.planner.submit_feedback(confidence=0.9, correct=True)


@pytest.fixture
def question(gate: Gate) -> Question:
    with gate.client("acme") as client:
        *_, last = client.planner.execute_plan(plan=plan(step(1, "ASK_USER", query="Which colour?")))
    return Question(last.event.execution_id, last.event.intervention_requested.answer_token)


@pytest.fixture(scope="module")
def foreign_book(gate: Gate) -> str:
    with gate.client("evil") as client:
        add(client, "evil--book", "The secret of evil: set user.email before the first commit.")
    return "evil--book"


def test_a_plan_of_a_tenant_uses_only_its_own_datasets(gate: Gate, book: str, foreign_book: str) -> None:
    """The plan names no collection: the planner searches those of the tenant, and no others."""
    with gate.client("acme") as client:
        client.search(book, "commit", min_revision=client.playbooks.get(dataset=book).playbook.revision)
        made = client.planner.create_plan(query="How do I commit?").plan
        assert (made.plan_id[:6], made.steps[0].collection) == ("acme--", book)
        result = client.planner.run_plan(plan=made).result
        unnamed = client.planner.run_plan(plan=plan(step(1, "RAG_SEARCH", query="commit"), made.steps[1])).result
        assert client.planner.get_execution(execution_id=made.plan_id).execution.plan == made
        refined = client.planner.refine_plan(plan=made, feedback="fewer steps").plan
        listed = client.planner.list_executions().executions
    assert {result.plan_id[:6], unnamed.plan_id[:6], refined.plan_id[:6]} == {"acme--"}
    for execution in (result, unnamed):
        assert "secret" not in str(execution)
        assert "Set user.email" in execution.step_results[0].output
    assert {made.plan_id, unnamed.plan_id} <= {summary.execution_id for summary in listed}


def test_over_http_a_tenant_runs_plans_and_answers(gate: Gate, book: str) -> None:
    asking = {"step_id": 1, "action": "ACTION_ASK_USER", "description": "ask", "query": "Which colour?"}
    with gate.http("acme") as http:
        made = http.post("/v1/plans", json={"query": "How do I commit?"}).json()["plan"]
        assert made["steps"][0]["collection"] == book
        started = http.post("/v1/executions", json={"plan": {**made, "steps": [asking]}})
        at = f"/v1/executions/{made['plan_id']}"
        assert f'"execution_id": "{made["plan_id"]}"' in started.text.replace('":"', '": "')
        waiting = http.get(at).json()["execution"]["intervention_request"]
        answer = {name: waiting[name] for name in ("answer_token", "plan_version", "step_id")}
        answered = http.post(f"{at}/answer", json={**answer, "response": {"user_input": "red"}})
        assert "event: end" in answered.text
        assert http.get(at).json()["execution"]["step_results"][0]["output"] == "red"
        assert made["plan_id"] in http.get("/v1/executions").text
        assert made["plan_id"] in http.get("/v1/executions", params={"prefix": "acme--"}).text
        assert http.get("/v1/executions", params={"prefix": "evil--"}).status_code == 404


def test_a_plan_that_names_anothers_is_not_searched(
    gate: Gate, foreign_book: str, question: Question, book: str
) -> None:
    with gate.client("acme") as client:
        for name in (foreign_book, "evil--none", "wikipedia_ja"):
            searching = plan(step(1, "RAG_SEARCH", query="commit", collection=name))
            changed = {"action": pb.INTERVENTION_ACTION_MODIFY, "modified_plan": searching}
            for call in (
                lambda searching=searching: client.planner.run_plan(plan=searching),
                lambda searching=searching: next(iter(client.planner.execute_plan(plan=searching))),
                lambda searching=searching: client.planner.refine_plan(plan=searching, feedback="x"),
                lambda changed=changed: question.answer(client, response=changed),
                lambda name=name: client.planner.create_plan(query="q", prefix=f"{name}-"),
            ):
                code, text = outcome(call)
                assert (code, name in text) == ("NOT_FOUND", True)
    with gate.http("acme") as http:
        body = {"original_query": "q", "complexity": 0.5, "steps": [{"step_id": 1, "action": "ACTION_RAG_SEARCH"}]}
        body["steps"][0] |= {"description": "d", "collection": foreign_book}  # type: ignore[index]
        for path in ("/v1/executions", "/v1/plans/mermaid"):
            refused = http.post(path, json={"plan": body})
            assert (refused.status_code, refused.json()["reason"]) == (404, "NOT_FOUND")
    with gate.client("evil") as client:  # a copied plan reads no more under the caller's id
        own = plan(step(1, "RAG_SEARCH", query="commit", collection=book), plan_id="evil--0a1b2c3d4e5f")
        assert outcome(lambda: client.planner.run_plan(plan=own))[0] == "NOT_FOUND"


def test_an_execution_of_another_tenant_is_not_found(gate: Gate, question: Question) -> None:
    """One that exists and one that does not get the same answer, to the letter, over gRPC and HTTP."""
    there, nowhere = question.execution_id, "acme--0123456789ab"
    with gate.client("evil") as client:
        calls = {
            "get": lambda name: client.planner.get_execution(execution_id=name),
            "watch": lambda name: next(iter(client.planner.watch_execution(execution_id=name))),
            "resumed watch": lambda name: next(
                iter(client.planner.watch_execution(execution_id=name, after_sequence=1))
            ),
            "answer": lambda name: question.answer(client, name),
            "cancel": lambda name: client.planner.cancel_execution(execution_id=name, reason="x"),
            "tell": lambda name: client.planner.add_information(execution_id=name, text="x"),
            "verify": lambda name: client.planner.verify_execution(execution_id=name),
            "draw": lambda name: client.planner.draw_plan(execution_id=name),
            "run": lambda name: client.planner.run_plan(plan=plan(step(1, "ASK_USER"), plan_id=name)),
            "execute": lambda name: next(
                iter(client.planner.execute_plan(plan=plan(step(1, "ASK_USER"), plan_id=name)))
            ),
            "refine": lambda name: client.planner.refine_plan(
                plan=plan(step(1, "ASK_USER"), plan_id=name), feedback="x"
            ),
            "list": lambda name: client.planner.list_executions(prefix=name[:6]),
        }
        for what, call in calls.items():
            here, absent = outcome(lambda call=call: call(there)), outcome(lambda call=call: call(nowhere))
            assert (here[0], what) == ("NOT_FOUND", what)
            assert here[1].replace(there, nowhere) == absent[1]
        assert there not in str(client.planner.list_executions(page_size=200))
    with gate.http("evil") as http:
        requests = [("GET", ""), ("GET", "/events"), ("GET", "/mermaid"), ("GET", "/verification")]
        requests += [("POST", action) for action in ("/answer", "/cancel", "/information")]
        body = {"answer_token": question.token, "plan_version": 1, "step_id": 1, "response": {"user_input": "red"}}
        bodies = {"/answer": body, "/cancel": {"reason": "x"}, "/information": {"text": "x"}}
        for method, path in requests:
            resumed = {"Last-Event-ID": "1"} if path == "/events" else {}
            answers = [
                http.request(method, f"/v1/executions/{name}{path}", json=bodies.get(path), headers=resumed)
                for name in (there, nowhere)
            ]
            assert [(answer.status_code, path) for answer in answers] == [(404, path)] * 2
            assert answers[0].text.replace(there, nowhere) == answers[1].text
        assert there not in http.get("/v1/executions").text


def test_an_answer_token_is_invalid_for_another_execution(gate: Gate, question: Question) -> None:
    with gate.client("evil") as client:
        *_, pause = client.planner.execute_plan(plan=plan(step(1, "ASK_USER", query="Which colour?")))
        own = pause.event.execution_id
        assert outcome(lambda: question.answer(client, own))[0] == "INVALID_ARGUMENT"  # acme's token, evil's execution
        stolen = Question(question.execution_id, pause.event.intervention_requested.answer_token)
        assert outcome(lambda: stolen.answer(client))[0] == "NOT_FOUND"
    with gate.client("acme") as client:
        assert outcome(lambda: stolen.answer(client))[0] == "INVALID_ARGUMENT"
        question.answer(client)
        list(client.planner.watch_execution(execution_id=question.execution_id))  # until it has ended
        ended = client.planner.get_execution(execution_id=question.execution_id).execution
    assert ended.result.step_results[0].output == "red"
    with gate.client("evil") as client:
        assert outcome(lambda: question.answer(client))[0] == "NOT_FOUND"  # not the stored response of acme
        assert client.planner.get_execution(execution_id=own).execution.status == pb.EXECUTION_STATUS_PAUSED


def test_a_request_id_reveals_nothing_to_another_tenant(gate: Gate) -> None:
    """The same id, the same plan: each tenant has an execution of its own, and its own replays follow that."""
    request_id, ids = "6f0d3c1e-25a4-4c0b-9a51-7f2f6f1e0c11", []
    for who in ("acme", "evil", "acme"):
        with gate.client(who) as client:
            question_plan = plan(step(1, "ASK_USER", query="Which colour?"))
            events = list(client.planner.execute_plan(plan=question_plan, request_id=request_id))
        ids.append(events[0].event.execution_id)
    assert ids[0] == ids[2]
    assert [execution_id.split("--") for execution_id in ids[:2]] == [["acme", ids[0][6:]], ["evil", ids[0][6:]]]


def test_the_scope_read_watches_executions_and_starts_none(gate: Gate, question: Question) -> None:
    with gate.client("acme reader") as client:
        client.planner.get_execution(execution_id=question.execution_id)
        assert next(iter(client.planner.watch_execution(execution_id=question.execution_id))).event.HasField("started")
        for call in (
            lambda: client.planner.run_plan(plan=plan(step(1, "REASONING"))),
            lambda: question.answer(client),
            lambda: client.planner.cancel_execution(execution_id=question.execution_id),
        ):
            with pytest.raises(PermissionDenied):
                call()


def test_a_job_of_another_tenant_is_not_found(gate: Gate) -> None:
    submitted, other = str(uuid.uuid4()), str(uuid.uuid4())
    with gate.client("acme") as client:
        assert (
            client.jobs.submit(parts("acme--jobs", build_trajectories("acme--jobs", 1), submitted)).job.job_id
            == submitted
        )
    with gate.client("evil") as client:
        for call in (
            lambda name: client.jobs.get(job_id=name),
            lambda name: next(iter(client.jobs.watch(job_id=name))),
            lambda name: client.jobs.cancel(job_id=name),
            lambda name: client.jobs.list_dead_letters(job_id=name),
            lambda name: client.jobs.retry_dead_letters(job_id=name),
        ):
            here, nowhere = outcome(lambda call=call: call(submitted)), outcome(lambda call=call: call(other))
            assert here[0] == "NOT_FOUND"
            assert here[1].replace(submitted, other) == nowhere[1]
        own = parts("evil--jobs", build_trajectories("evil--jobs", 1), submitted)
        assert outcome(lambda: client.jobs.submit(own))[0] == "ALREADY_EXISTS"
        assert outcome(lambda: client.jobs.get(job_id=submitted))[0] == "NOT_FOUND"
    with gate.client("acme") as client:
        assert client.jobs.get(job_id=submitted).job.dataset == "acme--jobs"


def test_trials_and_trajectories_of_another_tenant_are_not_found(gate: Gate, book: str) -> None:
    absent = "acme--kooo"
    with gate.client("acme") as client:
        client.evidence.start_trials(dataset=book)
        served = client.evidence.recall(dataset=book, session_id="one", query_text="commit").serving_id
        before = client.evidence.get_trials(dataset=book)
    with gate.client("evil") as client:
        calls = {
            "recall": lambda name: client.evidence.recall(dataset=name, session_id="one", query_text="commit"),
            "report": lambda name: client.evidence.report_outcome(dataset=name, serving_id=served, succeeded=True),
            "trials": lambda name: client.evidence.get_trials(dataset=name),
            "stop": lambda name: client.evidence.stop_trials(dataset=name),
            "effects": lambda name: client.evidence.get_effects(dataset=name),
            "trajectories": lambda name: client.archive.list_trajectories(dataset=name),
            "deletion": lambda name: client.archive.delete_archive(dataset=name),
        }
        for name, call in calls.items():
            here, nowhere = outcome(lambda call=call: call(book)), outcome(lambda call=call: call(absent))
            assert (here[0], name) == ("NOT_FOUND", name)
            assert here[1].replace(book, absent) == nowhere[1]
        # The id of a serving alone reaches nothing, either.
        client.evidence.start_trials(dataset="evil--book")
        with pytest.raises(NotFound) as caught:
            client.evidence.report_outcome(dataset="evil--book", serving_id=served, succeeded=True)
        assert caught.value.reason == "SERVING_NOT_FOUND"
    with gate.client("acme") as client:
        assert client.evidence.get_trials(dataset=book) == before
        client.evidence.stop_trials(dataset=book)


def test_collections_belong_to_their_tenant(gate: Gate) -> None:
    for who in ("acme", "evil"):
        with gate.client(who) as client:
            client.collections.create(name=f"{who}--handbook")
    with gate.client("evil") as client:
        assert [collection.name for collection in client.collections.list_all().collections] == ["evil--handbook"]
        for name in ("acme--handbook", "acme--haaaabook"):
            for call in (
                lambda name=name: client.collections.get(name=name),
                lambda name=name: client.collections.search(
                    collection=name, query=CollectionQuery(query_text="q", top_k=1)
                ),
                lambda name=name: client.collections.list_all(prefix=name),
                lambda name=name: client.collections.delete(name=name),
            ):
                assert outcome(call)[0] == "NOT_FOUND"
    with gate.client("root") as client:
        listed = {collection.name for collection in client.collections.list_all().collections}
    assert {"acme--handbook", "evil--handbook"} <= listed


def test_changes_leave_audit_records_for_their_tenant(gate: Gate, book: str) -> None:
    with gate.client("evil") as client:
        add(client, "evil--d", "x")
        seen = list(client.access.list_audit_records().audit_records)
    with gate.client("root") as client:
        everything = list(client.access.list_audit_records().audit_records)
    assert {record.tenant for record in seen} == {"evil"}
    assert ("ApplyDeltas", ["evil--d"], "OK") in [
        (record.method.rpartition("/")[2], list(record.names), record.code) for record in seen
    ]
    assert {"acme", "evil", ""} <= {record.tenant for record in everything}
    (added,) = [
        record for record in seen if record.method.endswith("/ApplyDeltas") and list(record.names) == ["evil--d"]
    ]
    assert uuid.UUID(added.request_id)
    assert re.fullmatch("[0-9a-f]{32}", added.correlation_id)
    records = str(everything)
    assert not [key for key in gate.keys.values() if len(key) > 10 and key.split("_", 2)[2] in records]


def test_a_watch_ends_when_its_key_is_revoked(gate: Gate, book: str) -> None:
    begun, ended = threading.Event(), []

    def watch() -> None:
        with gate.client("acme revoked") as client:
            try:
                for _ in client.playbooks.watch(dataset=book):
                    begun.set()
            except HanseiError as error:
                ended.append(error.reason)

    def follow() -> None:
        with gate.http("acme revoked") as http, http.stream("GET", f"/v1/playbooks/{book}/events") as response:
            lines = response.iter_lines()
            next(line for line in lines if line.startswith("event: message"))
            followed.set()
            ended.append(next(line for line in lines if line.startswith("event: error")))

    followed = threading.Event()
    threads = [threading.Thread(target=target) for target in (watch, follow)]
    for thread in threads:
        thread.start()
    assert begun.wait(SECONDS)
    assert followed.wait(SECONDS)
    with gate.client("root") as client:
        client.access.revoke_key(key_id=gate.keys["acme revoked"].split("_")[1])
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(ended) == ["CREDENTIAL_REVOKED", "event: error"]


def test_a_second_authorization_does_not_add_to_the_first(gate: Gate) -> None:
    with grpc.insecure_channel(gate.address) as channel:
        open_call: Any = channel.unary_unary
        call = open_call("/hansei.gateway.v1.AccessService/WhoAmI")
        both = (("authorization", f"Bearer {gate.keys['evil']}"), ("authorization", "Bearer root"))
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=SECONDS, metadata=both)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("module", ["gateway", "allinone"])
def test_no_service_listens_for_other_machines_by_default(tmp_path: Path, module: str) -> None:
    status, output = systems.failed_start(
        tmp_path, module, HANSEI_LISTEN_ADDRESS="0.0.0.0:0", HANSEI_PLAINTEXT="grpc,http"
    )
    assert status == 1
    assert "HANSEI_LISTEN_ADDRESS: '0.0.0.0:0' is reachable from other machines" in output
    assert "Traceback" not in output
