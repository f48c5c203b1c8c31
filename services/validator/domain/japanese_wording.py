"""The forbidden words of the built-in reports as grammar rather than substrings.

Each rule looks at one morpheme and its neighbours. It finds other spellings and close paraphrases of the phrases of
V-17 and V-27, and spares words that only contain them (調べきれない, べき乗, 非推奨, 不正解データ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.validator.domain.japanese import Morpheme, Tokenize, normalise
from services.validator.domain.wording import CheckTime, allow_any_time

Text = Sequence[Morpheme]
Rule = Callable[[Text, int], bool]
"""True when the morpheme at an index is the head of a forbidden expression."""

_NOTHING = Morpheme("", "", "")
_WORDS_BETWEEN_CHECKS = 1_000


def _get_morpheme(text: Text, index: int) -> Morpheme:
    return text[index] if 0 <= index < len(text) else _NOTHING


def _normalize_words(text: Text, start: int, count: int) -> tuple[str, ...]:
    return tuple(_get_morpheme(text, index).normal for index in range(start, start + count))


def is_obligation(text: Text, index: int) -> bool:
    """Match べき, べし, 可き, べからず; not べく, which states a purpose."""
    word = text[index]
    return word.normal == "べし" and word.word_class == "助動詞" and not word.surface.endswith("く")


def is_own_obligation(text: Text, index: int) -> bool:
    """Match すべき and するべき; べき after any other verb is allowed to advisors (V-27)."""
    return is_obligation(text, index) and _get_morpheme(text, index - 1).normal == "為る"


def is_nakereba_form(text: Text, index: int) -> bool:
    """Return whether a word ends an obligation: なければならない, ねばならない, なくてはいけない, ないといけない."""
    if _get_morpheme(text, index).normal not in {"成る", "行ける", "行く"}:
        return False
    if _get_morpheme(text, index + 1).normal not in {"ない", "ぬ", "ず", "ます"}:
        return False
    before = [word.surface for word in text[max(0, index - 3) : index]]
    negated = any(surface in {"なけれ", "なく", "ない", "ね", "なきゃ"} for surface in before)
    return negated and bool(before) and before[-1] in {"ば", "は", "と", "ちゃ", "なきゃ"}


def is_request(text: Text, index: int) -> bool:
    """Match ください, 下さいませ and なさい; not くださいました, a statement."""
    word, after = text[index], _get_morpheme(text, index + 1)
    if word.normal == "下さる" and word.surface in {"ください", "下さい"}:
        return after.normal != "ます" or after.surface == "ませ"
    return word.normal == "為さる" and word.surface in {"なさい", "為さい"} and after.normal != "ます"


def is_plea(text: Text, index: int) -> bool:
    """Match お願いします, お願い申し上げます; て頂きたい, て欲しい."""
    word, before, after = text[index], _get_morpheme(text, index - 1), _get_morpheme(text, index + 1)
    if word.normal == "御願い" or (word.normal == "願う" and before.normal == "御"):
        return after.normal in {"為る", "致す", "申し上げる", "。", ""}
    if before.normal not in {"て", "で"}:
        return False
    return word.normal == "欲しい" or (word.normal == "頂く" and after.normal == "たい")


_OPEN = {"か", "場合", "時", "なら", "かも", "かどうか", "ば", "と", "限り", "たび", "もの", "物", "事", "際"}
"""Words after a need that is questioned or supposed, not claimed."""


def is_need(text: Text, index: int) -> bool:
    """Match が必要です, が必要だ, が必要である, 必要がある; not a question, a condition, a denial or the past."""
    if text[index].normal != "必要":
        return False
    if _get_morpheme(text, index - 1).surface in {"が", "も"} and _get_morpheme(text, index + 1).normal in {
        "です",
        "だ",
    }:
        rest = _normalize_words(text, index + 2, 3)
        if _get_morpheme(text, index + 1).surface == "だっ" or _get_morpheme(text, index + 1).surface == "でし":
            return False
        if _get_morpheme(text, index + 1).surface in {"な", "なら", "だろう", "で"} and rest[0] != "有る":
            return False
        return not (set(rest) & _OPEN) and "ない" not in rest
    if _get_morpheme(text, index + 1).surface == "が" and _get_morpheme(text, index + 2).normal == "有る":
        rest = _normalize_words(text, index + 3, 3)
        return not (set(rest) & _OPEN) and "た" not in rest
    return False


_GARMENT_BEFORE = {"防寒", "安全", "反射", "救命", "ダウン", "作業", "ニット", "フリース", "制服", "蛍光"}
_GARMENT_AFTER = {"着る", "羽織る", "脱ぐ", "着用", "洗う", "配る", "支給"}
_VERDICT_NOUNS = {"案", "策", "解", "手", "択", "選択", "選択肢", "方法"}


def is_best(text: Text, index: int) -> bool:
    """Match ベスト, 最善, 最良, 最適 as a verdict; not 最善を尽くす, not a garment, not 最適化 or 最適温度."""
    word, after = text[index], _get_morpheme(text, index + 1)
    if word.normal == "最適解":
        return True
    if word.normal == "最適" and after.word_class in {"名詞", "接尾辞"}:
        return after.normal in _VERDICT_NOUNS
    if word.normal not in {"ベスト", "最善", "最良", "最適"} or word.word_class not in {"名詞", "形状詞"}:
        return False
    following = set(_normalize_words(text, index + 1, 3))
    worn = _get_morpheme(text, index - 1).normal in _GARMENT_BEFORE or bool(_GARMENT_AFTER & following)
    return not worn and "尽くす" not in following


def is_superlative(text: Text, index: int) -> bool:
    """Match 一番良い, 最も良い."""
    return text[index].normal in {"一番", "最も"} and _get_morpheme(text, index + 1).normal == "良い"


_TECHNICAL = {"環境", "値", "スペック", "設定", "構成", "バージョン", "動作", "要件", "規格", "サイズ", "容量"}


def is_recommendation(text: Text, index: int) -> bool:
    """Match 推奨, おすすめ, 勧める, イチオシ; not 非推奨, not technical terms such as 推奨環境."""
    word, before = text[index], _get_morpheme(text, index - 1)
    if word.normal == "推奨":
        return before.normal not in {"非", "不"} and _get_morpheme(text, index + 1).normal not in _TECHNICAL
    if word.normal in {"御勧め", "一押し", "イチオシ", "いちおし", "一推し", "一押"}:
        return True
    if word.normal in {"勧める", "薦める", "奨める"}:
        return word.word_class == "動詞"
    return word.normal == "すすめる" and before.normal == "御"


def is_right_answer(text: Text, index: int) -> bool:
    """Match 正解 as a verdict; not 不正解, not compounds such as 正解率 and 正解データ."""
    after = _get_morpheme(text, index + 1)
    if text[index].normal != "正解" or _get_morpheme(text, index - 1).normal in {"不", "非"}:
        return False
    return after.word_class not in {"名詞", "接尾辞"} or after.normal in _VERDICT_NOUNS


ORGANIZER_RULES: Sequence[Rule] = (is_obligation, is_nakereba_form, is_request, is_plea, is_need)
ADVISOR_RULES: Sequence[Rule] = (is_best, is_superlative, is_recommendation, is_right_answer, is_own_obligation)


@dataclass(frozen=True, slots=True)
class LinguisticRules:
    """Finds forbidden expressions by rules over morphemes."""

    tokenize: Tokenize
    rules: Sequence[Rule]

    def occurs_in(self, text: str, check_time: CheckTime = allow_any_time) -> bool:
        """Return whether a rule applies somewhere in the text."""
        words = _split_words(self.tokenize, text, check_time)
        return any(rule(words, index) for index in range(len(words)) for rule in self.rules)


class LinguisticPhrases:
    """Finds given phrases as sequences of normalised words, so that spelling and word boundaries are those of words."""

    def __init__(self, tokenize: Tokenize, phrases: Sequence[str]) -> None:
        self._tokenize = tokenize
        self._by_first_word: dict[str, set[tuple[str, ...]]] = {}
        for phrase in phrases:
            wanted = tuple(word.normal for word in tokenize(normalise(phrase)))
            if wanted:
                self._by_first_word.setdefault(wanted[0], set()).add(wanted)

    def occurs_in(self, text: str, check_time: CheckTime = allow_any_time) -> bool:
        """Return whether one of the phrases occurs as whole words."""
        normals = tuple(word.normal for word in _split_words(self._tokenize, text, check_time))
        return any(
            normals[start : start + len(wanted)] == wanted
            for start, first in enumerate(normals)
            for wanted in self._by_first_word.get(first, ())
        )


def _split_words(tokenize: Tokenize, text: str, check_time: CheckTime) -> Text:
    words: list[Morpheme] = []
    for word in tokenize(normalise(text)):
        if len(words) % _WORDS_BETWEEN_CHECKS == 0:
            check_time()
        words.append(word)
    return words
