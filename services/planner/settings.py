"""Settings of the planner."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from chassis.settings import ServiceSettings, create_plain_field
from libs.llm.settings import LLMSettings
from libs.prompts.language import LanguageSetting
from services.planner.config import DEFAULT_FILE

NO_GUARDS = "off"
"""The value of `planner_guards_dataset` without checks."""


class PlannerSettings(LLMSettings, ServiceSettings):
    """Settings of the planner; those of making, judging and replacing plans are in the file `grace_config`."""

    listen_address: str = "127.0.0.1:50054"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    search_addr: str = create_plain_field("127.0.0.1:50053")
    """Address of the search service, which search steps call: `host:port`; several replicas as a DNS name that resolves
    to all of them, or as `ipv4:HOST:PORT,HOST:PORT`."""

    curator_addr: str = create_plain_field("127.0.0.1:50051")
    """Address of the curator, `host:port`: it lists the datasets."""

    evidence_addr: str = create_plain_field("127.0.0.1:50056")
    """Address of the evidence service, `host:port`: guards of a playbook check the tool calls of executions."""

    planner_guards_dataset: str = Field("planner", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Dataset whose guards check the tool calls of executions; its name is appended to the prefix of the plan's id.
    `off`: no checks."""

    planner_guard_seconds: float = Field(0.5, gt=0, le=10)
    """Longest time that a tool call waits for its guards, in seconds; after it the call is made unchecked."""

    planner_database_url: str = Field("data/planner.db", min_length=1)
    """Database of the executions: a file name for SQLite, or a PostgreSQL URL, which several planners can share."""

    grace_config: Path = DEFAULT_FILE
    """File with thresholds, weights, limits and the planning model; variables `GRACE_<SECTION>_<KEY>` override it."""

    planner_lease_seconds: float = Field(10.0, gt=0)
    """Seconds after the death of a planner until another one, or its restart, takes over its executions."""

    planner_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that repeating the request changes nothing."""

    planner_max_tokens: int = Field(0, ge=0)
    """Maximum number of model tokens of one execution. 0: no limit."""

    planner_max_cost_usd: float = Field(0.0, ge=0)
    """Maximum cost of one execution in US dollars. 0: no limit."""

    planner_max_wall_seconds: float = Field(3600.0, gt=0)
    """Maximum duration of one execution in seconds, without pauses."""

    planner_max_tool_calls: int = Field(100, ge=1)
    """Maximum number of tool calls of one execution, fallbacks and retries included."""

    planner_max_output_chars: int = Field(262_144, ge=1_000)
    """Maximum number of characters that a tool may return; a call with more fails."""

    planner_answer_seconds: float = Field(604_800.0, ge=1)
    """Seconds that a question of an execution waits for an answer (7 days), unless the caller chose another time or
    `intervention.default_timeout` is configured."""

    planner_webhook_url: str = ""
    """URL that gets a POST for each question to a person: https, or http on this host. Empty: none."""

    planner_webhook_secret: SecretStr = SecretStr("")
    """Secret of the signatures of webhooks, at least 24 characters; `whsec_` and base64, or any text. The webhook of
    HANSEI_PLANNER_WEBHOOK_URL needs one; without one, webhooks of callers are not signed."""

    planner_webhook_hosts: str = ""
    """Hosts that webhooks of callers may have although they have no public address or no TLS: `host` or `host:port`,
    several separated by commas. Other webhooks need https and a host with public addresses."""

    planner_tool_addrs: str = ""
    """Services with further tools (`hansei.planner.v1.ToolService`): `host:port`, several separated by commas."""

    planner_mcp_servers: dict[str, str | list[str]] = Field(default_factory=dict)
    """MCP servers whose tools are enabled, as JSON: name to the URL of a server that speaks streamable HTTP, or to the
    command line of one that speaks stdio: `{"files": ["mcp-files", "--root", "data"]}`."""

    prompts_dir: Path = Path("prompts")
    """Folder with templates that replace built-in prompts: `generator/<dataset>.txt`, `generator/default.txt`."""

    language: LanguageSetting = "auto"
    """Language of plans, questions and built-in prompts: `ja`, `en`, or `auto` for the language of the request."""
