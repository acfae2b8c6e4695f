#!/usr/bin/env python3
"""Holds 'ferry check' against onnx.checker (full check) on many models.

usage: tests/peers/compare_checker.py FERRY MODEL_OR_FOLDER...

Needs the Python package onnx (Debian: python3-onnx, version 1.12). Models of IR versions and opsets that the installed
onnx does not know are left out. Every difference in the verdict is printed; those whose reason is known (EXPLAINED) are
counted apart. Exit status 0 when there is no other.
"""
import json
import pathlib
import subprocess
import sys

import onnx
import onnx.checker

# Rules by which Ferry refuses what onnx 1.12 lets pass, and why it does.
EXPLAINED = {
    "attribute.reference": "onnx does not look whether the function declares the attribute, or whether there is a function",
    "body.inputs": "onnx infers into bodies and takes extra inputs for outer values",
    "body.outputs": "onnx 1.12 compares outputs only where it infers their types",
    "call.attribute": "onnx does not hold calls against the functions they call",
    "call.inputs": "onnx does not hold calls against the functions they call",
    "call.outputs": "onnx does not hold calls against the functions they call",
    "function.duplicate": "onnx 1.12 takes the last of two functions",
    "function.ir-version": "onnx does not look at functions below IR version 8",
    "function.name-missing": "onnx 1.12 refuses the call, not the function, or neither",
    "function.output-undefined": "onnx does not look where a function's outputs come from",
    "function.recursion": "onnx 1.12 does not follow calls",
    "graph.duplicate-output": "a value may be listed as an output twice",
    "graph.output-undefined": "onnx 1.12 does not look where a graph's outputs come from",
    "graph.missing": "onnx calls the missing name of a missing graph the fault",
    "inference.node": "onnx 1.12 checks less while inferring",
    "model.opset-duplicate": "onnx takes the last of two imports",
    "model.opset-future": "onnx 1.12 takes the newest schema it has for an opset it does not know",
    "node.input-type": "onnx 1.12 checks types only where it infers",
    "node.types-differ": "onnx 1.12 checks types only where it infers",
    "tensor.data": "onnx 1.12 does not count elements against the shape",
    "tensor.external": "onnx 1.12 looks for the file only by path, or not at all",
    "tensor.shape": "onnx 1.12 multiplies dimensions without looking for overflow or sign",
    "tensor.type": "onnx 1.12 takes any number for an element type where it does not read the data",
    "training.binding": "onnx does not look at training information",
    "graph.undefined-input": "onnx does not look at training information",
    "value.name-missing": "onnx 1.12 lets a nameless value pass",
}

# What onnx says where it refuses what Ferry lets pass, and why Ferry does.
EXPLAINED_REFUSALS = {
    "sparse_tensor(": "onnx gives a sparse initializer a type that no operator takes; the standard calls it an encoding",
}


def models(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def is_known(path):
    """Whether the installed onnx knows the model's IR version and opsets."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:
        return False
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": 3, "ai.onnx.preview.training": 1}
    known = all(o.version <= newest[o.domain] or o.version > 90 for o in model.opset_import if o.domain in newest)
    return known and (model.ir_version <= onnx.IR_VERSION or model.ir_version > 90)


def peer_verdict(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
        return ""
    except Exception as error:
        return str(error).strip() or type(error).__name__


def our_verdict(ferry, path):
    done = subprocess.run([ferry, "check", "--json", str(path)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        return [{"rule": "unreadable", "message": done.stderr.strip()}]
    return [p for p in json.loads(done.stdout)["problems"] if p["severity"] == "error"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    checked = same = explained = 0
    unexplained = []
    for path in models(sys.argv[2:]):
        if not is_known(path):
            continue
        checked += 1
        peer, ours = peer_verdict(path), our_verdict(sys.argv[1], path)
        if bool(peer) == bool(ours):
            same += 1
            continue
        rules = {p["rule"] for p in ours}
        refusals = [reason for text, reason in EXPLAINED_REFUSALS.items() if text in peer]
        if ours and rules <= EXPLAINED.keys():
            explained += 1
            print(f"explained {path.name}: {', '.join(sorted(rules))}: {EXPLAINED[sorted(rules)[0]]}")
        elif refusals and not ours:
            explained += 1
            print(f"explained {path.name}: {refusals[0]}")
        else:
            unexplained.append(path)
            print(f"DIFFERS {path}\n  onnx:  {peer.splitlines()[0] if peer else 'valid'}"
                  f"\n  ferry: {[(p['rule'], p['message']) for p in ours] or 'valid'}")
    print(f"{checked} models checked by both: {same} same verdict, {explained} explained differences, "
          f"{len(unexplained)} unexplained")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
