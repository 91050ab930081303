"""What a run counts on over its starts, the time between log entries and between checkpoints."""

import math
import time

from t2t_jax import hosts
from t2t_jax.training.about import About
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.loss import Metrics, perplexity, sum_of

# With several hosts, which must agree: asking takes as long as a small step.
_STEPS_BETWEEN_CLOCKS = 10


class CheckpointTurn:
    """When a checkpoint is due: by steps, or by minutes, on which several hosts agree."""

    def __init__(self, config: TrainingConfig) -> None:
        self._every_steps = config.checkpoint_every_steps
        self._seconds = 60 * config.checkpoint_every_minutes
        self.restart()

    def restart(self, seconds_since: float = 0.0) -> None:
        """Call this after a checkpoint was saved, and where a run goes on with seconds since."""
        self._saved = time.monotonic() - seconds_since

    def has_come(self, step: int) -> bool:
        """Whether one is due after this step; all hosts must call this together."""
        if self._seconds == 0:
            return step % self._every_steps == 0
        if hosts.are_several() and step % _STEPS_BETWEEN_CLOCKS != 0:
            return False
        return hosts.any_of(time.monotonic() - self._saved >= self._seconds)


class Clock:
    """Seconds and target tokens of a run, counted on from its checkpoint.

    For old checkpoints without these numbers, from the metrics file.
    """

    def __init__(self, entries: list[dict], restored: About | None) -> None:
        self.go_back(entries, restored)
        self._seconds_before = float(entries[-1]["seconds"]) if entries else 0.0
        if restored is not None and restored.seconds is not None:
            self._seconds_before = restored.seconds
        self._started = time.monotonic()

    def go_back(self, entries: list[dict], restored: About | None) -> None:
        """Resets tokens to those of the checkpoint, else of the last of `entries` that has them."""
        last = next((entry for entry in reversed(entries) if "target_tokens" in entry), {})
        self.target_tokens = int(last.get("target_tokens", 0))
        if restored is not None and restored.target_tokens is not None:
            self.target_tokens = restored.target_tokens

    @property
    def seconds_since_start(self) -> float:
        """Seconds in the loop since this start."""
        return time.monotonic() - self._started

    @property
    def seconds(self) -> float:
        """Seconds in the loop, over all starts."""
        return self._seconds_before + self.seconds_since_start


class Window:
    """The steps since the last log entry. Sums stay on devices until it is closed."""

    def __init__(self) -> None:
        self._metrics: list[Metrics] = []
        self.seconds_a_step: float | None = None  # of the last closed window
        self.restart()

    def restart(self) -> None:
        """Restarts the clock, after something that is not training."""
        self._started = time.monotonic()

    def add(self, metrics: Metrics) -> None:
        """Adds the sums of one step."""
        self._metrics.append(metrics)

    def close(self, step: int, learning_rate: float, clock: Clock) -> dict:
        """The log entry of the window; a new one starts."""
        seconds = time.monotonic() - self._started
        total = sum_of(self._metrics)
        tokens = float(total.tokens)
        clock.target_tokens += int(tokens)
        self.seconds_a_step = seconds / len(self._metrics)
        self._metrics = []
        self.restart()
        has_tokens = tokens > 0  # unless all steps were skipped
        return {
            "split": "train",
            "step": step,
            # Nats per token, label-smoothed.
            "loss": float(total.loss) / tokens if has_tokens else math.nan,
            "perplexity": perplexity(total) if has_tokens else math.nan,
            "accuracy": float(total.correct) / tokens if has_tokens else math.nan,
            "learning_rate": learning_rate,
            "target_tokens_per_second": tokens / seconds,
            "target_tokens": clock.target_tokens,
            "seconds": clock.seconds,
        }
