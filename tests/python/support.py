"""What the Python tests share: test data, small models, and the package itself."""

import os
import sys
import unittest
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

import ferry  # found through PYTHONPATH

DATA = os.environ["FERRY_TEST_DATA"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def data(*parts):
    return os.path.join(DATA, *parts)


SIMPLE_NET = data("torch-models", "simple_net", "torch.onnx")


def info(name, type, shape):
    return helper.make_tensor_value_info(name, type, shape)


def model_of(nodes, inputs, outputs, opset=17, initializers=(), **attributes):
    """The bytes of a model of these nodes."""
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset > 17 else 8, **attributes)
    return model.SerializeToString()


def one_node(op, type, inputs=1, shape=("n",), out=None, opset=17, **attributes):
    """y = op(x0, x1, …)."""
    names = [f"x{i}" for i in range(inputs)]
    return model_of([helper.make_node(op, names, ["y"], **attributes)], [info(name, type, shape) for name in names],
                    [info("y", out or type, shape)], opset)


def resident_kb():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise AssertionError("no VmRSS")


class Case(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("error")  # a warning nobody expects is a failure


__all__ = ["Case", "DATA", "SIMPLE_NET", "SOURCE", "TensorProto", "data", "ferry", "helper", "info", "model_of", "np",
           "one_node", "onnx", "os", "resident_kb", "sys", "unittest", "warnings"]
