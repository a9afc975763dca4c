"""A page's two authors are told apart by marks."""

from lab.experiment.page import parted


def test_a_page_is_parted_at_its_marks():
    assert parted("a<b>c</b>d", "<b>", "</b>") == ("a", "c", "d")
    assert parted("<b></b>", "<b>", "</b>") == ("", "", "")


def test_without_both_marks_in_order_all_stands_before():
    for text in ("", "abc", "a<b>c", "a</b>c", "a</b>b<b>c"):
        assert parted(text, "<b>", "</b>") == (text, "", "")
