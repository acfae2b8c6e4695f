"""The script everybody has, with one import changed: PyTorch to ONNX to a session, and the same answers."""

import contextlib
import io
import tempfile
from typing import Dict, List, Optional

from support import *

try:
    import torch
except ImportError:
    torch = None


@unittest.skipUnless(torch, "PyTorch is not installed")
class Everyday(Case):
    def test_export_check_run_compare(self):
        import ferry as rt

        torch.manual_seed(0)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(10, 16)
                self.second = torch.nn.Linear(16, 3)

            def forward(self, x):
                return self.second(torch.relu(self.first(x)))

        net = Net().eval()
        x = torch.randn(4, 10)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(net, x, path, opset_version=14, input_names=["input"], output_names=["output"],
                                  dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
            onnx.checker.check_model(onnx.load(path))
            session = rt.InferenceSession(path, providers=["CPUExecutionProvider"])
            for batch in (4, 1, 7):
                x = torch.randn(batch, 10)
                outputs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
                np.testing.assert_allclose(outputs[0], net(x).detach().numpy(), atol=1e-5)
            said = io.StringIO()
            for arg in [*session.get_inputs(), *session.get_outputs()]:
                print(arg.name, arg.type, arg.shape, file=said)
            self.assertEqual(said.getvalue(), "input tensor(float) ['batch', 10]\noutput tensor(float) ['batch', 3]\n")

    def test_a_live_module_is_captured_and_lowered(self):
        net = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
        x = torch.randn(2, 10)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            written = ferry.export(net, path, (x,), input_names=["x"], output_names=["y"], opset=17,
                                   dynamic={"x": {0: "batch"}})
            self.assertEqual(written.opset, 17)
            self.assertTrue(ferry.check(written))
            session = ferry.InferenceSession(path)
            self.assertEqual(session.get_inputs()[0].shape, ["batch", 10])
            for batch in (2, 1, 5):
                x = torch.randn(batch, 10)
                y = session.run(["y"], {"x": x.numpy()})[0]
                np.testing.assert_allclose(y, net(x).detach().numpy(), atol=1e-5)
        with self.assertRaisesRegex(ferry.InvalidArgument, "give its inputs as args"):
            ferry.export(net, "unused.onnx")
        with self.assertRaisesRegex(ferry.NotImplemented, "a int can't be exported"):
            ferry.export(3, "unused.onnx")

    def exported(self, program, args, feeds, **named):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            ferry.export(program, args, path, **named)
            session = ferry.InferenceSession(path)
            self.assertEqual([arg.name for arg in session.get_inputs()], list(feeds))
            return session.run(None, feeds)[0]

    def test_arguments_that_are_no_tensors(self):
        class Net(torch.nn.Module):
            def forward(self, pair: Dict[str, torch.Tensor], z: torch.Tensor, k: int, offset: Optional[float] = None):
                return (pair["a"] - pair["b"]) * z * k + (1.0 if offset is None else offset)

        class Sum(torch.nn.Module):
            def forward(self, parts: List[torch.Tensor], z: torch.Tensor):
                return parts[0] + parts[1] * z

        a, b, z = torch.rand(2, 4), torch.rand(2, 4), torch.rand(2, 4)
        feeds = {"pair.a": a.numpy(), "pair.b": b.numpy(), "z": z.numpy()}
        expected = ((a - b) * z * 3).numpy()
        for args in (({"a": a, "b": b}, z, 3), ({"a": a, "b": b}, z, {"k": 3}), ({"a": a, "b": b}, z, 3, {})):
            np.testing.assert_allclose(self.exported(Net(), args, feeds), expected + 1, atol=1e-6)
        args = ({"a": a, "b": b}, z)
        np.testing.assert_allclose(self.exported(Net(), args, feeds, kwargs={"offset": 2.0, "k": 3}), expected + 2, atol=1e-6)
        said = self.exported(torch.jit.script(Net()), ({"a": a, "b": b}, z, 3), {**feeds, "k": np.array(3)})
        np.testing.assert_allclose(said, expected + 1, atol=1e-6)
        feeds = {"parts.0": a.numpy(), "parts.1": b.numpy(), "z": z.numpy()}
        for program in (Sum(), torch.jit.script(Sum())):
            np.testing.assert_allclose(self.exported(program, ([a, b], z), feeds), (a + b * z).numpy(), atol=1e-6)
        with self.assertRaisesRegex(ferry.InvalidArgument, "args are not what the module takes"):
            ferry.export(Net(), ({"a": a}, z), "unused.onnx")

    def test_keywords_of_torch_onnx_export(self):
        net, x = torch.nn.Linear(3, 2).train(), torch.rand(2, 3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            ferry.export(model=net, args=(x,), f=path, training=torch.onnx.TrainingMode.EVAL, dynamo=False,
                         keep_initializers_as_inputs=False, custom_opsets=None, verbose=False,
                         operator_export_type=torch.onnx.OperatorExportTypes.ONNX)
            self.assertTrue(ferry.check(path))
            ferry.export(net, (x,), f=path)
        with self.assertRaisesRegex(ferry.InvalidArgument, "weights are no inputs"):
            ferry.export(net, (x,), "unused.onnx", keep_initializers_as_inputs=True)


if __name__ == "__main__":
    unittest.main()
