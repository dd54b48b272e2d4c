"""Looking at this machine's processes: what can't be seen is not taken for gone."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llmgw.base.system import SystemProcesses


@contextmanager
def no_more_files() -> Iterator[None]:
    """Leave this process not one file to open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_that_lives_is_seen_and_one_that_is_gone_is_not() -> None:
    processes = SystemProcesses()
    seen = processes.look(os.getpid())
    assert seen is not None
    assert seen.group == os.getpgrp()
    assert processes.group_alive(os.getpgrp())
    assert processes.look(2**22 + 1) is None
    assert not processes.group_alive(2**22 + 1)


def test_without_a_file_to_open_no_process_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = SystemProcesses()
    # The list of pids is there already when the limit is met between two of them.
    monkeypatch.setattr("llmgw.base.system._pids", lambda: [os.getpid()])
    for look in (
        lambda: processes.look(os.getpid()),
        lambda: processes.group_alive(os.getpgrp()),
        lambda: processes.with_environ("PATH", os.environ["PATH"]),
    ):
        with no_more_files(), pytest.raises(OSError, match="Too many open files") as raised:
            look()
        assert raised.value.errno == errno.EMFILE
