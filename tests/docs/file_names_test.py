"""Files that documents and comments name are there."""
import os
import re
import subprocess
import sys

ROOMS = ("src include tests docs scripts cmake bench bindings examples base tensor kernels image graph onnx ops torch nn "
         "passes engine providers convert measure doctor generate api cli server").split()
NAME = re.compile(r"(?<![\w./<-])((?:" + "|".join(ROOMS) + r")/[\w./-]+\.(?:cc|h|hpp|cmake|py|sh|md))\b")


def files():
    """Those of the repository; where there is no git, all that no build made."""
    try:
        yield from subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        for folder, folders, names in os.walk("."):
            folders[:] = [name for name in folders if not name.startswith(("build-", ".git")) and (folder, name) != (".", "build")]
            yield from (os.path.relpath(os.path.join(folder, name)) for name in names)


def texts():
    for path in files():
        if path.startswith("src/doctor/targets/"):
            continue  # other projects' files
        if path.endswith(".md"):
            yield path, open(path, encoding="utf-8").read()
        elif path.endswith((".cc", ".h", ".hpp")):
            lines = open(path, encoding="utf-8").read().split("\n")
            yield path, "\n".join(line[line.find("//"):] if "//" in line else "" for line in lines)


missing = []
for path, text in texts():
    for number, line in enumerate(text.split("\n"), 1):
        for name in NAME.findall(line):
            if "NAME" in name or name.startswith("torch/_export/"):
                continue  # a pattern; a file of PyTorch
            if not any(os.path.exists(os.path.join(root, name)) for root in ("", "src", "include", os.path.dirname(path))):
                missing.append(f"{path}:{number}: there is no {name}")
print("\n".join(missing) or "every file that is named is there")
sys.exit(bool(missing))
