"""Names of hardware as it is rented."""

import pytest

from t2t_jax.plan.hardware import of_device, topologies, topology


@pytest.mark.parametrize(
    ("name", "num_chips", "shape"),
    [
        ("v5e-8", 8, (2, 4)),
        ("v5litepod-8", 8, (2, 4)),
        ("v6e-256", 256, (16, 16)),
        ("v4-8", 4, (2, 2, 1)),  # cores
        ("v5p-8", 4, (2, 2, 1)),
        ("v5p-512", 256, (4, 8, 8)),
        ("h100-8", 8, (8,)),
    ],
)
def test_a_name_is_so_many_chips(name, num_chips, shape):
    found = topology(name)
    assert (found.num_chips, found.shape) == (num_chips, shape)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v5e-7", "v5e comes in sizes of 1, 4, 8, 16, 32, 64, 128, 256 chips"),
        ("v4-4", "v4 comes in sizes of 2, 8, 16, 32, 64, 128, 256, 512 cores, two a chip"),
        ("v4-9", "cores, two a chip"),
        ("tpu", "there are v4-2 to v4-512, v5e-1 to v5e-256"),
        ("h100-3", "a machine has 1, 2, 4, 8 GPUs of kind h100"),
    ],
)
def test_another_name_is_refused_with_those_that_there_are(name, words):
    with pytest.raises(ValueError, match=words):
        topology(name)


def test_several_names_have_commas_between_them():
    assert [each.name for each in topologies("v5e-8, v4-8")] == ["v5e-8", "v4-8"]
    with pytest.raises(ValueError, match="no hardware is named"):
        topologies(" , ")


def test_a_single_chip_is_a_share_of_what_was_rented():
    assert topology("v4-8").one_chip == topology("v4-2")
    assert topology("v5e-8").one_chip == topology("v5e-1")
    assert topology("h100-8").one_chip == topology("h100-1")


def test_open_rows_have_one_link_and_closed_rings_two():
    assert topology("v5e-8").link_bandwidth == 2 * 50e9
    assert topology("v5e-256").link_bandwidth == 4 * 50e9
    assert topology("v5p-8").link_bandwidth == 2 * 100e9  # 2 x 2 x 1
    assert topology("v5p-128").link_bandwidth == 6 * 100e9  # a cube


def test_a_record_names_its_hardware_in_the_words_of_jax():
    assert of_device("8 x TPU v5 lite") == topology("v5e-8")
    assert of_device("4 x TPU v4") == topology("v4-8")
    assert of_device("1 x NVIDIA H100 80GB HBM3") == topology("h100-1")
    assert of_device("2 x cpu") is None
