from concurrent.futures import ThreadPoolExecutor

from lab.build import make

RULES = """built: source
\techo built >> count; sleep 0.3; cp source built.new && mv built.new built
"""


def test_what_two_want_at_once_is_built_once(tmp_path):
    (tmp_path / "Makefile").write_text(RULES)
    (tmp_path / "source").touch()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: make(tmp_path, "built"), range(4))) == [""] * 4
    assert (tmp_path / "count").read_text() == "built\n"


def test_a_target_that_does_not_build_is_told_with_what_make_said(tmp_path):
    (tmp_path / "Makefile").write_text("built:\n\techo 'no such tool' >&2; false\n")
    assert "no such tool" in make(tmp_path, "built")
