r"""t2t-jax plan: whether a run fits on hardware you do not have, its hours and its dollars.

    t2t-jax plan --config=configs/big.py --topology=v5e-8
    t2t-jax plan --config=configs/base.py --topologies=v5e-8,v5e-32,v5e-128 --output=plan.png
    t2t-jax plan --config=configs/big.py --topology=v5e-8 --layouts=auto
    t2t-jax plan --config=configs/base.py --topology=v6e-8 --calibrate=W

The TPU's own compiler compiles the steps that would run: this needs the extra `tpu` but no TPU, and
takes minutes per step, once. If memory is too small, the plan uses more microbatches, then
recomputes layers. Hours are a range: which share of the published peaks is reached is unknown until
--calibrate gives a run on real hardware. GPUs are planned from their peaks alone.
"""

import sys

from absl import flags
from ml_collections import config_flags

from t2t_jax.cli.given_config import given_config


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    config_flags.DEFINE_config_file("config", None, "a file such as configs/base.py")
    flags.mark_flag_as_required("config")
    flags.DEFINE_string("topology", None, "the hardware, such as v5e-8, v4-8 (4 chips) or h100-8")
    flags.DEFINE_string(
        "topologies", None, "several, with commas: shows how time, efficiency and price grow"
    )
    flags.DEFINE_enum(
        "layouts",
        "config",
        ["config", "auto"],
        "how chips share the run: as config.devices says, or up to four ways, fastest first",
    )
    flags.DEFINE_list("output", [], "files to write: plan.png, a figure; plan.json")
    define_plan_flags()


def define_plan_flags() -> None:
    """The flags of every command that plans."""
    flags.DEFINE_enum(
        "programs",
        "all",
        ["all", "largest"],
        "what to compile: all: the steps of the largest and the commonest batch, and the widest "
        "search; largest: only the first",
    )
    flags.DEFINE_string(
        "facts",
        None,
        "file that keeps the compiler's results; default: plan.json in ~/.cache/t2t_jax or "
        "T2T_JAX_CACHE",
    )
    flags.DEFINE_string(
        "prices", None, "a file of prices, in the format of t2t_jax/plan/prices.json"
    )
    flags.DEFINE_bool("old_prices", False, "accept prices older than 180 days")
    flags.DEFINE_string(
        "calibrate", None, "a finished run on real hardware, or its record, to scale predictions by"
    )


def main() -> None:
    """Runs the verb."""
    import jax

    from t2t_jax import hosts
    from t2t_jax.buckets import local_path
    from t2t_jax.plan import choices, hardware, report
    from t2t_jax.plan.plan import plan
    from t2t_jax.plan.tools import tools
    from t2t_jax.runs.sections import read_sections

    values = flags.FLAGS
    jax.config.update("jax_platforms", "cpu")  # nothing is computed, no device is taken
    if bool(values.topology) == bool(values.topologies):
        raise ValueError(f"give --topology or --topologies: {hardware.names_text()}")
    named = hardware.topologies(values.topology or values.topologies)
    outputs = [local_path(name, "--output") for name in values.output]
    if unknown := [path for path in outputs if path.suffix not in (".json", ".png", ".svg")]:
        raise ValueError(f"--output={unknown[0]} must end in .json, .png or .svg")
    if values.layouts == "auto" and (gpus := [each for each in named if not each.chip.is_tpu]):
        raise ValueError(
            f"--layouts=auto compares compiled programs; {gpus[0].name} is planned from its peaks "
            "alone, which are the same for every layout"
        )
    sections = read_sections(given_config("config", hosts.log))
    settings, prices, words = tools(values, lambda line: print(line, file=sys.stderr, flush=True))
    if values.layouts == "auto":
        found = [choices.best_layout(sections, each, settings) for each in named]
        plans = [each for each_found in found for each in each_found]
        best = [each_found[0] for each_found in found]
    else:
        plans = best = [plan(sections, each, settings) for each in named]
    print(report.table([("", each) for each in plans], prices))
    if values.layouts == "config" and not all(each.fits for each in plans):
        if any(each.num_chips > 1 and each.chip.is_tpu for each in named):
            print("--layouts=auto tries other ways to share the run")
    for each in best:
        if values.layouts == "auto" and each.fits:
            print(f"the fastest on {each.topology.name} that fits: {each.layout}")
    grown = choices.growth(best)
    if len(best) > 1 and grown:
        data = sections.data
        tokens = data.source_tokens_per_batch, data.target_tokens_per_batch
        print(f"\n{report.growth_table(grown, prices)}")
        for of_kind in grown:
            if len(of_kind) > 1:
                print(choices.growth_text(of_kind, tokens))
    print("\n".join([*words(), prices.words]))
    for path in outputs:
        if path.suffix == ".json":
            report.write(plans, prices, path)
        elif grown:
            report.write_figure(grown, prices, path)
        else:
            print(f"{path} was not written: nothing fits")
