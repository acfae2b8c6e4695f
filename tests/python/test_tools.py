"""check, info, compare, convert, export; how they show themselves; and every example in a docstring."""

import doctest
import importlib
import pkgutil
import tempfile

from support import *


class Tools(Case):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_check(self):
        self.assertTrue(ferry.check(SIMPLE_NET))
        self.assertEqual(repr(ferry.check(SIMPLE_NET)), f"{SIMPLE_NET}: valid")
        broken = onnx.load(SIMPLE_NET)
        broken.graph.node[0].op_type = "Nonsense<b>"
        result = ferry.check(broken)
        self.assertFalse(result.valid)
        problem = result.problems[0]
        self.assertEqual(problem.severity, "error")
        self.assertIn("Nonsense", problem.message)
        self.assertIn("not valid", repr(result))
        self.assertIn("&lt;b&gt;", result._repr_html_())
        with self.assertRaisesRegex(ferry.InvalidGraph, "Nonsense"):
            result.raise_if_invalid()
        with self.assertRaises(ferry.NoSuchFile):
            ferry.check("/nowhere.onnx")

    def test_info(self):
        info = ferry.info(SIMPLE_NET, dimensions={"batch": 8})
        self.assertEqual((info.nodes, info.parameters, info.dimensions), (3, 227, {"batch": 8}))
        self.assertEqual(info.multiply_adds, 8 * (160 + 48))
        self.assertEqual([arg.name for arg in info.inputs], ["x"])
        self.assertIn("parameters", repr(info))
        self.assertIn("<table>", info._repr_html_())

    def test_compare_with_recordings(self):
        folder = data("torch-models", "simple_net")
        comparison = ferry.compare(SIMPLE_NET, os.path.join(folder, "io_*.npz"))
        self.assertTrue(comparison)
        self.assertEqual(len(comparison.samples), 3)
        self.assertTrue(ferry.compare(SIMPLE_NET, data=[os.path.join(folder, "io_1.npz"), os.path.join(folder, "io_5.npz")]))
        self.assertLess(comparison.max_abs, 1e-5)
        recording = dict(np.load(os.path.join(folder, "io_2.npz")))
        recording["out0"] = recording["out0"] + 1
        comparison = ferry.compare(SIMPLE_NET, recording)
        self.assertFalse(comparison)
        self.assertAlmostEqual(comparison.max_abs, 1, places=4)
        self.assertIn("NOT within", repr(comparison))
        self.assertIn("NOT within", comparison._repr_html_())
        with self.assertRaisesRegex(ferry.InvalidArgument, "neither an input nor an output"):
            ferry.compare(SIMPLE_NET, {"nonsense": np.ones(1)})
        with self.assertRaisesRegex(ferry.InvalidArgument, "something to compare with"):
            ferry.compare(SIMPLE_NET)
        self.assertTrue(ferry.compare(SIMPLE_NET, against="float64", random=2, edge_cases=True))
        with self.assertRaisesRegex(ferry.InvalidArgument, "'float32'"):
            ferry.compare(SIMPLE_NET, against="float32")

    def test_compare_models(self):
        converted = ferry.convert(SIMPLE_NET, self.path("old.onnx"), opset=11)
        self.assertEqual(converted.opset, 11)
        self.assertEqual(onnx.load(self.path("old.onnx")).opset_import[0].version, 11)
        self.assertTrue(ferry.compare(SIMPLE_NET, converted, dimensions={"batch": 5}))
        other = onnx.load(SIMPLE_NET)
        raw = bytearray(other.graph.initializer[0].raw_data)
        raw[:4] = np.float32(99).tobytes()
        other.graph.initializer[0].raw_data = bytes(raw)
        comparison = ferry.compare(SIMPLE_NET, other)
        self.assertFalse(comparison)
        self.assertIsNotNone(comparison.faulty_layer)
        self.assertIn(comparison.faulty_layer.op, ("Gemm", "MatMul"))
        self.assertIn(comparison.faulty_layer.text, repr(comparison))
        self.assertIn("<html", comparison.html())

    def test_doctor(self):
        model = model_of([helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])], [info("x", 1, ["n", 4])],
                         [info("y", 1, ["n", 4])], opset=13,
                         initializers=[helper.make_tensor("ratio", 1, [], [0.5]), helper.make_tensor("training", 9, [], [True])])
        diagnosis = ferry.doctor(model, lints=["training-mode"])
        self.assertFalse(diagnosis)
        finding = diagnosis.findings[0]
        self.assertEqual((finding.lint, finding.op_type, finding.fixable), ("training-mode", "Dropout", True))
        self.assertIn("training-mode", repr(diagnosis))
        self.assertIn("<table>", diagnosis._repr_html_())
        mended = ferry.doctor(model, lints=["training-mode"], fix=self.path("mended.onnx"))
        self.assertTrue(mended, mended)
        self.assertTrue(mended.mendings[0].applied)
        x = np.ones((2, 4), np.float32)
        np.testing.assert_array_equal(ferry.InferenceSession(self.path("mended.onnx")).run(None, {"x": x})[0], x)
        with self.assertRaises(ferry.InvalidArgument):
            ferry.doctor(model, lints=["no-such-lint"])

    def test_export_of_an_archive(self):
        folder = data("torch-models", "simple_net")
        written = ferry.export(os.path.join(folder, "model.pt2"), self.path("net.onnx"), input_names=["x"], output_names=["y"])
        self.assertTrue(ferry.check(written))
        self.assertTrue(ferry.compare(written, os.path.join(folder, "io_*.npz")))
        self.assertEqual([arg.name for arg in ferry.info(written).outputs], ["y"])
        self.assertIn("opset", repr(written))

    def test_export_takes_the_names_of_torch_onnx_export(self):
        archive = data("torch-models", "simple_net", "model.pt")
        args = (np.ones((2, 10), np.float32),)
        written = ferry.export(archive, args, self.path("net.onnx"), input_names=["x"], output_names=["y"], opset_version=13,
                               dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, do_constant_folding=True)
        self.assertEqual(written.opset, 13)
        self.assertEqual(ferry.info(written).inputs[0].shape, ["n", 10])
        written = ferry.export(archive, args, self.path("net.onnx"), input_names=["x"], dynamic_axes={"x": [0]})
        self.assertNotEqual(ferry.info(written).inputs[0].shape[0], 2)
        with self.assertRaises(ferry.InvalidArgument):
            ferry.export(archive, args, self.path("net.onnx"), export_params=False)

    def test_export_speaks_of_python(self):
        archive = data("torch-models", "simple_net", "model.pt")
        with self.assertRaises(ferry.FerryError) as refused:
            ferry.export(archive, self.path("net.onnx"), dynamic={"nothing": {0: "n"}})
        self.assertIn("nothing", str(refused.exception))
        self.assertNotIn("--", str(refused.exception))
        warnings = ferry.export(archive, self.path("net.onnx"), np.ones((2, 10), np.float32)).warnings
        self.assertNotIn("--", " ".join(warnings))


def load_tests(loader, tests, pattern):
    """Adds the examples of every module of the package."""
    for module in pkgutil.walk_packages(ferry.__path__, "ferry."):
        if not module.name.endswith("._ferry"):
            tests.addTests(doctest.DocTestSuite(importlib.import_module(module.name), optionflags=doctest.NORMALIZE_WHITESPACE))
    tests.addTests(doctest.DocTestSuite(ferry))
    return tests


if __name__ == "__main__":
    unittest.main()
