"""The `machine` fixture: a virtual machine to run scripts in, built on first use."""

import os
from pathlib import Path

import pytest

from .base import CannotBuild, prepare
from .machine import Machine

CHECKOUT = Path(__file__).parents[2]
LONGEST = 900  # seconds for one test with its set-up, which may be the build


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Boots of the virtual machine with this checkout's outgrow; see `Machine`.

    A test asks for as many scripts in one `run_many` as it can: a boot costs seconds. Where the
    host cannot run it, its tests are skipped with the remedy, and fail where `CI` is set.
    """
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # a build takes a minute: show its progress
            base = prepare(CHECKOUT)
    except CannotBuild as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))
    return Machine(base, CHECKOUT, tmp_path_factory.mktemp("vm"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests that boot a machine the time that it takes."""
    if not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if "machine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(LONGEST))
