"""Text of the machine's files and tools → records. Pure; raises nothing but `Unreadable`."""
