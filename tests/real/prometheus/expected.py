"""Which query has what to show, of a cluster as `watched` starts it: thought, not recorded.

- `h100`: eight H100 of which `nvidia-smi -q` was recorded (driver 535: no profiling counters, no
  fan, no retired pages), NVLink of all, twelve ports told by ibstat (which knows no counters),
  two subnet managers
- `mig`: one A100 cut into four: figures of the card, memory of the instances, no utilisation, no
  remapped rows, no NVLink errors
- `cpu`: no cards, no ports
- `whole`: eight H100 like those, one of which has an error in its kernel log, waits for a reset and
  is in an NVLink domain; three ports with their counters; processors that tell heat and power.
  Where no such machine can be made it is left out of what is expected
"""

from tests.real.prometheus.watched import CARDS, ON_CPU, ON_GPU, PARTS, PLAIN, WHOLE

CARD_NODES = frozenset({CARDS, PARTS, WHOLE})
EVERY = frozenset({CARDS, PARTS, PLAIN, WHOLE})
EIGHT = frozenset({CARDS, WHOLE})
THAT_ONE = frozenset({WHOLE})
NONE: frozenset[str] = frozenset()
SOME = None
"""There is data that bears no node's name."""

BY_MACHINE = "machine"
"""It depends on the machine that the test runs on: what it has of its own, agents see."""

Expected = frozenset[str] | None | str

