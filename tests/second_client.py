"""A second client of a router: it keeps a CLI connection of its own and asks all through a test.

Other clients ask while a test runs. `SecondClient` asks `show version` several times a second and keeps the longest
wait for an answer. `check` fails when nothing was answered at all, or when an answer took longer
than any work of the control thread may (docs/decisions/031-a-second-client.md).
"""

import contextlib
import pathlib
import socket
import threading
import time

QUESTION = "show version"
# Between two questions.
PAUSE = 0.2
# The control thread owes an answer within 50 ms in a release build. Tests run a debug build, which takes about five
# times as long, on machines that are busy with other things: a test fails only for what no machine explains.
LONGEST_WAIT = 5.0
# After so long without any answer the router hangs.
PATIENCE = 60.0

# Telnet: our terminal type is `quiver`, which has each answer end with a status and a zero.
TERMINAL_TYPE = b"\xff\xfa\x18\x00quiver\xff\xf0"
STATUS_DONE = b"\x06\x00"


def waited_for_a_core(process, thread):
    """Seconds for which a thread could have run and had no core so far."""
    try:
        return int(pathlib.Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # it has ended, or the kernel does not count that


def is_halted(process):
    """Whether a process was stopped by a signal: then it owes no answer."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


class SecondClient:
    """Asks from its start until `stop`, on a thread of its own."""

    def __init__(self, router):
        self.process, self.socket = router.process, str(router.socket)
        self.answers, self.longest, self.failure = 0, 0.0, None
        # Since when an answer is awaited.
        self.asked = None
        self.ends = threading.Event()
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(1)
        self.thread = threading.Thread(target=self.run, name="second client", daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.connection.connect(self.socket)
            self.connection.sendall(TERMINAL_TYPE)
            while not self.ends.is_set():
                self.ask()
                self.ends.wait(PAUSE)
        except (OSError, EOFError) as error:
            # A router that leaves closes its connections first.
            with contextlib.suppress(Exception):
                self.process.wait(timeout=30)
            if self.process.poll() is None and not self.ends.is_set():
                self.failure = f"the router closed the connection: {error}"
        finally:
            self.connection.close()

    def ask(self):
        cores = self.waited_for_cores()
        self.asked = time.monotonic()
        self.connection.sendall(f"{QUESTION}\n\0".encode())
        said = b""
        while not said.endswith(b"\0"):
            try:
                more = self.connection.recv(65_536)
            except TimeoutError:
                if is_halted(self.process.pid):
                    self.asked = time.monotonic()
                elif self.ends.is_set() or time.monotonic() - self.asked > PATIENCE:
                    return
                continue
            if not more:
                raise EOFError("no more is said")
            said += more
        self.longest = max(self.longest, time.monotonic() - self.asked - (self.waited_for_cores() - cores))
        self.asked = None
        if said.endswith(STATUS_DONE):
            self.answers += 1
        else:
            self.failure = f"'{QUESTION}' was refused: {said}"

    def waited_for_cores(self):
        """What a busy machine kept from the control thread, which is the process's first, and from this one."""
        pid = self.process.pid
        return waited_for_a_core(pid, pid) + waited_for_a_core("self", self.thread.native_id)

    def check(self):
        """Whether the router, which still runs, answered all the while. Called before it is told to end."""
        if self.answers == 0:
            # The test was short.
            deadline = time.monotonic() + LONGEST_WAIT
            while self.answers == 0 and self.failure is None and time.monotonic() < deadline:
                time.sleep(0.01)
        asked = self.asked
        pending = time.monotonic() - asked if asked is not None else 0.0
        longest = max(self.longest, pending)
        assert self.failure is None, f"a second client: {self.failure}"
        assert self.answers > 0, f"a second client was not answered within {LONGEST_WAIT} s"
        assert longest <= LONGEST_WAIT, (
            f"a second client waited {longest:.1f} s for '{QUESTION}' and was answered {self.answers} times: "
            "'show control' tells what held the control thread"
        )

    def stop(self):
        self.ends.set()
        # It looks up at the latest when its patience with one answer, a second, is over.
        self.thread.join(10)
