r"""The first hour on a machine with an accelerator: everything worth knowing, in one command.

    python -m experiments.benchmarks.first_hour --workdir=W --directory=DIR --topology=h100-1
    python -m experiments.benchmarks.first_hour --workdir=R --toy        # the rehearsal, on a CPU

    ceilings       a large product in each precision, a copy
    agreement      float32, float32 with fast products, bfloat16, against a CPU and a second time
    step           base and big in bfloat16 as they are, with each speed switch, with all
    multi30k       DIR's corpus with its config, three seeds, trained and scored
    decode         that model's translations, against transformers with the same weights
    plan           the prediction of `t2t-jax plan` for that training, and corrected by what it took

Each part is a command of at most --minutes, a training up to three times, all together of at most
--total_minutes. Its results go to W/PART.json, what it prints to W/PART.log, and after every part
the summary to W/first_hour.md. Run the same command again for the parts without a record; a
training that ran out of time resumes. A failed part does not stop the others. Another machine,
other flags and the rehearsal need a W of their own. Without --directory, multi30k and decode are
left out. Without an accelerator that JAX uses, only the rehearsal runs.
"""

import contextlib
import functools
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags

from experiments.benchmarks.records import machine, make_record
from experiments.launchers.process import GRACE_SECONDS, TETHERED
from t2t_jax.cli.command import parse_flags
from t2t_jax.json_files import read_json, write_json

_SECONDS_TO_SAVE = GRACE_SECONDS + 10.0  # for a sweep whose runs are told to stop
_PYTHON = (sys.executable, "-m")
# A model that any machine trains in seconds.
_TOY_MODEL = {
    "data.train_pairs": 200,
    "data.vocabulary_size": 200,
    "data.num_buckets": 1,
    "model.vocabulary_rows": 256,
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.num_heads": 2,
    "model.d_k": 8,
    "model.d_v": 8,
    "decoding.max_extra_tokens": 2,
    "evaluation.num_probes": 0,
}
_TOY_TRAINING = {"training.steps": 4, "training.warmup_steps": 2}


class Part(NamedTuple):
    """A command that measures something."""

    name: str
    command: Sequence[str]
    times: int = 1  # how often it may run; a training resumes when its minutes are over
    output: Path | None = None  # where it leaves what it has found so far


def parts(workdir: Path, directory: str, topology: str, toy: bool) -> Iterator[Part]:
    """All parts, the shortest first; the rehearsal reads no `directory`."""
    directory = "" if toy else directory

    def bench(module: str, *arguments: str) -> list[str]:
        return [*_PYTHON, f"experiments.benchmarks.{module}", *arguments]

    def changed(flag: str, **sections: Any) -> list[str]:
        toys = _TOY_MODEL if toy else {}
        return [f"--{flag}.{key}={value}" for key, value in (sections | toys).items()]

    sizes = ["--size=64", "--copy_mib=1", "--rounds=1"] if toy else []
    yield Part("ceilings", bench("ceilings", *sizes))

    steps = ["--steps=2"] if toy else []
    for name, changes in {
        "float32": {"model.dtype": "float32"},
        "fast_float32": {"model.dtype": "float32", "devices.matmul_precision": "default"},
        "bfloat16": {"model.dtype": "bfloat16"},
    }.items():
        given = ["--config=configs/tiny.py", *changed("config", **changes)]
        yield Part(f"agreement_{name}", bench("agreement", *given, *steps))

    for size, large, small, switches in (
        ("base", "768x32x32", "2x3x4", "each"),
        ("base", "96x256x256", "1x7x6", "none" if toy else "each"),
        ("big", "768x32x32", "2x3x4", "none" if toy else "each"),
    ):
        shape = small if toy else large
        given = [f"--config=configs/{size}.py", *changed("config", **{"model.dtype": "bfloat16"})]
        given += [f"--shape={shape}", f"--switches={switches}", *(["--rounds=1"] if toy else [])]
        so_far = workdir / "so_far" / f"{size}_{shape}.json"
        command = bench("step", *given, f"--output={so_far}")
        yield Part(f"step_{size}_{shape}", command, output=so_far)

    trained = workdir / ("rehearsal" if toy else "multi30k")
    config = "configs/tiny.py" if toy else "configs/multi30k.py"
    corpus = {"data.directory": directory} if directory else {}
    sweep = ["experiments.sweep", "table3", "--rows=base", f"--base={config}"]
    sweep += [f"--seeds={1 if toy else 3}", f"--workdir={trained}"]
    sweep += changed("base", **corpus | (_TOY_TRAINING if toy else {}))
    run = str(trained / "table3" / "base" / "seed-0")
    if directory or toy:
        yield Part("multi30k", [*_PYTHON, *sweep], times=3)

        has_peer = all(map(importlib.util.find_spec, ("transformers", "torch")))
        peers = ["--against=transformers"] if has_peer else []
        lines = ["--lines=4", "--rounds=1"] if toy else []
        records = f"--records={workdir / 'decode'}"
        decode = ["experiments.benchmarks", "--parts=decode", f"--workdir={run}", records]
        yield Part("decode", [*_PYTHON, *decode, *peers, *lines])
    if topology:
        plan = ["t2t_jax.cli.main", "plan", f"--config={config}", f"--topology={topology}"]
        plan += ["--old_prices", *changed("config", **corpus)]
        yield Part("plan", [*_PYTHON, *plan])
        if directory:
            yield Part("plan_calibrated", [*_PYTHON, *plan, f"--calibrate={run}"])


