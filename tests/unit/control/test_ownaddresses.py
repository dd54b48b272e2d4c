"""The machine's own addresses, read from what the kernel shows of them."""

from pathlib import Path

from llmgw.control.ownaddresses import own_addresses
from tests.fakes.machine import MemoryFiles

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 192.0.2.0/24 2 0 2
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.2
              /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
Local:
           |-- 192.0.2.2
              /32 host LOCAL
           |-- 10.1.2.3
              /32 host LOCAL
"""

IF_INET6 = """\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
fd000000000000000000000000000002 04 40 00 82     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_every_global_address_is_found_once_and_loopback_is_left_out() -> None:
    files = MemoryFiles()
    files.write(Path("/proc/net/fib_trie"), FIB_TRIE.encode())
    files.write(Path("/proc/net/if_inet6"), IF_INET6.encode())
    assert own_addresses(files, "cp-1") == ("cp-1", "10.1.2.3", "192.0.2.2", "fd00::2")


def test_a_machine_that_shows_nothing_has_its_name() -> None:
    assert own_addresses(MemoryFiles(), "cp-1") == ("cp-1",)
