"""Sessions: what goes in, what comes out, and what is said when it is wrong."""

import os
import pathlib
import tempfile
import warnings

from support import *


class Opening(Case):
    def test_from_a_path_bytes_and_path_like(self):
        content = pathlib.Path(SIMPLE_NET).read_bytes()
        x = np.linspace(0, 1, 20, dtype=np.float32).reshape(2, 10)
        answers = [ferry.InferenceSession(source).run(None, {"x": x})[0]
                   for source in (SIMPLE_NET, pathlib.Path(SIMPLE_NET), content, bytearray(content), memoryview(content),
                                  onnx.load(SIMPLE_NET))]
        for answer in answers:
            np.testing.assert_array_equal(answer, answers[0])

    def test_exceptions_have_onnxruntimes_names(self):
        from ferry.capi.onnxruntime_pybind11_state import InvalidProtobuf, NoSuchFile
        with self.assertRaisesRegex(NoSuchFile, "/nowhere.onnx: no such file"):
            ferry.InferenceSession("/nowhere.onnx")
        self.assertTrue(issubclass(NoSuchFile, FileNotFoundError))
        with self.assertRaises(InvalidProtobuf):
            ferry.InferenceSession(b"this is no model")
        with self.assertRaisesRegex(ferry.NotImplemented, "NoSuchOperator"):
            node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain="nowhere")
            graph = helper.make_graph([node], "g", [info("x", 1, [1])], [info("y", 1, [1])])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
            session = ferry.InferenceSession(helper.make_model(graph, opset_imports=opsets).SerializeToString())
            session.run(None, {"x": np.ones(1, np.float32)})
        for name in ("Fail", "InvalidArgument", "InvalidGraph", "NoModel", "RuntimeException", "EngineError", "EPFail"):
            self.assertTrue(issubclass(getattr(ferry, name), ferry.FerryError), name)

    def test_describes_itself(self):
        model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", 1, ["n", None, 3]), info("w", 1, [3])],
                         [info("y", 1, None)], initializers=[helper.make_tensor("w", 1, [3], [1, 2, 3])],
                         producer_name="me", model_version=7, doc_string="about")
        session = ferry.InferenceSession(model)
        x, = session.get_inputs()
        self.assertEqual((x.name, x.type, x.shape), ("x", "tensor(float)", ["n", None, 3]))
        self.assertEqual([arg.name for arg in session.get_overridable_initializers()], ["w"])
        meta = session.get_modelmeta()
        self.assertEqual((meta.producer_name, meta.version, meta.description, meta.graph_name), ("me", 7, "about", "test"))
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
        given = np.ones((1, 1, 3), np.float32)
        np.testing.assert_array_equal(session.run(["y"], {"x": given})[0].ravel(), [2, 3, 4])
        np.testing.assert_array_equal(session.run(["y"], {"x": given, "w": np.zeros(3, np.float32)})[0], given)


