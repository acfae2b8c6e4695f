"""ONNX's own Python test suite, driving Ferry through ferry.backend."""

import io

import onnx.backend.test

import ferry.backend
from support import *


BY_CHANCE = "drawn by chance: no recording can say what it must be"
NO_EPSILON = "recorded with an epsilon of 0.01, which the model does not say"
OTHER_SHAPE = "recorded with an input of shape [1], which the model declares as [3, 4]"
IN_DOUBLE = "recorded in double; the newer recording of the same case is in float, as Ferry computes it, and passes"
NOT_COMPARABLE = {
    **{f"test_bernoulli{kind}_cpu": BY_CHANCE
       for kind in ("", "_double", "_double_expanded", "_expanded", "_seed", "_seed_expanded")},
    "test_adam_multiple_cpu": NO_EPSILON,
    "test_dft_inverse_cpu": IN_DOUBLE,
    **{f"test_castlike_{types}{kind}_cpu": OTHER_SHAPE
       for types in ("BFLOAT16_to_FLOAT", "FLOAT_to_BFLOAT16") for kind in ("", "_expanded")},
}


class Suite(onnx.backend.test.BackendTest):
    """The comparison of ONNX 1.12 knows neither numpy 1.24 (np.object) nor sequences of scalars; this is the same rule."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol):
        np.testing.assert_equal(len(outputs), len(ref_outputs))
        for actual, expected in zip(outputs, ref_outputs):
            if isinstance(actual, (list, tuple)):
                cls.assert_similar_outputs(expected, actual, rtol, atol)
                continue
            np.testing.assert_equal(actual.dtype, expected.dtype)
            if expected.dtype == object:
                np.testing.assert_array_equal(actual, expected)
            else:
                np.testing.assert_equal(actual.shape, expected.shape)
                np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


class BackendInterface(Case):
    def test_prepare_run_and_run_node(self):
        model = onnx.load(SIMPLE_NET)
        x = np.ones((2, 10), np.float32)
        prepared = ferry.backend.prepare(model, "CPU")
        expected = ferry.InferenceSession(SIMPLE_NET).run(None, {"x": x})[0]
        np.testing.assert_array_equal(prepared.run([x])[0], expected)
        np.testing.assert_array_equal(prepared.run(x)[0], expected)
        np.testing.assert_array_equal(prepared.run({"x": x}).linear_1, expected)
        np.testing.assert_array_equal(ferry.backend.run_model(model, [x])[0], expected)
        self.assertTrue(ferry.backend.is_compatible(model))
        y, = ferry.backend.run_node(helper.make_node("Add", ["a", "b"], ["y"]), [x, x])
        np.testing.assert_array_equal(y, 2 * x)
        self.assertTrue(ferry.backend.supports_device("CPU"))
        self.assertFalse(ferry.backend.supports_device("CUDA"))
        with self.assertRaises(ValueError):
            ferry.backend.prepare(model, "CUDA")
        with self.assertRaisesRegex(ferry.InvalidArgument, "2 inputs"):
            prepared.run([x, x])


class OnnxSuite(unittest.TestCase):
    def test_everything_that_needs_no_download(self):
        cases, left_out = [], []
        for name, group in sorted(Suite(ferry.backend, __name__).test_cases.items()):
            if name == "OnnxBackendRealModelTest":
                continue  # downloads its networks
            for case in unittest.defaultTestLoader.loadTestsFromTestCase(group):
                short = case.id().rpartition(".")[2]
                if not short.endswith("_cuda"):
                    (left_out if short in NOT_COMPARABLE else cases).append(case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ONNX 1.12 itself uses what numpy 1.24 deprecates
            result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.TestSuite(cases))
        bad = result.failures + result.errors
        passed = result.testsRun - len(bad) - len(result.skipped)
        print(f"\nONNX {onnx.__version__} backend tests: {passed} passed, {len(bad)} failed, {len(result.skipped)} skipped, "
              f"{len(left_out)} not comparable:", file=sys.stderr)
        for case in left_out:
            short = case.id().rpartition(".")[2]
            print(f"  {short}: {NOT_COMPARABLE[short]}", file=sys.stderr)
        for case, text in bad[:20]:
            print(f"{case.id()}: {text.strip().splitlines()[-1]}", file=sys.stderr)
        for case, why in result.skipped[:20]:
            print(f"{case.id()} skipped: {why}", file=sys.stderr)
        self.assertEqual(len(bad), 0)
        self.assertEqual(len(left_out), len(NOT_COMPARABLE))
        self.assertEqual(len(result.skipped), 0)
        self.assertGreaterEqual(passed, 1000)


if __name__ == "__main__":
    unittest.main()
