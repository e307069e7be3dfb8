"""A job's story, from its journal to what the picture draws and JSON tells."""

from __future__ import annotations

from outgrow.cli.jobs import Jobs, View
from outgrow.cli.text import limit_bytes, rfc3339
from outgrow.core.job import Incarnation, SaveRecord
from outgrow.core.sample import thin
from outgrow.core.units import format_size
from outgrow.picture import Limit, Mark, Pause, Point, Story

SCHEMA = 1
_MOST_POINTS = 2000


def as_data(jobs: Jobs, view: View) -> dict[str, object]:
    """The whole story for `show --json`; sizes in bytes, times in RFC 3339."""
    job = view.job
    return {
        "schema": SCHEMA,
        "id": job.id,
        "name": job.name,
        "state": view.state,
        "exit_status": job.exit_status,
        "reason": job.reason,
        "owner": job.owner,
        "command": list(job.command),
        "directory": job.directory,
        "labels": job.labels,
        "created": rfc3339(job.created),
        "ended": rfc3339(job.ended),
        "work_lost_seconds": round(job.work_lost_seconds, 3),
        "max_memory_bytes": limit_bytes(job.policy.max_memory),
        "incarnations": [_incarnation(one) for one in jobs.journal.incarnations(job.id)],
        "saves": [_save(one) for one in jobs.journal.saves(job.id)],
        "checkpoints": jobs.store.checkpoints(job.id),
        "samples": [
            [rfc3339(sample.at), sample.usage]
            for sample in thin(jobs.journal.samples(job.id), _MOST_POINTS)
        ],
    }


def as_story(jobs: Jobs, view: View, title: str = "", caption: str = "") -> Story:
    """The story as the picture draws it, in seconds since the job began."""
    job = view.job
    samples = jobs.journal.samples(job.id)
    incarnations = jobs.journal.incarnations(job.id)
    saves = jobs.journal.saves(job.id)
    zero = incarnations[0].started if incarnations else job.created
    last = max([zero, *(sample.at for sample in samples), *([job.ended] if job.ended else [])])
    limits: list[Limit] = []
    for sample in samples:
        limit = limit_bytes(sample.limit)
        if limit is not None and (not limits or limits[-1].limit_bytes != limit):
            limits.append(Limit(max(0.0, sample.at - zero), limit))
    moves = [save for save in saves if save.outcome == "moved"]
    marks = [_mark(save, zero) for save in saves if save.outcome in ("moved", "saved", "kept")]
    if job.ended is not None:
        killed = job.state.value == "lost" or job.exit_status == 137
        marks.append(Mark(job.ended - zero, _end_label(view), "killed" if killed else "end"))
    return Story(
        title=title or job.name,
        points=[
            Point(max(0.0, sample.at - zero), sample.usage)
            for sample in thin(samples, _MOST_POINTS)
        ],
        limits=limits,
        marks=marks,
        pauses=[
            Pause(save.started - zero, save.started - zero + save.paused_seconds) for save in moves
        ],
        duration=last - zero,
        caption=caption,
    )


def _mark(save: SaveRecord, zero: float) -> Mark:
    at = save.started - zero
    if save.outcome == "moved":
        return Mark(at, f"moved, {save.paused_seconds:.1f} s", "move")
    return Mark(at, "saved" if save.outcome == "saved" else "saved and kept", "save")


def _end_label(view: View) -> str:
    status = view.job.exit_status
    return "ended" if status == 0 else f"ended, status {status}"


def _incarnation(one: Incarnation) -> dict[str, object]:
    return {
        "number": one.number,
        "limit_bytes": limit_bytes(one.limit),
        "first_limit_bytes": limit_bytes(one.first_limit),
        "peak_bytes": one.peak,
        "started": rfc3339(one.started),
        "ended": rfc3339(one.ended),
        "end_reason": one.end_reason,
    }


def _save(one: SaveRecord) -> dict[str, object]:
    return {
        "cause": one.cause,
        "outcome": one.outcome,
        "detail": one.detail,
        "incarnation": one.incarnation,
        "checkpoint": one.checkpoint,
        "started": rfc3339(one.started),
        "bytes": one.size,
        "usage_bytes": one.usage_before,
        "released_bytes": one.released,
        "freeze_seconds": round(one.freeze_seconds, 6),
        "dump_seconds": round(one.dump_seconds, 3),
        "commit_seconds": round(one.commit_seconds, 3),
        "release_seconds": round(one.release_seconds, 3),
        "wait_seconds": round(one.wait_seconds, 3),
        "resume_seconds": round(one.resume_seconds, 3),
        "paused_seconds": round(one.paused_seconds, 3),
    }


def save_line(one: SaveRecord) -> str:
    """One save for people."""
    parts = [
        f"frozen in {one.freeze_seconds * 1000:.1f} ms",
        f"dump {one.dump_seconds:.2f} s",
        f"commit {one.commit_seconds:.2f} s",
    ]
    if one.released:
        parts.append(f"released {format_size(one.released)} in {one.release_seconds:.2f} s")
    if one.wait_seconds >= 0.5:
        parts.append(f"waited {one.wait_seconds:.1f} s")
    if one.outcome == "moved":
        parts.append(f"resume {one.resume_seconds:.2f} s")
    if one.outcome == "saved":
        parts.append(f"{one.paused_seconds:.2f} s paused")
    return f"{one.outcome or 'under way'}: {format_size(one.size)}, " + ", ".join(parts)
