"""One recording, from the start of a training to its end: what the recorder's events do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from grpodyn.config.record import RecordConfig
from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import take_inventory
from grpodyn.naming.selection import select
from grpodyn.probe import Need
from grpodyn.recording import saving
from grpodyn.recording.activations import Activations
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.completions import CompletionFiles
from grpodyn.recording.cost import RecorderCost
from grpodyn.recording.digesting import Digesting
from grpodyn.recording.directory import open_writer
from grpodyn.recording.measurement import OF_DISPLACEMENT, Measurement
from grpodyn.recording.mirror import mirrored
from grpodyn.recording.notes import Notes
from grpodyn.recording.opening import Start, announcement, left_out, manifest_fields, recorder_facts, records_as_before
from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.plan import Plan, map_layers
from grpodyn.recording.ranks import Ranks, Task
from grpodyn.recording.reference import BASE_FOLDER, Reference, establish, reopen
from grpodyn.recording.rollouts import RolloutHooks, Rollouts, reward_names
from grpodyn.recording.scalars import numbers
from grpodyn.recording.secrets import without_secrets
from grpodyn.recording.shard_lead import Lead
from grpodyn.recording.shard_reference import establish_shares, lost_shares
from grpodyn.recording.spectral_rows import SpectralRows
from grpodyn.recording.step_rows import StepRows
from grpodyn.trace.manifest import Manifest, RunStatus

logger = logging.getLogger("grpodyn")


class Session:
    """Records one training. Its methods may raise: the recorder calls them inside its boundary.

    Args:
        run_dir: the directory asked for.
        config: what is measured.
        start: what training begins with.
        cost: counts what recording costs.
        extra: more fields of the manifest.
        ranks: the ranks among which the model is split, if it is: the others follow this one.

    Raises:
        NameCollisionError: two parameters have one canonical name.
        OSError: the directory cannot be written.
    """

    def __init__(
        self,
        run_dir: Path,
        config: RecordConfig,
        start: Start,
        cost: RecorderCost,
        extra: Mapping[str, Any],
        ranks: Ranks | None = None,
    ) -> None:
        self._ranks = ranks
        self._lead: Lead | None = None
        self.table: Tensor | None = None
        """What the other ranks are to know of this one; None where the model is not split."""
        self._cost = cost
        self._step = start.step
        """The step that runs."""
        self._done = 0
        """The last step whose update was seen."""
        self._asked = 0
        """The last step before which something was read, or tried to be."""
        self._in_step = False
        self._is_first_step = True
        self._announced = self._as_before = False
        self._told = False
        self._needs: frozenset[Need] = frozenset()
        self._digesting: Digesting | None = None
        self._model, self._trainer = start.model, start.trainer
        own = getattr(start.trainer, "processing_class", None)
        self._tokenizer = own if start.tokenizer is None else start.tokenizer
        self._known = {id(parameter) for parameter in start.model.parameters() if parameter.requires_grad}
        self._strangers = 0
        """Trained parameters that are not known, as far as noted."""
        self._inventory = select(take_inventory(start.model, ranks.shares if ranks else None), config.only, config.skip)
        self.names = [info.name for info in self._inventory.infos]
        """Entries of the tensor axis."""
        self._layers = map_layers(self._inventory)
        manifest = Manifest().updated(**without_secrets(extra))
        self.writer, self._resumed = open_writer(run_dir, manifest, start.step, append=start.append)
        self._notes = Notes(self.writer, self._inventory)
        self.boundary = Boundary(lambda where, why: self.writer.event(self._step, f"fault in {where}", why))
        self._hooks = RolloutHooks(start.trainer, self.boundary, self._take_rollouts)
        try:
            self._set_up(config, start, extra)
        except BaseException as error:
            self.writer.event(start.step, "recording refused", f"{type(error).__name__}: {error}")
            self._hooks.remove()
            self.writer.close("failed")
            raise

    @property
    def run_dir(self) -> Path:
        """The directory that is used."""
        return self.writer.run_dir

    def _set_up(self, config: RecordConfig, start: Start, extra: Mapping[str, Any]) -> None:
        self._plan = Plan(config, first=1 if self._resumed else start.step + 1, last=start.last)
        self._completions = CompletionFiles(self.run_dir, config.save_completions)
        self._reference = self._starting_weights(config, start)
        self._measurement = Measurement(
            self._inventory, self._reference, start.optimizer, self._plan.needs(), config.copy_limit
        )
        if self._ranks is not None:
            self._lead = Lead(self._ranks, self._inventory, self._measurement, self.boundary, self._notes, config)
            self.table = self._lead.gathering.table
        self._declare(start)
        self._activations = self._watched(config, start) if self._plan.activation_probes else None
        self._spectra = SpectralRows(
            self._plan, self._inventory, self._measurement.tracked, self.boundary, self._notes, self.writer, self._lead
        )
        self._cost.background = self._background_seconds
        self._rows = StepRows(
            self._plan,
            self._inventory,
            self._layers,
            self._activations,
            self.boundary,
            self._notes,
            self.writer,
            None if self._lead is None else self._lead.frozen,
        )
        self._left_out = left_out(self._plan, self._inventory, self._measurement, self._reference, self._hooks)
        if self._activations is not None and self._activations.unavailable is not None:
            self._left_out += [Unmeasured(name, self._activations.unavailable) for name in self._plan.activation_probes]
        about = recorder_facts(config, self._plan, self._measurement, self._inventory, self._hooks)
        about["skipped"] = [{"what": entry.what, "why": entry.why} for entry in self._left_out]
        self._as_before = self._resumed and records_as_before(self.writer.manifest.recorder, about)
        fields = manifest_fields(start, self._inventory, self._reference, resumed=self._resumed)
        self.writer.update_manifest(recorder=about, **without_secrets(fields))
        # Last: whoever started the recorder knows better, and a resumed run may have been given a longer config.
        self.writer.update_manifest(**without_secrets(extra))
        for entry in self._left_out:
            self.writer.event(start.step, f"not recorded: {entry.what}", entry.why)
        self._mirror = mirrored(start, self._inventory.infos, self.writer, self.boundary) if config.mirror else None
        if not self._resumed:
            self._digesting = Digesting(self._reference, self.run_dir, self.boundary, self.writer)

    def _starting_weights(self, config: RecordConfig, start: Start) -> Reference:
        earlier = self.writer.manifest.reference if self._resumed else None
        stored, model_config = self._inventory.stored, getattr(start.model, "config", None)
        if self._ranks is not None:
            if earlier is not None:
                return lost_shares(stored, earlier)
            size = self._ranks.size
            return establish_shares(stored, model_config, config.base_limit, size, start_step=start.step)
        # TRL can let its reference model follow the trained one.
        follows = bool(getattr(start.args, "sync_ref_model", False))
        other = None if follows else getattr(start.trainer, "ref_model", None)
        if earlier is not None:
            return reopen(stored, other, self.run_dir, earlier)
        return establish(stored, model_config, other, self.run_dir, config.base_limit, start_step=start.step)

    def _watched(self, config: RecordConfig, start: Start) -> Activations:
        prompts, limit = config.activation_prompts, config.activation_limit
        together = None if self._lead is None else self._lead.forward
        file = self.run_dir / BASE_FOLDER / "activations.safetensors"
        watched = Activations(start.model, self._layers, self._tokenizer, prompts, limit, together, file)
        if self._resumed:
            watched.restore()
        return watched

    def _background_seconds(self) -> float:
        digesting = self._digesting.cpu_seconds if self._digesting is not None else 0.0
        return self._spectra.cpu_seconds + self.writer.cpu_seconds + digesting

    def _declare(self, start: Start) -> None:
        self.writer.declare_tensors(self._inventory.infos)
        self.writer.declare_layers(self._layers.layers, self._layers.stacks)
        for group in ("tensors", "layers", "spectra"):
            self.writer.declare_arrays(group, self._plan.arrays(group))
        if self._hooks.source is not None:
            self.writer.declare_reward_functions(reward_names(start.trainer))
            self.writer.describe("rollouts", source=self._hooks.source)

    # The events of training, in their order.

    def step_begins(self, step: int) -> None:
        """Begin a step."""
        self._rows.begin()
        self._step = step
        self._cost.step_begins()

    def before_optimizer(self, step: int, hidden: str | None = None) -> None:
        """Read gradients and weights before the optimizer's step.

        Args:
            step: the step that it makes.
            hidden: why the gradients that are there now are not those of the step, if they are not.
        """
        self._rows.begin()
        self._step, self._asked, self._in_step = step, step, False
        if self._activations is not None:
            # The other ranks come before the first update, and not again.
            with self._meeting() if self._is_first_step else nullcontext():
                self.boundary.run("activations", self._activations.begin)
        self._is_first_step = False
        # A trainer's optimizer may be replaced while it trains; the state of the old one would tell a wrong step.
        current = getattr(self._trainer, "optimizer", None)
        if current is not None:
            self.change_optimizer(current)
        due = self._plan.tensor_probes_at(step)
        self._needs = frozenset().union(*(probe.needs for probe in due.values()))
        self._needs |= self._spectra.needs_at(step)
        if hidden is not None and Need.GRADIENT in self._needs:
            self._needs -= {Need.GRADIENT}
            self._notes.once(step, "gradients hidden", f"{hidden}; recorded as nan")
        self._measurement.forms_dense = self._plan.forms_dense(step)
        self._measurement.before_step(self._needs, hidden=hidden is not None)
        # Only now: after a failure half way, what was read belongs to no one step.
        self._in_step = True
        if Need.GRADIENT in self._needs:
            self._notes.missing_gradients(step, self._measurement.without_gradient)
            self._note_strangers(step)

    def after_optimizer(self, step: int) -> None:
        """Read what the optimizer's step did."""
        self._step = step
        if not self._in_step:
            if self._asked != step:
                self._notes.once(step, "no gradients or updates", "the trainer did not call on_pre_optimizer_step")
            self._needs = self._needs & OF_DISPLACEMENT
        self._in_step, self._done = False, step
        if Need.INTENDED_STEP in self._needs and self._measurement.intended.was_skipped:
            self._notes.once(step, "optimizer step skipped", "gradients overflowed under mixed precision")
        with self._meeting():
            if self._lead is None:
                sums = self._measurement.after_step(self._needs)
            else:
                sums = self._lead.sums(step, Task.STEP_SUMS, self._measurement.after_step, self._needs)
            self._notes.lost_tensors(step, self._measurement.tracked.lost)
            self._notes.unknown_steps(step, self._measurement.intended.unknown)
            for gone in self._measurement.tracked.without_start:
                self._notes.once(step, f"not recorded any more: {gone.what}", gone.why)
            if self._lead is None or self._lead.is_sound:
                self._notes.not_finite(step, sums, self._measurement.measured)
            self._rows.write(step, sums)
            self._spectra.advance(step)

    def step_ends(self, step: int, *, stopping: bool, saving: bool) -> None:
        """Commit the step's rows if a checkpoint follows, so that a resume finds every step before it."""
        if stopping:
            with self._meeting():
                self._rows.complete(self._displacement)
                if self._lead is not None:
                    # Once training has ended early, the ranks do not meet again.
                    self._spectra.finish(step)
        if saving:
            self.writer.flush()
        self._cost.step_ends()
        self._tell_if_stopped()
        if not self._announced:
            self._announced = True
            self._announce()

    def next_step_begins(self) -> None:
        """Start the clock of the next step, which may never come: the rows of the last one stay."""
        self._cost.step_begins()

    def without_update(self, step: int) -> None:
        """Note that a step ends in which the optimizer was not stepped."""
        why = (
            "the loop ended a step without a step of the optimizer that was attached: it was skipped, or another "
            "optimizer trains the model now; attach again if so"
        )
        self._notes.once(step, "step without an update", why)

    def change_optimizer(self, optimizer: Any) -> None:
        """Go on with another optimizer of the same model."""
        if self._measurement.intended.reads(optimizer):
            return
        self._measurement.intended = IntendedSteps(optimizer)
        unavailable = self._measurement.intended.unavailable
        why = unavailable or "intended steps are read from the new one's state"
        self.writer.event(self._step, "optimizer changed", why)

    def log(self, step: int, scalars: Mapping[str, Any], *, saving: bool) -> None:
        """Record the scalars that the trainer logs, under its own keys, and what recording cost since the last log."""
        seconds, step_seconds = self._cost.since_last_row()
        cost = {"recorder_seconds": seconds, "step_seconds": step_seconds}
        self.writer.add_row("metrics", step, {**numbers(scalars), **cost})
        if self._mirror is not None:
            self.boundary.run("mirror", self._mirror.tell, seconds, step_seconds)
        if saving:
            self.writer.flush()

    def evaluation(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Record the results of an evaluation."""
        self.writer.add_row("evaluations", step, numbers(metrics))

    def close(self, status: RunStatus, *, final: bool = True) -> None:
        """End the recording: the last step's displacement and spectra, then the trace.

        Args:
            status: how training ended.
            final: whether the live weights are still those of the last step.
        """
        self._hooks.remove()
        self._cost.step_ends()
        # Ranks that were interrupted do not meet again.
        if final and not self._in_step and self._done and (self._lead is None or status == "finished"):
            with self._meeting():
                self.boundary.run("last displacement", self._rows.complete, self._displacement)
                self.boundary.run("last spectra", self._spectra.finish, self._done)
        self._spectra.close()
        if self._digesting is not None:
            self._digesting.close()
        self.writer.update_manifest(recorder=self._closing_facts())
        self.writer.close(status)
        self._tell_if_stopped()

    def hurry(self) -> None:
        """Leave only a few seconds for what the end of the recording waits for; a signal's handler may call it."""
        self._spectra.hurry()

    def save(self) -> None:
        """Save the trained model (or its adapter) and its tokenizer into `model/`; else say why not."""
        why, state = saving.obstacle(self._model, together=self._lead is not None), None
        with self._meeting():
            if why is None and self._lead is not None:
                state = self._lead.state(self._model)
                why = "the other ranks are gone" if state is None else None
        if why is None:
            saving.save(self._model, self._tokenizer, self.run_dir / "model", state)
        else:
            self.writer.event(self._step, "model not saved", why)

    # What they do.

    def _meeting(self) -> AbstractContextManager[None]:
        """Keep the other ranks for a block, if the model is split among them."""
        return nullcontext() if self._lead is None else self._lead.meeting(self._step, self._copies_next)

    def _copies_next(self) -> bool:
        return self._spectra.copies_next

    def _displacement(self, needs: frozenset[Need]) -> dict[Need, Tensor]:
        if self._lead is None:
            return self._measurement.displacement(needs)
        return self._lead.sums(self._step, Task.DISPLACEMENT_SUMS, self._measurement.displacement, OF_DISPLACEMENT)

    def _note_strangers(self, step: int) -> None:
        strangers = {id(p) for p in self._measurement.intended.trained()} - self._known
        if len(strangers) > self._strangers:
            self._strangers = len(strangers)
            # An optimizer may hold flat copies of its own: only the model's parameters count.
            self._notes.unknown_parameters(step, sum(id(p) in strangers for p in self._model.parameters()))

    def _take_rollouts(self, batch: Rollouts) -> None:
        if self._activations is not None:
            self._activations.offer(batch.prompts)
        with self._cost.foreground():
            # The step that runs is the first update that these completions feed.
            self.writer.add_row("rollouts", self._step, batch.row())
            self._completions.save(self._step, batch)

    def _announce(self) -> None:
        cost = f"The first step cost {self._cost.seconds:.2f} CPU seconds, {self._cost.fraction:.1%} of its time."
        parts = (str(self.run_dir), self._plan, self._inventory, self._reference, self._left_out, cost)
        logger.info("%s", announcement(*parts, as_before=self._as_before))

    def _tell_if_stopped(self) -> None:
        if self.writer.failed is not None and not self._told:
            self._told = True
            # The run's own files may be what has failed.
            logger.warning("recording into %s has stopped, training goes on: %s", self.run_dir, self.writer.failed)

    def _closing_facts(self) -> dict[str, Any]:
        left = [*self._left_out, *self._measurement.tracked.without_start, *self._spectra.left_at_end]
        return {
            "seconds": self._cost.seconds,
            "step_seconds": self._cost.step_seconds,
            "sweeps_skipped": self._spectra.skipped,
            "skipped": [{"what": entry.what, "why": entry.why} for entry in left],
            "activation_tokens": self._activations.tokens if self._activations is not None else 0,
            "faults": dict(self.boundary.counts),
        }
