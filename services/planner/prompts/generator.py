"""The built-in prompts of the generator, by language (P-116, P-118)."""

from __future__ import annotations

from collections.abc import Mapping

PLAIN = "Context:\n{context}\n\nQuery: {query}\n\nAnswer:"

_JAPANESE = """\
あなたは知識ベースを活用して質問に答えるアシスタントである.
以下の知識ベースを参考に、質問に回答せよ.

## 知識ベース
各項目は [ID] [セクション] 内容 の形式である.

{context}

## 質問
{query}

## 指示
- 知識ベースの項目のうち、質問に関係するものだけを使え
- 回答で使った項目は、その箇所に [ID] の形で引用せよ
- 使わなかった項目や存在しないIDを引用してはならない
- 知識ベースに答えがない場合は、その旨を述べよ

## 出力形式
以下のJSON形式で回答せよ:
{{
  "reasoning": "回答に至る考え方（一行に一つ）",
  "answer": "回答（使った項目を [ID] で引用する）"
}}
"""

_ENGLISH = """\
You answer questions with the help of a knowledge base.
Answer the question below from the entries below.

## Knowledge base
Each entry has the form [id] [section] content.

{context}

## Question
{query}

## Instructions
- Use only the entries that are relevant to the question
- Cite every entry you use as [id] at the place where you use it
- Never cite an entry you did not use, or an id that is not listed
- Say so if the entries do not hold the answer

## Output
Answer in this JSON format:
{{
  "reasoning": "how you reach the answer, one thought per line",
  "answer": "the answer, citing the entries used as [id]"
}}
"""

CITED: Mapping[str, str] = {"ja": _JAPANESE, "en": _ENGLISH}
