"""The control plane: what runs, what is told, and what is done about it.

`plane` holds the parts together, `server` puts sockets around it. Facts come in through `agents`
and `gateways`, are applied by `fleet`, and go out through `feed`; decisions are made by
`llmgw.plan` and applied by `execute`. `tasks` holds one background pass a file.
"""
