"""ferry.quantize, and onnxruntime.quantization's everyday names."""

import tempfile

from onnx import numpy_helper

from support import *
from ferry import quantization as Q


def small_net():
    rng = np.random.default_rng(3)
    weights = [("w", rng.normal(size=(16, 3, 3, 3)) * 0.3), ("b", rng.normal(size=16) * 0.1),
               ("v", rng.normal(size=(5, 16)))]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Conv", ["r", "u"], ["d"], name="second", pads=[1, 1, 1, 1]),
             helper.make_node("GlobalAveragePool", ["d"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "v"], ["y"], name="head", transB=1)]
    weights.append(("u", rng.normal(size=(16, 16, 3, 3)) * 0.1))
    return model_of(nodes, [info("x", TensorProto.FLOAT, ["n", 3, 8, 8])], [info("y", TensorProto.FLOAT, ["n", 5])],
                    initializers=[numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights])


class Reader(Q.CalibrationDataReader):
    def __init__(self, count=24):
        rng = np.random.default_rng(1)
        self.left = iter([{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)])

    def get_next(self):
        return next(self.left, None)


class Quantize(Case):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.out = os.path.join(self.folder, "out.onnx")
        self.model = small_net()
        self.x = np.random.default_rng(2).normal(size=(32, 3, 8, 8)).astype(np.float32)

    def operators(self, path=None):
        return [node.op_type for node in onnx.load(path or self.out).graph.node]

    def snr(self, path):
        a = ferry.InferenceSession(self.model).run(None, {"x": self.x})[0]
        b = ferry.InferenceSession(path).run(None, {"x": self.x})[0]
        return 10 * np.log10((a ** 2).sum() / (((a - b) ** 2).sum() + 1e-30))

    def test_quantize(self):
        made = ferry.quantize(self.model, self.out, data={"x": self.x})
        self.assertTrue(made)
        self.assertGreater(made.snr_db, 25)
        self.assertEqual(len(made.report["layers"]), 3)
        self.assertIn("signal to noise", repr(made))
        self.assertIn("<svg", made.html)
        self.assertIn("<", made._repr_html_())
        self.assertTrue(ferry.check(self.out))
        self.assertIn("QuantizeLinear", self.operators())

    def test_data_comes_in_many_ways(self):
        path = os.path.join(self.folder, "data.npz")
        np.savez(path, x=self.x)
        results = [ferry.quantize(self.model, data=data).model for data in (path, [path], {"x": self.x})]
        self.assertEqual(len({len(model) for model in results}), 1)
        rows = ({"x": self.x[i:i + 1]} for i in range(8))
        self.assertEqual(ferry.quantize(self.model, data=rows).report["calibration_rows"], 6)

    def test_budget(self):
        made = ferry.quantize(self.model, data={"x": self.x}, budget="snr=50")
        self.assertTrue(made)
        self.assertGreaterEqual(made.snr_db, 50)
        labels = ferry.InferenceSession(self.model).run(None, {"x": self.x})[0].argmax(-1)
        self.assertTrue(ferry.quantize(self.model, data={"x": self.x, "labels": labels}, budget="top1=20%"))
        with self.assertRaisesRegex(ferry.InvalidArgument, "no budget"):
            ferry.quantize(self.model, data={"x": self.x}, budget="nonsense=1")

    def test_static(self):
        for form, expected in ((Q.QuantFormat.QDQ, "DequantizeLinear"), (Q.QuantFormat.QOperator, "QLinearConv")):
            self.assertIsNone(Q.quantize_static(self.model, self.out, Reader(), quant_format=form, per_channel=True,
                                                activation_type=Q.QuantType.QUInt8,
                                                calibrate_method=Q.CalibrationMethod.Percentile))
            self.assertIn(expected, self.operators())
            self.assertGreater(self.snr(self.out), 20)
        Q.quantize_static(self.model, self.out, Reader(), nodes_to_exclude=["conv"], op_types_to_quantize=["Conv"],
                          extra_options={"ActivationSymmetric": True})
        kinds = {tensor.data_type for tensor in onnx.load(self.out).graph.initializer}
        self.assertIn(TensorProto.INT8, kinds)
        with self.assertRaisesRegex(ferry.InvalidArgument, "QInt16"):
            Q.quantize_static(self.model, self.out, Reader(), activation_type=Q.QuantType.QInt16)

    def test_all_samples_calibrate(self):
        for far in range(4):
            class One(Reader):
                def __init__(self):
                    rows = [np.zeros((1, 3, 8, 8), np.float32) for _ in range(8)]
                    rows[2 * far][0, 0, 0, 0], rows[2 * far + 1][0, 0, 0, 1] = 50, -50
                    self.left = iter([{"x": row} for row in rows])
            Q.quantize_static(self.model, self.out, One(), activation_type=Q.QuantType.QUInt8)
            model = onnx.load(self.out)
            numbers = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
            coded = next(node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x")
            self.assertGreater(255 * float(numbers[coded.input[1]]), 99, far)

    def test_dynamic(self):
        Q.quantize_dynamic(self.model, self.out)
        self.assertIn("MatMulInteger", self.operators())
        self.assertGreater(self.snr(self.out), 25)

    def test_everyday_arguments(self):
        def codes(**options):
            Q.quantize_static(self.model, self.out, Reader(), **options)
            model = onnx.load(self.out)
            return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type != TensorProto.FLOAT}
        for name, array in codes(reduce_range=True).items():
            if array.dtype == np.int8 and array.ndim > 1:
                self.assertLessEqual(int(np.abs(array.astype(int)).max()), 64, name)
        kinds = {array.dtype for array in codes(weight_type=Q.QuantType.QUInt8).values() if array.ndim > 1}
        self.assertEqual(kinds, {np.dtype(np.uint8)})
        self.assertGreater(self.snr(self.out), 20)
        codes(nodes_to_quantize=["conv"])
        self.assertEqual(self.operators().count("QuantizeLinear"), 1)
        self.assertNotIn(np.dtype(np.int32), {a.dtype for a in codes(extra_options={"QuantizeBias": False}).values()})
        Q.quantize_dynamic(self.model, self.out, weight_type=Q.QuantType.QUInt8, reduce_range=True)
        self.assertGreater(self.snr(self.out), 20)
        Q.quantize(self.model, self.out, Q.StaticQuantConfig(Reader(), per_channel=True))
        self.assertIn("QuantizeLinear", self.operators())
        Q.quantize(self.model, self.out, Q.DynamicQuantConfig())
        self.assertIn("MatMulInteger", self.operators())
        with self.assertRaisesRegex(ferry.InvalidArgument, "StaticQuantConfig"):
            Q.quantize(self.model, self.out, None)

    def test_pre_process(self):
        Q.quant_pre_process(self.model, self.out)
        self.assertGreater(self.snr(self.out), 100)
        with self.assertRaises(ferry.InvalidArgument):
            Q.quant_pre_process(self.model)

    def test_modules_have_onnxruntimes_names(self):
        from ferry.quantization.calibrate import CalibrationDataReader, CalibrationMethod
        from ferry.quantization.quant_utils import QuantFormat, QuantType
        from ferry.quantization.quantize import quantize_static
        from ferry.quantization.shape_inference import quant_pre_process
        self.assertIs(CalibrationDataReader, Q.CalibrationDataReader)
        self.assertIs(CalibrationMethod, Q.CalibrationMethod)
        self.assertIs(QuantFormat.from_string("QDQ"), QuantFormat.QDQ)
        self.assertIs(CalibrationMethod.from_string("Entropy"), CalibrationMethod.Entropy)
        self.assertEqual([str(one) for one in (QuantFormat.QDQ, QuantType.QInt8, CalibrationMethod.MinMax)],
                         ["QDQ", "QInt8", "MinMax"])
        with self.assertRaisesRegex(ValueError, "QInt7"):
            QuantType.from_string("QInt7")
        self.assertIs(QuantFormat, Q.QuantFormat)
        self.assertIs(QuantType, Q.QuantType)
        self.assertTrue(callable(Q.quantize))  # the function, not the module of that name
        prepared = os.path.join(self.folder, "prepared.onnx")
        quant_pre_process(self.model, prepared, auto_merge=True)
        quantize_static(prepared, self.out, Reader())
        self.assertGreater(self.snr(self.out), 20)

    def test_weights_in_bits(self):
        from ferry.quantization import matmul_nbits_quantizer as M
        rng = np.random.default_rng(5)
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
                         [info("x", TensorProto.FLOAT, ["n", 64])], [info("y", TensorProto.FLOAT, ["n", 32])],
                         initializers=[numpy_helper.from_array(rng.normal(size=(64, 32)).astype(np.float32), "w")])
        x = rng.normal(size=(128, 64)).astype(np.float32)
        expected = ferry.InferenceSession(model).run(None, {"x": x})[0]

        class Samples(Reader):
            def __init__(self):
                self.left = iter([{"x": x}])

        def snr(**options):
            quantizer = M.MatMulNBitsQuantizer(model, **options)
            quantizer.process()
            quantizer.model.save_model_to_file(self.out, use_external_data_format=False)
            actual = ferry.InferenceSession(self.out).run(None, {"x": x})[0]
            return 10 * np.log10((expected ** 2).sum() / ((actual - expected) ** 2).sum())
        def bits():
            return [a.i for node in onnx.load(self.out).graph.node for a in node.attribute if a.name == "bits"]
        self.assertGreater(snr(block_size=32), 17)
        self.assertEqual(self.operators(), ["MatMulNBits"])
        self.assertEqual(bits(), [4])
        self.assertGreater(snr(bits=8, block_size=32), 40)
        self.assertGreater(snr(algo_config=M.HQQWeightOnlyQuantConfig(block_size=32)), 17)
        self.assertGreater(snr(algo_config=M.GPTQWeightOnlyQuantConfig(Samples(), block_size=32)), 17)
        self.assertEqual(bits(), [4])  # however little they keep
        self.assertGreater(snr(algo_config=M.WeightOnlyQuantConfig("HQQ", Q.QuantFormat.QOperator), block_size=32), 17)
        self.assertEqual(bits(), [4])
        for options in ({"algo_config": M.DefaultWeightOnlyQuantConfig(channel_wised_quantize=True)},
                        {"channel_wised_quantize": True}):
            self.assertGreater(snr(**options), 10)
            scales = [t for t in onnx.load(self.out).graph.initializer if t.data_type == TensorProto.FLOAT]
            self.assertEqual([list(t.dims) for t in scales], [[32]])
        with self.assertRaisesRegex(ferry.InvalidArgument, "no algorithm 'k_quant'"):
            M.WeightOnlyQuantConfig(algorithm="k_quant", quant_format=Q.QuantFormat.QOperator)
        self.assertGreater(snr(algo_config=M.DefaultWeightOnlyQuantConfig(block_size=32, quant_format=Q.QuantFormat.QDQ)), 17)
        self.assertIn("DequantizeLinear", self.operators())
        self.assertEqual(onnx.load(self.out).SerializeToString(), M.MatMulNBitsQuantizer(
            model, algo_config=M.DefaultWeightOnlyQuantConfig(block_size=32, quant_format=Q.QuantFormat.QDQ)
        ).model.model.SerializeToString())
        with self.assertRaisesRegex(ferry.InvalidArgument, "calibration_data_reader"):
            M.MatMulNBitsQuantizer(model, algo_config=M.GPTQWeightOnlyQuantConfig()).process()
        with self.assertRaisesRegex(ferry.InvalidArgument, "WeightOnlyQuantConfig"):
            M.MatMulNBitsQuantizer(model, algo_config="HQQ")

    def test_errors(self):
        with self.assertRaisesRegex(ferry.InvalidArgument, "has NaN"):
            ferry.quantize(self.model, data={"x": np.full_like(self.x, np.nan)})
        with self.assertRaisesRegex(ferry.InvalidArgument, "one of int8"):
            ferry.quantize(self.model, form="int3")
        with self.assertRaisesRegex(ferry.InvalidArgument, "quantised already"):
            ferry.quantize(ferry.quantize(self.model, data={"x": self.x}, form="static").model, data={"x": self.x})


if __name__ == "__main__":
    unittest.main()
