"""A wheel is built, installed into an empty folder, and works from there."""

import glob
import subprocess
import tempfile

from support import *


class Wheel(Case):
    def test_builds_and_works(self):
        build = os.environ["FERRY_BUILD"]
        with tempfile.TemporaryDirectory() as folder:
            def pip(*arguments):
                done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *arguments],
                                      capture_output=True, text=True, env={**os.environ, "FERRY_BUILD": build})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

            pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder,
                os.path.join(SOURCE, "bindings", "python"))
            wheel, = glob.glob(os.path.join(folder, "ferry-*.whl"))
            installed = os.path.join(folder, "installed")
            pip("install", "--no-deps", "--no-index", "--target", installed, wheel)
            for name in ("py.typed", "_ferry.pyi", "backend.py", "capi/onnxruntime_pybind11_state.py"):
                self.assertTrue(os.path.exists(os.path.join(installed, "ferry", name)), name)
            script = ("import ferry, numpy as np; assert ferry.__file__.startswith(%r), ferry.__file__; "
                      "print(ferry.InferenceSession(ferry.example_model()).run(None, {'x': np.zeros((1, 10), np.float32)})[0])")
            said = subprocess.run([sys.executable, "-c", script % installed], capture_output=True, text=True, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": installed})
            self.assertEqual((said.returncode, said.stdout), (0, "[[0. 0. 0.]]\n"), said.stderr)


if __name__ == "__main__":
    unittest.main()
