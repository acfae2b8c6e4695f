// A model that is sent to the engine once and used by several tools and sessions.
import {FerryError, bytesOf, hostSoon, newFolder, putFile} from './host.mjs';

// What the tools call the file: they tell formats apart by its end.
async function nameOf(source, given) {
  if (given) return given;
  if (source && source.name) return source.name;
  if (typeof source === 'string' || source instanceof URL) return String(source).replace(/[?#].*$/, '').split('/').pop() || 'model.onnx';
  const bytes = bytesOf(source) || (source && source.slice ? new Uint8Array(await source.slice(0, 4).arrayBuffer()) : undefined);
  return bytes && bytes[0] === 0x50 && bytes[1] === 0x4b ? 'model.pt2' : 'model.onnx';
}

export class ModelFile {
  #host;
  #paths;
  constructor(host, path, paths) {
    this.#host = host;
    this.path = path;
    this.name = path.split('/').pop();
    this.#paths = paths;
  }
  // options: name, externalData, onProgress.
  static async open(source, options = {}) {
    if (source instanceof ModelFile) return source;
    if (source && source.data && !ArrayBuffer.isView(source)) return ModelFile.open(source.data, {...options, ...source});
    const host = await hostSoon();
    const folder = newFolder();
    const name = (await nameOf(source, options.name)).replace(/[/\\]/g, '_');
    const path = `${folder}/${name}`, paths = [path];
    await putFile(host, path, source, options.onProgress);
    for (const {path: at, data} of options.externalData || []) {
      paths.push(`${folder}/${at}`);
      await putFile(host, `${folder}/${at}`, data, options.onProgress);
    }
    return new ModelFile(host, path, paths);
  }
  pathOn(host) {
    if (this.#host !== host || host.dead) throw new FerryError(`${this.name} is gone with the worker it was sent to: open it again`, 'dead');
    return this.path;
  }
  get host() { return this.#host; }
  async release() {
    const paths = this.#paths;
    this.#paths = [];
    if (paths.length && !this.#host.dead) await this.#host.call('remove', {paths});
  }
}
