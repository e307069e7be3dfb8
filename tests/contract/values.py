"""Values that many tests need and none is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from outgrow.core.fingerprint import Fingerprint
from outgrow.core.job import Checkpoint
from outgrow.ports import Description, Draft, Store, StreamKey

SAVED_AT = 1764533222.25
FILES = {
    "pages-1.img": bytes(range(256)) * 40,
    "core-7.img": b"core",
    "dump.log": b"(00.1) done\n",
    "empty.img": b"",
}


def describe(draft: Draft, **changes: Any) -> Description:
    """What a keeper would say of a draft."""
    description = Description(
        job=draft.job,
        number=draft.number,
        incarnation=3,
        owner=1000,
        created=SAVED_AT,
        limit=268435456,
        own=243269632,
        root_pid=7,
        pids=(7, 9, 300),
        fingerprint=Fingerprint("x86_64", "6.12.38", "criu 4.2.1", frozenset({"avx2", "fpu"})),
        streams=(StreamKey(1, "pipe:[501]"),),
    )
    return replace(description, **changes)


def write(draft: Draft, files: dict[str, bytes] = FILES) -> None:
    """What an engine would do."""
    for name, data in files.items():
        (draft.images / name).write_bytes(data)


def save_into(store: Store, job: str, **changes: Any) -> Checkpoint:
    """A whole checkpoint."""
    draft = store.begin(job)
    write(draft)
    return store.commit(draft, describe(draft, **changes))
