"""How a model is trained (paper section 5)."""

from typing import Literal

from t2t_jax.config_checks import (
    check_above_zero,
    check_at_least,
    check_rates,
    check_types,
    config_section,
)

LabelSmoothingMass = Literal["others", "all", "others_but_padding"]
LogitsDtype = Literal["float32", "bfloat16"]
Optimizer = Literal["adam", "adamw", "adafactor", "lion", "muon"]
Schedule = Literal["paper", "peak", "linear"]
Nonfinite = Literal["stop", "skip", "rewind"]
SCHEDULES_WITH_AN_END: tuple[Schedule, ...] = ("linear",)  # their rates depend on the last step


@config_section
class TrainingConfig:
    """Optimizer, schedule, and how often to log, evaluate and save; checked on creation.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    steps: int
    label_smoothing: float  # eps_ls
    label_smoothing_mass: LabelSmoothingMass  # where eps goes, see loss.py
    loss_chunk_tokens: int  # target tokens whose logits a device holds at once; 0: all of its rows
    logits_dtype: LogitsDtype  # type in which the loss stores logits, gradient too; sums: float32
    microbatches: int  # number of parts that a batch is computed in; 0: as few as fit in memory
    schedule: Schedule  # see schedule.py
    warmup_steps: int
    learning_rate_scale: float  # schedule "paper": the factor in front of the formula
    peak_learning_rate: float  # schedules "peak" and "linear": the rate at the end of warm-up
    optimizer: Optimizer  # see optimizer.py
    adam_beta1: float  # also for lion; adafactor reads neither this nor the next two
    adam_beta2: float
    adam_epsilon: float  # not read by lion
    weight_decay: float  # multiplied by the rate; not with adam
    gradient_clip_norm: float  # of all gradients together, per token; 0: none
    log_every_steps: int
    evaluate_every_steps: int  # dev perplexity
    checkpoint_every_steps: int
    checkpoint_every_minutes: float  # instead of steps; 0: by steps
    keep_checkpoints: int  # the last n; averaging n checkpoints needs n of them
    patience: int  # evaluations without a better dev perplexity before stopping; 0: never
    nonfinite: Nonfinite  # what to do with a step whose loss or gradients are not finite
    max_nonfinite: int  # "skip": at most so many steps in a row; "rewind": so many times per run

    def __post_init__(self) -> None:
        check_types("training", self)
        counts = ("steps", "warmup_steps", "keep_checkpoints", "max_nonfinite")
        intervals = ("log_every_steps", "evaluate_every_steps", "checkpoint_every_steps")
        check_at_least("training", self, 1, counts + intervals)
        check_at_least("training", self, 0, ("patience", "loss_chunk_tokens", "microbatches"))
        check_at_least(
            "training", self, 0, ("weight_decay", "gradient_clip_norm", "checkpoint_every_minutes")
        )
        check_rates("training", self, ("label_smoothing", "adam_beta1", "adam_beta2"))
        rates = ("learning_rate_scale", "peak_learning_rate", "adam_epsilon")
        check_above_zero("training", self, rates)
        if self.schedule in SCHEDULES_WITH_AN_END and self.warmup_steps >= self.steps:
            shorter = f"--config.training.warmup_steps={self.steps // 10 or 1} or "
            raise ValueError(
                f"training.warmup_steps={self.warmup_steps} must be below steps={self.steps} "
                f"with schedule={self.schedule!r}, which falls to nearly 0 at the last step: add "
                f"{shorter if self.steps > 1 else ''}"
                f"--config.training.steps={10 * self.warmup_steps}, in a sweep with --base for "
                "--config"
            )
        if self.optimizer == "adam" and self.weight_decay > 0:
            raise ValueError(
                f"training.weight_decay={self.weight_decay} must be 0 with optimizer='adam'; "
                "'adamw' is Adam with weight decay"
            )

    @property
    def max_bad_steps(self) -> int:
        """How many bad steps in a row are skipped."""
        return self.max_nonfinite if self.nonfinite == "skip" else 0
