"""What NVIDIA's driver errors (XIDs) mean and ask for.

Source: NVIDIA, "XID Errors", its catalog for Ampere and later (column "Immediate Action"), read in
2026; 56, 57, 58, 61, 65 and 122-125 from the listing for older cards in the same document; the
numbers' names from `nverror.h` of the open kernel modules. The words are ours. The catalog's
actions become ours so: RESTART_APP is `restart_application`, RESET_GPU and the workflows of 48, 74
and fatal NVLink errors are `reset`, RESTART_BM and RESTART_VM are `reboot`, IGNORE and "follow the
other XID" are `ignore`. Where it names support or new software alone there is no action: the error
is shown, and nothing is kept off the card for it.
"""

from llmgw.model.record import Record

IGNORE = "ignore"
RESTART_APPLICATION = "restart_application"
RESET = "reset"
REBOOT = "reboot"
REPLACE = "replace"

FALLEN_OFF_THE_BUS = 79
RECOVERY_ACTION_CHANGED = 154
REMAPPING = 63

WHAT_TO_DO = {
    RESET: "reset the GPU",
    REBOOT: "reboot the machine",
    REPLACE: "replace the card",
}
"""For the actions that keep everything off a card until somebody does them."""


class Meaning(Record, frozen=True, kw_only=True):
    """What an error means. `action` None: nothing is known to help."""

    words: str
    action: str | None = None


_COPY = "copy engine {} reported an error"
_DECODE = "video decoder {} reported an error"
_JPEG = "JPEG decoder {} reported an error"
_NVLINK = "NVLink hardware error ({})"

NVLINK5 = {
    144: "crossbar side",
    145: "receiving side",
    146: "sending side",
    147: "crossbar port",
    148: "low power control",
    149: "the network behind the link, or the link went down",
    150: "management engine",
}
"""NVLink of Blackwell: what an error asks for stands in its severity, fatal or not."""

_WORDS: dict[str | None, dict[int, str]] = {
    IGNORE: {
        14: "an error injected by a test",
        37: "the driver sent its firmware something that it does not know",
        38: "the context switch firmware ran into its watchdog",
        43: "an application's channel was stopped by a fault of its own",
        44: "a fault during a context switch",
        45: "an application's work was removed after it ended or after an error told before",
        56: "the display engine reported an error",
        REMAPPING: "a memory row or page is to be replaced by a spare one at the next reset",
        66: "the driver touched a register that it must not",
        67: "the driver touched what it must not",
        92: "many single-bit memory errors, all corrected",
        93: "the card's own log may not be written any more",
        106: "a test message of the management bus",
        107: "a silent test message of the management bus",
        108: "an address across NVLink could not be translated",
        121: "corrected errors on the link between processor and GPU",
        137: "an illegal access to another GPU's memory over NVLink",
        141: "an error on CUDA's fast path",
        152: "the deep learning accelerator's memory unit reported an error",
        153: "the deep learning accelerator ran into a timeout",
        157: "a faulty part could not be taken out of use: no spare is left",
        160: "a memory channel was taken out of use",
        161: "a memory channel could not be taken out of use",
        162: "power smoothing works again",
        163: "power smoothing was switched off for its heat or a timeout",
        164: "the power smoothing circuit is almost worn out",
        165: "the power smoothing circuit is worn out",
    },
    RESTART_APPLICATION: {
        8: "the GPU stopped working on a channel",
        11: "a broken command stream",
        13: "the graphics engine met an illegal instruction or address",
        25: "an illegal command stream",
        31: "an application touched memory that is not its own",
        32: "a broken command stream, often a PCIe link of bad quality",
        39: _COPY.format(0),
        40: _COPY.format(1),
        41: _COPY.format(2),
        60: "the video processor reported an error",
        65: "the video encoder reported an error",
        68: _DECODE.format(0),
        69: "the graphics engine was given a wrong method",
        **{70 + number: _COPY.format(3 + number) for number in range(3)},
        **{75 + number: _COPY.format(6 + number) for number in range(3)},
        80: "commands reached the GPU damaged",
        82: _JPEG.format(0),
        83: _DECODE.format(1),
        84: _DECODE.format(2),
        85: _COPY.format(9),
        86: "the optical flow engine reported an error",
        88: _DECODE.format(3),
        89: _DECODE.format(4),
        94: "an uncorrectable memory error that reached one application alone",
        **{96 + number: _DECODE.format(5 + number) for number in range(3)},
        **{99 + number: _JPEG.format(1 + number) for number in range(7)},
        **{126 + number: _COPY.format(10 + number) for number in range(10)},
        139: "the second optical flow engine reported an error",
    },
    RESET: {
        46: "the GPU stopped working",
        48: "an uncorrectable (double-bit) memory error",
        57: "the memory interface could not be set up",
        58: "the memory interface is unstable",
        61: "the power management controller stopped at a breakpoint",
        62: "the power management controller halted",
        64: "a memory row or page could not be replaced by a spare one",
        74: "an NVLink connection failed",
        95: "an uncorrectable memory error that reached several applications",
        109: "a context switch did not end in time",
        110: "a security fault",
        119: "the GPU's system processor (GSP) did not answer",
        120: "the GPU's system processor (GSP) reported an error",
        136: "an NVLink connection could not be trained",
        140: "uncorrectable memory errors that could not be set aside",
        143: "the GPU could not be initialised",
        155: "an NVLink connection was taken down by software",
        156: "a faulty part was taken out of use, which a reset makes real",
        158: "the GPU ran into a timeout that it can't get out of",
    },
    REBOOT: {
        54: "its auxiliary power is not connected: check the cables",
        FALLEN_OFF_THE_BUS: "fell off the bus",
        151: "the keys of confidential computing could not be changed",
    },
    None: {
        78: "a virtual GPU could not be started: its software is too old",
        122: "the board's flash memory could not be read",
        123: "the board's flash memory could not be written",
        124: "the board's flash memory could not be erased",
        125: "the file system of the board's flash memory reported an error",
        142: "the fourth video encoder reported an error",
        RECOVERY_ACTION_CHANGED: "what the driver asks for changed",
        159: "an error on the link between processor and GPU",
        166: "traffic on an NVLink connection that was not encrypted yet",
        167: "the PCIe link ran into a timeout",
        168: "errors in the GPU's protected memory",
        169: "the GPU's security controller halted",
        170: "an interrupt of encrypted NVLink connections",
        171: "an uncorrectable error in the GPU's memory; told beside XID 48",
        172: "an uncorrectable error in the GPU's caches; told beside XID 48",
        **{code: _NVLINK.format(where) for code, where in NVLINK5.items()},
    },
}

