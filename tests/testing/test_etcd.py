"""``python -m tests.support.etcd``, which ``make etcd`` runs: it starts one etcd and ends it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.forks import MEMORY_BYTES
from tests.support.etcd import MISSING, Etcd, find_etcd, main
from tests.support.ports import free_port


@pytest.mark.skipif(find_etcd() is None, reason=MISSING)
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_no_etcd_is_left_behind(by):
    """Also when the command ends by SIGTERM, as by ``kill`` and at a shutdown."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.etcd", str(port)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout.readline().startswith("etcd ready: ")
        started.send_signal(by)
        assert started.wait(20) == 0
    finally:
        started.kill()
        started.stdout.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.skipif(find_etcd() is None, reason=MISSING)
def test_an_etcd_starts_where_addresses_are_limited():
    """``make mutants`` limits what a test may take; without an etcd it would leave out many."""
    limited = ["sh", "-c", f'ulimit -v {MEMORY_BYTES >> 10} && exec "$0" "$@"']
    program = "from tests.support.etcd import Etcd\nwith Etcd() as etcd: print(etcd.leader.term)"
    done = subprocess.run(
        [*limited, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


def test_a_start_that_fails_leaves_nothing(tmp_path):
    """Neither the data, which may be in memory, nor the members that have started."""
    program, said = tmp_path / "etcd", tmp_path / "said"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo 3.5 && exit\necho $$ $2 >> {said}\n'
        'case "$*" in *"--name m0"*) exit 1 ;; esac\nexec sleep 1000\n'
    )
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="etcd doesn't start"), Etcd(2, str(program)):
        pass
    for line in said.read_text().splitlines():
        pid, directory = line.split()
        assert not Path(directory).parent.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_taken_port_is_said(capsys):
    """Otherwise brokers would join the cluster of another etcd, which answers there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([str(port)]) == 1
    assert f"port {port} is taken" in capsys.readouterr().err
