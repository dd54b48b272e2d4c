"""Where one can be: a screen, and the thing that it shows."""

from typing import NamedTuple

OVERVIEW = "overview"
NODES = "nodes"
NODE = "node"
REPLICAS = "replicas"
REPLICA = "replica"
MODELS = "models"
MODEL = "model"
LOGS = "logs"
TRAFFIC = "traffic"
KEYS = "keys"


class Place(NamedTuple):
    """A screen's name, the id of what it shows, and what else was asked: a filter, a source."""

    screen: str
    id: str = ""
    detail: str = ""
