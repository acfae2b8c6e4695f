"""src/onnx/schemas is what scripts/generate-schemas makes of the JSON beside it."""
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    shutil.copytree("scripts", os.path.join(folder, "scripts"))
    made = os.path.join(folder, "src", "onnx", "schemas")
    os.makedirs(made)
    subprocess.run([sys.executable, os.path.join(folder, "scripts", "generate-schemas")], check=True)
    old = [name for name in os.listdir(made) if not filecmp.cmp(os.path.join(made, name), f"src/onnx/schemas/{name}", False)]
    if old or not os.listdir(made):
        sys.exit(f"not up to date: {old}; run scripts/generate-schemas")
print("the schemas are up to date")
