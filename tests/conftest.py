"""What every end-to-end test gets: a `lab`, and the `driver` that joins it to hosts."""

import os
import shutil
import zlib

import pytest

import lab as bench

# What the second client of each test waited longest, in seconds, with the test's name.
waits = []

DRIVERS = ["tap", "af_packet", "af_xdp"]
# What a driver does itself is tested with each of them. Other tests ask what routers answer: they run with one driver
# each, and all drivers get a share of them.
TESTS_OF_DRIVERS = (
    "test_fragments",
    "test_idle",
    "test_link",
    "test_mtu",
    "test_offloads",
    "test_ping",
    "test_transport",
)


def pytest_addoption(parser):
    parser.addoption("--each-driver", action="store_true", help="run tests that need hosts once with each driver")
    parser.addoption("--quick", action="store_true", help="leave out tests that are marked as slow or alone")


def pytest_generate_tests(metafunc):
    """How hosts are attached."""
    own = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")]
    if "driver" not in metafunc.fixturenames or "driver" in own:
        return
    drivers = DRIVERS
    is_of_drivers = metafunc.module.__name__.split(".")[-1] in TESTS_OF_DRIVERS
    if not is_of_drivers and not metafunc.config.getoption("each_driver"):
        # The same one at each run.
        drivers = [DRIVERS[zlib.crc32(metafunc.definition.nodeid.encode()) % len(DRIVERS)]]
    metafunc.parametrize("driver", drivers)


def pytest_collection_modifyitems(config, items):
    if config.getoption("quick"):
        left_out = {item for item in items for name in ("slow", "alone") if item.get_closest_marker(name)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    # Those that take longest begin first: none of them is left running alone at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def privileges():
    """Namespaces and their wires need root; so does Quiver to reach into them."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for network namespaces")
    for tool in ("ip", "ping", "nstat"):
        require(tool)
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("needs /dev/net/tun")
    assert bench.QUIVER.exists(), f"{bench.QUIVER} is not built (cargo build -p quiver)"


def require(tool):
    """Skips the test when a program is not installed."""
    if shutil.which(tool) is None:
        pytest.skip(f"needs the program '{tool}' (make deps)")


@pytest.fixture
def lab(privileges, request):
    """An empty bench. At the end of the test all routers must be in good health."""
    laid_out = bench.Lab()
    try:
        yield laid_out
        if not getattr(request.node, "has_failed", False):
            laid_out.finish()
    except AssertionError:
        print("\n".join(router.story() for router in laid_out.routers))
        raise
    finally:
        laid_out.tear_down()
        waits.append((laid_out.longest_wait, request.node.nodeid))


@pytest.fixture
def two_hosts(lab, driver):
    """h1 -- e0 [router] e1 -- h2."""
    return lab.two_hosts(driver)


@pytest.fixture
def two_hosts6(lab, driver):
    """The same, with IPv6 only."""
    return lab.two_hosts6(driver)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test tells what its routers have to say, while they still run."""
    report = (yield).get_result()
    # Which ones failed, one a line, for scripts/test.sh to run them again.
    if report.failed and os.environ.get("QUIVER_FAILED"):
        with open(os.environ["QUIVER_FAILED"], "a") as failed:
            failed.write(f"{item.nodeid}\n")
    if report.when != "call" or not report.failed:
        return
    item.has_failed = True
    laid_out = item.funcargs.get("lab")
    for router in laid_out.routers if laid_out else []:
        report.sections.append(("router", router.story()))


def pytest_terminal_summary(terminalreporter):
    """How long the second clients of all tests waited at most."""
    if waits:
        seconds, test = max(waits)
        terminalreporter.write_line(f"a second client waited {seconds * 1000:.0f} ms at most, in {test}")
