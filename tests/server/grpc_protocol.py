"""Every method over gRPC, by Debian's grpcio with stubs that are made here from the server's own .proto files."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from multiprocessing import shared_memory

import grpc
import numpy as np
from google.protobuf import json_format
from running_server import TYPES, Server, identity, sample, wire
from onnx import TensorProto

BINARY = sys.argv.pop(1)
stubs = tempfile.TemporaryDirectory()
protocol = os.path.join(os.path.dirname(__file__), "..", "..", "src", "server", "protocol")
names = ["inference.proto", "model_config.proto", "health.proto", "reflection_v1alpha.proto"]
subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{protocol}", f"--python_out={stubs.name}", *names], check=True, cwd=protocol)
sys.path.insert(0, stubs.name)
import health_pb2  # noqa: E402
import inference_pb2 as pb  # noqa: E402
import reflection_v1alpha_pb2 as reflection_pb2  # noqa: E402

server = channel = None


def call(method, request, response=None, service="inference.GRPCInferenceService", on=None, **options):
    kind = response or getattr(pb, method + "Response")
    return (on or channel).unary_unary(f"/{service}/{method}", lambda m: m.SerializeToString(), kind.FromString)(request, **{"timeout": 30, **options})


def tensor(request, name, datatype, shape, raw=None):
    added = request.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        request.raw_input_contents.append(raw)
    return added


def add(rows=1, **fields):
    request = pb.ModelInferRequest(model_name="add_sub", **fields)
    for name in "ab":
        tensor(request, name, "FP32", [rows, 3], np.arange(3 * rows, dtype=np.float32).tobytes())
    return request


class Calls(unittest.TestCase):
    def refused(self, code, text, *arguments, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def test_health_and_metadata(self):
        self.assertTrue(call("ServerLive", pb.ServerLiveRequest()).live)
        self.assertTrue(call("ServerReady", pb.ServerReadyRequest()).ready)
        self.assertIn("statistics", call("ServerMetadata", pb.ServerMetadataRequest()).extensions)
        self.assertTrue(call("ModelReady", pb.ModelReadyRequest(name="add_sub")).ready)
        self.assertFalse(call("ModelReady", pb.ModelReadyRequest(name="none")).ready)
        about = call("ModelMetadata", pb.ModelMetadataRequest(name="add_sub", version="1"))
        self.assertEqual((about.name, list(about.versions), list(about.inputs[1].shape)), ("add_sub", ["1"], [-1, 3]))
        self.refused(grpc.StatusCode.NOT_FOUND, "Request for unknown model: 'none' is not found", "ModelMetadata", pb.ModelMetadataRequest(name="none"))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "invalid model version specified '-1' , version should be an integral value > 0",
                     "ModelMetadata", pb.ModelMetadataRequest(name="add_sub", version="-1"))
        self.refused(grpc.StatusCode.UNIMPLEMENTED, "no such method", "Nothing", pb.ServerLiveRequest(), pb.ServerLiveResponse)
        status = call("Check", health_pb2.HealthCheckRequest(), health_pb2.HealthCheckResponse, "grpc.health.v1.Health")
        self.assertEqual(status.status, 1)

    def test_config_and_statistics(self):
        config = call("ModelConfig", pb.ModelConfigRequest(name="add_sub")).config
        self.assertEqual((config.max_batch_size, config.input[0].data_type, list(config.input[0].dims)), (8, 11, [3]))
        self.assertEqual(config.dynamic_batching.priority_queue_policy[2].max_queue_size, 100)
        self.assertEqual(config.parameters["intra_op_thread_count"].string_value, "1")
        self.assertEqual(config.version_policy.WhichOneof("policy_choice"), "all")  # an empty message is there, too
        call("ModelInfer", add())
        stats = call("ModelStatistics", pb.ModelStatisticsRequest(name="add_sub")).model_stats[0]
        self.assertGreater(stats.inference_stats.success.count, 0)
        self.assertTrue(stats.inference_stats.HasField("fail"))
        self.assertGreater(len(call("ModelStatistics", pb.ModelStatisticsRequest()).model_stats), 10)

    def test_settings(self):
        self.assertEqual(list(call("TraceSetting", pb.TraceSettingRequest()).settings["trace_level"].value), ["OFF"])
        request = pb.LogSettingsRequest()
        request.settings["log_verbose_level"].uint32_param = 0
        self.assertTrue(call("LogSettings", request).settings["log_info"].bool_param)

    def test_infer(self):
        answer = call("ModelInfer", add(2, id="7"))
        self.assertEqual((answer.id, answer.model_name, answer.model_version), ("7", "add_sub", "1"))
        outputs = {o.name: np.frombuffer(answer.raw_output_contents[i], np.float32) for i, o in enumerate(answer.outputs)}
        self.assertEqual(outputs["sum"].tolist(), [0, 2, 4, 6, 8, 10])

    def test_every_datatype(self):
        fields = {"BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
                  "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
                  "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents"}
        for datatype in TYPES:
            array = sample(datatype)
            request = pb.ModelInferRequest(model_name=f"identity_{datatype.lower()}")
            tensor(request, "x", datatype, [2, 4], wire(array, datatype))
            answer = call("ModelInfer", request)
            self.assertEqual(answer.raw_output_contents[0], wire(array, datatype), datatype)
            self.assertEqual(answer.outputs[0].datatype, datatype)
            if datatype not in fields:
                continue
            del request.raw_input_contents[:]
            getattr(request.inputs[0].contents, fields[datatype]).extend(array.ravel().tolist())
            self.assertEqual(call("ModelInfer", request).raw_output_contents[0], wire(array, datatype), datatype)

    def test_classification_and_compression(self):
        request = add()
        output = request.outputs.add(name="sum")
        output.parameters["classification"].int64_param = 1
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate):
            answer = call("ModelInfer", request, compression=compression)
            self.assertEqual(answer.raw_output_contents[0][4:], b"4.000000:2:plum")

    def test_errors(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        request = add()
        request.inputs[0].name = "c"
        self.refused(invalid, "unexpected inference input 'c' for model 'add_sub'", "ModelInfer", request)
        request = add()
        request.inputs[0].contents.fp32_contents.append(1)
        self.refused(invalid, "contents field must not be specified when using raw_input_contents", "ModelInfer", request)
        self.refused(invalid, "inference request batch-size must be <= 8 for 'add_sub'", "ModelInfer", add(9))
        request = add()
        request.raw_input_contents[0] = b"123"
        self.refused(invalid, "byte size", "ModelInfer", request)
        request = add()
        request.model_name = "none"
        self.refused(grpc.StatusCode.NOT_FOUND, "is not found", "ModelInfer", request)
        request = add()
        request.parameters["priority"].int64_param = -1
        self.refused(invalid, "priority", "ModelInfer", request)
        raw = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with self.assertRaises(grpc.RpcError):
            raw(b"\xff\xff\xff\xff", timeout=30)

    def test_deadline(self):
        # grpcio rounds up to a millisecond, in which the server may well answer.
        with tempfile.NamedTemporaryFile() as body:
            body.write(bytes(5))
            body.flush()
            command = ["curl", "-s", "-D", "-", "--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary",
                       "@" + body.name, f"http://127.0.0.1:{server.grpc_port}/inference.GRPCInferenceService/ServerLive"]
            late, in_time = (subprocess.run([*command, "-H", f"grpc-timeout: {time}"], capture_output=True, check=True).stdout for time in ("1n", "20S"))
        self.assertIn(b"grpc-status: 4", late)
        self.assertIn(b"grpc-status: 0", in_time)

    def test_stream(self):
        def requests():
            for i in range(20):
                request = add(id=str(i))
                if i == 10:
                    request.inputs[0].name = "c"
                yield request
        answers = list(channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer", lambda m: m.SerializeToString(),
                                             pb.ModelStreamInferResponse.FromString)(requests(), timeout=30))
        self.assertEqual([a.infer_response.id for a in answers], [str(i) for i in range(20)])
        self.assertEqual([i for i, a in enumerate(answers) if a.error_message], [10])
        self.assertIn("unexpected inference input", answers[10].error_message)
        self.assertTrue(answers[0].infer_response.parameters["triton_final_response"].bool_param)

    def test_stream_keeps_the_order(self):
        """Some answers come from other threads, errors at once: none overtakes another, and none is lost at the end."""
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer", lambda m: m.SerializeToString(),
                                       pb.ModelStreamInferResponse.FromString)
        for _ in range(5):
            requests = [add(id=str(i)) for i in range(400)]
            for broken in requests[2::3]:
                broken.model_name = "none"
            answers = list(stream(iter(requests), timeout=30))
            self.assertEqual([a.infer_response.id for a in answers], [str(i) for i in range(400)])

    def test_large(self):
        request = pb.ModelInferRequest(model_name="identity_fp32")
        data = np.random.rand(1 << 20, 4).astype(np.float32).tobytes()
        tensor(request, "x", "FP32", [1 << 20, 4], data)
        limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", limits) as wide:
            self.assertEqual(call("ModelInfer", request, on=wide).raw_output_contents[0], data)

    def test_shared_memory(self):
        region = shared_memory.SharedMemory(create=True, size=64)
        try:
            region.buf[:12] = np.array([1, 2, 3], np.float32).tobytes()
            register = pb.SystemSharedMemoryRegisterRequest(name="g", key="/" + region.name, byte_size=64)
            call("SystemSharedMemoryRegister", register)
            self.refused(grpc.StatusCode.ALREADY_EXISTS, "already in manager", "SystemSharedMemoryRegister", register)
            self.assertEqual(call("SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest()).regions["g"].byte_size, 64)
            request = pb.ModelInferRequest(model_name="add_sub")
            for place in [tensor(request, n, "FP32", [1, 3]) for n in "ab"] + [request.outputs.add(name="sum")]:
                place.parameters["shared_memory_region"].string_param = "g"
                place.parameters["shared_memory_byte_size"].int64_param = 12
            request.outputs[0].parameters["shared_memory_offset"].int64_param = 32
            call("ModelInfer", request)
            self.assertEqual(np.frombuffer(bytes(region.buf[32:44]), np.float32).tolist(), [2, 4, 6])
            call("SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name="g"))
            self.assertEqual(len(call("CudaSharedMemoryStatus", pb.CudaSharedMemoryStatusRequest()).regions), 0)
        finally:
            region.close()
            region.unlink()

    def test_repository(self):
        index = call("RepositoryIndex", pb.RepositoryIndexRequest())
        self.assertIn(("add_sub", "1", "READY"), [(m.name, m.version, m.state) for m in index.models])
        self.refused(grpc.StatusCode.UNAVAILABLE, "not allowed", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="add_sub"))
        with Server(BINARY, "--model-control-mode=explicit") as other, grpc.insecure_channel(f"127.0.0.1:{other.grpc_port}") as there:
            call("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="add_sub"), on=there)
            self.assertTrue(call("ModelReady", pb.ModelReadyRequest(name="add_sub"), on=there).ready)
            request = pb.RepositoryModelLoadRequest(model_name="sent")
            request.parameters["config"].string_param = json.dumps({"max_batch_size": 2})
            with open(other.repository + "/add_sub/1/model.onnx", "rb") as file:
                request.parameters["file:1/model.onnx"].bytes_param = file.read()
            call("RepositoryModelLoad", request, on=there)
            self.assertEqual(call("ModelConfig", pb.ModelConfigRequest(name="sent"), on=there).config.max_batch_size, 2)
            call("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="sent"), on=there)
            self.assertFalse(call("ModelReady", pb.ModelReadyRequest(name="sent"), on=there).ready)
            for preserving in (True, False):  # a configuration goes back in any form of JSON that protobuf writes
                config = call("ModelConfig", pb.ModelConfigRequest(name="add_sub"), on=there).config
                request = pb.RepositoryModelLoadRequest(model_name="add_sub")
                request.parameters["config"].string_param = json_format.MessageToJson(config, preserving_proto_field_name=preserving)
                call("RepositoryModelLoad", request, on=there)
                self.assertEqual(call("ModelConfig", pb.ModelConfigRequest(name="add_sub"), on=there).config, config)

    def test_repository_errors(self):
        with Server(BINARY, "--model-control-mode=explicit") as other, grpc.insecure_channel(f"127.0.0.1:{other.grpc_port}") as there:
            for method in ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"):
                request = getattr(pb, method + "Request")(repository_name="x")
                self.refused(grpc.StatusCode.UNIMPLEMENTED, "'repository_name' specification is not supported", method, request, on=there)
            request = pb.RepositoryModelUnloadRequest(model_name="add_sub")
            request.parameters["unload_dependents"].string_param = "x"
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, "invalid value type for 'unload_dependents' parameter, expected bool_param.",
                         "RepositoryModelUnload", request, on=there)
            for key, text in (("config", "'config', expected string_param."), ("file:1/model.onnx", "'file:1/model.onnx', expected bytes_param."),
                              ("other", "unrecognized load parameter 'other'.")):
                request = pb.RepositoryModelLoadRequest(model_name="add_sub")
                request.parameters[key].int64_param = 3
                self.refused(grpc.StatusCode.INVALID_ARGUMENT, text, "RepositoryModelLoad", request, on=there)
            self.refused(grpc.StatusCode.INTERNAL, "failed to load 'none', failed to poll from model repository", "RepositoryModelLoad",
                         pb.RepositoryModelLoadRequest(model_name="none"), on=there)

    def test_batches_that_are_wished_for(self):
        """Four requests at once are one run of the size that is preferred, however short a run is."""
        with tempfile.TemporaryDirectory() as folder:
            identity(folder + "/m/1/model.onnx", TensorProto.FLOAT)
            with open(folder + "/m/config.pbtxt", "w") as file:
                file.write("max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 500000 }")
            with Server(BINARY, repository=folder) as other, grpc.insecure_channel(f"127.0.0.1:{other.grpc_port}") as there:
                request = pb.ModelInferRequest(model_name="m")
                tensor(request, "x", "FP32", [1, 4], bytes(16))
                ask = there.unary_unary("/inference.GRPCInferenceService/ModelInfer", lambda m: m.SerializeToString(), pb.ModelInferResponse.FromString)
                begun = time.time()
                for _ in range(5):
                    for answer in [ask.future(request, timeout=10) for _ in range(4)]:
                        answer.result()
                self.assertLess(time.time() - begun, 2)
                stats = call("ModelStatistics", pb.ModelStatisticsRequest(name="m"), on=there).model_stats[0]
                self.assertEqual((stats.inference_count, stats.execution_count), (20, 5))
                begun = time.time()
                ask(request, timeout=10)
                self.assertGreaterEqual(time.time() - begun, 0.49)

    def test_health_watch(self):
        def watch(name, on=None):
            return (on or channel).unary_stream("/grpc.health.v1.Health/Watch", lambda m: m.SerializeToString(),
                                                health_pb2.HealthCheckResponse.FromString)(health_pb2.HealthCheckRequest(service=name), timeout=30)
        unknown = watch("nothing")
        self.assertEqual(next(unknown).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        unknown.cancel()
        with Server(BINARY, "--drain-delay=1") as other, grpc.insecure_channel(f"127.0.0.1:{other.grpc_port}") as there:
            watched = watch("", there)
            self.assertEqual(next(watched).status, health_pb2.HealthCheckResponse.SERVING)
            other.process.terminate()
            self.assertEqual(next(watched).status, health_pb2.HealthCheckResponse.NOT_SERVING)
            with self.assertRaises(grpc.RpcError):
                next(watched)

    def test_trace_settings(self):
        def settings(model="", **changes):
            request = pb.TraceSettingRequest(model_name=model)
            for key, values in changes.items():
                request.settings[key].value.extend(values)
            return {key: list(value.value) for key, value in call("TraceSetting", request).settings.items()}
        before = settings()
        self.assertEqual((before["trace_level"], before["trace_rate"], before["trace_count"]), (["OFF"], ["1000"], ["-1"]))
        self.assertEqual(settings("add_sub", trace_rate=["7"], trace_level=["TIMESTAMPS", "TENSORS"])["trace_level"], ["TIMESTAMPS", "TENSORS"])
        self.assertEqual(settings(trace_count=["5"])["trace_rate"], ["1000"])
        self.assertEqual((settings("add_sub")["trace_rate"], settings("add_sub")["trace_count"]), (["7"], ["5"]))
        settings("add_sub", trace_rate=[], trace_level=[])
        settings(trace_count=[])
        self.assertEqual(settings("add_sub"), before)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "trace_rate", "TraceSetting",
                     pb.TraceSettingRequest(settings={"trace_rate": pb.TraceSettingRequest.SettingValue(value=["often"])}))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "unknown model", "TraceSetting", pb.TraceSettingRequest(model_name="none"))

    def test_keepalive(self):
        options = [("grpc.keepalive_time_ms", 100), ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0),
                   ("grpc.http2.min_time_between_pings_ms", 100)]
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) as pinging:
            for _ in range(2):
                self.assertTrue(call("ServerLive", pb.ServerLiveRequest(), on=pinging).live)
                time.sleep(0.5)

    def test_refused_regions(self):
        cuda = pb.CudaSharedMemoryRegisterRequest(name="c", raw_handle=b"x" * 64, byte_size=64)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "GPUs not supported", "CudaSharedMemoryRegister", cuda)
        self.refused(grpc.StatusCode.NOT_FOUND, "Unable to find", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(name="none"))
        with Server(BINARY, "--allow-client-shm=false") as other, grpc.insecure_channel(f"127.0.0.1:{other.grpc_port}") as there:
            for method in ("SystemSharedMemoryRegister", "SystemSharedMemoryUnregister", "CudaSharedMemoryRegister"):
                self.refused(grpc.StatusCode.UNIMPLEMENTED, "Client shared memory is disabled", method,
                             getattr(pb, method + "Request")(name="g"), on=there)

    def test_statistics_of_unknown(self):
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "requested model 'none' is not available", "ModelStatistics",
                     pb.ModelStatisticsRequest(name="none"))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "requested model version is not available for model 'add_sub'", "ModelStatistics",
                     pb.ModelStatisticsRequest(name="add_sub", version="9"))

    def test_reflection(self):
        from google.protobuf import descriptor_pb2, descriptor_pool
        ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", lambda m: m.SerializeToString(),
                                    reflection_pb2.ServerReflectionResponse.FromString)
        first, second = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="*"),
                                  reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.GRPCInferenceService")]), timeout=30)
        self.assertIn("inference.GRPCInferenceService", [s.name for s in first.list_services_response.service])
        pool = descriptor_pool.DescriptorPool()
        for data in reversed(second.file_descriptor_response.file_descriptor_proto):
            pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
        found = pool.FindMessageTypeByName("inference.ModelInferRequest")
        self.assertEqual(found.fields_by_name["raw_input_contents"].number, 7)


if __name__ == "__main__":
    with Server(BINARY) as server:
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
        channel.close()
    sys.exit(not result.wasSuccessful())
