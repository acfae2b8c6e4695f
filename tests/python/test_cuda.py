"""On an NVIDIA GPU, with PyTorch's tensors: where either is missing, nothing is tested here."""
import threading
import unittest

from support import *

try:
    import torch
except ImportError:
    torch = None

GPU = ["CUDAExecutionProvider", "CPUExecutionProvider"]


@unittest.skipUnless(GPU[0] in ferry.get_available_providers(), "there is no NVIDIA GPU that can be used")
class OnAGpu(Case):
    def setUp(self):
        self.x = np.random.default_rng(1).standard_normal((2, 10)).astype(np.float32)
        self.y = ferry.InferenceSession(SIMPLE_NET).run(None, {"x": self.x})[0]
        self.session = ferry.InferenceSession(SIMPLE_NET, providers=GPU)

    @unittest.skipUnless(torch, "PyTorch is missing")
    def test_tensors_of_pytorch_go_in_and_out_without_a_copy(self):
        tensor = torch.from_numpy(self.x).cuda()
        torch.cuda.synchronize()
        value = ferry.OrtValue.from_dlpack(tensor)
        self.assertEqual((value.device_name(), value.data_ptr()), ("cuda", tensor.data_ptr()))
        binding = self.session.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("linear_1", "cuda")
        self.session.run_with_iobinding(binding)
        made, = binding.get_outputs()
        there = torch.from_dlpack(made)
        self.assertEqual((there.device.type, there.data_ptr()), ("cuda", made.data_ptr()))
        np.testing.assert_allclose(there.cpu().numpy(), self.y, atol=1e-5)

    @unittest.skipUnless(torch, "PyTorch is missing")
    def test_results_are_written_into_a_tensor_of_pytorch(self):
        tensor, made = torch.from_numpy(self.x).cuda(), torch.full((2, 3), -1.0, device="cuda")
        torch.cuda.synchronize()
        binding = self.session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, [2, 10], tensor.data_ptr())
        binding.bind_output("linear_1", "cuda", 0, np.float32, [2, 3], made.data_ptr())
        for _ in range(3):  # the second and third run are recorded and played
            made.fill_(-1)
            torch.cuda.synchronize()
            self.session.run_with_iobinding(binding)
            np.testing.assert_allclose(made.cpu().numpy(), self.y, atol=1e-5)

    def test_eight_threads_share_a_session(self):
        made = [None] * 8

        def ask(i):
            for _ in range(20):
                made[i] = self.session.run(None, {"x": self.x})[0]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in made:
            np.testing.assert_array_equal(one, made[0])
        np.testing.assert_allclose(made[0], self.y, atol=1e-5)

    def test_another_device_is_refused(self):
        for wrong in (1, 99):
            with self.assertRaisesRegex(ferry.InvalidArgument, "device"):
                ferry.OrtValue.ortvalue_from_numpy(self.x, "cuda", wrong)


if __name__ == "__main__":
    unittest.main()
