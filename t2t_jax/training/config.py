"""How a model is trained (paper section 5)."""

import dataclasses
from typing import Literal, get_args

Schedule = Literal["paper", "peak", "linear"]


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Optimiser, schedule, and how often to log, evaluate and save; checked when it is made.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    steps: int
    label_smoothing: float  # eps_ls
    schedule: Schedule  # see schedule.py
    warmup_steps: int
    learning_rate_scale: float  # schedule "paper": the factor in front of the formula
    peak_learning_rate: float  # schedules "peak" and "linear": the rate at the end of warm-up
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    log_every_steps: int
    evaluate_every_steps: int  # dev perplexity
    checkpoint_every_steps: int
    keep_checkpoints: int  # the last n; averaging n checkpoints needs n of them
    patience: int  # evaluations without a better dev perplexity before stopping; 0 is never

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is Schedule:
                if value not in get_args(Schedule):
                    allowed = ", ".join(map(repr, get_args(Schedule)))
                    raise ValueError(f"training.schedule={value!r} is not one of {allowed}")
            elif field.type is float and type(value) in (int, float):
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not field.type:
                raise TypeError(f"training.{field.name}={value!r} is not of type {field.type}")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in (
            "steps",
            "warmup_steps",
            "log_every_steps",
            "evaluate_every_steps",
            "checkpoint_every_steps",
            "keep_checkpoints",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"training.{name}={getattr(self, name)} must be at least 1")
        for name in ("label_smoothing", "adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"training.{name}={getattr(self, name)} must be in [0, 1)")
        for name in ("learning_rate_scale", "peak_learning_rate", "adam_epsilon"):
            if getattr(self, name) <= 0:
                raise ValueError(f"training.{name}={getattr(self, name)} must be above 0")
        if self.patience < 0:
            raise ValueError(f"training.patience={self.patience} must not be negative")
        if self.schedule == "linear" and self.warmup_steps >= self.steps:
            raise ValueError(
                f"training.warmup_steps={self.warmup_steps} must be below steps={self.steps} "
                "with schedule='linear', which falls to 0 at the last step"
            )
