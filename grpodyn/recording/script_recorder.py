"""The recorder that joins every trainer of somebody's own script."""

from __future__ import annotations

from typing import Any

from grpodyn.recording.recorder import Recorder, find_trainer
from grpodyn.recording.script import Attachment


def recorder_class(attachment: Attachment) -> type[Recorder]:
    """Return a class that the trainers of transformers build without arguments: one recorder to each trainer."""

    class ScriptRecorder(Recorder):
        """Records a trainer that the script has built."""

        def __init__(self) -> None:
            super().__init__(attachment.run_dir, attachment.config)
            attachment.recorders.append(self)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Start recording, unless the script brings a recorder of its own."""
            handler = getattr(find_trainer(self), "callback_handler", None)
            others = [known for known in getattr(handler, "callbacks", ()) if isinstance(known, Recorder)]
            if any(not isinstance(known, ScriptRecorder) for known in others):
                self.refused = "the script's trainer has a recorder of its own"
                return
            self._append, attachment.append = attachment.append, False
            super().on_train_begin(args, state, control, **kwargs)

    return ScriptRecorder