def measure(
    part: Part, workdir: Path, here: dict[str, Any], seconds: float, until: float = math.inf
) -> dict[str, Any]:
    """Runs the command for at most `seconds`, as often as it may; returns its record.

    By the monotonic clock, nothing runs after `until`. `here` is the machine.
    """
    made = make_record()
    if part.output is not None:
        part.output.unlink(missing_ok=True)
    started, num_tries = time.monotonic(), 0
    while True:
        num_tries += 1
        with open(workdir / f"{part.name}.log", "a") as log:
            process = subprocess.Popen(
                [*TETHERED, *part.command], stdout=subprocess.PIPE, stderr=log, text=True
            )
            output, in_time = _output_within(process, min(seconds, until - time.monotonic()))
            log.write(output)
        if in_time or num_tries == part.times or time.monotonic() >= until:
            break
    if part.output is not None and part.output.exists():
        output = part.output.read_text(encoding="utf-8")
    return {
        "when": made.when,
        "commit": made.short_commit,
        "machine": here,
        "command": _words(part),
        "seconds": time.monotonic() - started,
        "exit_code": process.returncode,
        "in_time": in_time,
        "found": _read(output),
    }


def _words(part: Part) -> str:
    return " ".join(["python", *part.command[1:]])


def _output_within(process: subprocess.Popen, seconds: float) -> tuple[str, bool]:
    """What the process prints; and False if it had to be stopped, with time to save its state."""
    try:
        return process.communicate(timeout=seconds)[0], True
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        return process.communicate(timeout=_SECONDS_TO_SAVE)[0], False
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0], False


def _check_same(part: Part, path: Path, here: dict[str, Any]) -> None:
    """Exits if the part has a record of another command or machine."""
    try:
        kept = read_json(path)
        then = {"command": kept["command"], **kept["machine"]}
    except (KeyError, OSError, TypeError, ValueError) as error:
        sys.exit(f"first_hour: {path} is damaged ({error}): remove it to measure the part anew")
    now = {"command": _words(part), **here}
    for name in {**then, **now}:
        if then.get(name) != now.get(name):
            sys.exit(
                f"first_hour: {path} differs in {name}: {then.get(name)!r} there, "
                f"{now.get(name)!r} now; name another --workdir"
            )


def _read(output: str) -> Any:
    """The output as a JSON object if it is one, else its lines."""
    with contextlib.suppress(ValueError):
        if isinstance(found := json.loads(output), dict):
            return found
    return output.splitlines()


