"""Configuration files with the defaults, for `hansei config init` (spec section 7)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from chassis.errors import BadSetting
from chassis.files import replace_file
from libs.prompts.defaults import BUILT_IN_TEMPLATES
from libs.prompts.settings import CONFIG_FILE, TABLE

WORKSPACE_VARIABLE = "HANSEI_WORKSPACE"

ROUND_VARIABLES = (
    "user_prompt, round_number, submission_history, ranking_table, team_position_message, current_datetime"
)
PLACEHOLDERS: Mapping[str, str] = {
    "team_user_prompt": ROUND_VARIABLES,
    "evaluator_user_prompt": "user_query, submission, current_datetime",
    "judgment_user_prompt": ROUND_VARIABLES,
}

_CONFIG = """# The settings of hansei for this workspace. Services read the environment, not this file:
# export each name below as a variable. Prompts are in prompt_builder.toml beside it, which is read as it is.

[environment]
LLM_PROVIDER = "openai"
LLM_MODEL = "gpt-4o-mini"
EMBEDDING_MODEL = "text-embedding-3-small"
PLAYBOOK_DATA_DIR = "data/playbooks"
SEARCH_ALPHA = "0.5"
LEADERBOARD_DB = "data/leaderboard.db"
"""


class ConfigInitError(BadSetting):
    """Nothing was written; the command prints the text and exits with status 1."""


def build_prompt_builder_toml() -> str:
    """Return the Japanese templates as a TOML file, each under a comment that lists its placeholders (B-42)."""
    templates = BUILT_IN_TEMPLATES["ja"]
    parts = [f"[{TABLE}]"]
    for field, variables in PLACEHOLDERS.items():
        value = _format_multiline(getattr(templates, field))
        parts.append(f"# 利用可能なプレースホルダー変数: {variables}\n{field} = {value}")
    return "\n\n".join(parts) + "\n"


def _format_multiline(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
    return f'"""\n{escaped}"""'


COMPONENTS: Mapping[str, Path] = {"config": CONFIG_FILE.with_name("config.toml"), "prompt_builder": CONFIG_FILE}


def init_config(
    component: str | None = None,
    output_path: str | Path | None = None,
    *,
    force: bool = False,
    workspace: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the files of a component, of all without one, and return them (B-40 to B-46).

    Raises ConfigInitError; then nothing was written.
    """
    targets = _locate_output_files(component, output_path, workspace, os.environ if environ is None else environ)
    for path in targets.values():
        if path.exists() and not force:
            raise ConfigInitError(f"Error: {path} already exists. Use --force to overwrite.")
    for name, path in targets.items():
        text = _CONFIG if name == "config" else build_prompt_builder_toml()
        replace_file(path, text.encode("utf-8"))
    return list(targets.values())


def _locate_output_files(
    component: str | None,
    output_path: str | Path | None,
    workspace: str | Path | None,
    environ: Mapping[str, str],
) -> dict[str, Path]:
    if component is not None and component not in COMPONENTS:
        raise ConfigInitError(f"Unknown component: '{component}'. Valid components: {', '.join(COMPONENTS)}")
    if output_path is not None:
        if component is None:
            raise ConfigInitError("Error: --output-path needs --component.")
        return {component: Path(output_path)}
    root = workspace or environ.get(WORKSPACE_VARIABLE)
    if not root:
        raise ConfigInitError(
            f"Error: Workspace path must be specified via --workspace or {WORKSPACE_VARIABLE} env var."
        )
    names = COMPONENTS if component is None else {component: COMPONENTS[component]}
    return {name: Path(root, path) for name, path in names.items()}
