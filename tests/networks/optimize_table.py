#!/usr/bin/env python3
"""What 'ferry optimize' makes of whole networks, as a table in Markdown: nodes and weights before and after, and how far the
outputs are apart on made-up inputs. Fails when a network has more nodes than before, or a proof does not hold.

    optimize_table.py FERRY MODEL.onnx|FOLDER...

Of a folder, every torch.onnx and *.onnx below it is taken. Where Python's onnx is installed, its checker looks at the result,
written for opset 17 by 'ferry convert' (what onnx 1.12 knows): 'valid', or why there is none of that opset.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import onnx
except ImportError:
    onnx = None
KNOWN_OPSET = 17


def models(places):
    for place in places:
        if os.path.isfile(place):
            yield os.path.splitext(os.path.basename(place))[0], place
            continue
        for folder, _, names in sorted(os.walk(place)):
            for name in sorted(names):
                if name == "torch.onnx":
                    yield os.path.basename(folder), os.path.join(folder, name)
                elif name.endswith(".onnx") and "torch" not in name:
                    yield name[:-5], os.path.join(folder, name)


def checked(ferry, path, folder):
    if not onnx:
        return "–"
    converted = os.path.join(folder, "converted.onnx")
    made = subprocess.run([ferry, "convert", path, "--opset", str(KNOWN_OPSET), "-o", converted], capture_output=True, text=True)
    if made.returncode != 0:
        return "– (" + made.stderr.strip().split(": ")[-1][:50] + ")"
    try:
        onnx.checker.check_model(converted)
        return "valid"
    except Exception as error:  # whatever the checker has to say
        return "NOT VALID: " + str(error).splitlines()[0][:80]


def megabytes(count):
    return f"{count / 1e6:.3g}"


def main():
    ferry, places = sys.argv[1], sys.argv[2:]
    faults = total_before = total_after = 0
    print("| network | nodes | optimised | weights, MB | optimised | largest difference | onnx's checker |")
    print("|---|---|---|---|---|---|---|")
    for name, path in models(places):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "optimised.onnx")
            ran = subprocess.run([ferry, "optimize", path, "-o", out, "--json"], capture_output=True, text=True)
            if ran.returncode not in (0, 1) or not ran.stdout.startswith("{"):
                print(f"| {name} | FAILED: {ran.stderr.strip()[:100]} | | | | | |", flush=True)
                faults += 1
                continue
            told = json.loads(ran.stdout)
            before, after = told["nodes_before"], told["nodes_after"]
            holds = ran.returncode == 0 and all(step["holds"] for step in told["proof"])
            difference = max((step["max_abs"] for step in told["proof"]), default=0)
            verdict = checked(ferry, out, folder) if holds else "–"
            faults += after > before or not holds or verdict.startswith("NOT")
            total_before, total_after = total_before + before, total_after + after
            said = f"{difference:.2g}" if holds else "NOT PROVED: " + "; ".join(step["detail"] for step in told["proof"])[:80]
            print(f"| {name} | {before} | {after} | {megabytes(told['weight_bytes_before'])} | "
                  f"{megabytes(told['weight_bytes_after'])} | {said} | {verdict} |", flush=True)
    print(f"| all | {total_before} | {total_after} | | | | |")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
