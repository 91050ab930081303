"""A fake compiler that answers at once, by its own arithmetic."""

from configs import tiny
from t2t_jax.plan.facts import Facts, Keeper
from t2t_jax.plan.plan import Settings
from t2t_jax.runs.sections import read_sections

GIB = 2**30


def sections(**changes):
    config = tiny.get_config()
    given = {"data.cache": "/nowhere", "model.dropout_rate": 0.1, "training.label_smoothing": 0.1}
    config.update_from_flattened_dict(given | changes)
    return read_sections(config)


class StandIn:
    """Its activations shrink with microbatches, and to a quarter where layers are computed again.

    It keeps the programs that it was asked for.
    """

    def __init__(self, activations=GIB, state=GIB // 4, limit=16 * GIB, speaks=True):
        self.activations, self.state, self.limit, self.speaks = activations, state, limit, speaks
        self.asked = []

    def __call__(self, program):
        self.asked.append(program)
        microbatches = max(program.sections.training.microbatches, 1)
        needed = self.activations / microbatches
        if program.sections.model.rematerialise:
            needed /= 4
        peak = int(self.state + needed)
        if peak > self.limit:
            told = (peak, False, self.limit) if self.speaks else (self.limit + 1, False, 0)
            return Facts(self.state // 3, self.state, *told)
        chips = program.topology.num_chips
        moved = {} if chips == 1 else {"all-reduce": self.state // 3}
        return Facts(
            *(self.state // 3, self.state, peak, True, 0),
            operations=1e9,
            accessed_bytes=8e9 / chips,
            moved=moved,
            seconds=1.0,
        )

    @property
    def tried(self):
        """(microbatches, layers computed again) of the steps it was asked for."""
        return [
            (max(program.sections.training.microbatches, 1), program.sections.model.rematerialise)
            for program in self.asked
            if not program.is_search
        ]


def settings(tmp_path, compiler=None, **options):
    return Settings(Keeper(tmp_path / "facts.json", compiler or StandIn()), **options)
