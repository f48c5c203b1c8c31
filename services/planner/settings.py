"""Settings of the planner."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from chassis.settings import ServiceSettings, plain_field
from libs.llm.settings import LLMSettings


class PlannerSettings(LLMSettings, ServiceSettings):
    """Settings of the planner; those of making, judging and replacing plans are in the file `grace_config`."""

    listen_address: str = "127.0.0.1:50054"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    search_addr: str = plain_field("127.0.0.1:50053")
    """Where search is, `host:port`: steps that look something up call it."""

    curator_addr: str = plain_field("127.0.0.1:50051")
    """Where the owner of the playbooks is, `host:port`: it names the collections."""

    planner_database_url: str = Field("data/planner.db", min_length=1)
    """Where executions are kept: a file name for SQLite, or a PostgreSQL URL, which several planners can share."""

    grace_config: Path = Path("config/grace_config.yml")
    """File with thresholds, weights, limits and the planning model; `GRACE_<SECTION>_<KEY>` goes on top of it."""

    planner_lease_seconds: float = Field(10.0, gt=0)
    """Seconds after which the executions of a planner that died are taken over by another one, or by its successor."""

    planner_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that repeating the request changes nothing."""

    planner_max_tokens: int = Field(0, ge=0)
    """Model tokens one execution may use at most. 0: no limit."""

    planner_max_cost_usd: float = Field(0.0, ge=0)
    """US dollars one execution may use at most. 0: no limit."""

    planner_max_wall_seconds: float = Field(3600.0, gt=0)
    """Seconds one execution may take at most, pauses left out."""

    planner_max_tool_calls: int = Field(100, ge=1)
    """Tool calls one execution may make at most, fallbacks and retries included."""

    planner_max_output_chars: int = Field(262_144, ge=1_000)
    """Characters a tool may return; more fails the call."""

    planner_tool_addrs: str = ""
    """Services with further tools (`hansei.planner.v1.ToolService`): `host:port`, several separated by commas."""

    planner_mcp_servers: dict[str, str | list[str]] = Field(default_factory=dict)
    """MCP servers whose tools are enabled, as JSON: name to the URL of a server that speaks streamable HTTP, or to the
    command line of one that speaks stdio: `{"files": ["mcp-files", "--root", "data"]}`."""

    prompts_dir: Path = Path("prompts")
    """Folder with templates that replace built-in prompts: `generator/<dataset>.txt`, `generator/default.txt`."""

    language: Literal["ja", "en"] = "ja"
    """Language of the built-in prompts."""
