"""Examples that a reader failed on once: tool, recorded file, seed."""

KEPT: tuple[tuple[str, str, int], ...] = (
    ("statfs", "stat-f.txt", 1052),
    ("statfs", "stat-f.txt", 1786),
    ("xid", "row-remapper-63.txt", 10519),
    ("xid", "journal-german-79.txt", 10984),
    ("llamacpp-log", "vulkan-29of29.txt", 40),
    ("llamacpp-log", "cuda-62of62-2025.txt", 189),
    ("nvidia-smi-csv", "fabric-clique.csv", 16720),
)