def table(workdir: Path, names: Sequence[str]) -> str:
    """The results of the parts, in Markdown."""
    lines = ["# The first hour", ""]
    for name in names:
        paths = [workdir / f"{name}.json", workdir / f"{name}.failed.json"]
        path = next(filter(Path.exists, paths), None)
        if path is None:
            lines += [f"## {name}", "", "not done", ""]
            continue
        record = read_json(path)
        said = "" if record["exit_code"] == 0 else f", exit code {record['exit_code']}"
        said += "" if record["in_time"] else ", out of time"
        lines += [f"## {name}", "", f"    {record['command']}", ""]
        lines += [f"{record['seconds']:.0f} s{said}, commit {record['commit']}", ""]
        found = record["found"]
        if isinstance(found, list):
            lines += [*(line if line.startswith("|") else f"    {line}" for line in found), ""]
        else:
            lines += ["| | |", "|--|--|", *(f"| {key} | {value} |" for key, value in _flat(found))]
            lines += [""]
    return "\n".join(lines)


def _flat(found: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every number with the path of names to it; of a list of numbers, the median and the ends."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _flat(value, f"{name}, {key}" if name else key)
    elif isinstance(found, list) and found and all(isinstance(one, int | float) for one in found):
        median, low, high = (f(found) for f in (statistics.median, min, max))
        yield name, f"{median:.4g} ({low:.4g} to {high:.4g})"
    elif isinstance(found, float):
        yield name, f"{found:.4g}"
    else:
        yield name, str(found)


def devices() -> str:
    """JAX's devices here, such as "1 x NVIDIA H100 80GB HBM3", asked by a process of its own."""
    ask = "import jax; print(jax.device_count(), 'x', jax.devices()[0].device_kind)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"first_hour: JAX finds no device: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def main(_: list[str]) -> None:
    """Measures what has no record yet."""
    given = flags.FLAGS
    workdir = Path(given.workdir).expanduser().resolve()
    workdir.mkdir(parents=True, exist_ok=True)
    every = list(parts(workdir, given.directory, given.topology, given.toy))
    names = [part.name for part in every]
    if unknown := sorted(set(given.only) - set(names)):
        sys.exit(f"first_hour: --only={unknown[0]} is none of {', '.join(names)}")
    here = {**machine(), "devices": devices()}
    if not given.toy and here["devices"].endswith("cpu"):
        sys.exit(
            "first_hour: JAX finds no accelerator, only a CPU: install the extra cuda or tpu, or "
            "rehearse with --toy"
        )
    for part in every:
        if (path := workdir / f"{part.name}.json").exists():
            _check_same(part, path, here)
    has_failed = False
    until = time.monotonic() + 60 * given.total_minutes
    for part in every:
        path = workdir / f"{part.name}.json"
        if (given.only and part.name not in given.only) or path.exists():
            continue
        if time.monotonic() >= until:
            has_failed = True
            print("first_hour: the time is over, the same command goes on", file=sys.stderr)
            break
        print(f"first_hour: {part.name}", file=sys.stderr, flush=True)
        record = measure(part, workdir, here, 60 * given.minutes, until)
        is_done = record["exit_code"] == 0 and record["in_time"]
        has_failed |= not is_done
        failed = path.with_suffix(".failed.json")
        if is_done:
            write_json(path, record)
            failed.unlink(missing_ok=True)
        elif record["found"] or not failed.exists():  # an earlier try may have come further
            write_json(failed, record)
        (workdir / "first_hour.md").write_text(table(workdir, names))
        if not is_done:
            print(f"first_hour: {part.name} has failed: {workdir / part.name}.log", file=sys.stderr)
    print(table(workdir, names))
    sys.exit(1 if has_failed else 0)


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "directory of the records")
    flags.DEFINE_string(
        "directory", "", "Multi30k's files, as for t2t-jax train; '': no training, no decode"
    )
    flags.DEFINE_string("topology", "", "the machine's name for t2t-jax plan, such as h100-1")
    flags.DEFINE_list("only", [], "parts; default: all without a record")
    flags.DEFINE_float("minutes", 9.0, "limit for each part", lower_bound=0.1)
    flags.DEFINE_float("total_minutes", 50.0, "limit for all parts together", lower_bound=0.1)
    flags.DEFINE_bool("toy", False, "tiny sizes: everything takes minutes on a CPU")
    flags.mark_flag_as_required("workdir")
    app.run(main, flags_parser=functools.partial(parse_flags, "first_hour"))
