"""Where onnxruntime keeps its compiled part; here only so that imports of its exceptions go on working."""
