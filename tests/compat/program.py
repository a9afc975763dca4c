"""What a program's row is made of, and how one run of it goes: files, servers and commands, one after another.

Commands are split as a shell would. In them and in files stand names: `$folder` is the bed's, `$loads` our own loads',
`$python` this interpreter; a name that ends in `port` is a free port, the same one wherever it stands in one run.
"""

import getpass
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from tests.compat.bed import Bed, CompatError, Hung
from tests.compat.bodies import Content, same, same_files
from tests.compat.outcome import PASSED, Outcome, verdict

LOADS = Path(__file__).parent / "loads"
"""Loads of our own, for programs that bring none."""

Done = subprocess.CompletedProcess[bytes]


class Names(dict[str, str]):
    """What each name stands for in one run."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(folder=str(bed.folder), loads=str(LOADS), python=sys.executable, me=getpass.getuser())
        self["nginx_user"] = "user root;" if os.geteuid() == 0 else ""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        self["nginx_temporary"] = " ".join(f"{kind}_temp_path {bed.folder}/{kind};" for kind in kinds)
        self._bed = bed

    def __missing__(self, name: str) -> str:
        if not name.endswith("port"):
            raise KeyError(name)
        self[name] = str(self._bed.port())
        return self[name]


class Course:
    """One run so far: what its names stand for, and what it told.

    rate   what commands said that they do in a second, added up; what the bytes that they moved tell comes to it
    """

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.names = Names(bed)
        self.results: dict[str, str] = {}
        self.rate = self.seconds = 0.0
        self.moved_bytes = 0

    def words(self, command: str) -> list[str]:
        """A command's words; one like /usr/lib/*/x is the last such file."""
        words = [Template(word).substitute(self.names) for word in shlex.split(command)]
        return [str(max(Path("/").glob(word[1:]))) if word.startswith("/") and "*" in word else word for word in words]

    def run(self, command: str, **how: object) -> Done:
        """`Bed.run`."""
        return self.bed.run(*self.words(command), **how)  # type: ignore[arg-type]

    def tell(self, name: str, word: str) -> None:
        """A result; of two under one name, the first that has not passed."""
        if self.results.get(name, PASSED) == PASSED:
            self.results[name] = word

    def outcome(self, rate_of: str) -> Outcome:
        """The whole."""
        rate = self.rate + (self.moved_bytes / self.seconds if self.moved_bytes else 0)
        return Outcome(self.results, rate if rate_of else None, rate_of)


Step = Callable[[Course], None]


@dataclass(frozen=True)
class Write:
    """A file in the bed's folder: text in which names stand, or bytes."""

    name: str
    content: str | Content

    def __call__(self, course: Course) -> None:
        path = course.bed.folder / self.name
        path.parent.mkdir(exist_ok=True)
        if isinstance(self.content, str):
            path.write_text(Template(self.content).substitute(course.names))
        else:
            path.write_bytes(self.content())


@dataclass(frozen=True)
class Serve:
    """A server that ends with the run; the run goes on once its port listens."""

    command: str
    port: str = "port"
    user: str | None = None
    stop: signal.Signals = signal.SIGTERM

    def __call__(self, course: Course) -> None:
        words = course.words(self.command)
        course.bed.serve(*words, port=int(course.names[self.port]), user=self.user, stop=self.stop)


@dataclass(frozen=True)
class Downloads:
    """So many times curl's URL, into files of their own; each must be the wanted bytes."""

    url: str
    count: int
    wants: Content


@dataclass(frozen=True)
class Command:
    """A command to its end, and what must come of it. Without a name it prepares: what fails there ends the run.

    wants    what it writes to stdout, or `part` of that
    files    what files in the bed's folder hold afterwards
    judge    the word on what it wrote; may tell more by the course
    moves    bytes, for the rate
    times    it is run so often; each must be good
    """

    command: str
    name: str = ""
    wants: Content | None = None
    part: Callable[[bytes], bytes] = bytes
    files: Mapping[str, Content] = field(default_factory=dict)
    downloads: Downloads | None = None
    judge: Callable[[Course, Done], str] | None = None
    stdin: Content = bytes
    user: str | None = None
    statuses: tuple[int, ...] | None = (0,)
    timeout_s: float = 120
    moves: int = 0
    times: int = 1

    def __call__(self, course: Course) -> None:
        for _ in range(self.times):
            try:
                self._once(course)
            except CompatError as error:
                if not self.name or course.bed.mode is None:
                    raise
                course.tell(self.name, verdict(False, error))  # the others are to be seen
                if isinstance(error, Hung):
                    course.bed.hangs.append(error.stacks)
                return

    def _once(self, course: Course) -> None:
        got, command = course.bed.folder / "got", self.command
        if self.downloads:
            got.mkdir()
            command += "".join(f" {self.downloads.url} -o {got}/{n}" for n in range(self.downloads.count))
        began = time.monotonic()
        try:
            done = course.run(
                command,
                stdin=self.stdin(),
                user=self.user,
                statuses=self.statuses,
                timeout_s=self.timeout_s,
            )
            if self.moves:
                course.seconds += time.monotonic() - began
                course.moved_bytes += self.moves
            words = [same(self.part(done.stdout), self.wants())] if self.wants else []
            words += [same_files([course.bed.folder / name], content()) for name, content in self.files.items()]
            if self.downloads:
                words.append(same_files((got / str(n) for n in range(self.downloads.count)), self.downloads.wants()))
            if self.judge:
                words.append(self.judge(course, done))
        finally:
            shutil.rmtree(got, ignore_errors=True)
        for word in (words or [PASSED]) if self.name else ():
            course.tell(self.name, word)


@dataclass(frozen=True)
class Program:
    """One program that real hosts run.

    needs    what must be on PATH (or match, where it begins with a slash), and the Debian package that brings it
    steps    one run: files, servers, commands, or a function of the course where a row does not say it
    rate_of  the unit of its rate, if it has one
    paced    its loopback has a rate, so that queues stand; False where its own suite takes loopback to be instant
    """

    name: str
    about: str
    needs: Mapping[str, str]
    steps: Callable[[], Iterable[Step]]
    rate_of: str = ""
    paced: bool = True

    def missing(self) -> tuple[str, ...]:
        """The packages that would have to be installed here."""
        return tuple(dict.fromkeys(package for command, package in self.needs.items() if not _is_there(command)))

    def run(self, bed: Bed) -> Outcome:
        """One run on a bed; raises CompatError (Hung) where it can't be carried through."""
        course = Course(bed)
        for step in self.steps():
            step(course)
        return course.outcome(self.rate_of)


def _is_there(command: str) -> bool:
    if command.startswith("/"):
        return any(Path("/").glob(command.removeprefix("/")))
    return shutil.which(command) is not None
