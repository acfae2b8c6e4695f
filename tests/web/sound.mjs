// sound.mjs OUT.wav TEXT: speech by espeak-ng at 16 kHz, with a second of silence on either side.
import {execFileSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';

const [out, text] = process.argv.slice(2);
const spoken = execFileSync('espeak-ng', ['--stdout', text], {maxBuffer: 1 << 26});
const rate = spoken.readUInt32LE(24), samples = Math.floor((spoken.length - 44) / 2), wanted = 16000;
const length = Math.floor(samples * wanted / rate), data = Buffer.alloc(2 * (length + 2 * wanted));
for (let i = 0; i < length; ++i) {
  const place = i * rate / wanted, at = Math.floor(place), rest = place - at;
  const sample = (k) => spoken.readInt16LE(44 + 2 * Math.min(samples - 1, k));
  data.writeInt16LE(Math.round(sample(at) * (1 - rest) + sample(at + 1) * rest), 2 * (wanted + i));
}
const head = Buffer.alloc(44);
head.write('RIFF', 0);
head.writeUInt32LE(36 + data.length, 4);
head.write('WAVEfmt ', 8);
head.writeUInt32LE(16, 16);
head.writeUInt16LE(1, 20);
head.writeUInt16LE(1, 22);
head.writeUInt32LE(wanted, 24);
head.writeUInt32LE(2 * wanted, 28);
head.writeUInt16LE(2, 32);
head.writeUInt16LE(16, 34);
head.write('data', 36);
head.writeUInt32LE(data.length, 40);
writeFileSync(out, Buffer.concat([head, data]));
