"""The C interface through Python's foreign-function interface: the example, as a user runs it."""

import glob
import subprocess

from support import *

EXAMPLE = os.path.join(SOURCE, "examples", "python", "c_interface.py")


class CInterface(Case):
    def library(self):
        found = glob.glob(os.path.join(os.environ["FERRY_BUILD"], "libferry.so"))
        self.assertTrue(found, "libferry.so is not built")
        return found[0]

    def test_the_example_runs(self):
        said = subprocess.run([sys.executable, EXAMPLE, self.library(), SIMPLE_NET], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        first, *answers = said.stdout.splitlines()
        self.assertEqual(first, "x float[batch, 10] -> linear_1 float[batch, 3]")
        expected = ferry.InferenceSession(SIMPLE_NET).run(None, {"x": np.zeros((1, 10), np.float32)})[0]
        np.testing.assert_allclose([float(answer) for answer in answers], expected[0], rtol=1e-5)

    def test_errors_reach_the_caller(self):
        said = subprocess.run([sys.executable, EXAMPLE, self.library(), "/nowhere.onnx"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 1)
        self.assertIn("/nowhere.onnx: no such file", said.stderr)


if __name__ == "__main__":
    unittest.main()
