"""Records: what the whole house speaks about. No I/O, no time, no randomness.

One name, three forms: a record's field names are its JSON's and its proto message's. `None` means
"not known" and is never 0. Choices are unions of tagged Structs, a `oneof` on the wire.
"""
