"""The page in a real browser, over the real server: log in, read a number off a chart, roll out, see it roll back."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from qclimb.histogram import SizeHistogram
from qclimb.lengths import Announced, LengthRule, Score, Service, Use
from qclimb.stretch import Stretch
from qclimb.switch_state import SpineState, SwitchState

from orchestrator.fabric.door import ClassCount, Told
from orchestrator.ingest.recordings import Arrived, kept_of
from orchestrator.models.drift import Window
from orchestrator.rest import page as files
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.watch.spines import Seen
from orchestrator.watch.traffic import Looks
from tests.orchestrator.conftest import service_records
from tests.orchestrator.served import served

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DEADLINE_MS = 60_000
SHOTS = Path("/tmp/qclimb-page")
"""Screenshots go here where the folder is there."""

pytestmark = [
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed (apt-get install chromium)"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def told(seconds: float, drops: int) -> Told:
    counts = {
        priority: ClassCount(
            int(seconds * 4e8 / 2**priority), int(seconds * 3e5 / 2**priority), drops * (priority == 3)
        )
        for priority in range(4)
    }
    alarms = {2: "Ethernet4: 0.9 of its bytes, 0.2 are foretold"} if drops else {}
    warning = "Ethernet0: its strict queues may starve queue 3; give its classes a max_share" if drops else ""
    return Told("seen", {"applied": 32}, counts, alarms, warning)


def uplinks(leaf: str, seconds: float) -> SwitchState:
    """What a leaf tells of its links, so long after it began; l2's link to s1 drops, l3's to s2 is down."""
    sent, drops = int(10**9 + 2e8 * seconds), int(3 * seconds) if leaf == "l2" else 0
    spines = {"s1": SpineState("s1", "up", link_bytes=sent, link_dropped_packets=drops)}
    spines["s2"] = SpineState("s2", "up", link_bytes=sent // 2, link_dropped_packets=0)
    if leaf == "l3":
        spines["s2"] = SpineState("s2", "down", reason="no carrier", bytes=0)
    return SwitchState("acl", 64, spines)


@pytest.fixture
def url(service) -> Iterator[str]:
    """A fabric of two spines, three leaves that can't be reached, and 40 hosts, of which one delivered flows."""
    store, records = service.store, service_records(1500)
    for name in ("h1", *(f"h{number}" for number in range(2, 41))):
        store.put_host(name)
    sizes = service.recordings
    with store.writing() as connection:
        histogram = SizeHistogram.of(each.size_bytes for each in records)
        sizes.add_all(connection, [Arrived("monday", "h1", kept_of(records), histogram, 0)])
        store.hosts_seen(connection, {f"h{number}": 0 for number in range(1, 39)}, time.time())
    now = time.time()
    for name, role in (("s1", "spine"), ("s2", "spine"), ("l1", "leaf"), ("l2", "leaf"), ("l3", "leaf")):
        store.put_switch(name, "127.0.0.1:1", role, None)
        looks = Looks().and_then(now - 60, 0, told(0, 0)).and_then(now, 60, told(60, 90 if name == "l2" else 0))
        service.switches.looks[name] = looks
    for leaf in ("l1", "l2", "l3"):
        service.spines.seen[leaf] = Seen(now, uplinks(leaf, 0))
    service.certificates = {}
    service.switches.certificate_ends["l1"] = now + 9.5 * 86400
    service.intake.unobserved["h7"] = 12
    with served(service) as found:
        yield found


@pytest.fixture
def in_force(service) -> Iterator[str]:
    """Two revisions of h1's flows were rolled out, and the bounds of a model are watched."""
    records = service_records(1500)
    with served(service) as found, httpx.Client(base_url=found) as rest:
        rest.headers["Authorization"] = f"Bearer {tokens.issue(service.store, 'root', Role.ADMIN)}"
        rest.put("/v1/hosts/h1").raise_for_status()
        rest.post("/v1/hosts/h1/records", json={"records": [each.to_json() for each in records]}).raise_for_status()
        for number, priorities in ((1, 3), (2, 8)):
            rest.post("/v1/revisions", json={"priorities": priorities}).raise_for_status()
            rest.post("/v1/rollouts", json={"revision": number}).raise_for_status()
            while service.runner.running:
                rest.post("/v1/hosts/h1/records", json={"policy_generation": number}).raise_for_status()
        for at in range(40):
            felt = Stretch(20, 0.7 if at < 20 else 0.25)
            service.course.add("h1", felt, time.time() - 400 + 10 * at, 1 if at < 20 else 2)
        windows = [Window(2000, 400, misses, 20, 1.1).to_json() for misses in (1, 2, 1, 3, 9, 38)]
        offer = {"model": 8, "revision": 1, "why": "interval score 1.9 -> 1.2", "rollout": None}
        told = {"model": 7, "target": 0.999, "drifted": "38 of the newest 2000 flows lie outside their bounds"}
        drift = {**told, "windows": windows, "off": None, "tried": {"why": offer["why"]}, "offer": offer}
        service.store.set_setting("drift", drift)
        yield found


