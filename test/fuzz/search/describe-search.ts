import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SearchFailure, SearchReport } from './run-search.ts';

const shownBytesMax = 1_000;
const shownLinesMax = 12;
const outcomesMax = 8;

/** The number of inputs and their outcomes, the most frequent first. */
export function describeReport(name: string, { tried, outcomes }: SearchReport): string {
  const most = Object.entries(outcomes).toSorted(([, one], [, other]) => other - one);
  const named = most.slice(0, outcomesMax).map(([outcome, count]) => `${outcome} ${count.toLocaleString('en')}`);
  const rest = most.length > outcomesMax ? [`${most.length - outcomesMax} other outcomes`] : [];
  return `${name}: ${tried.toLocaleString('en')} inputs (${[...named, ...rest].join(', ')})`;
}

/** The input, escaped and truncated, its origin, and how to try it again and keep it. `file` contains the complete input. */
export function describeFailure(
  name: string,
  { message, input, path, origin }: SearchFailure,
  options: Details,
): string {
  const { seed, file } = options;
  const again = `npm run fuzz -- ${name}`;
  return [
    `${name}: FAILED`,
    ...message
      .split('\n')
      .slice(0, shownLinesMax)
      .map((line) => `  ${line}`),
    `  input, ${input.length} bytes: ${escaped(input)}`,
    ...origin.split('\n').map((line, index) => `  ${index === 0 ? 'made from' : '  by'} ${line}`),
    ...(path === undefined ? [] : [`  the same search:   ${again} --seed ${seed} --path ${path}`]),
    `  this input alone:  ${again} --input ${file}`,
    `  keep it as a seed: cp ${file} test/fuzz/seeds/${name}/hostile-<what it is>.txt`,
  ].join('\n');
}

type Details = { seed: number; file: string };

/** Writes the input to a file. Returns its path from the project folder. */
export async function keepInput(root: string, name: string, input: Uint8Array): Promise<string> {
  const folder = 'node_modules/.cache/fuzz';
  await mkdir(join(root, folder), { recursive: true });
  const file = `${folder}/${name}-${createHash('sha256').update(input).digest('hex').slice(0, 12)}.txt`;
  await writeFile(join(root, file), input);
  return file;
}

/** A JavaScript string of the input, byte by byte. */
export function escaped(input: Uint8Array): string {
  const text = Buffer.from(input.subarray(0, shownBytesMax))
    .toString('latin1')
    .replace(/["\\]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replace(/[^ -~]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"${text}"${input.length > shownBytesMax ? ' …' : ''}`;
}