PANELS: dict[str, tuple[Expected, ...]] = {
    "fleet: Nodes ready": (SOME,),
    "fleet: Nodes not ready": (SOME,),
    "fleet: Devices held": (SOME,),
    "fleet: Devices unhealthy": (SOME,),
    "fleet: Replicas serving": (SOME,),
    "fleet: Models not served": (SOME,),
    "fleet: Gateways": (SOME,),
    "fleet: Open XIDs": (SOME,),
    "fleet: Efficiency": (SOME, SOME, SOME, SOME, SOME),
    "fleet: Models that nobody asks for": (SOME,),
    "fleet: Devices": (SOME, SOME, SOME, SOME),
    "fleet: Held beside busy": (SOME, SOME),
    "fleet: Draw": (SOME,),
    "fleet: Nodes by state": (SOME,),
    "fleet: Cordoned, draining, with something wrong": (SOME, SOME),
    "fleet: Processors and memory": (SOME, SOME),
    "fleet: Replicas by state": (SOME,),
    "fleet: Gave way to others": (NONE, NONE),  # there is room for every model
    "fleet: Wanted and not serving": (SOME,),
    "fleet: Why placement turned nodes down": (NONE,),  # everything was placed
    "fleet: Weights": (SOME, SOME),
    "fleet: Weights by fabric": (SOME,),
    "fleet: Fullest disks": (EVERY,),
    "fleet: Control plane": (SOME, SOME, SOME),
    "fleet: Passes": (SOME,),
    "fleet: Passes that fail": (SOME,),
    "fleet: Certificates": (SOME,),
    "fleet: Memory of the control plane": (SOME,),
    "fleet: Cores of the control plane": (SOME,),
    "node: Machine": (EVERY,),
    "node: State": (EVERY,),
    "node: Memory bandwidth": (NONE,),  # agents of a local cluster are told not to measure
    "node: Processors": (EVERY,),
    "node: Load": (EVERY,),
    # The models do not say what they need: what is kept free for the rest is all of it.
    "node: Memory": (EVERY, EVERY, frozenset({PARTS, WHOLE})),
    "node: Disks": (EVERY,),
    "node: Temperatures": (BY_MACHINE,),
    "node: Power of the processors": (BY_MACHINE,),
    "node: Cores of engines": (frozenset({CARDS, PLAIN}),),
    "node: Memory of engines": (frozenset({CARDS, PLAIN}),),
    "node: Busy: share of time any kernel ran, not work": (EIGHT,),
    "node: Memory of devices": (CARD_NODES,),
    "node: Temperature of devices": (CARD_NODES,),
    "node: Warnings": (EVERY,),
    "node: Probes that fail": (BY_MACHINE,),  # its kernel log may be closed to us
    "node: Age of readings": (EVERY,),
    "gpu: Busy: share of time any kernel ran, not work": (EIGHT,),
    "gpu: Work": (CARD_NODES,),
    "gpu: Memory": (CARD_NODES, CARD_NODES),
    "gpu: SM active": (NONE,),
    "gpu: SM occupancy": (NONE,),
    "gpu: Tensor cores active": (NONE,),
    "gpu: Memory moved data": (NONE,),
    "gpu: Memory controller busy": (EIGHT,),
    "gpu: Held by": (frozenset({CARDS}),),
    "gpu: Draw": (CARD_NODES,),
    "gpu: Draw against limit": (CARD_NODES,),
    "gpu: Temperature": (CARD_NODES,),
    "gpu: Temperature of the memory": (CARD_NODES,),
    "gpu: Clock of the multiprocessors": (CARD_NODES,),
    "gpu: Fans": (NONE,),
    "gpu: Held back": (EIGHT,),  # HW Slowdown and HW Power Brake Slowdown : Active
    "gpu: Open XIDs": (THAT_ONE, THAT_ONE, THAT_ONE),
    "gpu: Placement takes it": (CARD_NODES,),
    "gpu: The driver asks for": (CARD_NODES,),  # Reset Required : No
    "gpu: ECC errors": (CARD_NODES,),
    "gpu: ECC errors over its life": (CARD_NODES,),
    "gpu: Remapped rows, retired pages": (EIGHT, NONE),
    "gpu: Waits for a reset": (EIGHT, EIGHT, NONE),
    "gpu: NVLinks down": (CARD_NODES,),
    "gpu: NVLink errors": (EIGHT,),
    "gpu: PCIe lanes missing": (CARD_NODES,),
    "gpu: PCIe generations missing": (CARD_NODES,),
    "gpu: PCIe replays": (CARD_NODES,),  # Replays Since Reset : 67
    "gpu: Memory of others": (CARD_NODES,),
    "gpu: Devices without a reading": (NONE,),
    "gpu: Age of readings": (CARD_NODES, CARD_NODES),
    "fabric: Ports": (EIGHT,),
    "fabric: Ports that carry traffic": (EIGHT,),
    "fabric: Rate": (EIGHT,),
    "fabric: Received": (THAT_ONE,),
    "fabric: Sent": (THAT_ONE,),
    "fabric: Errors": (THAT_ONE,),
    "fabric: Waited to send": (THAT_ONE,),
    "fabric: Links that went down": (EIGHT,),  # the control plane counts them itself
    "fabric: Masters": (SOME,),
    "fabric: Nodes and subnet managers": (SOME, SOME),
    "fabric: Problems": (SOME,),
    "fabric: Joined": (THAT_ONE,),  # of others: Fabric: Completed, but no ClusterUUID is told
    "fabric: IMEX": (THAT_ONE, THAT_ONE),
    "traffic: Requests": (SOME,),
    "traffic: By status": (SOME,),
    "traffic: Failing": (SOME,),
    "traffic: In flight": (SOME,),
    "traffic: Replicas": (SOME, SOME),
    "traffic: Time to the first token": (SOME, SOME, SOME),
    "traffic: Between two tokens": (SOME, SOME, SOME),
    "traffic: Duration": (SOME, SOME, SOME),
    "traffic: Waiting": (SOME,),
    "traffic: Time in the queue": (NONE, NONE, NONE),  # no request had to wait
    "traffic: Refused": (NONE, NONE),
    "traffic: Keys over quota": (SOME,),
    "traffic: Errors by cause": (NONE, NONE),
    "traffic: Tokens": (SOME,),
    "traffic: Tokens a request": (SOME,),
    "traffic: Tried again, broken off": (SOME, SOME),
    "traffic: Choices of a replica": (SOME,),
    "traffic: Fall-backs": (NONE,),
    "traffic: Gateways that can't use it": (SOME,),
    "traffic: In flight at each": (SOME,),
    "traffic: Score of each": (NONE,),  # no request is in flight
    "traffic: In the engines": (SOME, SOME),
    "traffic: KV cache": (NONE,),  # llama-server does not say
    "traffic: Workers of gateways": (SOME,),
}
"""The nodes of which each query of a panel has data."""