@pytest.fixture
def page(chromium, url):
    """At the login of a fabric."""
    yield from opened(chromium, url)


@pytest.fixture
def page_in_force(chromium, in_force):
    """The same of one with a policy in force."""
    yield from opened(chromium, in_force)


def opened(chromium, url: str):
    """1280 px wide; fails where the page says an error, or asks another machine for anything."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(DEADLINE_MS)
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    tab.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith((url, "data:")) else None)
    tab.goto(url)
    yield tab
    context.close()
    assert not [each for each in wrong if "401" not in each]


def log_in(page, service, role: Role = Role.ADMIN) -> None:
    page.get_by_label("Token").fill(tokens.issue(service.store, "me", role))
    page.get_by_role("button", name="Log in").click()
    page.locator("#tiles .tile").first.wait_for()


def until(page, holds: str) -> None:
    """Waits for an expression; `wait_for_function` has the page evaluate it, which the page's policy forbids."""
    end = time.monotonic() + DEADLINE_MS / 1000
    while not page.evaluate(holds):
        assert time.monotonic() < end, holds
        page.wait_for_timeout(20)


def shot(page, name: str) -> None:
    if SHOTS.is_dir():
        page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def test_a_wrong_token_is_refused_with_the_reason(page):
    shot(page, "login")
    page.get_by_label("Token").fill("qct_guess")
    page.keyboard.press("Enter")
    page.get_by_text("expected Bearer and a known token").wait_for()
    assert page.locator("#app").is_hidden()


@pytest.mark.system
def test_a_number_can_be_read_off_the_chart_of_sizes(page, service):
    log_in(page, service)
    over = page.locator("#sizes .u-over")
    over.scroll_into_view_if_needed()
    where = over.bounding_box()
    readings = []
    for part in (0.4, 0.6, 0.95):
        over.hover(position={"x": part * where["width"], "y": 60})
        row = page.locator("#sizes .u-legend").inner_text()
        readings.append(float(re.search(r"of flows\s*:?\s*([\d.]+) %", row)[1]))
    assert 0 < readings[0] < readings[1] < readings[2] <= 100
    assert "1,500 flows of 1 hosts" in page.locator("#sizes-note").inner_text()


def test_a_rollout_is_begun_and_seen_to_roll_back(page, service):
    log_in(page, service)
    page.get_by_label("Sizes of the recording").select_option("monday")
    page.get_by_label("Priorities").fill("4")
    page.get_by_role("button", name="Compute thresholds").click()
    page.locator("#revisions tbody tr").wait_for()
    until(page, "document.getElementById('start-revision').value === '1'")
    page.get_by_label("Waves").select_option(label="A quarter, a half, then all")
    page.get_by_label("Soak after a wave, s").fill("0")
    page.get_by_label("Switches that may be away").fill("0")
    page.get_by_role("button", name="Roll out", exact=True).click()
    page.locator("#running .pill", has_text="rolled-back").wait_for()
    assert "can't be reached" in page.locator("#running .error").inner_text() or "127.0.0.1:1" in (
        page.locator("#running .error").inner_text()
    )
    page.locator("#attention", has_text="rolled-back").wait_for()
    assert service.store.rollout(1).phase == "rolled-back"
    page.locator("#slowdown .u-over").wait_for()  # there is a revision now
    assert "Small flows" not in page.locator("#slowdown-note").inner_text()  # none is in force
    page.locator("#audit-log", has_text="start-rollout").wait_for()
    shot(page, "rolled-back")


