"""Makes a wheel: python3 -m pip wheel --no-build-isolation --no-deps bindings/python

The compiled part is built by CMake in the folder that FERRY_BUILD names (usually build/ of the checkout), so that what is
built there already is used.
"""

import os
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("FERRY_BUILD") or os.path.join(ROOT, "build"))
SCRATCH = os.path.join(BUILD, "wheel")  # nothing is left in the source tree


def is_configured():
    """Whether the build folder is set up for this Python already."""
    try:
        with open(os.path.join(BUILD, "CMakeCache.txt")) as cache:
            lines = cache.read().splitlines()
    except FileNotFoundError:
        return False
    return "FERRY_PYTHON:BOOL=ON" in lines and any(
        line.startswith("Python3_EXECUTABLE:") and os.path.samefile(line.partition("=")[2], sys.executable) for line in lines)


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        if not is_configured():
            subprocess.check_call(["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, "-DFERRY_PYTHON=ON",
                                   f"-DPython3_EXECUTABLE={sys.executable}"])
        subprocess.check_call(["cmake", "--build", BUILD, "--target", "ferry_python"])
        target = self.get_ext_fullpath(extension.name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(BUILD, "python", "ferry", os.path.basename(target)), target)
        subprocess.check_call(["strip", "--strip-unneeded", target])


with open(os.path.join(ROOT, "CMakeLists.txt")) as cmake:
    version = re.search(r"project\(ferry VERSION ([0-9.]+)", cmake.read()).group(1)
os.makedirs(SCRATCH, exist_ok=True)
setup(version=version, ext_modules=[Extension("ferry._ferry", [])], cmdclass={"build_ext": CMakeBuild},
      options={"build": {"build_base": SCRATCH}, "egg_info": {"egg_base": SCRATCH}})
