"""Where one has been: what Escape leads back through."""

from llmgw_tui.draw.places import LOGS, MODEL, MODELS, NODE, NODES, REPLICA, REPLICAS, Place

_ROOTS = {NODE: NODES, REPLICA: REPLICAS, MODEL: MODELS}
"""The screen that a page belongs to, for the side bar."""
MOST = 50


class History:
    """A trail of places. Going to a screen by its number starts a new trail."""

    def __init__(self, start: Place) -> None:
        self._trail = [start]

    @property
    def here(self) -> Place:
        """Return where one is."""
        return self._trail[-1]

    @property
    def deep(self) -> bool:
        """Say whether there is anything to go back to."""
        return len(self._trail) > 1

    @property
    def root(self) -> str:
        """Return the screen of the side bar that this belongs to."""
        here = self.here.screen
        if here == LOGS:
            return LOGS
        return _ROOTS.get(here, here)

    def go(self, place: Place) -> None:
        """Go on to a place."""
        if place == self.here:
            return
        self._trail.append(place)
        del self._trail[:-MOST]

    def jump(self, place: Place) -> None:
        """Begin a new trail."""
        self._trail = [place]

    def back(self) -> bool:
        """Go back; say whether there was anything to go back to."""
        if not self.deep:
            return False
        self._trail.pop()
        return True
