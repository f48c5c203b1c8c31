"""The built-in prompt templates (spec section 5), defined here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libs.prompts.labels import Language

DEFAULT_EVALUATOR_USER_PROMPT = """---
現在日時: {{ current_datetime }}
---

以下のユーザクエリに対するエージェントの提出内容を、あなたの役割に従って評価してください。

# ユーザクエリ
{{ user_query }}

# 提出内容
{{ submission }}
"""

DEFAULT_JUDGMENT_USER_PROMPT = """# タスク
以下の提出履歴に基づいて、チームは次のラウンドに進むべきでしょうか？判定、理由、確信度を提供してください。

# ユーザクエリ
{{ user_prompt }}

# 提出履歴
{{ submission_history }}

# リーダーボード
{{ ranking_table }}
"""

DEFAULT_TEAM_USER_PROMPT = (
    """---
現在日時: {{ current_datetime }}
---

# タスク
以下のユーザクエリに対する提出内容を作成してください。"""
    "{% if round_number > 1 %}過去の提出履歴と順位を踏まえ、前回より改善してください。{% endif %}"
    """

# ユーザクエリ
{{ user_prompt }}

# ラウンド
{{ round_number }}

# 提出履歴
{{ submission_history }}

# リーダーボード
{{ ranking_table }}

# 現在の順位
{{ team_position_message }}
"""
)

ENGLISH_EVALUATOR_USER_PROMPT = """---
Current date and time: {{ current_datetime }}
---

Evaluate the submission of an agent for the following user query, according to your role.

# User query
{{ user_query }}

# Submission
{{ submission }}
"""

ENGLISH_JUDGMENT_USER_PROMPT = """# Task
Based on the submissions so far, should the team go on to another round? Give verdict, reason and confidence.

# User query
{{ user_prompt }}

# Submissions so far
{{ submission_history }}

# Leaderboard
{{ ranking_table }}
"""

ENGLISH_TEAM_USER_PROMPT = (
    """---
Current date and time: {{ current_datetime }}
---

# Task
Write a submission for the following user query."""
    "{% if round_number > 1 %} Use the earlier submissions and the ranking to do better than last time.{% endif %}"
    """

# User query
{{ user_prompt }}

# Round
{{ round_number }}

# Submissions so far
{{ submission_history }}

# Leaderboard
{{ ranking_table }}

# Current position
{{ team_position_message }}
"""
)


@dataclass(frozen=True, slots=True)
class BuiltInTemplates:
    """The templates of one language."""

    team_user_prompt: str
    evaluator_user_prompt: str
    judgment_user_prompt: str


BUILT_IN_TEMPLATES: Mapping[Language, BuiltInTemplates] = {
    "ja": BuiltInTemplates(DEFAULT_TEAM_USER_PROMPT, DEFAULT_EVALUATOR_USER_PROMPT, DEFAULT_JUDGMENT_USER_PROMPT),
    "en": BuiltInTemplates(ENGLISH_TEAM_USER_PROMPT, ENGLISH_EVALUATOR_USER_PROMPT, ENGLISH_JUDGMENT_USER_PROMPT),
}