@pytest.mark.system
def test_all_hosts_are_switched_off_by_one_button_that_asks_before(page, service):
    log_in(page, service, Role.OPERATOR)
    page.get_by_role("button", name="Switch hosts off").click()
    page.get_by_role("button", name="Leave it").click()
    assert service.store.off is None
    page.get_by_role("button", name="Switch hosts off").click()
    shot(page, "off")
    page.get_by_role("button", name="Switch off", exact=True).click()
    page.locator("#attention", has_text="All hosts are switched off").wait_for()
    assert service.store.off.by == "me"
    page.get_by_role("button", name="Switch hosts on").click()
    page.get_by_role("button", name="Switch on", exact=True).click()
    page.get_by_role("button", name="Switch hosts off").wait_for()
    assert service.store.off is None


@pytest.mark.system
def test_thresholds_in_force_slowdowns_and_coverage_are_shown_and_an_offer_is_taken(page_in_force, service):
    page = page_in_force
    log_in(page, service)
    cuts = service.store.setting("policy")["threshold_bytes"]
    assert len(cuts) == 7
    assert page.locator("#sizes-note").inner_text().count("B,") >= 6
    over = page.locator("#slowdown .u-over")
    over.scroll_into_view_if_needed()
    where = over.bounding_box()
    small = []
    for part in (0.1, 0.9):  # without thresholds, with revision 2
        over.hover(position={"x": part * where["width"], "y": 90})
        small.append(float(re.search(r"small\s*:?\s*([\d.]+)", page.locator("#slowdown .u-legend").inner_text())[1]))
    assert small[0] == 2.5 > small[1] >= 1  # at load 0.6 all flows wait alike: 1 / (1 - 0.6)
    felt = page.locator("#felt .u-over")
    felt.scroll_into_view_if_needed()
    levels = []
    for part in (0.2, 0.8):  # under revision 1, under revision 2
        felt.hover(position={"x": part * felt.bounding_box()["width"], "y": 90})
        levels.append(float(re.search(r"stretch\s*:?\s*([\d.]+)×", page.locator("#felt .u-legend").inner_text())[1]))
    assert levels == [pytest.approx(2.01, abs=0.01), pytest.approx(1.28, abs=0.01)]
    page.locator("#coverage .u-over").hover()
    assert re.search(r"not outside\s*:?\s*9\d\.\d\d %", page.locator("#coverage .u-legend").inner_text())
    shot(page, "in-force")
    page.get_by_role("button", name="Roll out the offer").click()
    page.locator("#running", has_text="Rollout 3 is under way").wait_for()
    page.get_by_role("button", name="Abort").wait_for(state="detached")  # no switches: its policy is in force at once
    assert service.store.rollout(3).revision == 1


@pytest.mark.system
def test_what_needs_an_operator_is_said_first(page, service):
    log_in(page, service)
    said = page.locator("#attention").inner_text()
    for needed in (
        "Switch l2 drops 1.5 packets/s",
        "Switch l2, priority 2: Ethernet4",
        "Switch l2: Ethernet0: its strict queues may starve queue 3",
        "2 hosts are silent",
        "12 flows bypassed",
        "ends in 9 days",
    ):
        assert needed in said
    assert "3.20 Gb/s" in page.locator("#traffic").inner_text()
    assert page.locator("#topology line.down").count() == 1
    assert page.locator("#host-table", has_text="h40").count() == 1
    shot(page, "light")


@pytest.mark.system
def test_each_link_tells_what_it_carries_and_which_one_drops(page, service):
    log_in(page, service)
    begun, load = service.spines.seen["l1"].at, "0.8"
    end = time.monotonic() + 60
    while page.locator("#topology line.drops").count() == 0:
        assert time.monotonic() < end, page.locator("#topology").inner_html()
        now = time.time()
        for leaf in ("l1", "l2", "l3"):
            service.spines.seen[leaf] = Seen(now, uplinks(leaf, now - begun))
        page.locator("#load").select_option(load)  # what asks anew
        load = "0.6" if load == "0.8" else "0.8"
        page.wait_for_timeout(200)
    texts = page.locator("#topology text.small").all_text_contents()
    rates = sorted(float(text.split()[0]) for text in texts if re.fullmatch(r"[\d.]+ (G|M)b/s", text))
    assert len(rates) >= 5 + 5, "five links that are up, five switches"
    (dropping,) = page.locator("#topology line.drops title").all_text_contents()
    found = re.fullmatch(r"l2 to s1: up, ([\d.]+) Gb/s, [\d.]+ drops/s", dropping)
    assert found is not None and 1.5 < float(found[1]) < 1.7, "200 MB a second of the leaf's clock"
    shot(page, "links")


