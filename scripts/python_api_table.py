#!/usr/bin/env python3
"""Holds the package against onnxruntime's documented interface (onnxruntime_names.txt), name by name, and prints the
table of docs/python.md; with --write, puts it there.

    PYTHONPATH=build/python python3 scripts/python_api_table.py [--write]
"""

import importlib
import inspect
import os
import re
import sys

import ferry
import ferry.backend

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "python.md")
BEGIN, END = "<!-- made by scripts/python_api_table.py -->\n", "<!-- end -->\n"

# Why a name is not there; the longest prefix counts.
WHY_NOT = {
    "AdapterFormat": "adapters are onnxruntime's own file format",
    "LoraAdapter": "adapters are onnxruntime's own file format",
    "ModelCompiler": "a model is prepared in milliseconds when it is opened; there is nothing to compile ahead",
    "OrtCompileApiFlags": "a model is prepared in milliseconds when it is opened; there is nothing to compile ahead",
    "OrtAllocatorType": "memory is planned before the run",
    "OrtArenaCfg": "memory is planned before the run",
    "OrtMemType": "memory is planned before the run",
    "OrtMemoryInfo": "memory is planned before the run, and is the CPU's",
    "OrtExternalInitializerInfo": "belongs to ModelCompiler",
    "OrtSparseFormat": "sparse tensors are kept as coordinates",
    "OrtSyncStream": "results are complete when a run has ended; there are no streams to wait for",
    "Ort": "providers are chosen by name when a session is opened",
    "create_and_register_allocator": "memory is planned before the run; for memory of your own, bind outputs",
    "copy_tensors": "use OrtValue.update_inplace",
    "get_ep_devices": "providers are chosen by name when a session is opened",
    "register_execution_provider_library": "provider libraries are built for onnxruntime",
    "unregister_execution_provider_library": "provider libraries are built for onnxruntime",
    "InferenceSession.get_input_": "inputs are taken where they lie, and results are on the CPU unless they are bound elsewhere",
    "InferenceSession.get_output_memory_infos": "inputs are taken where they lie, and results are on the CPU unless they are bound elsewhere",
    "InferenceSession.get_provider_graph_assignment_info": "ferry info --plan lists which node runs where",
    "InferenceSession.set_tuning_results": "nothing is tuned at run time",
    "SessionOptions.add_provider": "providers are given to InferenceSession",
    "SessionOptions.set_provider_selection_policy": "providers are chosen by name when a session is opened",
    "SessionOptions.set_load_cancellation_flag": "opening a model takes milliseconds",
    "SessionOptions.add_external_initializers_from_files_in_memory": "use add_external_initializers",
    "quantization.quantize_qat": "a trained QDQ model runs as it is",
    "quantization.get_qdq_config": "give quantize_static what the configuration would say",
    "quantization.write_calibration_table": "TensorRT's tables; quantize for it with target=\"tensorrt\"",
    "quantization.calibrate.create_calibrator": "ferry.quantize has the ranges in its report",
    "quantization.matmul_nbits_quantizer.KQuantWeightOnlyQuantConfig": "GPTQ loses less; HQQ needs no data either",
}
WITHOUT_EFFECT = ("No effect", "Remembered, without effect")


def instances():
    """Objects of classes whose attributes only their objects have."""
    session = ferry.InferenceSession(ferry.example_model())
    return {"SessionOptions": ferry.SessionOptions(), "RunOptions": ferry.RunOptions(), "NodeArg": session.get_inputs()[0],
            "ModelMetadata": session.get_modelmeta()}


def find(name, objects):
    """What `name` is here; None when it is not."""
    owner, _, member = name.rpartition(".")
    if not owner:
        return getattr(ferry, member, None)
    if owner == "backend":
        return getattr(ferry.backend, member, None)
    if owner.startswith("quantization"):
        return getattr(importlib.import_module("ferry." + owner), member, None)
    where = getattr(ferry, owner, None)
    if where is not None and member in vars(where):
        return getattr(where, member)
    return object if hasattr(objects.get(owner, where), member) else None


def parameters(text):
    """The names of a signature's parameters, without stars and defaults."""
    inner = re.match(r"\(([^)]*)\)", text)
    return [part.split("=")[0].strip("* ") for part in inner.group(1).split(",") if part.strip(" *")] if inner else None


def accepts(function, wanted):
    """Whether the parameters of onnxruntime are ours too, in its order; more with defaults may follow."""
    ours = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "_")]
    names = [p.name for p in ours]
    if any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values()):
        return True
    return names[:len(wanted)] == wanted and all(p.default is not p.empty or p.kind == p.VAR_KEYWORD for p in ours[len(wanted):])


def first_sentence(text):
    return re.split(r"(?<=[.])\s|\n\n", " ".join((text or "").split(">>>")[0].split()))[0].rstrip(".")


def describe(name, signature, objects):
    """(name with its signature, yes or no, remark) of one row."""
    label = f"`{name}{signature}`".replace("|", "\\|")
    found = find(name, objects)
    if found is None:
        prefix = max((prefix for prefix in WHY_NOT if name.startswith(prefix)), key=len, default=None)
        if prefix is None:
            raise SystemExit(f"{name} is not there, and scripts/python_api_table.py does not say why")
        return label, "no", WHY_NOT[prefix]
    doc = first_sentence(getattr(found, "__doc__", "") if found is not object and not isinstance(found, int) else "")
    if doc.startswith("Refused"):
        return label, "no", "raises NotImplemented: " + doc.partition(": ")[2]
    if doc.startswith(WITHOUT_EFFECT):
        return label, "warns once", doc.partition(": ")[2] + ": no effect"
    wanted = parameters(signature)
    if wanted is not None and inspect.isroutine(found) and not accepts(found, wanted):
        raise SystemExit(f"{name}{signature} has other parameters here: {inspect.signature(found)}")
    if "never raised here" in doc:
        return label, "yes", "never raised here"
    return label, "yes", ""


def rows():
    objects = instances()
    with open(os.path.join(ROOT, "bindings", "python", "onnxruntime_names.txt")) as names:
        for line in names.read().splitlines():
            if line.startswith("#"):
                continue
            name, signature = re.match(r"([\w.]+)(.*)", line).groups()
            yield describe(name, signature, objects)


def table():
    found = list(rows())
    counts = {what: sum(row[1] == what for row in found) for what in ("yes", "warns once", "no")}
    lines = [f"{len(found)} names: {counts['yes']} yes, {counts['warns once']} accepted without effect (with a warning), "
             f"{counts['no']} no.", "", "| onnxruntime 1.30 | here | |", "|---|---|---|"]
    lines += [f"| {label} | {status} | {remark} |" for label, status, remark in found]
    return "\n".join(lines) + "\n"


def with_table(page):
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--write" in sys.argv:
        with open(PAGE) as page:
            text = with_table(page.read())
        with open(PAGE, "w") as page:
            page.write(text)
    else:
        print(table(), end="")
