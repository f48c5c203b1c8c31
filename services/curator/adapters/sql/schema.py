"""The tables of the playbook store, the same for SQLite and PostgreSQL, which partitions the log by `dataset`.

`revision`, `change` and `vote` are the log: rows are only added, and a vote is only marked as withdrawn, until the
retention drops revisions before `first_revision` of the dataset. Of a dropped revision only the changes stay that later
snapshots need. A change stores the bullet after it; the bullet before it is that of the slot's last change. `bullet` is
the fold of the log, written in the same transaction, and can be rebuilt from it. `embeddings` holds the vectors of
texts, which can be computed again. A deleted dataset keeps its row, with the revision and the time of the deletion;
`is_erased` is 0 until the files of the database no longer hold its contents. `created_at` and `updated_at` of `dataset`
are texts, because imported times may be naive (C-20).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text

from libs.embedding.store import define_embedding_table
from libs.storage.idempotency import IdempotencyTable
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp
from services.curator.adapters.sql.json_column import CompressedColumn, JsonColumn
from services.curator.domain.curation import Operation, VoteOutcome
from services.curator.domain.log import StoredBullet
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "curator_schema_version")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The outcomes of the deltas and votes of a revision, and the signal of its source trajectory."""

    operations: tuple[Operation, ...] = ()
    votes: tuple[VoteOutcome, ...] = ()
    signal: str = ""


metadata = MetaData()
# The preset dictionary of the compression. A change of it makes stored rows unreadable.
_COMMON_TEXT = (
    b'{"operations":[{"proposal":{"delta":{"type":"UPDATE","section":"others","bullet_id":"","content":"","reasoning":"'
    b"the same lesson (cosine of words 0.), says all that  says and more; no bullet says this; the nearest is , "
    b'"},"sources":[{"trajectory":"","steps":[]}],"decline_reason":"","wait_reason":"","confirmed_id":""},"applied":true,'
    b'"bullet_id":"","skipped_reason":"the same lesson is already there: "}],"votes":[{"vote":{"bullet_id":"","tag":'
    b'"harmful","tag":"neutral","tag":"helpful","trajectory":"","reason":""},"applied":true}],"signal":"self_report"}'
    b'"signal":"reward"}{"slot":,"bullet":{"id":"","section":"others","content":"Before ``: , or `` fails with \\"\\"."'
    b',"searchable_text":"","helpful":1,"harmful":1,"sources":[{"trajectory":"","steps":[]}],"source_trajectory":""},'
    b'"created":{"revision":,"at":"2026-01-01T00:00:00Z"},"updated":{"revision":,"at":"2026-"},"touched_revision":}'
)
BULLET_BODY = JsonColumn(StoredBullet, cached_characters=2_000_000)

dataset = Table(
    "dataset",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("bullets", Integer, nullable=False),
    Column("retired", Integer, nullable=False),
    Column("next_slot", BigInteger, nullable=False),
    Column("committed", Timestamp, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("policy", JsonColumn(Policy)),
    Column("deleted_revision", BigInteger, nullable=False, server_default="0"),
    Column("deleted_at", Timestamp),
    Column("is_erased", Integer, nullable=False, server_default="1"),
    Column("first_revision", BigInteger, nullable=False, server_default="1"),
)

revision = Table(
    "revision",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("committed", Timestamp, nullable=False),
    Column("kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("source_trajectory", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("bullets_before", Integer, nullable=False),
    Column("bullets_after", Integer, nullable=False),
    Column("report", CompressedColumn(JsonColumn(BatchReport), _COMMON_TEXT), nullable=False),
    Index("revision_committed", "dataset", "committed"),
    Index("revision_trajectory", "dataset", "source_trajectory"),
)

change = Table(
    "change",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("after", CompressedColumn(BULLET_BODY, _COMMON_TEXT)),
    Index("change_bullet", "dataset", "bullet_id", "revision"),
    Index("change_slot", "dataset", "slot", "revision"),
)

vote = Table(
    "vote",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("trajectory", Text, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("cast_in", BigInteger, primary_key=True, autoincrement=False),
    Column("withdrawn_in", BigInteger),
    Column("helpful", Integer, nullable=False),
    Column("harmful", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)
Index(
    "vote_once",
    vote.c.dataset,
    vote.c.slot,
    vote.c.trajectory,
    vote.c.round,
    unique=True,
    sqlite_where=vote.c.withdrawn_in.is_(None),
    postgresql_where=vote.c.withdrawn_in.is_(None),
)
Index("vote_trajectory", vote.c.dataset, vote.c.trajectory)
Index("vote_cast", vote.c.dataset, vote.c.cast_in)
Index("vote_withdrawn", vote.c.dataset, vote.c.withdrawn_in)

bullet = Table(
    "bullet",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("number", BigInteger),
    Column("fingerprint", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("body", BULLET_BODY, nullable=False),
    Index("bullet_id", "dataset", "bullet_id", "slot"),
    Index("bullet_number", "dataset", "number"),
    Index("bullet_fingerprint", "dataset", "fingerprint", "slot"),
)

embeddings = define_embedding_table(metadata)

requests = IdempotencyTable(
    metadata,
    "request",
    Column("dataset", Text, nullable=False, server_default=""),
    Index("request_dataset", "dataset"),
)

pending = Table(
    "pending",
    metadata,
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("proposed", Timestamp, nullable=False),
    Column("expires", Timestamp, nullable=False),
    Column("body", JsonColumn(PendingChange, cached_characters=2_000_000), nullable=False),
    Index("pending_dataset", "dataset", "proposed", "id"),
    Index("pending_expires", "state", "expires"),
)
