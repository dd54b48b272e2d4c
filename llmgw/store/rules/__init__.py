"""What every store keeps to, as pure functions: a store reads, asks here, and writes the answer."""
