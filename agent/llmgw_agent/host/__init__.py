"""What the agent does to its machine beside engines: helper processes, HTTP, package installs."""