class Inputs(Case):
    def setUp(self):
        super().setUp()
        self.session = ferry.InferenceSession(SIMPLE_NET)
        self.x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)
        self.y = self.session.run(None, {"x": self.x})[0]

    def refused(self, feed, message, kind=ferry.InvalidArgument):
        with self.assertRaisesRegex(kind, message):
            self.session.run(None, feed)

    def test_any_layout_gives_the_same(self):
        read_only = self.x.copy()
        read_only.flags.writeable = False
        unaligned = np.frombuffer(b"." + self.x.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 10)
        for name, x in {
            "column-major": np.asfortranarray(self.x),
            "every second": np.repeat(self.x, 2, axis=1)[:, ::2],
            "backwards": self.x[::-1].copy()[::-1],
            "byte-swapped": self.x.astype(">f4"),
            "byte-swapped and column-major": np.asfortranarray(self.x.astype(">f4")),
            "read-only": read_only,
            "unaligned": unaligned,
            "a list": self.x.tolist(),
            "an OrtValue": ferry.OrtValue.ortvalue_from_numpy(self.x),
            "broadcast": np.broadcast_to(self.x, (3, 10)),
        }.items():
            with self.subTest(name):
                np.testing.assert_array_equal(self.session.run(None, {"x": x})[0], self.y)

    def test_wrong_ones_are_explained(self):
        self.refused({"z": self.x}, "no input 'z'; did you mean 'x'")
        self.refused({"x": self.x, "z": self.x}, "no input 'z'")
        self.refused({}, "is missing")
        self.refused({"x": self.x.astype(np.float64)}, r"must be float\[batch, 10\], got double\[3, 10\]")
        self.refused({"x": self.x[0]}, "it has 1 dimensions where the model has 2")
        self.refused({"x": self.x[:, :4]}, "dimension 1 is fixed to 10")
        self.refused({"x": np.array([object()])}, "array of Python objects")
        self.refused({"x": self.x.astype(np.longdouble)}, "dtype float128")
        self.refused({"x": np.zeros((3, 10), "M8[s]")}, "dtype datetime64")
        self.refused({"x": None}, "is None")
        self.refused({3: self.x}, "must be names")
        self.refused({"x": np.array(["a"])}, "got string")
        with self.assertRaisesRegex(ferry.InvalidArgument, "no value 'nothing'"):
            self.session.run(["nothing"], {"x": self.x})
        with self.assertRaises(TypeError):
            self.session.run(None, 3)

    def test_go_in_without_a_copy(self):
        model = one_node("Identity", TensorProto.FLOAT)
        big = np.zeros(30_000_000, np.float32)
        session = ferry.InferenceSession(model_of([helper.make_node("ReduceMax", ["x"], ["y"], keepdims=0)],
                                                  [info("x", 1, ["n"])], [info("y", 1, [])]))
        session.run(None, {"x": big})
        before = resident_kb()
        session.run(None, {"x": big})
        self.assertLess(resident_kb() - before, 20_000)
        value = ferry.OrtValue.ortvalue_from_numpy(big)
        self.assertEqual(value.data_ptr(), big.ctypes.data)
        # What comes out stays, whatever becomes of what went in.
        x = np.ones(3, np.float32)
        y = ferry.InferenceSession(model).run(None, {"x0": x})[0]
        x[:] = 5
        np.testing.assert_array_equal(y, 1)

    def test_outputs_are_the_callers(self):
        y = self.session.run(None, {"x": self.x})[0]
        self.assertTrue(y.flags.writeable and y.flags.c_contiguous and not y.flags.owndata)
        y[:] = 0
        np.testing.assert_array_equal(self.session.run(None, {"x": self.x})[0], self.y)

    def test_values_inside_the_model(self):
        relu, y = self.session.run(["relu", "linear_1"], {"x": self.x})
        self.assertEqual(relu.shape, (3, 16))
        np.testing.assert_array_equal(y, self.y)

    def test_empty_batches(self):
        self.assertEqual(self.session.run(None, {"x": np.zeros((0, 10), np.float32)})[0].shape, (0, 3))


