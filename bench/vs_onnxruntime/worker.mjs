// What the benchmarks of this folder have in common: processes that are asked in turns, and what is said of their times.
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';

// A process that answers each line with a line of JSON.
export class Worker {
  constructor(command, args) {
    this.child = spawn(command, args, {stdio: ['pipe', 'pipe', 'inherit']});
    this.lines = createInterface({input: this.child.stdout})[Symbol.asyncIterator]();
  }
  async next() {
    const {value, done} = await this.lines.next();
    if (done) throw new Error('the process ended early');
    return JSON.parse(value);
  }
  ask(line) {
    this.child.stdin.write(`${line}\n`);
    return this.next();
  }
  async end() {
    this.child.stdin.end();
    await new Promise((done) => this.child.once('exit', done));
  }
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
export const geometricMean = (values) => Math.exp(values.reduce((sum, x) => sum + Math.log(x), 0) / values.length);
export const number = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