@pytest.mark.system
def test_a_window_that_changes_its_size_before_all_is_told_draws_nothing_half(page, service):
    held, goes_on = [], []
    page.route("**/v1/traffic", lambda route: route.continue_() if goes_on else held.append(route))
    page.get_by_label("Token").fill(tokens.issue(service.store, "me", Role.ADMIN))
    page.get_by_role("button", name="Log in").click()
    end = time.monotonic() + 60
    while not held:
        assert time.monotonic() < end
        page.wait_for_timeout(20)
    page.set_viewport_size({"width": 900, "height": 800})
    page.wait_for_timeout(200)
    goes_on.append(True)
    for route in held:
        route.continue_()
    page.locator("#topology svg").wait_for()  # and no error, as the fixture says


def test_a_viewer_is_offered_nothing_that_it_may_not_do(page, service):
    log_in(page, service, Role.VIEWER)
    assert page.locator("#start").is_hidden() and page.locator("#revise").is_hidden()
    assert page.locator("#lengths").inner_text() == "Hosts have found none yet."
    assert "asks for an admin's token" in page.locator("#audit-log").inner_text()


@pytest.mark.system
def test_lengths_are_listed_with_their_score_and_an_operator_forbids_one(page, service):
    rule = LengthRule(12, 4, False, 16)
    found = Announced(Service("kafka", 1, 9092), rule, Use.IN_FORCE, Score(exact=970, short=25, beyond=5))
    web = Announced(Service("nginx", 1, 80), None, Use.IN_FORCE, Score(exact=20))
    service.lengths.heard("h1", [found, web])
    log_in(page, service)
    row = page.locator("#lengths tr", has_text="kafka:accepts:9092")
    for said in ("4 bytes at 12, little endian + 16", "1,000", "97.0 %", "2.5 %", "0.5 %", "in force"):
        assert said in row.inner_text()
    assert "Content-Length" in page.locator("#lengths tr", has_text="nginx:accepts:80").inner_text()
    row.get_by_role("button", name="Pin").click()
    row.get_by_text("pinned").wait_for()
    assert service.lengths.fabric.known[found.service].rule == rule
    row.get_by_role("button", name="Forbid").click()
    row.get_by_text("forbidden").wait_for()
    assert service.lengths.fabric.known[found.service].use is Use.FORBIDDEN
    shot(page, "lengths")
    drawn = "import('/page/dom.js').then(({ h }) => h('td', { title: 'a\u202eb' }, 'a\u202e\ud800\x1bb').outerHTML)"
    assert page.evaluate(drawn) == '<td title="a\\u{202e}b">a\\u{202e}\\u{d800}\\u{1b}b</td>'
    row.get_by_role("button", name="Take back").click()
    row.wait_for(state="detached")
    assert found.service not in service.lengths.fabric.known
    page.locator("#audit-log", has_text="pin-lengths").wait_for()


@pytest.mark.system
def test_it_fits_a_phone_and_the_dark_and_goes_by_keyboard(page, service):
    log_in(page, service)
    page.keyboard.press("3")
    until(page, "location.hash === '#flows'")
    page.get_by_role("button", name="Light or dark").click()
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", ground)[:3]) < 60
    shot(page, "dark")
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "document.documentElement.scrollWidth <= innerWidth")
    shot(page, "phone")
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_it_comes_from_the_package_and_asks_no_other_machine(url):
    assert httpx.get(url).headers["content-security-policy"].startswith("default-src 'none'")
    names = {path.name for path in files.FOLDER.iterdir()}
    for name in names - {"vendor"}:
        answer = httpx.get(f"{url}/page/{name}")
        assert answer.status_code == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
        text = answer.text.replace("http://www.w3.org/", "")
        assert "http://" not in text and "https://" not in text, name
    assert "MIT License" in (files.FOLDER / "vendor" / "uPlot-LICENSE.txt").read_text()