class Types(Case):
    def identity(self, type, array, **kwargs):
        return ferry.InferenceSession(one_node("Identity", type, shape=None, **kwargs)).run(None, {"x0": array})[0]

    def test_every_type_of_numpys(self):
        for name in "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split():
            with self.subTest(name):
                array = np.array([[0, 1], [1, 0]], name)
                out = self.identity(onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(name)], array)
                self.assertEqual(out.dtype, name)
                np.testing.assert_array_equal(out, array)
        self.assertEqual(self.identity(TensorProto.FLOAT, np.float32(3)).shape, ())
        longlong = np.array([1], np.longlong)
        np.testing.assert_array_equal(self.identity(TensorProto.INT64, longlong), longlong)

    def test_strings(self):
        for array in (np.array(["a", "zwölf", ""]), np.array(["a", "zwölf", ""], object), ["a", "zwölf", ""],
                      np.array(["a", b"zw\xc3\xb6lf", ""], object)):
            out = self.identity(TensorProto.STRING, array)
            self.assertEqual(out.dtype, object)
            self.assertEqual(out.tolist(), ["a", "zwölf", ""])
        with self.assertRaisesRegex(ferry.InvalidArgument, "element 1 is of type int"):
            self.identity(TensorProto.STRING, np.array(["a", 3], object))

    def test_types_that_numpy_lacks_are_their_bits(self):
        try:
            import ml_dtypes  # noqa: F401
            self.skipTest("ml_dtypes has them")
        except ImportError:
            pass
        bits = np.array([0x3F80, 0x4000], np.uint16)
        model = one_node("Cast", TensorProto.BFLOAT16, out=TensorProto.FLOAT, to=TensorProto.FLOAT)
        np.testing.assert_array_equal(ferry.InferenceSession(model).run(None, {"x0": bits})[0], [1, 2])
        np.testing.assert_array_equal(self.identity(TensorProto.BFLOAT16, bits), bits)
        value = ferry.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
        self.assertEqual((value.data_type(), value.element_type()), ("tensor(bfloat16)", 16))
        with self.assertRaises(ferry.InvalidArgument):
            ferry.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.float32), TensorProto.BFLOAT16)

    def test_small_types(self):
        x = np.array([0, 1, 2, 3, -1], np.float32)
        float8, uint4, int4 = 17, 21, 22
        for type, bits, expected in ((float8, "uint8", [0, 0x38, 0x40, 0x44, 0xB8]), (int4, "int8", [0, 1, 2, 3, -1]),
                                     (uint4, "uint8", [0, 1, 2, 3, 15])):
            with self.subTest(type):
                there = ferry.InferenceSession(one_node("Cast", TensorProto.FLOAT, out=type, to=type, opset=21))
                back = ferry.InferenceSession(one_node("Cast", type, out=TensorProto.FLOAT, to=TensorProto.FLOAT, opset=21))
                small = there.run(None, {"x0": x})[0]
                np.testing.assert_array_equal(small.view(bits) if small.dtype.itemsize == 1 else small, expected)
                np.testing.assert_array_equal(back.run(None, {"x0": small})[0][:4], x[:4])
                value, = there.run_with_ort_values(None, {"x0": ferry.OrtValue.ortvalue_from_numpy(x)})
                self.assertEqual(value.element_type(), type)
                np.testing.assert_array_equal(back.run(None, {"x0": value})[0][:4], x[:4])

    def test_sequences(self):
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None)
        out = helper.make_tensor_sequence_value_info("y", TensorProto.INT64, None)
        session = ferry.InferenceSession(
            model_of([helper.make_node("SequenceInsert", ["s", "x"], ["y"])], [sequence, info("x", 7, None)], [out]))
        self.assertEqual(session.get_inputs()[0].type, "seq(tensor(int64))")
        first, second = np.array([1, 2]), np.array([[3]])
        result = session.run(None, {"s": [first], "x": second})[0]
        self.assertIsInstance(result, list)
        np.testing.assert_array_equal(result[0], first)
        np.testing.assert_array_equal(result[1], second)
        self.assertEqual(len(session.run(None, {"s": [], "x": second})[0]), 1)
        value, = session.run_with_ort_values(None, {"s": ferry.OrtValue(ferry._ferry.Value.sequence([first])),
                                                    "x": ferry.OrtValue.ortvalue_from_numpy(second)})
        self.assertTrue(value.is_tensor_sequence())
        self.assertEqual(len(value.numpy()), 2)

    def test_optionals(self):
        optional = helper.make_value_info("x", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, ["n"])))
        session = ferry.InferenceSession(model_of([helper.make_node("OptionalHasElement", ["x"], ["y"])], [optional],
                                                  [info("y", TensorProto.BOOL, [])]))
        self.assertEqual(session.get_inputs()[0].type, "optional(tensor(float))")
        self.assertFalse(session.run(None, {"x": None})[0])
        self.assertTrue(session.run(None, {"x": np.ones(2, np.float32)})[0])

    def test_maps(self):
        session = ferry.InferenceSession(data("onnx-node", "test_ai_onnx_ml_label_encoder_string_int", "model.onnx"))
        self.assertEqual(session.get_inputs()[0].type, "tensor(string)")
        node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])
        value_type = onnx.TypeProto()
        value_type.map_type.key_type = TensorProto.STRING
        value_type.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        graph = helper.make_graph([node], "g", [helper.make_value_info("x", value_type)], [info("y", 1, None)])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        session = ferry.InferenceSession(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        out = session.run(None, {"x": {"c": 3.0, "a": 1.0}})[0]
        np.testing.assert_array_equal(np.ravel(out), [1, 0, 3])
        zipped = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"])
        out_type = onnx.TypeProto()
        out_type.sequence_type.elem_type.CopyFrom(value_type)
        graph = helper.make_graph([zipped], "g", [info("x", 1, ["n", 2])], [helper.make_value_info("y", out_type)])
        session = ferry.InferenceSession(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        self.assertEqual(session.run(None, {"x": np.array([[0.25, 0.75]], np.float32)})[0], [{"no": 0.25, "yes": 0.75}])

    def test_sparse(self):
        sparse = ferry.SparseTensor.sparse_csr_from_numpy([2, 3], np.array([5, 6], np.float32), np.array([2, 0]),
                                                          np.array([0, 1, 2]))
        np.testing.assert_array_equal(sparse.as_coo_view().indices(), [[0, 2], [1, 0]])
        with self.assertRaisesRegex(ferry.InvalidArgument, "index 9 is outside"):
            ferry.SparseTensor.sparse_coo_from_numpy([2, 3], np.ones(1, np.float32), np.array([9]))


class Options(Case):
    def test_what_has_no_meaning_warns_once(self):
        from ferry import _options
        _options._warned.clear()
        options = ferry.SessionOptions()
        for name, value in {"inter_op_num_threads": 2, "execution_mode": ferry.ExecutionMode.ORT_PARALLEL,
                            "execution_order": ferry.ExecutionOrder.PRIORITY_BASED, "enable_cpu_mem_arena": False,
                            "enable_mem_pattern": False, "enable_mem_reuse": False, "log_severity_level": 0,
                            "log_verbosity_level": 1, "logid": "me",
                            "optimized_model_filepath": "x.onnx",
                            "graph_optimization_level": ferry.GraphOptimizationLevel.ORT_ENABLE_BASIC}.items():
            with self.subTest(name):
                with self.assertWarns(UserWarning) as caught:
                    setattr(options, name, value)
                self.assertEqual(caught.filename, __file__)
                setattr(options, name, value)  # the second time in silence
                self.assertEqual(getattr(options, name), value)
        for warned in (lambda: options.add_session_config_entry("session.x", "1"),
                       lambda: ferry.set_default_logger_severity(0), lambda: ferry.set_seed(1),
                       lambda: ferry.InferenceSession(SIMPLE_NET, providers=["CUDAExecutionProvider"]),
                       lambda: ferry.InferenceSession(SIMPLE_NET, providers=[("CPUExecutionProvider", {"a": 1})]),
                       lambda: ferry.InferenceSession(SIMPLE_NET, disabled_optimizers=["x"])):
            with self.assertWarns(UserWarning):
                warned()
            warned()
        self.assertEqual(options.get_session_config_entry("session.x"), "1")
        with self.assertRaises(ferry.NotImplemented):
            options.register_custom_ops_library("x.so")

    def test_own_settings(self):
        options = ferry.SessionOptions()
        with self.assertRaises(ferry.InvalidArgument):
            options.add_session_config_entry("ferry.exactly", "1")
        with self.assertRaises(ferry.InvalidArgument):
            options.add_session_config_entry("ferry.exact", "yes")
        options.add_session_config_entry("ferry.exact", "1")
        rng = np.random.default_rng(1)
        x = rng.integers(-100, 100, (1, 20, 16, 16)).astype(np.float32)
        w = rng.integers(-100, 100, (24, 20, 3, 3)).astype(np.float32)
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [info("x", 1, x.shape)], [info("y", 1, None)],
                         initializers=[helper.make_tensor("w", 1, w.shape, w.ravel())])
        exact, = ferry.InferenceSession(model, options).run(None, {"x": x})
        windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64), (3, 3), axis=(1, 2))
        np.testing.assert_array_equal(exact[0], np.einsum("chwij,fcij->fhw", windows, w.astype(np.int64)))
        fast, = ferry.InferenceSession(model).run(None, {"x": x})
        self.assertGreater(np.abs(fast - exact).max(), 0)

    def test_packed_weights_are_kept(self):
        x = np.random.default_rng(1).standard_normal((4, 10)).astype(np.float32)
        expected, = ferry.InferenceSession(SIMPLE_NET).run(None, {"x": x})
        with tempfile.TemporaryDirectory() as folder:
            options = ferry.SessionOptions()
            options.add_session_config_entry("ferry.cache", os.path.join(folder, "packed"))
            made = None
            for _ in range(2):
                session = ferry.InferenceSession(SIMPLE_NET, options)
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
                file, = (entry for entry in os.scandir(os.path.join(folder, "packed")) if entry.name.endswith("weights"))
                self.assertIn(made, (None, file.stat().st_mtime_ns))
                made = file.stat().st_mtime_ns
                del session

    def test_precision(self):
        options = ferry.SessionOptions()
        with self.assertRaisesRegex(ferry.InvalidArgument, "float32, bf16, tf32 or fp16"):
            options.add_session_config_entry("ferry.precision", "fp8")
        options.add_session_config_entry("ferry.precision", "bf16")
        rng = np.random.default_rng(2)
        x, w = rng.random((3, 100), np.float32), rng.random((100, 40), np.float32)
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", 1, x.shape)],
                         [info("y", 1, None)], initializers=[helper.make_tensor("w", 1, w.shape, w.ravel())])
        full, = ferry.InferenceSession(model).run(None, {"x": x})
        bf16, = ferry.InferenceSession(model, options).run(None, {"x": x})
        error = np.abs(bf16 / full - 1).max()
        self.assertGreater(error, 1e-6)
        self.assertLess(error, 2.0 ** -8)

    def test_what_has_meaning(self):
        options = ferry.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ferry.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_free_dimension_override_by_name("batch", 2)
        session = ferry.InferenceSession(SIMPLE_NET, options)
        self.assertEqual(session._session.threads(), 1)
        self.assertEqual(session.run(None, {"x": np.ones((2, 10), np.float32)})[0].shape, (2, 3))
        with self.assertRaisesRegex(ferry.InvalidArgument, "fix to 2"):
            session.run(None, {"x": np.ones((3, 10), np.float32)})

    def test_initializers_can_be_replaced(self):
        options = ferry.SessionOptions()
        w = ferry.OrtValue.ortvalue_from_numpy(np.zeros((10, 3), np.float32))
        options.add_initializer("w", w)
        session = ferry.InferenceSession(ferry.example_model(), options)
        np.testing.assert_array_equal(session.run(None, {"x": np.ones((1, 10), np.float32)})[0], 0)
        options.add_initializer("w", ferry.OrtValue.ortvalue_from_numpy(np.zeros((3, 10), np.float32)))
        with self.assertRaisesRegex(ferry.InvalidArgument, "can't be replaced"):
            ferry.InferenceSession(ferry.example_model(), options)
        options = ferry.SessionOptions()
        options.add_external_initializers(["nothing"], [w])
        with self.assertRaisesRegex(ferry.InvalidArgument, "no initializer 'nothing'"):
            ferry.InferenceSession(ferry.example_model(), options)

    def test_profiles_are_chrome_traces(self):
        import json
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            options = ferry.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "trace")
            session = ferry.InferenceSession(SIMPLE_NET, options)
            self.assertGreater(session.get_profiling_start_time_ns(), 0)
            for _ in range(3):
                session.run(None, {"x": np.ones((2, 10), np.float32)})
            path = session.end_profiling()
            self.assertEqual(session.end_profiling(), "")
            with open(path) as file:
                events = json.load(file)
        steps = [event for event in events if event.get("cat") == "Node"]
        self.assertEqual(sum(event["name"] == "model_run" for event in events), 3)
        self.assertGreaterEqual(len(steps), 6)
        for step in steps:
            self.assertEqual(step["ph"], "X")
            self.assertGreaterEqual(step["dur"], 0)
            self.assertEqual(step["args"]["output_type_shape"][0]["float"][0], 2)
            self.assertGreater(step["args"]["output_size"], 0)
        self.assertEqual(ferry.InferenceSession(SIMPLE_NET).end_profiling(), "")


