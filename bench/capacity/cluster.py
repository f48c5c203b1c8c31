"""A cluster of hansei in discrete events: pods of one core, calls through them with measured costs, and lost pods.

A pod is an event loop, threads for its database and two threads that embed, on one core. Searches choose their replica
by the project's own routing, `chassis.replicas`, each evidence pod by the calls that it has in flight itself.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from bench.capacity.events import Action, Core, GroupCommits, SimulatedClock, Threads
from chassis.replicas import Replica, ReplicaAddress, Replicas, rank_names
from libs.storage.database import READER_THREADS
from libs.storage.group_commit import MAX_BATCH

QUANTUM_SECONDS = 0.003
"""The time that Linux gives a thread before others of its core get theirs."""
EMBEDDING_THREADS, OTHER_THREADS = 2, READER_THREADS + 1
LEAST_THREAD_SECONDS = 0.0002
"""Less work beside the event loop counts as work of the loop."""
WARM_UP_SECONDS = 5.0
POSTGRES = "postgres"
PATHS = {
    "Recall": ("gateway", "evidence", "search", "evidence", POSTGRES, "evidence", "gateway"),
    "CheckCall": ("gateway", "evidence", "gateway"),
    "ReportCall": ("gateway", "evidence", POSTGRES, "evidence", "gateway"),
    "ReportOutcome": ("gateway", "evidence", POSTGRES, "evidence", "gateway"),
    "Learn": ("gateway", "curator", "reflector", "gateway", "curator", POSTGRES, "curator", "gateway"),
}
"""The processes that a call visits one after the other; costs of other processes are paid after its end."""
EMBEDS = {"Recall": ("search", "query"), "Learn": ("curator", "bullet")}
GOALS = {"Recall": 0.050, "CheckCall": 0.010}
"""The time within which 99 of 100 calls must end, seconds."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The sessions of a day: each recalls bullets, checks and reports tool calls, reports its outcome, and learns."""

    sessions_a_day: int = 1_000_000
    tenants: int = 1_000
    datasets: int = 10_000
    zipf: float = 1.0
    sizes: Mapping[str, float] = field(default_factory=lambda: {"small": 0.7, "medium": 0.25, "large": 0.05})
    peak: float = 1.8
    """Sessions a second at noon, as a multiple of the mean; at midnight they are as much below it."""
    tool_calls: int = 10
    tool_seconds: float = 5.0
    """The mean time that a tool takes; the time of each call is drawn (exponential)."""

    def compute_rate(self, hour: float) -> float:
        """Return the sessions a second at an hour of the day."""
        mean = self.sessions_a_day / 86_400
        return mean * (1 + (self.peak - 1) * math.cos((hour - 12) / 24 * 2 * math.pi))

    def count_calls(self) -> dict[str, float]:
        """Return the calls of a session by method."""
        return {
            "Recall": 1,
            "CheckCall": self.tool_calls,
            "ReportCall": self.tool_calls,
            "ReportOutcome": 1,
            "Learn": 1,
        }


@dataclass(frozen=True, slots=True)
class Options:
    """Times and sizes that were not measured as a cost."""

    hop_seconds: float = 0.0003
    """The way from one pod to another."""
    flush_seconds: float = 0.002
    """The time in which PostgreSQL stores a commit."""
    index_memory_bytes: int = 16_384 * 2**20
    """`HANSEI_SEARCH_MEMORY_MB` of the large overlay."""
    detection_seconds: float = 20.0
    """The time after which the callers of a lost pod close their connections: the keepalive timeout of the channels."""


class Costs:
    """The costs that `bench.capacity.costs` has measured, in seconds of processor time."""

    def __init__(self, measured: Mapping[str, Any]) -> None:
        self._costs = {(cost["method"], cost["size"]): cost for cost in measured["costs"]}
        embeddings = [cost for cost in measured["costs"] if cost["method"].startswith("Embed")]
        self._embeddings = dict(zip(("query", "bullet"), embeddings, strict=False))
        self.index_bytes = {dataset["size"]: dataset["index_bytes"] for dataset in measured["datasets"]}
        self.load_seconds = {
            dataset["size"]: dataset["load_cpu_ms"]["search"] / 1e3 for dataset in measured["datasets"]
        }

    def get_mean(self, method: str, size: str, process: str) -> float:
        """Return the mean seconds of a process for a call, without those for embedding."""
        return float(self._costs[method, size]["cpu_ms"].get(process, 0.0)) / 1e3

    def get_embedding(self, what: str) -> float:
        """Return the mean seconds for embedding a query or a bullet."""
        return float(self._embeddings[what]["cpu_ms"]["search"]) / 1e3

    def get_loop_share(self, method: str, size: str, process: str) -> float:
        """Return the share of its time that a process works on its event loop; the rest is in threads."""
        return float(self._costs[method, size]["loop_share"].get(process, 1.0))

    def list_processes(self, method: str, size: str) -> list[str]:
        """Return the processes that a call costs anything."""
        return list(self._costs[method, size]["cpu_ms"])

    def draw(self, rng: random.Random, method: str, size: str, process: str) -> float:
        """Return the seconds of one call."""
        spread = self._costs[method, size]["spread"].get(process, 0.0)
        return draw_seconds(rng, self.get_mean(method, size, process), spread)

    def draw_embedding(self, rng: random.Random, what: str) -> float:
        """Return the seconds for one text."""
        return draw_seconds(rng, self.get_embedding(what), self._embeddings[what]["spread"]["search"])

    def compute_mean(self, workload: Workload, method: str, process: str) -> float:
        """Return the mean seconds of a process for a call on the datasets of a workload, with those for embedding."""
        mean = sum(share * self.get_mean(method, size, process) for size, share in workload.sizes.items())
        embeds = EMBEDS.get(method)
        return mean + (self.get_embedding(embeds[1]) if embeds and embeds[0] == process else 0.0)


