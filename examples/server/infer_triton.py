"""A request with Triton's own client (pip install tritonclient[http]): infer_triton.py HOST:PORT MODEL INPUT COUNT"""
import sys

import numpy as np
import tritonclient.http as client

address, model, name, count = sys.argv[1:5]
server = client.InferenceServerClient(address)
assert server.is_model_ready(model)
tensor = client.InferInput(name, [1, int(count)], "FP32")
tensor.set_data_from_numpy(np.ones((1, int(count)), np.float32))
result = server.infer(model, [tensor], request_id="example")
for output in result.get_response()["outputs"]:
    print(output["name"], result.as_numpy(output["name"]))
