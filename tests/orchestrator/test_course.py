"""What hosts felt, remembered by windows and by the policy in force."""

import math

import pytest
from qclimb.stretch import CONNECTIONS_MOST, LOG_MOST, Stretch

from orchestrator.watch.course import KEPT, WINDOW_S, Course


def test_windows_are_the_median_of_hosts_and_a_new_policy_begins_its_own():
    course = Course()
    course.add("h1", Stretch(1, 0.0), 1000.0, 1)
    course.add("h2", Stretch(3, math.log(4)), 1005.0, 1)
    assert course.points() == []  # not whole yet
    course.add("h1", Stretch(1, math.log(2)), 1007.0, 2)
    course.add("h1", Stretch(1, 0.0), 1015.0, 2)
    first, second = course.points()
    assert (first.at, first.generation, first.hosts, first.connections) == (1000.0, 1, 2, 4)
    assert first.stretch == pytest.approx(2.5)
    assert (second.at, second.generation, second.stretch) == (1007.0, 2, pytest.approx(2))


def test_one_host_moves_no_window_whatever_it_reports_and_one_that_is_forgotten_counts_no_more():
    course = Course()
    for host in ("h1", "h2", "h3"):
        course.add(host, Stretch(2, math.log(2)), 1000.0, 1)
    for _ in range(100):
        course.add("liar", Stretch(CONNECTIONS_MOST, LOG_MOST), 1000.0, 1)
    course.add("h1", Stretch(2, math.log(2)), 1010.0, 1)
    course.forget("h1")
    course.add("h2", Stretch(2, math.log(3)), 1010.0, 1)
    course.add("h2", Stretch(2, 0.0), 1020.0, 1)
    first, second = course.points()
    assert (first.stretch, first.hosts) == (pytest.approx(2), 4)
    assert (second.stretch, second.hosts) == (pytest.approx(3), 1)


def test_it_remembers_an_hour_and_a_clock_that_jumps_back_ends_a_window():
    course = Course()
    for window in range(KEPT + 50):
        course.add("h1", Stretch(1, 0.1), window * WINDOW_S, 1)
    assert len(course.points()) == KEPT
    course.add("h1", Stretch(1, 0.1), 5.0, 1)
    course.add("h1", Stretch(1, 0.1), 25.0, 1)
    assert course.points()[-1].at == 0.0


def test_rest_tells_it_by_the_policy_in_force(admin, service):
    now = [1000.0]
    service._felt("h1", Stretch(2, 0.0))
    admin.post("/v1/hosts/h1/records", json={"stretch": {"connections": 2, "log_mean": math.log(3)}}).raise_for_status()
    service.course.add("h1", Stretch(1, 0.0), now[0], 7)  # a clock that jumped, and another policy
    (point,) = admin.get("/v1/felt").json()
    assert (point["generation"], point["hosts"], point["connections"]) == (0, 1, 2)
    assert point["stretch"] == pytest.approx(3**0.5)