def draw_seconds(rng: random.Random, mean: float, spread: float) -> float:
    """Return a time with this mean and this standard deviation, as a share of the mean (gamma distribution)."""
    if mean <= 0 or spread < 0.02:
        return max(0.0, mean)
    return rng.gammavariate(1 / spread**2, mean * spread**2)


def compute_spread(values: Sequence[float]) -> float:
    """Return the standard deviation as a share of the mean, without the largest value, which other work disturbed."""
    usual = sorted(values)[:-1]
    mean = statistics.mean(usual)
    return statistics.stdev(usual) / mean if mean > 0 else 0.0


class Pod:
    """A process of a service on a core of its own."""

    def __init__(self, name: str, clock: SimulatedClock, options: Options) -> None:
        self.name = name
        self.core = Core(clock, QUANTUM_SECONDS)
        self.loop = Threads(self.core, is_urgent=True)
        self.pool = Threads(self.core, EMBEDDING_THREADS)
        self.threads = Threads(self.core, OTHER_THREADS)
        self.commits = GroupCommits(clock, options.flush_seconds, MAX_BATCH)
        self.is_lost = False
        self.indexes: OrderedDict[int, int] = OrderedDict()
        self.index_bytes = 0
        self.loading: dict[int, list[Action]] = {}
        self.replicas: Replicas | None = None

    def work(self, seconds: float, loop_share: float, embedding: float, done: Action) -> None:
        """Work on the event loop, then in threads, then on the loop again."""
        in_threads = seconds * (1 - loop_share)
        if in_threads < LEAST_THREAD_SECONDS:
            in_threads = 0.0
        on_loop = (seconds - in_threads) / 2

        def finish() -> None:
            self.loop.run(on_loop, done)

        def embed() -> None:
            if embedding:
                self.pool.run(embedding, finish)
            else:
                finish()

        def compute() -> None:
            if in_threads:
                self.threads.run(in_threads, embed)
            else:
                embed()

        if in_threads or embedding:
            self.loop.run(on_loop, compute)
        else:
            self.loop.run(seconds, done)

    def put_index(self, dataset: int, size: int, limit: int) -> None:
        """Hold an index, and drop those whose last use is longest ago, beyond the limit."""
        self.indexes[dataset] = size
        self.index_bytes += size
        while self.index_bytes > limit and len(self.indexes) > 1:
            _, dropped = self.indexes.popitem(last=False)
            self.index_bytes -= dropped


@dataclass(slots=True)
class Statistics:
    """The times of the calls of a method, and how long they waited in each service, in seconds."""

    times: list[float] = field(default_factory=list)
    lost: int = 0
    waits: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def compute_quantile(self, share: float) -> float:
        """Return the time within which this share of the answered calls ended."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def find_longest_wait(self) -> str:
        """Return the service in which calls waited longest."""
        return max(self.waits, key=lambda service: self.waits[service])


@dataclass(slots=True)
class _Call:
    method: str
    dataset: int
    size: str
    began: float
    pods: dict[str, Pod] = field(default_factory=dict)
    replica: Replica | None = None


class Link:
    """Stands for a connection to a replica, ready while that can be reached as far as the caller knows."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.channel = self
        self._is_ready = is_ready

    def get_state(self, _: bool) -> grpc.ChannelConnectivity:
        """Return the state of the connection."""
        return grpc.ChannelConnectivity.READY if self._is_ready() else grpc.ChannelConnectivity.TRANSIENT_FAILURE