SERIES = {
    "node: Memory of devices": 12,  # 8 cards, the 4 instances of one that is cut
    "node: Temperature of devices": 9,  # instances have none of their own
    "gpu: Busy: share of time any kernel ran, not work": 8,
    "gpu: Work": 9,
    "gpu: Held by": 1,
    "gpu: Held back": 16,  # two reasons each
    "gpu: NVLink errors": 24,  # replay, recovery and CRC of each H100
    "fabric: Ports": 12,
    "fabric: Rate": 9,  # three are down: their rate says nothing
}
"""How many series a panel's first query has beside those of `whole`, as recordings tell."""

SERIES_OF_WHOLE = {
    "gpu: Open XIDs": 1,  # 48; 63 and 94 end with the engine or ask for nothing
    "fabric: Ports": 3,
    "fabric: Rate": 3,
    "fabric: Joined": 1,
    "fabric: IMEX": 1,
    "node: Temperatures": 2,  # two coretemp chips: Physical id 0 and 1
    "node: Power of the processors": 1,  # intel-rapl:0 alone is a package
}
"""How many it has of `whole`."""

HOLDS: dict[str, tuple[dict[str, str], ...]] = {
    "LlmgwGpuPowerBrake": tuple({"node": node, "reason": "power brake"} for node in (CARDS, WHOLE)),
    "LlmgwGpuHeldIdle": ({"node": CARDS, "model": ON_GPU},),
    "LlmgwModelIdle": ({"model": ON_GPU},),
    "LlmgwGpuXid": ({"node": WHOLE, "gpu": "0", "xid": "48", "action": "reset"},),
    "LlmgwGpuRowRemapPending": ({"node": WHOLE, "gpu": "0"},),
    "LlmgwGpuUnhealthy": ({"node": WHOLE, "gpu": "0"},),
}
"""The alerts whose condition holds, and labels of what it holds for: all others say nothing."""

HOLDS_BY_MACHINE = {
    "LlmgwDiskNearlyFull",
    "LlmgwNodeMemoryLow",
    "LlmgwNodesUnhealthy",
    "LlmgwProbeFailing",
    "LlmgwSharedDiskNearlyFull",
}
"""Alerts about what agents find on the machine that the test runs on."""

ABSENT = {
    "llmgw_gpu_page_retirement_pending",
    "llmgw_gpu_sample_missing",
    "llmgw_queue_wait_seconds_bucket",
    "llmgw_refusals_total",
}
"""Metrics of alerts of which this cluster has nothing; of all others it has something."""

OF_WHOLE = {
    "llmgw_gpu_nvlink_joined",
    "llmgw_gpu_xid_open",
    "llmgw_ib_port_counter_total",
    "llmgw_imex_channels",
    "llmgw_imex_up",
}
"""Metrics of alerts that `whole` alone has."""

ASKED, UNASKED = ON_CPU, ON_GPU

WHOLE_PAGE = (
    "gpu0: out of order, see Condition",
    "! a row waits to be remapped: reset the card",
    "the card at 0000:e4:00 is on the bus and the driver does not list it",
    # 2024-11-15T12:02:03,470068+00:00 NVRM: Xid (PCI:0000:19:00): 48, ... (DBE)
    "ago: an uncorrectable (double-bit) memory error; reset the device",
    # nine lines: NVRM: Xid (PCI:0000:19:00): 94
    "XID 94 9 times",
    # ClusterUUID : b2daed23-0000-0000-0000-000000000000, CliqueId : 1
    "NVLink domain b2daed23/1 joined",
    "b2daed23-0000-0000-0000-000000000000/1, nvidia-imex runs, channels: channel0",
    # mlx5_1/ports/1/counters/link_downed 255, which is the most that it holds
    "link_downed at least 255",
    # mlx5_bond_0/ports/1/rate 200 Gb/sec (2X NDR), link_layer Ethernet
    "mlx5_bond_0/1  active  200 Gb/s  Ethernet",
    # two chips named coretemp, each with temp1_label Physical id, temp1_input 55000
    "cpu 0 package  55°C",
    "cpu 1 package  55°C",
)
"""What `llmgw ctl node` says of `whole`, and the lines that it was recorded as."""

ONCE = ("waits to be remapped", "waits for a reset", "XID 48", "double-bit")
"""What it says in one place at most: each is one cause."""

HARDWARE = ("2024-11-15", "XID 48 (an uncorrectable (double-bit) memory error)")
"""A line of `llmgw ctl hardware` about `whole`, and the day on which the error happened."""
