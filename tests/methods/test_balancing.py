import pytest
import torch

from anyshot.core.builtin_options import TAMLOptions
from anyshot.core.errors import SettingsError
from anyshot.methods.balancing import apply_gamma, apply_z, image_weights
from anyshot.models.bodies.conv4 import CONV_BIASES, CONV_WEIGHTS, conv4
from anyshot.models.network import HEAD_PARAMETERS, Norm


def test_weights_without_omega_are_the_mean_cross_entropy():
    labels, like = torch.tensor([0, 0, 0, 1]), torch.zeros(())
    assert image_weights(labels, 2, {}, like).tolist() == [0.25] * 4
    assert image_weights(labels, 2, {}, like, class_mean=True).tolist() == pytest.approx(
        [1 / 6] * 3 + [1 / 2]
    )


def test_the_papers_one_over_n_divides_each_class_gradient_without_rescaling():
    labels, like = torch.tensor([0, 0, 0, 1]), torch.zeros(())
    plain = image_weights(labels, 2, {}, like)
    divided = image_weights(labels, 2, {}, like, divide_by_shots=True)
    assert divided.tolist() == pytest.approx([1 / 12] * 3 + [1 / 4])
    assert (plain / divided).tolist() == pytest.approx([3, 3, 3, 1])  # the class sizes
    equal = torch.tensor([0, 0, 1, 1])  # equal classes: a smaller step, not the same one
    assert image_weights(equal, 2, {}, like, divide_by_shots=True).sum().item() == 0.5


def test_omega_weighs_classes():
    labels = torch.tensor([0, 0, 0, 1])
    omega = torch.tensor([0.3, 1.7])
    w = image_weights(labels, 2, {"omega": omega}, torch.zeros(()))
    share = omega.softmax(0)
    assert w.tolist() == pytest.approx([share[0].item() * 2 / 4] * 3 + [share[1].item() * 2 / 4])


def test_gamma_scales_the_steps_of_its_layer():
    names = [*CONV_WEIGHTS, *CONV_BIASES, *HEAD_PARAMETERS]
    gamma = torch.log(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    rates = apply_gamma({n: torch.tensor(0.1) for n in names}, {"gamma": gamma}, conv4((16, 16)))
    for layer, pair in enumerate([*zip(CONV_WEIGHTS, CONV_BIASES, strict=True), HEAD_PARAMETERS]):
        for name in pair:
            assert rates[name].item() == pytest.approx(0.1 * (layer + 1))
    assert apply_gamma(rates, {}, conv4((16, 16))) is rates


def test_z_shifts_weights_and_biases_or_activations():
    theta = {n: torch.ones(2, 3, 3, 3) for n in CONV_WEIGHTS} | {
        n: torch.ones(2) for n in CONV_BIASES
    }
    norm, body = Norm([torch.zeros(2)] * 4), conv4((16, 16), 2)
    z = torch.arange(16.0) / 10
    moved, same = apply_z(theta, norm, {"z": z}, body)
    assert same is norm
    assert moved["conv1_weight"][:, 0, 0, 0].tolist() == pytest.approx([1.0, 1.1])
    assert moved["conv1_bias"].tolist() == pytest.approx([1.2, 1.3])
    assert moved["conv4_bias"].tolist() == pytest.approx([1 + 1.4, 1 + 1.5])
    kept, film = apply_z(theta, norm, {"z": z}, body, "activation")
    assert kept is theta
    assert film.scale[1].tolist() == pytest.approx([1.4, 1.5])
    assert film.shift[1].tolist() == pytest.approx([0.6, 0.7])
    assert apply_z(theta, norm, {}, body) == (theta, norm)


def test_class_means_and_division_by_class_sizes_exclude_each_other():
    with pytest.raises(SettingsError, match="class_mean and divide_by_shots"):
        TAMLOptions(class_mean=True, divide_by_shots=True)
