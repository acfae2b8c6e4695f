// A request from JavaScript (node or a browser), with tensors as bytes: node infer.mjs URL MODEL INPUT COUNT
const [url, model, input, count] = process.argv.slice(2);
const values = new Float32Array(Number(count)).fill(1);
const header = new TextEncoder().encode(JSON.stringify({
  inputs: [{ name: input, datatype: "FP32", shape: [1, values.length], parameters: { binary_data_size: values.byteLength } }],
  parameters: { binary_data_output: true },
}));
const answer = await fetch(`${url}/v2/models/${model}/infer`, {
  method: "POST",
  headers: { "Inference-Header-Content-Length": String(header.length), "Content-Type": "application/octet-stream" },
  body: new Blob([header, values]),
});
const bytes = await answer.arrayBuffer();
if (!answer.ok) throw new Error(new TextDecoder().decode(bytes));
let at = Number(answer.headers.get("Inference-Header-Content-Length"));
for (const output of JSON.parse(new TextDecoder().decode(bytes.slice(0, at))).outputs) {
  const size = output.parameters.binary_data_size;
  console.log(output.name, output.shape, ...new Float32Array(bytes.slice(at, at + size)).slice(0, 8));
  at += size;
}