_TABLE = {
    code: Meaning(words=words, action=action)
    for action, meanings in _WORDS.items()
    for code, words in meanings.items()
}

FOLLOWED_BY_RECOVERY = frozenset(
    {48, 62, 63, 64, 74, 79, 94, 95, 109, 110, 120, 136, 143, *NVLINK5, 154, 155, 156, 158, 159}
    | {160, 161}
)
"""Errors after which the driver says itself, with XID 154 and in its report, what it asks for."""

_UNKNOWN = Meaning(words="")


def codes() -> tuple[int, ...]:
    """Return the errors of which something is known."""
    return tuple(sorted(_TABLE))


def meaning(
    code: int, *, fatal: bool | None = None, recovery: str | None = None
) -> tuple[str | None, str | None]:
    """Return what an error means and what it asks for; both None for one that is not known.

    Args:
        code: NVIDIA's number.
        fatal: what an NVLink error says of itself; None: nothing.
        recovery: the driver's words for what it asks for now, of XID 154.
    """
    known = _TABLE.get(code, _UNKNOWN)
    if code in NVLINK5 and fatal is not None:
        return known.words, RESET if fatal else IGNORE
    if code == RECOVERY_ACTION_CHANGED and recovery is not None:
        for part, words, action in _RECOVERIES:
            if part in recovery.lower():
                return words, action
    return known.words or None, known.action


_RECOVERIES = (
    ("reboot", "the driver asks for a reboot", REBOOT),
    ("p2p", "the driver asks to end the traffic between GPUs", RESTART_APPLICATION),
    ("reset", "the driver asks for a reset", RESET),
    ("flr", "the driver asks for a reset", RESET),
    ("none", "the driver asks for nothing more", IGNORE),
)
"""By a part of the driver's words: `Node Reboot Required`, `OS Reboot`, `Drain P2P`, `Drain and
Reset`, `GPU Reset Required`, `PF FLR` (a reset of the PCIe function), `None`."""
