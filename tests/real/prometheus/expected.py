"""Which query has what to show, of a cluster as `watched` starts it: thought, not recorded.

- `h100`: eight H100 of which `nvidia-smi -q` was recorded (driver 535: no profiling counters, no
  fan, no retired pages), NVLink of all, twelve ports told by ibstat (which knows no counters),
  two subnet managers
- `mig`: one A100 cut into four: figures of the card, memory of the instances, no utilisation, no
  remapped rows, no NVLink errors
- `cpu`: no cards, no ports
"""

from tests.real.prometheus.watched import CARDS, ON_CPU, ON_GPU, PARTS, PLAIN

CARD_NODES = frozenset({CARDS, PARTS})
EVERY = frozenset({CARDS, PARTS, PLAIN})
EIGHT = frozenset({CARDS})
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
    "fleet: Devices": (SOME, SOME, SOME),
    "fleet: Held beside busy": (SOME, SOME),
    "fleet: Draw": (SOME,),
    "fleet: Nodes by state": (SOME,),
    "fleet: Cordoned, draining, with something wrong": (SOME, SOME),
    "fleet: Processors and memory": (SOME, SOME),
    "fleet: Replicas by state": (SOME,),
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
    "node: Memory": (EVERY, EVERY, frozenset({PARTS})),  # the models do not say what they need
    "node: Disks": (EVERY,),
    "node: Temperatures": (BY_MACHINE,),
    "node: Power of the processors": (BY_MACHINE,),
    "node: Cores of engines": (frozenset({CARDS, PLAIN}),),
    "node: Memory of engines": (frozenset({CARDS, PLAIN}),),
    "node: Requests in engines": (NONE, NONE),  # nothing reads engines' own metrics yet
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
    "gpu: Held by": (EIGHT,),
    "gpu: Draw": (CARD_NODES,),
    "gpu: Draw against limit": (CARD_NODES,),
    "gpu: Temperature": (CARD_NODES,),
    "gpu: Temperature of the memory": (CARD_NODES,),
    "gpu: Clock of the multiprocessors": (CARD_NODES,),
    "gpu: Fans": (NONE,),
    "gpu: Held back": (EIGHT,),  # HW Slowdown and HW Power Brake Slowdown : Active
    "gpu: Open XIDs": (BY_MACHINE, BY_MACHINE, BY_MACHINE),  # the kernel log is the machine's
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
    "gpu: PCIe replays": (NONE,),  # nvidia-smi's queries do not have them
    "gpu: Memory of others": (CARD_NODES,),
    "gpu: Devices without a reading": (NONE,),
    "gpu: Age of readings": (CARD_NODES, CARD_NODES),
    "fabric: Ports": (EIGHT,),
    "fabric: Ports that carry traffic": (EIGHT,),
    "fabric: Rate": (EIGHT,),
    "fabric: Received": (NONE,),
    "fabric: Sent": (NONE,),
    "fabric: Errors": (NONE,),
    "fabric: Waited to send": (NONE,),
    "fabric: Links that went down": (EIGHT,),  # the control plane counts them itself
    "fabric: Masters": (SOME,),
    "fabric: Nodes and subnet managers": (SOME, SOME),
    "fabric: Problems": (SOME,),
    "fabric: Joined": (NONE,),  # Fabric: Completed, but no ClusterUUID is told
    "fabric: IMEX": (NONE,),
    "traffic: Requests": (SOME,),
    "traffic: By status": (SOME,),
    "traffic: Failing": (SOME,),
    "traffic: In flight": (SOME,),
    "traffic: Inside the engines": (NONE, NONE),
    "traffic: Replicas": (SOME, SOME),
    "traffic: Time to the first token": (SOME, SOME, SOME),
    "traffic: Duration": (SOME, SOME, SOME),
    "traffic: Tokens": (SOME,),
    "traffic: Tokens a request": (SOME,),
    "traffic: Tried again, broken off": (SOME, SOME),
}
"""The nodes of which each query of a panel has data."""

SERIES = {
    "node: Memory of devices": 13,  # 8 cards, 1 card that is cut, its 4 instances
    "node: Temperature of devices": 9,  # instances have none of their own
    "gpu: Busy: share of time any kernel ran, not work": 8,
    "gpu: Work": 9,
    "gpu: Held by": 1,
    "gpu: Held back": 16,  # two reasons each
    "gpu: NVLink errors": 24,  # replay, recovery and CRC of each H100
    "fabric: Ports": 12,
    "fabric: Rate": 9,  # three are down: their rate says nothing
}
"""How many series a panel's first query has, where that is told by what was recorded."""

HOLDS = {
    "LlmgwGpuPowerBrake": {"node": CARDS, "reason": "power brake"},
    "LlmgwGpuHeldIdle": {"node": CARDS, "model": ON_GPU},
    "LlmgwModelIdle": {"model": ON_GPU},
}
"""The alerts whose condition holds, with labels that each bears: all others say nothing."""

HOLDS_BY_MACHINE = {
    "LlmgwDiskNearlyFull",
    "LlmgwGpuXid",
    "LlmgwGpuXidApplication",
    "LlmgwNodeMemoryLow",
    "LlmgwNodesUnhealthy",
    "LlmgwProbeFailing",
    "LlmgwSharedDiskNearlyFull",
}
"""Alerts about what agents find on the machine that the test runs on."""

ABSENT = {
    "llmgw_gpu_nvlink_joined",
    "llmgw_gpu_page_retirement_pending",
    "llmgw_gpu_sample_missing",
    "llmgw_gpu_xid_open",
    "llmgw_ib_port_counter_total",
    "llmgw_imex_up",
    "llmgw_shard_requests_running",
    "llmgw_shard_requests_waiting",
}
"""Metrics of alerts of which this cluster has nothing; of all others it has something."""

ASKED, UNASKED = ON_CPU, ON_GPU
