import { parentPort, workerData } from 'node:worker_threads';
import type { FuzzTargets } from './fuzz-target.ts';
import { keptSeeds, type Seed } from './kept-seeds.ts';
import { runSearch } from './run-search.ts';
import { type SearchTask, shareInput } from './search-in-thread.ts';

const { targetsUrl, name, shared, seedTexts, ...options } = workerData as SearchTask; // from the only module that starts this thread
const { targets }: { targets: FuzzTargets } = await import(targetsUrl);
const target = targets[name];
if (target === undefined) throw new Error(`there is no target ${name}`);
const seeds: Seed[] =
  seedTexts?.map((text, index) => ({ name: `${index}`, bytes: Buffer.from(text) })) ?? keptSeeds(name);
parentPort?.postMessage(await runSearch({ ...options, target, seeds, onInput: (input) => shareInput(shared, input) }));
