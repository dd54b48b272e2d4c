"""What the gateway costs beside other proxies, on one core each.

    python -m tests.bench.gateway --install DIR      the peers, in an environment of their own
    python -m tests.bench.gateway --peers DIR        measures ours and all that DIR has
    python -m tests.bench.gateway --only ours --json

Each proxy runs on the first core that this process may use, engines and clients (C, compiled by
`cc`; else Python, which says so) on the second. A number is CPU time of the proxy's whole process
tree, from the kernel's accounting, for each unit of work: the median of passes in which the proxies
take turns. On a busy machine the numbers grow together; what is worth something is their ratio.

Ours is `llmgw gateway` with one worker, joined to a control plane, every feature on. It is asked to
show each feature before anything is measured: a key that is wrong, usage that is counted, a shared
prefix that goes to one engine. Without one of them nothing is measured. `bare relay` passes bytes
on and does nothing else: what is left of ours beside it is what ours does.
"""
