"""What an operator looks at: traffic by priority, what revisions are foretold to do, certificates that end."""

import time
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ..plan.sizes import SizeDistribution
from ..plan.slowdowns import slowdowns
from ..plan.thresholds import LOAD
from ..store.generations import number_of
from ..store.store import StoredRollout
from ..watch.certificates import Certificate, in_files
from ..watch.course import Point
from . import answers
from .access import Reader, Viewer
from .bodies import Label, Share
from .off import told_off
from .rollouts import whole
from .service import Service

Json = dict[str, Any]

REVISIONS_MOST = 50
NAMED_MOST = 100
"""Devices that stand out; the others are counted."""
SILENT_S = 60.0
"""A host that has said nothing for so long is silent; it delivers every ten seconds or more often."""


def add(app: FastAPI, service: Service) -> None:
    """Its routes."""
    store = service.store

    def failing(last: StoredRollout | None) -> dict[str, str]:
        """By switch: why it did not answer the newest look, or could not be told by the last rollout."""
        found = {} if last is None else store.failing_switches(last.id, NAMED_MOST)
        found |= {name: looks.error for name, looks in service.switches.looks.items() if looks.error}
        return dict(islice(sorted(found.items()), NAMED_MOST))

    @app.get("/v1/overview", tags=["state"], **answers.of(answers.Overview))
    def get_overview(caller: Viewer) -> Json:
        """The fabric in counts, and what stands out: as small with 20,000 hosts as with ten."""
        policy, last, hosts = store.setting("policy"), store.last_rollout(), store.hosts()
        generation = store.due_generation
        silent = [each for each in hosts.values() if (since_s := store.silent_s(each)) is None or since_s > SILENT_S]
        quiet = {each.name for each in silent}
        behind = [each for each in hosts.values() if each.name not in quiet and each.policy_generation != generation]
        silent.sort(key=lambda each: (each.seen_at or 0, each.name))
        return {
            "now": time.time(),
            "policy": policy,
            "revision": None if policy is None else store.rollout(number_of(policy["generation"])).revision,
            "off": told_off(store),
            "recording": store.setting("recording"),
            "labels": service.recordings.labels(),
            "last_rollout": None if last is None else last.id,
            "rollout": None if last is None else whole(last),
            "switches_failing": failing(last),
            "running_rollout": service.runner.running,
            "drift": store.setting("drift"),
            "switches": list(store.switches().values()),
            "switches_drifted": dict(service.switches.drifts),
            "hosts": {"registered": len(hosts), "silent": len(silent), "behind": len(behind)},
            "silent_hosts": silent[:NAMED_MOST],
            "behind_hosts": behind[:NAMED_MOST],
            "flows_unobserved": dict(service.intake.unobserved.most_common(NAMED_MOST)),
            "flows_not_believed": dict(service.intake.not_believed.most_common(NAMED_MOST)),
        }

    @app.get("/v1/caller", tags=["state"], **answers.of(answers.Caller))
    async def get_caller(caller: Reader) -> Json:
        """Whose token this request came with, what it may, and until when."""
        return {"name": caller.name, "role": caller.role, "expires_at": caller.expires_at}

    @app.get("/v1/traffic", tags=["state"], **answers.of(answers.Traffic))
    def get_traffic(caller: Viewer) -> Json:
        """What each switch carried by priority between the last two looks, and what it says of itself."""
        drifts = service.switches.drifts
        found = {}
        for name, looks in sorted(service.switches.looks.items()):
            told = looks.told
            found[name] = {
                "seen_at": looks.at,
                "seconds": looks.seconds,
                "error": looks.error,
                "drift": drifts.get(name),
                "verification": None if told is None else told.verification,
                "warning": (told.warning or None) if told else None,
                "ports": {} if told is None else dict(told.ports),
                "alarms": {} if told is None else {str(priority): said for priority, said in told.alarms.items()},
                "priorities": {str(priority): asdict(rates) for priority, rates in looks.rates().items()},
            }
        return {"switches": found}

    @app.get("/v1/felt", tags=["state"], **answers.of(answers.Felt, many=True))
    def get_felt(caller: Viewer) -> list[Point]:
        """What hosts felt in the last hour: how much longer packets of small flows travelled than they could."""
        return service.course.points()

    @app.get("/v1/foretold", tags=["rollouts"], **answers.of(answers.Foretold))
    def get_foretold(
        caller: Viewer,
        label: Annotated[Label | None, Query()] = None,
        load: Annotated[Share, Query()] = LOAD,
    ) -> Json:
        """Foretold mean slowdown by size of flow, without thresholds and under each of the newest 50 revisions.

        By processor sharing inside each priority, over the sizes of one recording, or of all: a forecast.
        """
        recorded = service.recordings.weighed(label)[0]
        if not recorded.counts:
            return {"label": label, "load": load, "before": None, "revisions": []}
        sizes = SizeDistribution.from_histogram(recorded)
        last = [
            {
                "revision": row.id,
                "created_at": row.created_at,
                "slowdowns": asdict(slowdowns(sizes, load, row.document["policy"]["threshold_bytes"])),
            }
            for row in store.revisions()[-REVISIONS_MOST:]
            if row.document["policy"]["mode"] in ("pias", "qclimb")
        ]
        return {"label": label, "load": load, "before": asdict(slowdowns(sizes, load, ())), "revisions": last}

    @app.get("/v1/certificates", tags=["state"], **answers.of(answers.Certificate, many=True))
    def get_certificates(caller: Viewer) -> list[Certificate]:
        """All certificates that the orchestrator knows of, the first to end first."""
        ends = service.switches.certificate_ends
        found = in_files(service.certificates) + [Certificate(name, "switch", at) for name, at in ends.items()]
        return sorted(found, key=lambda each: (each.ends_at or 0, each.name))
