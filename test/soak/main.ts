import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startStack } from '../stack/stack.ts';
import { seededRandom } from '../support/random.ts';
import { checkBooks } from './check-books.ts';
import { type Figure, judgeMemory, judgeRest, type Workload } from './judge.ts';
import { wrongAnswers } from './judge-answers.ts';
import { callers, marks, observeRest, redisName, usedMiB, watchProcesses } from './observe.ts';
import { lines } from './submit-batches.ts';
import { accounts, startTraffic, type Tally, type TrafficReport } from './traffic.ts';

const usage = `Usage: npm run soak -- <minutes> [--seed 1]
Runs two ingresses, two workers and Redis under mixed traffic for this many minutes: whole and streamed answers, clients that
leave, keys that are rotated and revoked, plans that change, guests, batches, and a model server that fails every ten seconds.
Measures the open handles of every process and the contents of Redis before and after the traffic, and the memory of each
process during it. Fails if there is a leak or a wrong answer, or if answers, served calls and charged usage differ. Each
process has a heap of 192 MiB at most. Calls are kept for about four hours.
V8 releases memory at rest and takes it again in the first minutes: resident memory means little in less than ten minutes.`;

/** V8 does not collect garbage while there is memory left, which looks like a leak. With so small a heap it must. */
const heapMiBMax = 192;
const minuteMs = 60_000;
const progressEveryMs = 15_000;
/** Code is compiled when it first runs, and caches fill: growth in this time is no leak. */
const warmUpMs = (minutes: number) => Math.min(3 * minuteMs, Math.max(minuteMs, (minutes * minuteMs) / 4));
/** How much Redis may grow at rest, in addition to the marks: fragmentation, and streams that are trimmed in complete nodes only. */
const redisSlackMiB = 8;
/** What each ended request leaves in Redis for an hour: its mark, with its entries in two tables, and some room. */
const markBytes = 400;
/** Per model server, for the comparison with the usage records. */
const callsKept = 1_000_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string', default: '1' }, help: { type: 'boolean', default: false } },
});
const minutes = Number(positionals[0]);
if (values.help || !(minutes > 0)) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}

await using stack = await startStack({
  ingresses: 2,
  workers: 2,
  modelServers: { firstTokenMs: 20, tokensPerSecond: 200, callsKept },
  env: { NODE_OPTIONS: `--max-old-space-size=${heapMiBMax}` },
  timeouts: { first_token_ms: 2_000, idle_ms: 2_000, request_ms: 60_000 },
});

async function haveTraffic(name: string, ms: number, seed: number): Promise<TrafficReport> {
  const traffic = await startTraffic(stack, seededRandom(seed));
  const endAt = performance.now() + ms;
  for (let left = ms; left > 0; left = endAt - performance.now()) {
    const answers = Object.values(traffic.tally).reduce((sum, each) => sum + each, 0);
    console.error(`${name}: ${answers} answers, ${Math.ceil(left / 1_000)} s left`);
    await sleep(Math.min(left, progressEveryMs));
  }
  return traffic.stop();
}

const warmUp = await haveTraffic('warming up', warmUpMs(minutes), Number(values.seed));
console.error('at rest …');
const before = await observeRest(stack);
const watching = watchProcesses(stack);
const { tally, answered } = await haveTraffic('traffic', minutes * minuteMs, Number(values.seed) + 1);
const courses = await watching.stop();
console.error('at rest …');
const after = await observeRest(stack);

const figures: Figure[] = [
  ...Object.entries(courses).flatMap(([name, course]) => judgeMemory(name, course, passedBy(name))),
  ...judgeRest(before, after, {
    [marks]: requestsIn(tally),
    [callers]: keysIn(tally),
    [usedMiB]: redisSlackMiB,
  }),
];
console.log(`\n${minutes} minutes of traffic, seed ${values.seed}`);
console.table(tally);
console.table(
  figures.map(({ what, leaks, seenFromBytes, ...numbers }) => ({
    ...{ what, ...rounded(numbers), verdict: leaks ? 'LEAK' : 'flat' },
    ...(seenFromBytes !== undefined && { 'a leak shows from': `${seenFromBytes} bytes per request` }),
  })),
);
const leaks = figures.filter((figure) => figure.leaks).map(({ what }) => what);
const brokenBefore = Object.keys(warmUp.tally).filter((what) => what.startsWith('failed: '));
const books = await checkBooks(stack, [...warmUp.answered, ...answered]);
console.table(books.found);
console.log(books.report);
const wrong = [...leaks, ...wrongAnswers(tally), ...brokenBefore.map((what) => `warming up: ${what}`), ...books.wrong];
console.log(
  wrong.length === 0
    ? 'no leak, no wrong answer, no difference between answers and usage'
    : `FAILED: ${wrong.join('; ')}`,
);
process.exitCode = wrong.length === 0 ? 0 : 1;

/** One mark per admitted request, so at most one per answer and batch line. */
function requestsIn(answers: Tally): number {
  return Object.entries(answers).reduce((sum, [what, each]) => sum + each * (what.startsWith('batch') ? lines : 1), 0);
}

/** Two ingresses and two workers share the requests. Redis has all of them. */
function passedBy(name: string): Workload {
  const requests = requestsIn(tally);
  return name === redisName ? { requests, keptBytes: markBytes } : { requests: requests / 2 };
}

/** Each account may have one more key than the traffic changed. */
function keysIn(answers: Tally): number {
  const changed = Object.entries(answers).filter(([what]) => what.startsWith('key '));
  return changed.reduce((sum, [, each]) => sum + each, 0) + accounts.length + 1;
}

function rounded(numbers: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, Math.round(10 * value) / 10]));
}
