"""A page's two authors are told apart by marks."""

from lab.experiment.page import parted, rewrite


def test_a_page_is_parted_at_its_marks():
    assert parted("a<b>c</b>d", "<b>", "</b>") == ("a", "c", "d")
    assert parted("<b></b>", "<b>", "</b>") == ("", "", "")


def test_without_both_marks_in_order_all_stands_before():
    for text in ("", "abc", "a<b>c", "a</b>c", "a</b>b<b>c"):
        assert parted(text, "<b>", "</b>") == (text, "", "")


def test_what_is_made_anew_leaves_what_a_person_wrote_around_it(tmp_path):
    page = tmp_path / "new" / "page.md"
    rewrite(page, "Title", "<b>", "</b>", "one\n")
    assert page.read_text() == "# Title\n\n<b>\n\none\n\n</b>\n"
    page.write_text(f"Words.\n{page.read_text()}More.\n")
    rewrite(page, "Title", "<b>", "</b>", "two")
    assert page.read_text() == "Words.\n# Title\n\n<b>\n\ntwo\n\n</b>\nMore.\n"
