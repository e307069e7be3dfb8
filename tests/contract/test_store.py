"""Store: what it keeps comes back as it was written, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outgrow.core.errors import Damaged, NotFound
from outgrow.ports import Store, StreamKey
from outgrow.store.posix import PosixStore

from .fakes import MemoryStore
from .values import FILES, describe, write

JOB, OTHER = "abcdefgh", "bcdefghj"
NAMES = sorted(FILES)
FULL = [name for name in NAMES if FILES[name]]


def read(images: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in images.iterdir()}


class Kept:
    """A store with ways to get at the bytes that it keeps."""

    store: Store

    def read(self, job: str, number: int, name: str) -> bytes | None:
        """A file of a checkpoint; None when it is not there."""
        raise NotImplementedError

    def write(self, job: str, number: int, name: str, data: bytes | None) -> None:
        """Change one, add one, or with None take one away."""
        raise NotImplementedError

    def save(self, job: str = JOB, files: dict[str, bytes] = FILES) -> int:
        """Commit a checkpoint of `files`; its number."""
        draft = self.store.begin(job)
        write(draft, files)
        return self.store.commit(draft, describe(draft)).number


class KeptInMemory(Kept):
    def __init__(self, folder: Path) -> None:
        self.memory = MemoryStore(folder)
        self.store = self.memory

    def read(self, job: str, number: int, name: str) -> bytes | None:
        return self.memory.files(job, number).get(name)

    def write(self, job: str, number: int, name: str, data: bytes | None) -> None:
        files = self.memory.files(job, number)
        files.pop(name, None)
        if data is not None:
            files[name] = data


class KeptInFiles(Kept):
    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        self.root.mkdir()
        self.store = PosixStore(self.root)

    def _path(self, job: str, number: int, name: str) -> Path:
        return self.root / job / str(number) / "images" / name

    def read(self, job: str, number: int, name: str) -> bytes | None:
        path = self._path(job, number, name)
        return path.read_bytes() if path.exists() else None

    def write(self, job: str, number: int, name: str, data: bytes | None) -> None:
        path = self._path(job, number, name)
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)


@pytest.fixture(params=[KeptInMemory, KeptInFiles], ids=["memory", "posix"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """Each store in turn, empty."""
    made: Kept = request.param(tmp_path)
    return made


shared_fixture = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300
)


def test_a_checkpoint_comes_back_as_it_was_written(kept: Kept) -> None:
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    description = describe(draft)
    checkpoint = kept.store.commit(draft, description)
    assert (checkpoint.job, checkpoint.number) == (JOB, draft.number)
    assert checkpoint.incarnation == 3
    assert checkpoint.size == sum(map(len, FILES.values()))
    assert checkpoint.deleted is None
    for verify in (True, False, True):
        found, images = kept.store.open(JOB, checkpoint.number, verify=verify)
        assert found == description
        assert read(images) == FILES


def test_writing_ahead_changes_nothing(kept: Kept) -> None:
    draft = kept.store.begin(JOB)
    kept.store.write_ahead(draft)
    write(draft, FILES)
    kept.store.write_ahead(draft)
    number = kept.store.commit(draft, describe(draft)).number
    kept.store.write_ahead(draft)  # the last call may come when it is no draft any more
    _, images = kept.store.open(JOB, number, verify=True)
    assert read(images) == FILES


def test_writing_ahead_of_what_was_abandoned_is_nothing(kept: Kept) -> None:
    draft = kept.store.begin(JOB)
    kept.store.abandon(draft)
    kept.store.write_ahead(draft)
    assert kept.store.checkpoints(JOB) == []


file_names = st.text("abc-._~ é数", min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..", "restore.log", "stats-restore")
)


@given(files=st.dictionaries(file_names, st.binary(max_size=300), max_size=4))
@settings(shared_fixture, max_examples=40)
def test_any_files_come_back(kept: Kept, files: dict[str, bytes]) -> None:
    number = kept.save(files=files)
    assert read(kept.store.open(JOB, number, verify=True)[1]) == files
    kept.store.delete(JOB, number)


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param([], id="none"),
        pytest.param([(1, "pipe:[501]")], id="a pipe"),
        pytest.param([(0, "tty[8803:1a]"), (1, "pipe:[501]")], id="a terminal and a pipe"),
        pytest.param([(0, "a"), (1, "b"), (2, "c")], id="three"),
    ],
)
def test_outer_streams_come_back(kept: Kept, streams: list[tuple[int, str]]) -> None:
    keys = tuple(StreamKey(stream, key) for stream, key in streams)
    draft = kept.store.begin(JOB)
    kept.store.commit(draft, describe(draft, streams=keys))
    found, _ = kept.store.open(JOB, draft.number, verify=True)
    assert sorted(found.streams, key=lambda key: key.stream) == list(keys)


def test_of_two_streams_on_one_pipe_the_first_stands_for_both(kept: Kept) -> None:
    """An engine is told of an object once (launcher.handle.inherited_streams)."""
    draft = kept.store.begin(JOB)
    both = (StreamKey(1, "pipe:[501]"), StreamKey(2, "pipe:[501]"))
    kept.store.commit(draft, describe(draft, streams=both))
    found, _ = kept.store.open(JOB, draft.number, verify=True)
    assert found.streams[0] == StreamKey(1, "pipe:[501]")


def test_numbers_ascend_for_each_job_alone(kept: Kept) -> None:
    assert kept.store.checkpoints(JOB) == []
    assert [kept.save(), kept.save(OTHER), kept.save(), kept.save()] == [1, 1, 2, 3]
    kept.store.delete(JOB, 2)
    assert kept.store.checkpoints(JOB) == [1, 3]
    assert kept.save() == 4
    assert kept.store.checkpoints(OTHER) == [1]


def test_a_draft_is_no_checkpoint(kept: Kept) -> None:
    draft = kept.store.begin(JOB)
    assert draft.images.is_dir()
    assert list(draft.images.iterdir()) == []
    write(draft, FILES)
    assert kept.store.checkpoints(JOB) == []
    with pytest.raises(NotFound):
        kept.store.open(JOB, draft.number, verify=True)


def test_two_drafts_do_not_meet(kept: Kept) -> None:
    one, two = kept.store.begin(JOB), kept.store.begin(JOB)
    assert one.number != two.number
    assert one.images != two.images
    write(two, {"second.img": b"2"})
    kept.store.commit(two, describe(two))
    write(one, {"first.img": b"1"})
    kept.store.commit(one, describe(one))
    assert kept.store.checkpoints(JOB) == [one.number, two.number]
    assert read(kept.store.open(JOB, two.number, verify=True)[1]) == {"second.img": b"2"}


def test_an_abandoned_draft_leaves_nothing(kept: Kept, tmp_path: Path) -> None:
    number = kept.save()
    before = sorted(tmp_path.rglob("*"))
    draft = kept.store.begin(JOB)
    write(draft, FILES)
    kept.store.abandon(draft)
    assert sorted(tmp_path.rglob("*")) == before
    assert kept.store.checkpoints(JOB) == [number]
    kept.store.abandon(draft)


def test_a_deleted_checkpoint_is_invisible_at_once(kept: Kept) -> None:
    one, two = kept.save(), kept.save()
    kept.store.delete(JOB, one)
    assert kept.store.checkpoints(JOB) == [two]
    with pytest.raises(NotFound):
        kept.store.open(JOB, one, verify=False)
    assert read(kept.store.open(JOB, two, verify=True)[1]) == FILES
    kept.store.delete(JOB, one)
    kept.store.delete(JOB, 99)
    kept.store.delete(OTHER, 1)


@pytest.mark.parametrize("number", [1, 0, -1, 10**30])
def test_a_checkpoint_that_is_not_there_is_not_found(kept: Kept, number: int) -> None:
    with pytest.raises(NotFound):
        kept.store.open(JOB, number, verify=True)


ODD_JOBS = [
    pytest.param("", id="empty"),
    pytest.param(".", id="here"),
    pytest.param("..", id="above"),
    pytest.param("../abcdefgh", id="beside"),
    pytest.param("abcdefgh/..", id="back again"),
    pytest.param("/etc", id="absolute"),
    pytest.param("abcdefg\n", id="a newline"),
    pytest.param("abcd\x00fgh", id="a NUL"),
    pytest.param("a" * 300, id="long"),
]


@pytest.mark.parametrize("job", ODD_JOBS)
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda store, job: store.begin(job), id="begin"),
        pytest.param(lambda store, job: store.open(job, 1, verify=True), id="open"),
        pytest.param(lambda store, job: store.checkpoints(job), id="checkpoints"),
        pytest.param(lambda store, job: store.delete(job, 1), id="delete"),
    ],
)
def test_what_is_no_job_id_never_becomes_a_path(
    kept: Kept, tmp_path: Path, job: str, use: Callable[[Store, str], object]
) -> None:
    kept.save()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NotFound, match="is no job id"):
        use(kept.store, job)
    assert sorted(tmp_path.rglob("*")) == before


def test_room_is_what_a_checkpoint_may_take(kept: Kept) -> None:
    assert kept.store.room() > 1 << 20


# -- damage


def refused(kept: Kept, number: int, *, verify: bool = True) -> None:
    """It is refused before anything of it is used, and said to be."""
    with pytest.raises(Damaged) as error:
        kept.store.open(JOB, number, verify=verify)
    assert f"checkpoint {number}" in error.value.message
    assert JOB in error.value.message
    assert "nothing of it was used" in error.value.preserved
    assert error.value.exit_status == 12


@given(name=st.sampled_from(FULL), at=st.integers(0), bit=st.integers(0, 7))
@shared_fixture
def test_one_flipped_bit_is_refused(kept: Kept, name: str, at: int, bit: int) -> None:
    number = (kept.store.checkpoints(JOB) or [kept.save()])[0]
    data = bytearray(FILES[name])
    data[at % len(data)] ^= 1 << bit
    kept.write(JOB, number, name, bytes(data))
    refused(kept, number)
    kept.write(JOB, number, name, FILES[name])


@given(name=st.sampled_from(FULL), left=st.integers(0), verify=st.booleans())
@shared_fixture
def test_a_truncated_file_is_refused(kept: Kept, name: str, left: int, verify: bool) -> None:
    number = (kept.store.checkpoints(JOB) or [kept.save()])[0]
    kept.write(JOB, number, name, FILES[name][: left % len(FILES[name])])
    refused(kept, number, verify=verify)
    kept.write(JOB, number, name, FILES[name])


@given(name=st.sampled_from(NAMES), more=st.binary(min_size=1, max_size=20), verify=st.booleans())
@shared_fixture
def test_a_file_with_more_is_refused(kept: Kept, name: str, more: bytes, verify: bool) -> None:
    number = (kept.store.checkpoints(JOB) or [kept.save()])[0]
    kept.write(JOB, number, name, FILES[name] + more)
    refused(kept, number, verify=verify)
    kept.write(JOB, number, name, FILES[name])


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_refused(kept: Kept, name: str, verify: bool) -> None:
    number = kept.save()
    kept.write(JOB, number, name, None)
    refused(kept, number, verify=verify)


@given(name=file_names.filter(lambda name: name not in FILES), data=st.binary(max_size=20))
@shared_fixture
def test_an_added_file_is_refused(kept: Kept, name: str, data: bytes) -> None:
    number = (kept.store.checkpoints(JOB) or [kept.save()])[0]
    kept.write(JOB, number, name, data)
    refused(kept, number)
    kept.write(JOB, number, name, None)


@pytest.mark.parametrize(
    ("one", "two"), [("pages-1.img", "core-7.img"), ("dump.log", "core-7.img")]
)
def test_exchanged_files_are_refused(kept: Kept, one: str, two: str) -> None:
    number = kept.save()
    kept.write(JOB, number, one, FILES[two])
    kept.write(JOB, number, two, FILES[one])
    refused(kept, number)


def test_a_file_of_an_older_checkpoint_is_refused(kept: Kept) -> None:
    kept.save(files=FILES | {"core-7.img": b"1234"})
    number = kept.save(files=FILES | {"core-7.img": b"5678"})
    kept.write(JOB, number, "core-7.img", b"1234")
    refused(kept, number)


def test_damage_is_left_as_it_is_and_hides_no_other_checkpoint(kept: Kept) -> None:
    one, two = kept.save(), kept.save()
    kept.write(JOB, two, "core-7.img", b"eroc")
    refused(kept, two)
    refused(kept, two)
    assert kept.read(JOB, two, "core-7.img") == b"eroc"
    assert kept.store.checkpoints(JOB) == [one, two]
    assert read(kept.store.open(JOB, one, verify=True)[1]) == FILES
