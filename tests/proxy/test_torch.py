"""The same arrays in PyTorch: an independent implementation, written for benchmarks/proxy.py."""

import importlib.util

import jax
import numpy as np
import pytest

from cuvee.proxy.model import ProxyConfig, loss
from tests.conftest import ROOT
from tests.proxy.test_model import grown

torch = pytest.importorskip("torch", reason="compares with PyTorch where it is installed")


@pytest.fixture(scope="module")
def peer():
    spec = importlib.util.spec_from_file_location("torch_proxy", ROOT / "benchmarks" / "peers" / "torch_proxy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_loss_and_gradient_are_pytorch_s(peer):
    config = ProxyConfig(vocab=300, seq_len=24, depth=2, batch=4)
    params, rows = grown(config), np.random.default_rng(0).integers(0, 300, (4, 25))
    value, gradient = jax.value_and_grad(loss)(params, rows)
    model = peer.Proxy(config.vocab, config.depth)
    model.load_state_dict({name: torch.tensor(np.asarray(array)) for name, array in flat(params).items()})
    found = model.loss(torch.tensor(rows))
    found.backward()
    assert found.item() == pytest.approx(float(value), rel=1e-5)
    for name, array in flat(gradient).items():
        theirs = model.get_parameter(name).grad.numpy()
        assert np.abs(theirs - array).max() < 1e-3 * np.abs(array).max(), name


def flat(tree):
    """Names as torch gives them: layers.0.qkv."""
    return {".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path): leaf
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
