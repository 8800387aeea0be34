"""Are words cut at white space, and letter by letter where a script has none, in pure and in mixed text?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.texts.text_words import count_words, first_words, join_words, tokens_of, unspaced_share, words_of

ANY = st.text(st.sampled_from("ab我用ーカ\u0e17\u0e35\u0e48가,.「」( \u200b\u0301"), max_size=20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我們決定工作職掌", list("我們決定工作職掌")),
        ("こんにちは。カード", ["こ", "ん", "に", "ち", "は。", "カー", "ド"]),
        # A vowel mark belongs to its letter, a vowel letter is one.
        ("ที่นี่ดี", ["ที่", "นี่", "ดี"]),
        ("ភាសា\u200bខ្មែរ", ["ភា", "សា", "ខ្", "មែ", "រ"]),
        ("ພາສາ", ["ພ", "າ", "ສ", "າ"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("나는 책을 읽는다", ["나는", "책을", "읽는다"]),
        ("Tôi đọc sách", ["Tôi", "đọc", "sách"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("我用Python3寫code，好", ["我", "用", "Python3", "寫", "code，", "好"]),
        ("「你」(well) e-mail我", ["「你」", "(well)", "e-mail", "我"]),
        ("", []),
        ("\u200b", []),
    ],
)
def test_words_are_cut_by_script(text: str, words: list[str]) -> None:
    assert words_of(text) == words and count_words(text) == len(words)


@given(st.text())
def test_no_letter_is_lost_and_words_are_words(text: str) -> None:
    words = words_of(text)
    assert "".join(words) == "".join(text.replace("\u200b", " ").split()) and "" not in words
    assert [word for token in tokens_of(text) for word in token] == words


@given(ANY, st.integers(1, 6))
def test_the_first_words_are_a_beginning_of_so_many(text: str, most: int) -> None:
    cut = first_words(text, most)
    assert text.startswith(cut) and words_of(cut) == words_of(text)[:most]


def test_glued_words_stay_apart_where_they_would_become_one() -> None:
    assert (
        join_words(["我", "用"]) == "我用"
        and join_words(["so", "it", "我", "go"]) == "so it我go"
        and join_words([]) == ""
    )


def test_the_share_of_letters_is_of_letters_alone() -> None:
    assert unspaced_share(["我用，ab 12", ""]) == 0.5 and unspaced_share(["12 + 3"]) == 0 and unspaced_share([]) == 0
    assert unspaced_share(["나는 책을"]) == 0
