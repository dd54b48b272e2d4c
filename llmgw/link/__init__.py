"""What agent, control plane and gateway share of the wire: guarded streams of records over mTLS.

grpclib carries the streams and lacks six guards; they are here and nowhere else: a limit on the
size of messages (`guard`), one writer a stream, a watchdog that cuts the transport (`stream`), an
orderly end (`server`), decode errors of any kind (`codec`) and keepalive settings (`guard`).
Records go in and come out; no wire type leaves this room.
"""
