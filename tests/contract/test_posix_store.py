"""The posix store beyond the port: what others do to its directories, power cuts and full disks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outgrow import libc
from outgrow.core.errors import Damaged, NotFound, Transient
from outgrow.store.posix import PosixStore

from .test_store import JOB, OTHER, KeptInFiles, read
from .values import FILES, describe, write

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="giving a file to another user takes root: run the tests with sudo"
)

DID_NOT_RAISE = pytest.fail.Exception


@pytest.fixture
def kept(tmp_path: Path) -> KeptInFiles:
    """A store with checkpoint 1 of JOB."""
    made = KeptInFiles(tmp_path)
    made.save()
    return made


@pytest.fixture
def checkpoint(kept: KeptInFiles) -> Path:
    """Its directory."""
    return kept.root / JOB / "1"


def refused(kept: KeptInFiles, says: str, number: int = 1) -> None:
    for verify in (True, False):
        with pytest.raises(Damaged, match=says):
            kept.store.open(JOB, number, verify=verify)


def no_room(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- whose it is


def test_only_its_owner_can_look_into_a_checkpoint(kept: KeptInFiles, checkpoint: Path) -> None:
    for folder in (checkpoint.parent, checkpoint, checkpoint / "images"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((checkpoint / "manifest.json").stat().st_mode) == 0o600


def test_a_checkpoint_that_is_a_link_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    elsewhere = checkpoint.rename(checkpoint.with_name("elsewhere"))
    checkpoint.symlink_to(elsewhere)
    refused(kept, "is not a directory of uid")


def test_a_checkpoint_that_is_a_file_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    checkpoint.with_name("2").write_text("")
    refused(kept, "is not a directory of uid", number=2)


@needs_root
def test_a_checkpoint_of_another_user_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    os.chown(checkpoint, 65534, 65534)
    refused(kept, f"is not a directory of uid {os.geteuid()}")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_checkpoint_that_others_can_write_is_refused(
    kept: KeptInFiles, checkpoint: Path, mode: int
) -> None:
    checkpoint.chmod(mode)
    refused(kept, "can be written by others")


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o755])
def test_a_checkpoint_that_others_can_only_read_is_taken(
    kept: KeptInFiles, checkpoint: Path, mode: int
) -> None:
    checkpoint.chmod(mode)
    assert read(kept.store.open(JOB, 1, verify=True)[1]) == FILES


@pytest.mark.parametrize(
    "which",
    [pytest.param("images", id="images"), pytest.param("..", id="the job's directory")],
)
def test_no_directory_on_the_way_may_be_writable_by_others(
    kept: KeptInFiles, checkpoint: Path, which: str
) -> None:
    (checkpoint / which).chmod(0o777)
    refused(kept, "can be written by others")


def test_images_that_are_a_link_are_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    elsewhere = (checkpoint / "images").rename(checkpoint.parent / "elsewhere")
    (checkpoint / "images").symlink_to(elsewhere)
    refused(kept, "not a directory")


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(lambda path, elsewhere: path.symlink_to(elsewhere), id="a link to the same"),
        pytest.param(lambda path, _: path.mkdir(), id="a directory"),
        pytest.param(lambda path, _: os.mkfifo(path), id="a named pipe"),
    ],
)
def test_an_image_that_is_no_file_is_refused(
    kept: KeptInFiles, checkpoint: Path, put: Callable[[Path, Path], object]
) -> None:
    image = checkpoint / "images/core-7.img"
    elsewhere = image.rename(checkpoint.parent / "core-7.img")
    put(image, elsewhere)
    refused(kept, "is not a file")


# -- the manifest


def change(checkpoint: Path, **changes: object) -> None:
    path = checkpoint / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_manifest_can_be_read_without_the_program(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    assert manifest["format"] == 2
    assert (manifest["job"], manifest["number"]) == (JOB, 1)
    assert {entry["name"]: entry["size"] for entry in manifest["files"]} == {
        name: len(data) for name, data in FILES.items()
    }
    assert all(len(entry["blake3"]) == 64 for entry in manifest["files"])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"\x00" * 100, id="zeros, as after a power cut"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="nothing in it"),
        pytest.param(b"[" * 100_000, id="absurdly deep"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused(
    kept: KeptInFiles, checkpoint: Path, data: bytes
) -> None:
    (checkpoint / "manifest.json").write_bytes(data)
    refused(kept, "manifest cannot be read")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"format": 3}, "has format 3, this outgrow reads 2", id="a newer format"),
        pytest.param({"format": 1}, "has format 1, this outgrow reads 2", id="an older format"),
        pytest.param({"extra": 1}, "manifest cannot be read", id="an unknown field"),
        pytest.param({"pids": "7"}, "manifest cannot be read", id="another type"),
        pytest.param({"root_pid": 7.5}, "manifest cannot be read", id="half a PID"),
        pytest.param({"job": OTHER}, "that of another checkpoint", id="another job"),
        pytest.param({"number": 2}, "that of another checkpoint", id="another number"),
        pytest.param({"files": []}, "holds a file that was not saved", id="no file"),
        *(
            pytest.param(
                {"files": [{"name": name, "size": 4, "blake3": "0" * 64}]},
                "names a file outside of itself",
                id=f"a file called {name!r}",
            )
            for name in ("../../core-7.img", "/etc/passwd", "..", ".", "", "a/b")
        ),
        pytest.param(
            {"files": [{"name": "x" * 300, "size": 4, "blake3": "0" * 64}]},
            "File name too long",
            id="a name that no file can have",
        ),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    kept: KeptInFiles, checkpoint: Path, changes: dict[str, object], says: str
) -> None:
    change(checkpoint, **changes)
    refused(kept, says)


def test_a_manifest_with_a_nul_in_a_name_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    change(checkpoint, files=[{"name": "a\x00b", "size": 4, "blake3": "0" * 64}])
    refused(kept, "checkpoint 1 of job")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"root_pid": 8}, id="its first process"),
        pytest.param({"pids": [7, 9, 301]}, id="its PIDs"),
        pytest.param({"streams": []}, id="its streams"),
        pytest.param({"owner": 1001}, id="its owner"),
        pytest.param({"cpu_features": []}, id="what it needs of a CPU"),
    ],
)
def test_a_changed_manifest_is_refused(
    kept: KeptInFiles, checkpoint: Path, changes: dict[str, object]
) -> None:
    change(checkpoint, **changes)
    refused(kept, "checkpoint 1 of job")


def test_a_checkpoint_without_a_manifest_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()
    refused(kept, "cannot be read")


def test_a_checkpoint_without_images_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "images")
    refused(kept, "cannot be read")


def test_a_checkpoint_under_another_number_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    """A replayed image: an old checkpoint in the place of a newer one."""
    shutil.copytree(checkpoint, checkpoint.with_name("2"))
    refused(kept, "that of another checkpoint", number=2)


def test_a_checkpoint_of_another_job_is_refused(kept: KeptInFiles, checkpoint: Path) -> None:
    kept.save(OTHER)
    shutil.rmtree(checkpoint)
    shutil.copytree(kept.root / OTHER / "1", checkpoint)
    refused(kept, "that of another checkpoint")


@given(at=st.integers(0), bit=st.integers(0, 7), cut=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
def test_a_damaged_manifest_never_changes_an_image(
    kept: KeptInFiles, at: int, bit: int, cut: bool
) -> None:
    """Whatever a bit or a lost end does to the manifest, what is opened is whole, or refused."""
    path = kept.root / JOB / "1" / "manifest.json"
    whole = path.read_bytes()
    data = bytearray(whole)
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(bytes(data[: at % len(data)]) if cut else bytes(data))
    try:
        _, images = kept.store.open(JOB, 1, verify=True)
    except Damaged as error:
        assert "nothing of it was used" in error.preserved
    else:
        assert not cut or at % len(data) >= len(whole) - 1  # a missing last newline is no loss
        assert read(images) == FILES
    finally:
        path.write_bytes(whole)


def test_what_an_engine_adds_when_it_restores_is_no_damage(
    kept: KeptInFiles, checkpoint: Path
) -> None:
    (checkpoint / "images/restore.log").write_text("(00.1) Error\n")
    (checkpoint / "images/stats-restore").write_bytes(b"\x01")
    assert kept.store.open(JOB, 1, verify=True)[1] == checkpoint / "images"


# -- power cuts and full disks


def test_a_commit_is_durable_in_its_order(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    really_sync, really_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        seen.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        really_sync(descriptor)

    def rename(path: Path, to: Path) -> Path:
        seen.append(f"rename {to.name}")
        return really_rename(path, to)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    kept.save()
    images, rest = seen[: len(FILES)], seen[len(FILES) :]
    assert sorted(images) == sorted(f"sync {name}" for name in FILES)
    assert rest == [
        "sync manifest.json",
        "sync images",
        "sync 2.partial",
        "rename 2",
        f"sync {JOB}",
    ]


@pytest.mark.parametrize("step", ["fsync", "write", "rename"])
def test_a_disk_that_fills_up_during_the_commit_leaves_nothing(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    with monkeypatch.context() as full:
        full.setattr(Path if step == "rename" else os, step, no_room)
        with pytest.raises(Transient, match="could not be made durable") as error:
            kept.store.commit(draft, describe(draft))
    assert error.value.preserved == "the job runs on"
    assert error.value.remedy
    assert kept.store.checkpoints(JOB) == [1]
    kept.store.abandon(draft)
    assert sorted(path.name for path in (kept.root / JOB).iterdir()) == ["1"]


def test_writing_ahead_begins_with_every_image_and_leaves_all_syncs_to_the_commit(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, synced, really = [], [], os.fsync

    def begin(descriptor: int) -> None:
        begun.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    def sync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        really(descriptor)

    monkeypatch.setattr(libc, "start_writing", begin)
    monkeypatch.setattr(os, "fsync", sync)
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    kept.store.write_ahead(draft)
    assert (sorted(begun), synced) == (sorted(FILES), [])
    kept.store.commit(draft, describe(draft))
    assert {*FILES} <= {*synced}


def test_a_file_system_that_cannot_write_ahead_is_no_trouble(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(libc, "start_writing", refuse)
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    kept.store.write_ahead(draft)
    assert kept.store.commit(draft, describe(draft)).number == draft.number


def test_a_manifest_that_is_written_in_part_is_no_commit(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = kept.store.begin(JOB)
    really = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: really(descriptor, data[:10]))
    with pytest.raises(Transient, match="No space left"):
        kept.store.commit(draft, describe(draft))
    assert kept.store.checkpoints(JOB) == [1]


def test_an_image_that_is_a_link_is_not_committed(kept: KeptInFiles) -> None:
    draft = kept.store.begin(JOB)
    (draft.images / "core-7.img").symlink_to("/etc/passwd")
    with pytest.raises(Transient):
        kept.store.commit(draft, describe(draft))
    assert kept.store.checkpoints(JOB) == [1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_store_that_cannot_be_written_says_why(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(Transient, match=os.strerror(number)) as error:
        kept.store.begin(OTHER)
    assert error.value.preserved == "the job runs on"
    assert str(kept.root) in error.value.message


def test_a_store_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Transient, match="Not a directory"):
        PosixStore(tmp_path / "file").begin(JOB)


def test_a_deletion_that_was_interrupted_is_invisible_and_swept_up(
    kept: KeptInFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.save()
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if killed just before
        kept.store.delete(JOB, 1)
    assert kept.store.checkpoints(JOB) == [2]
    with pytest.raises(NotFound):
        kept.store.open(JOB, 1, verify=False)
    assert (kept.root / JOB / "1.partial").is_dir()
    assert kept.store.begin(JOB).number == 3
    store = PosixStore(kept.root)
    store.sweep(JOB)
    assert sorted(path.name for path in (kept.root / JOB).iterdir()) == ["2"]
    store.sweep(OTHER)


def test_deleting_what_is_not_there_spares_a_draft_of_that_number(kept: KeptInFiles) -> None:
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    kept.store.delete(JOB, draft.number)
    assert read(draft.images) == FILES


def test_a_number_is_not_given_twice_while_a_draft_has_it(kept: KeptInFiles) -> None:
    draft = kept.store.begin(JOB)
    assert kept.save() == draft.number + 1
    kept.store.abandon(draft)
    assert kept.store.checkpoints(JOB) == [1, draft.number + 1]


def test_forgetting_a_job_removes_all_of_it_and_nothing_else(kept: KeptInFiles) -> None:
    kept.save(OTHER)
    kept.store.begin(JOB)
    store = PosixStore(kept.root)
    store.forget(JOB)
    assert [path.name for path in kept.root.iterdir()] == [OTHER]
    store.forget(JOB)
    with pytest.raises(NotFound):
        store.forget("../" + OTHER)


def test_other_names_in_a_jobs_directory_are_no_checkpoints(kept: KeptInFiles) -> None:
    for name in ("notes.txt", "x.partial", "1.old", "-1", "1 ", "lost+found"):
        (kept.root / JOB / name).mkdir()
    assert kept.store.checkpoints(JOB) == [1]
    assert kept.store.begin(JOB).number == 2


@pytest.mark.parametrize("name", ["²", "²" + ".partial", "٣"])
def test_a_digit_of_another_script_is_no_checkpoint(kept: KeptInFiles, name: str) -> None:
    (kept.root / JOB / name).mkdir()
    assert kept.store.checkpoints(JOB) == [1]
    assert kept.store.begin(JOB).number == 2


def test_room_is_that_of_the_file_system(kept: KeptInFiles) -> None:
    status = os.statvfs(kept.root)
    assert 0 < kept.store.room() <= status.f_blocks * status.f_frsize
