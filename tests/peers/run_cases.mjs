// 'ferry test' over a folder of cases: a line per case, 'passed NAME' or 'failed NAME: why'.
import {execFileSync} from 'node:child_process';
import {readFileSync, rmSync} from 'node:fs';
import {join, resolve} from 'node:path';

export function runCases(ferry, folder) {
  const list = join(folder, 'results.txt');
  try {
    execFileSync(resolve(ferry), ['test', folder, '--list', list], {stdio: 'ignore'});
  } catch (error) {
    if (error.status !== 1) throw error;  // 1: some case failed
  }
  const lines = readFileSync(list, 'utf8').trim().split('\n');
  rmSync(list);
  return lines;
}
