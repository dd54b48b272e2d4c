"""The console under Textual's pilot and in pseudo-terminals."""

import os

os.environ["TEXTUAL_ANIMATIONS"] = "none"
for _name in ("NO_COLOR", "COLORTERM", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_FPS"):
    os.environ.pop(_name, None)
