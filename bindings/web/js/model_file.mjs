// A model that is sent to the engine once and used by several tools and sessions.
import {FerryError, bytesOf, hostSoon, keepAside, newFolder, putFile} from './host.mjs';

// What the tools call the file: they tell formats apart by its end.
async function nameOf(source, given) {
  if (given) return given;
  if (source && source.name) return source.name;
  if (typeof source === 'string' || source instanceof URL) return String(source).replace(/[?#].*$/, '').split('/').pop() || 'model.onnx';
  const bytes = bytesOf(source) || (source && source.slice ? new Uint8Array(await source.slice(0, 4).arrayBuffer()) : undefined);
  return bytes && bytes[0] === 0x50 && bytes[1] === 0x4b ? 'model.pt2' : 'model.onnx';
}

// The name by which a model asks for a data file: folders stay. Of an address that is given alone, what is below the model's own
// folder, or its end.
function dataName(entry, model) {
  if (typeof entry !== 'string') return String(entry.path);
  const plain = (text) => text.replace(/[?#].*$/, ''), text = plain(entry);
  const folder = typeof model === 'string' || model instanceof URL ? plain(String(model)).replace(/[^/]*$/, '') : '';
  if (folder && text.startsWith(folder)) return text.slice(folder.length);
  return /^([a-z][a-z0-9+.-]*:|\/)/i.test(text) ? text.split('/').pop() : text;
}

// Data files of a model in a folder: {path, data}, or addresses alone. `paths` gets where each lies.
export async function putExternal(host, folder, list, model, paths, report) {
  for (const entry of list || []) {
    const path = `${folder}/${dataName(entry, model).replace(/^\.?\//, '')}`;
    paths.push(path);
    await putFile(host, path, typeof entry === 'string' ? entry : entry.data, report);
  }
}

export class ModelFile {
  constructor(host, path, paths) {
    this.path = path;
    this.name = path.split('/').pop();
    keepAside(this, {host, paths});
  }
  // options: name, externalData, onProgress.
  static async open(source, options = {}) {
    if (source instanceof ModelFile) return source;
    if (source && source.data && !ArrayBuffer.isView(source)) return ModelFile.open(source.data, {...options, ...source});
    const host = await hostSoon();
    const folder = newFolder();
    const name = (await nameOf(source, options.name)).replace(/[/\\]/g, '_');
    const path = `${folder}/${name}`, paths = [path];
    try {
      await putFile(host, path, source, options.onProgress);
      await putExternal(host, folder, options.externalData, source, paths, options.onProgress);
    } catch (error) {
      if (!host.dead) host.call('remove', {paths}).catch(() => {});
      throw error;
    }
    return new ModelFile(host, path, paths);
  }
  pathOn(host) {
    if (this.held.host !== host || host.dead) throw new FerryError(`${this.name} is gone with the worker it was sent to: open it again`, 'dead');
    return this.path;
  }
  get host() { return this.held.host; }
  async release() {
    const {host, paths} = this.held;
    this.held.paths = [];
    if (paths.length && !host.dead) await host.call('remove', {paths});
  }
}
