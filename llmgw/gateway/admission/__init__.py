"""Whether a request may go on now: limits of keys, queues of models. Pure decisions."""