class Binding(Case):
    def setUp(self):
        super().setUp()
        self.session = ferry.InferenceSession(SIMPLE_NET)
        self.x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(2, 10)
        self.y = self.session.run(None, {"x": self.x})[0]

    def test_outputs_are_written_into_bound_memory(self):
        for how in ("ortvalue", "address"):
            with self.subTest(how):
                y = np.zeros((2, 3), np.float32)
                binding = self.session.io_binding()
                if how == "ortvalue":
                    binding.bind_ortvalue_input("x", ferry.OrtValue.ortvalue_from_numpy(self.x))
                    binding.bind_ortvalue_output("linear_1", ferry.OrtValue.ortvalue_from_numpy(y))
                else:
                    binding.bind_input("x", "cpu", 0, np.float32, self.x.shape, self.x.ctypes.data)
                    binding.bind_output("linear_1", "cpu", 0, np.float32, y.shape, y.ctypes.data)
                self.session.run_with_iobinding(binding)
                np.testing.assert_array_equal(y, self.y)
                self.assertEqual(binding.get_outputs()[0].data_ptr(), y.ctypes.data)

    def test_unbound_outputs_are_made(self):
        binding = self.session.io_binding()
        binding.bind_cpu_input("x", self.x)
        binding.bind_output("linear_1")
        self.session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], self.y)
        binding.clear_binding_inputs()
        with self.assertRaisesRegex(ferry.InvalidArgument, "missing"):
            self.session.run_with_iobinding(binding)

    def test_wrong_memory_is_refused(self):
        binding = self.session.io_binding()
        binding.bind_cpu_input("x", self.x)
        read_only = np.zeros((2, 3), np.float32)
        read_only.flags.writeable = False
        with self.assertRaisesRegex(ferry.InvalidArgument, "read-only"):
            binding.bind_ortvalue_output("linear_1", ferry.OrtValue.ortvalue_from_numpy(read_only))
        binding.bind_ortvalue_output("linear_1", ferry.OrtValue.ortvalue_from_numpy(np.zeros((3, 3), np.float32)))
        with self.assertRaisesRegex(ferry.InvalidArgument, r"bound to float\[3, 3\]"):
            self.session.run_with_iobinding(binding)
        with self.assertRaises(ferry.InvalidArgument):
            binding.bind_output("linear_1", "abacus")

    def test_ort_values(self):
        value, = self.session.run_with_ort_values(["linear_1"], {"x": ferry.OrtValue.ortvalue_from_numpy(self.x)})
        self.assertEqual((value.shape(), value.data_type(), value.element_type()), ([2, 3], "tensor(float)", 1))
        np.testing.assert_array_equal(value.numpy(), self.y)
        np.testing.assert_array_equal(np.asarray(value), self.y)
        self.assertEqual(value.tensor_size_in_bytes(), 24)
        made = ferry.OrtValue.ortvalue_from_shape_and_type([2, 10], np.float32)
        made.update_inplace(self.x)
        np.testing.assert_array_equal(self.session.run(None, {"x": made})[0], self.y)
        with self.assertRaises(ferry.InvalidArgument):
            made.update_inplace(self.x[:1])
        np.testing.assert_array_equal(np.from_dlpack(made), self.x)
        self.assertEqual(ferry.OrtValue.from_dlpack(self.x).data_ptr(), self.x.ctypes.data)

    def test_providers_are_chosen_and_told(self):
        self.assertEqual(ferry.get_all_providers(), ["CUDAExecutionProvider", "CPUExecutionProvider"])
        available = ferry.get_available_providers()
        self.assertEqual(available[-1], "CPUExecutionProvider")
        self.assertEqual(ferry.get_device(), "GPU" if len(available) == 2 else "CPU")
        options = {"device_id": 0, "gpu_mem_limit": 2 * 1024**3, "cudnn_conv_algo_search": "EXHAUSTIVE",
                   "arena_extend_strategy": "kNextPowerOfTwo", "do_copy_in_default_stream": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = ferry.InferenceSession(SIMPLE_NET, providers=[("CUDAExecutionProvider", options),
                                                                    "CPUExecutionProvider"])
        self.assertEqual(session.get_providers(), available)
        np.testing.assert_allclose(session.run(None, {"x": self.x})[0], self.y, atol=1e-5)
        with self.assertRaises(ValueError):
            ferry.InferenceSession(SIMPLE_NET, providers=["CPUExecutionProvider"], provider_options=[{}, {}])
        if len(available) == 2:
            for wrong in ({"device_id": 3}, {"cudnn_conv_algo_search": "GUESS"}, {"gpu_mem_limit": -1}):
                with self.assertRaises(ferry.InvalidArgument):
                    ferry.InferenceSession(SIMPLE_NET, providers=[("CUDAExecutionProvider", wrong)])

    def test_values_on_a_gpu(self):
        if "CUDAExecutionProvider" not in ferry.get_available_providers():
            with self.assertRaisesRegex(ferry.InvalidArgument, "'cuda' is not available: provider cuda cannot be used"):
                ferry.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
            with self.assertRaisesRegex(ferry.InvalidArgument, "'abacus' is not available"):
                ferry.OrtDevice("abacus")
            return
        session = ferry.InferenceSession(SIMPLE_NET, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        there = ferry.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
        self.assertEqual(there.device_name(), "cuda")
        np.testing.assert_array_equal(there.numpy(), self.x)
        binding = session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, [2, 10], there.data_ptr())
        binding.bind_output("linear_1", "cuda")
        session.run_with_iobinding(binding)
        made, = binding.get_outputs()
        self.assertEqual(made.__dlpack_device__(), (2, 0))
        np.testing.assert_allclose(made.numpy(), self.y, atol=1e-5)
        again = ferry.OrtValue.from_dlpack(made)
        self.assertEqual(again.data_ptr(), made.data_ptr())
        binding.bind_ortvalue_output("linear_1", again)
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], self.y, atol=1e-5)

    def test_run_async(self):
        import threading
        done, said = threading.Event(), []

        def callback(outputs, user_data, error):
            said.append((outputs, user_data, error))
            done.set()

        self.session.run_async(None, {"x": self.x}, callback, "mine")
        self.assertTrue(done.wait(60))
        np.testing.assert_array_equal(said[0][0][0], self.y)
        self.assertEqual(said[0][1:], ("mine", ""))
        done.clear()
        self.session.run_async(None, {}, callback, None)
        self.assertTrue(done.wait(60))
        self.assertIn("missing", said[1][2])


if __name__ == "__main__":
    unittest.main()
