#!/usr/bin/env python3
"""Holds every model in a folder against onnx.checker with inference. usage: check_with_onnx.py FOLDER"""
import pathlib
import sys

import onnx.checker

bad = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # the checker raises several types
        print(path.name, error)
        bad += 1
sys.exit(1 if bad else 0)
