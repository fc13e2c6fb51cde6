"""The workers: that there are some for all that waits, and that they agree with each other and with this client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from farm.commands.doctor.subject import Finding, Subject
from farm.index.registry import Offer, Worker
from farm.index.stats import waiting_claims
from farm.versions import versions

#: Nothing in the farm is judged by these clocks, but times in logs and signatures of S3 requests are.
_CLOCKS_APART_MAX_SECONDS = 5.0


def toolchains(subject: Subject) -> Finding:
    """Whether every toolchain that was ever offered has a worker, and why workers lack some."""
    offers, live = subject.registry.offers(), _live_queues(subject)
    lacking = [f"{name} ({why}; {where})" for name, why, where in _missing(subject.workers)]
    detail = "; ".join([
        _offered([offer for offer in offers if offer.queue in live], subject.workers),
        *([f"not offered by all: {', '.join(lacking)}"] if lacking else []),
    ])  # fmt: skip
    if not subject.workers:
        return Finding(False, "no worker lives; " + detail, "start workers: celery -A farm worker")
    defaults = subject.registry.defaults()
    chosen = [offer for offer in offers if defaults.get(offer.toolchain) == offer.fingerprint]
    served = {offer.toolchain for offer in offers if offer.queue in live}
    without = sorted({offer.toolchain for offer in offers} - served)
    without += [
        f"{offer.toolchain}@{offer.fingerprint[:12]}, the default" for offer in chosen if offer.queue not in live
    ]
    if without:
        return Finding(
            False, f"no live worker offers {', '.join(without)}; {detail}",
            "start such a worker, or choose another default with celery -A farm toolchain default",
        )  # fmt: skip
    return Finding(True, detail)


def _offered(offers: Iterable[Offer], workers: list[Worker]) -> str:
    rows = [
        f"{offer.toolchain} {offer.version}@{offer.fingerprint[:12]} on "
        f"{sum(offer.queue in worker.queues for worker in workers)} of {len(workers)}"
        for offer in offers
    ]
    return "workers offer " + (", ".join(rows) or "nothing")


def _missing(workers: Iterable[Worker]) -> list[tuple[str, str, str]]:
    """(toolchain, reason, workers) for each reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for worker in workers:
        for name, reason in worker.missing.items():
            found.setdefault((name, reason), []).append(worker.host)
    return [(name, reason, ", ".join(sorted(set(hosts)))) for (name, reason), hosts in sorted(found.items())]


def _live_queues(subject: Subject) -> set[str]:
    return {queue for worker in subject.workers for queue in worker.queues}


def queues(subject: Subject) -> Finding:
    """Whether a claim waits for a worker that is not there."""
    offers = {offer.queue: offer for offer in subject.registry.offers()}
    live = _live_queues(subject)
    waiting = 0
    stuck = []
    for index in subject.indexes:
        for queue, count in waiting_claims(index, list(offers)).items():
            waiting += count
            if queue not in live:
                stuck.append(f"{count} in {index.namespace} for {offers[queue].toolchain} {offers[queue].version}")
    if stuck:
        return Finding(
            False, f"claims wait and no live worker serves their queue: {'; '.join(stuck)}",
            "start workers with those toolchains, or cancel the jobs",
        )  # fmt: skip
    return Finding(True, f"{waiting} claims wait, each queue has a worker" if waiting else "no claim waits")


def clocks(subject: Subject) -> Finding:
    """Whether this host's and the workers' clocks agree with the server's."""
    sent = time.time()
    seconds, microseconds = subject.server.time()
    here = (sent + time.time()) / 2 - (seconds + microseconds / 1e6)
    leads = {"this host": here} | {
        f"worker {worker}": lead_ms / 1000 for worker, lead_ms in subject.registry.clock_leads_ms().items()
    }
    wrong = [f"{who} {lead:+.1f} s" for who, lead in leads.items() if abs(lead) > _CLOCKS_APART_MAX_SECONDS]
    if wrong:
        fix = "set these clocks (NTP): logs and S3 signatures go by them; the farm itself goes by the server's alone"
        return Finding(False, f"against the server's clock: {', '.join(wrong)}", fix)
    most = max(abs(lead) for lead in leads.values())
    return Finding(True, f"this host and {len(leads) - 1} workers within {most:.1f} s of the server")


def versions_agree(subject: Subject) -> Finding:
    """Whether all run the same opfarm, and the same Python but for its last number."""
    ran: dict[str, list[str]] = {}
    everyone: dict[str, Mapping[str, str]] = {"this host": versions()}
    everyone |= {f"worker {worker.id}": worker.versions for worker in subject.workers if worker.versions}
    for who, own in everyone.items():
        python = ".".join(own.get("python", "?").split(".")[:2])
        ran.setdefault(f"opfarm {own.get('opfarm', '?')} on Python {python}", []).append(who)
    detail = "; ".join(f"{what}: {_some(who)}" for what, who in ran.items())
    return Finding(len(ran) == 1, detail, "install the same versions everywhere (requirements.lock)")


def settings_agree(subject: Subject) -> Finding:
    """Whether workers and this environment have the same values where they must."""
    here = subject.settings.shared()
    differing = [
        f"{name} is {here[name]:g} here and {value:g} on worker {worker.id}"
        for worker in subject.workers
        for name, value in worker.settings.items()
        if name in here and value != here[name]
    ]
    if differing:
        return Finding(False, _some(differing, "; "), "give workers and clients the same values")
    return Finding(True, ", ".join(f"{name}={value:g}" for name, value in here.items()))


def _some(items: list[str], between: str = ", ") -> str:
    shown = between.join(items[:5])
    return shown if len(items) <= 5 else f"{shown} and {len(items) - 5} more"