class Cluster:
    """Pods of each service, and the calls that run through them; the same for the same seed."""

    def __init__(
        self, costs: Costs, workload: Workload, pods: Mapping[str, int], options: Options, seed: int = 1
    ) -> None:
        self.clock = SimulatedClock()
        self.statistics: defaultdict[str, Statistics] = defaultdict(Statistics)
        self._rng = random.Random(seed)
        self._costs, self._workload, self._options = costs, workload, options
        self.pods = {
            service: [Pod(f"{service}-{number}", self.clock, options) for number in range(count)]
            for service, count in pods.items()
        }
        self._undetected: set[str] = set()
        sizes = list(workload.sizes)
        self._sizes = self._rng.choices(sizes, list(workload.sizes.values()), k=workload.datasets)
        weights = [1 / rank**workload.zipf for rank in range(1, workload.datasets + 1)]
        self._cumulative = list(itertools.accumulate(weights))
        self.lookups = self.misses = 0
        self._record_from = self._lost_at = self._counted_from = 0.0
        self._busy = dict.fromkeys(self.pods, 0.0)
        self._warm_indexes()

    def run(
        self,
        hour: float,
        seconds: float,
        warm_up: float = WARM_UP_SECONDS,
        loss: Mapping[str, int] | None = None,
        count_from: float = 0.0,
    ) -> None:
        """Simulate a part of the day; pods of `loss` are lost when the warm-up ends.

        Calls count that begin so many seconds after the warm-up.
        """
        self._record_from = warm_up + count_from
        self._lost_at = warm_up
        arrivals = self._draw_calls(hour, warm_up + seconds)
        self.clock.call_at(self._record_from, self._begin_counting)
        if loss:
            self.clock.call_at(warm_up, lambda: self._lose(loss))
        self.clock.follow(arrivals)
        self.clock.run(warm_up + seconds)

    def compute_utilisation(self) -> dict[str, float]:
        """Return the share of its time that a core of each service worked, since the warm-up."""
        seconds = self.clock.now - self._counted_from
        return {
            service: (sum(pod.core.busy_seconds for pod in pods) - self._busy[service]) / len(pods) / seconds
            for service, pods in self.pods.items()
        }

    def _begin_counting(self) -> None:
        self._counted_from = self.clock.now
        self._busy = {name: sum(pod.core.busy_seconds for pod in pods) for name, pods in self.pods.items()}
        self.lookups = self.misses = 0

    def _warm_indexes(self) -> None:
        """Let each search pod hold the indexes that it owns, the popular ones last."""
        names = [pod.name for pod in self.pods["search"]]
        by_name = {pod.name: pod for pod in self.pods["search"]}
        for dataset in reversed(range(self._workload.datasets)):
            owner = by_name[rank_names(f"d{dataset}", [f"{name}:1" for name in names])[0].partition(":")[0]]
            owner.put_index(dataset, self._get_index_bytes(dataset), self._options.index_memory_bytes)

    def _get_index_bytes(self, dataset: int) -> int:
        return int(self._costs.index_bytes[self._sizes[dataset]])

    def _draw_calls(self, hour: float, seconds: float) -> Iterator[tuple[float, Action]]:
        """Return the calls of all sessions that begin then; the rate of sessions follows the hour (thinning)."""
        workload, rng = self._workload, self._rng
        longest = workload.tool_calls * workload.tool_seconds
        fastest = workload.compute_rate(12)
        calls: list[tuple[float, str, int]] = []
        began = -longest
        while (began := began + rng.expovariate(fastest)) < seconds:
            if rng.random() * fastest > workload.compute_rate(hour + began / 3600):
                continue
            (dataset,) = rng.choices(range(workload.datasets), cum_weights=self._cumulative)
            when = began
            calls.append((when, "Recall", dataset))
            for _ in range(workload.tool_calls):
                calls.append((when := when + 0.2, "CheckCall", dataset))
                calls.append((when := when + rng.expovariate(1 / workload.tool_seconds), "ReportCall", dataset))
            calls += [(when + 0.1, "ReportOutcome", dataset), (when + 0.2, "Learn", dataset)]
        for when, method, dataset in sorted(call for call in calls if 0 <= call[0] < seconds):
            yield when, self._prepare_call(method, dataset)

    def _prepare_call(self, method: str, dataset: int) -> Action:
        return lambda: self._start_call(_Call(method, dataset, self._sizes[dataset], self.clock.now))

    def _start_call(self, call: _Call) -> None:
        self._go(call, 0)

    def _go(self, call: _Call, position: int) -> None:
        """Take a call over the network to the process at this position of its path, or back to its caller."""
        is_over = position == len(PATHS[call.method])
        self.clock.call_later(
            self._options.hop_seconds, lambda: self._finish(call) if is_over else self._visit(call, position)
        )

    def _visit(self, call: _Call, position: int) -> None:
        path = PATHS[call.method]
        service = path[position]
        pod = call.pods.get(service) or self._choose_pod(call, service)
        seconds = self._costs.draw(self._rng, call.method, call.size, service) / path.count(service)
        entered = self.clock.now
        embeds = EMBEDS.get(call.method, ("", ""))
        needed = self._costs.draw_embedding(self._rng, embeds[1]) if embeds[0] == service else 0.0
        needed = 0.0 if service in path[:position] else needed

        def commit() -> None:
            began = self.clock.now
            caller = path[position - 1]
            note_wait(service, began - entered - seconds)

            def end() -> None:
                note_wait(caller, self.clock.now - began - self._options.flush_seconds)
                self._go(call, position + 1)

            call.pods[caller].commits.commit(end)

        def note_wait(where: str, waited: float) -> None:
            if call.began >= self._record_from:
                self.statistics[call.method].waits[where] += waited

        def leave() -> None:
            if call.replica is not None and service == "search":
                self._end_routed_call(call)
            if pod.is_lost:
                self._lose_call(call)
                return
            note_wait(service, self.clock.now - entered - seconds - needed)
            self._go(call, position + 1)

        def work() -> None:
            if service == POSTGRES:
                pod.loop.run(seconds, commit)
            else:
                pod.work(seconds, self._costs.get_loop_share(call.method, call.size, service), needed, leave)

        if pod.is_lost:
            self._lose_call_later(call, service)
        elif service == "search":
            self._with_index(pod, call.dataset, work)
        else:
            work()

    def _choose_pod(self, call: _Call, service: str) -> Pod:
        pods = [pod for pod in self.pods[service] if not pod.is_lost or pod.name in self._undetected]
        if service == "search":
            replicas = self._get_replicas(call.pods["evidence"])
            owners = replicas.choose(f"d{call.dataset}")
            if owners:
                replicas.record_call_start(owners[0])
                call.replica = owners[0]
                name = owners[0].address.name.partition(":")[0]
                pods = [pod for pod in self.pods[service] if pod.name == name]
        pod = self._rng.choice(pods)
        if service != POSTGRES:
            call.pods[service] = pod
        return pod

    def _get_replicas(self, caller: Pod) -> Replicas:
        """Return the routing of an evidence pod."""
        if caller.replicas is None:
            pods = {pod.name: pod for pod in self.pods["search"]}

            def connect(address: ReplicaAddress) -> Any:
                pod = pods[address.name.partition(":")[0]]
                return Link(lambda: not pod.is_lost or pod.name in self._undetected)

            caller.replicas = Replicas("search", f"ipv4:{','.join(f'{name}:1' for name in pods)}", connect)
        return caller.replicas

    def _end_routed_call(self, call: _Call) -> None:
        replicas = call.pods["evidence"].replicas
        if replicas is not None and call.replica is not None:
            replicas.record_call_end(call.replica)
            call.replica = None

    def _with_index(self, pod: Pod, dataset: int, work: Action) -> None:
        """Run work when the pod holds the index of the dataset; load it first if it does not."""
        self.lookups += 1
        if dataset in pod.loading:
            self.misses += 1
            pod.loading[dataset].append(work)
        elif dataset in pod.indexes:
            pod.indexes.move_to_end(dataset)
            work()
        else:
            self.misses += 1
            pod.loading[dataset] = [work]

            def end() -> None:
                pod.put_index(dataset, self._get_index_bytes(dataset), self._options.index_memory_bytes)
                for waiting in pod.loading.pop(dataset):
                    waiting()

            pod.pool.run(self._costs.load_seconds[self._sizes[dataset]], end)

    def _finish(self, call: _Call) -> None:
        if call.began >= self._record_from:
            self.statistics[call.method].times.append(self.clock.now - call.began)
        for process in self._costs.list_processes(call.method, call.size):
            if process not in PATHS[call.method] and process in self.pods:
                pods = [pod for pod in self.pods[process] if not pod.is_lost]
                seconds = self._costs.draw(self._rng, call.method, call.size, process)
                share = self._costs.get_loop_share(call.method, call.size, process)
                self._rng.choice(pods).work(seconds, share, 0.0, _do_nothing)

    def _lose(self, loss: Mapping[str, int]) -> None:
        for service, count in loss.items():
            for pod in self.pods[service][:count]:
                pod.is_lost = True
                self._undetected.add(pod.name)
        self.clock.call_later(self._options.detection_seconds, self._undetected.clear)

    def _lose_call_later(self, call: _Call, service: str) -> None:
        """Count a call to a lost pod as lost; to its caller it is in flight until the loss is detected."""
        self._lose_call(call)
        if service == "search":
            detected = self._lost_at + self._options.detection_seconds
            self.clock.call_at(max(self.clock.now, detected), lambda: self._end_routed_call(call))

    def _lose_call(self, call: _Call) -> None:
        if call.began >= self._record_from:
            self.statistics[call.method].lost += 1


def _do_nothing() -> None:
    """End work that no call waits for."""
