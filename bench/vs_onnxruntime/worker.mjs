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

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks workers that have started in rounds, each for about `seconds` at a time; the order turns around, so that whatever
// else the machine does hits all of them. Ends them. For each: its times and its peak of memory in MB.
export async function inTurns(workers, {rounds, seconds}) {
  const sides = workers.map((worker) => ({worker, times: [], peak: 0}));
  for (const side of sides) {
    const {times_ms} = await side.worker.ask(2);
    side.count = Math.max(1, Math.min(2000, Math.round((Number(seconds) * 1000) / times_ms[1])));
  }
  for (let round = 0; round < Number(rounds); ++round)
    for (const side of round % 2 ? [...sides].reverse() : sides) {
      await pause(5);  // a peer's threads spin for a moment after their last run
      const {times_ms, peak_rss_kb} = await side.worker.ask(side.count);
      side.times.push(...times_ms);
      side.peak = peak_rss_kb / 1024;
    }
  await Promise.all(sides.map((side) => side.worker.end()));
  return sides;
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
export const geometricMean = (values) => Math.exp(values.reduce((sum, x) => sum + Math.log(x), 0) / values.length);
export const number = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
