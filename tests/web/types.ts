// Programs written for onnxruntime-web, as TypeScript sees them: scripts/test_web compiles this against the package's types.
import * as ort from 'ferry-web/run';
import ferry, {check, compare, doctor, exportModel, InferenceSession as Session, Tensor as AnyTensor} from 'ferry-web';
import type {Env, InferenceSession, Tensor, TypedTensor} from 'ferry-web/run';

export async function classify(pixels: Float32Array, labels: readonly string[]): Promise<[string, number][]> {
  ort.env.wasm.numThreads = 2;
  ort.env.wasm.wasmPaths = '/static/';
  ort.env.wasm.proxy = true;
  ort.env.logLevel = 'warning';
  const options: ort.InferenceSession.SessionOptions = {
    executionProviders: ['webgpu', {name: 'wasm'}],
    graphOptimizationLevel: 'all',
    freeDimensionOverrides: {batch: 1},
    externalData: [{path: 'model.onnx.data', data: '/model.onnx.data'}],
    enableCpuMemArena: true,
    extra: {session: {set_denormal_as_zero: '1'}},
  };
  const session: ort.InferenceSession = await ort.InferenceSession.create('/model.onnx', options);
  const feeds: Record<string, ort.Tensor> = {};
  feeds[session.inputNames[0]] = new ort.Tensor('float32', pixels, [1, 3, 224, 224]);
  const results: ort.InferenceSession.OnnxValueMapType = await session.run(feeds);
  const scores = results[session.outputNames[0]].data as Float32Array;
  await session.release();
  return Array.from(scores, (score, i): [string, number] => [labels[i], score]).sort((a, b) => b[1] - a[1]).slice(0, 5);
}

export async function speech(session: InferenceSession, frame: Float32Array, state: Tensor): Promise<{probability: number; state: Tensor}> {
  const sr = new ort.Tensor('int64', [16000n], [1]);
  const input: TypedTensor<'float32'> = new ort.Tensor('float32', frame, [1, frame.length]);
  const out = await session.run({input, state, sr}, ['output', 'stateN']);
  const [probability] = out.output.data as unknown as number[];
  return {probability, state: out.stateN};
}

export async function prepared(session: InferenceSession): Promise<number> {
  const target = new ort.Tensor(new Float32Array(10), [10]);
  await session.run({x: new ort.Tensor(new Float32Array(10))}, {y: target, z: null}, {tag: 'warm'});
  const shapes: (number | string)[][] = session.inputMetadata.map((each) => [...each.shape]);
  const first: Float32Array = await target.getData();
  target.dispose();
  return first[0] + shapes.length + target.size;
}

export async function picture(image: HTMLImageElement): Promise<string> {
  const tensor = await ort.Tensor.fromImage(image, {tensorFormat: 'RGB', tensorLayout: 'NCHW', resizedWidth: 224, resizedHeight: 224});
  const shown: ImageData = tensor.toImageData({norm: {mean: [255, 255, 255, 255], bias: 0}});
  const where: ort.Tensor.DataLocation = tensor.location;
  return where + shown.width + tensor.reshape([3, 224, 224]).toDataURL();
}

export async function pieces(buffer: ArrayBuffer): Promise<readonly InferenceSession[]> {
  return [await ort.InferenceSession.create(buffer), await ort.InferenceSession.create(new Uint8Array(buffer), {enableProfiling: true}),
    await Session.create(buffer, 16), await ort.InferenceSession.create(buffer, 16, 1024, {exact: true})];
}

export async function tools(file: File): Promise<Uint8Array | undefined> {
  const env: Env = ferry.env;
  env.wasm.relaxedSimd = false;
  const {valid} = await check(file);
  const {bytes, externalData} = await exportModel(file, {opset: 18});
  const session = await Session.create(bytes, {externalData, onProgress: (done, all) => { env.debug = done < all; }});
  await compare({data: bytes, externalData}, {name: 'other.onnx', data: file, externalData: ['weights/other.data']});
  const few: TypedTensor<'int4'> = new AnyTensor('int4', new Uint8Array(2), [4]);
  few.dims.push(session.threads);
  const words: AnyTensor = new AnyTensor(['a', 'b'], [2]);
  const flags = new AnyTensor('bool', [true, false]);
  return valid && words.size === flags.size ? bytes : (await doctor(file, {fix: true})).fixed;
}
