"""The script everybody has, with one import changed: PyTorch to ONNX to a session, and the same answers."""

import contextlib
import io
import tempfile

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


if __name__ == "__main__":
    unittest.main()
