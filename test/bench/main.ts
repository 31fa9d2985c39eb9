import { parseArgs } from 'node:util';
import { measureBatch } from './batches.ts';
import { compareWithBareProxy } from './compare.ts';
import { measureFairness } from './fairness.ts';
import { measureLanes } from './lanes.ts';
import { measureOverload } from './overload.ts';
import { reportBatch, reportFairness, reportLanes, reportOverload } from './report.ts';

const usage = `Usage: npm run bench [-- <part> [<lines>]] [--rounds 5] [--seconds 5]
Parts, all of them unless one is named; each prints tables, and those of batches their figures as JSON too:
  proxy               this service and a bare Koa proxy in front of the same model server of 0 ms, in turns, on this machine
  overload            three times what the backends can take
  batches [50000]     a batch of so many lines by two workers: each line once, every token counted, lines a second, memory
  fairness [20000]    a batch of 20 lines beside one of so many
  lanes               interactive requests without and with lines of batches, in turns`;

/** Of the backends that batches are measured with; \`--service-ms\` makes them faster than what is in front of them. */
const slots = 32;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    'service-ms': { type: 'string', default: '100' },
    help: { type: 'boolean', default: false },
  },
});
const [wanted, count] = positionals;
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const serviceMs = Number(values['service-ms']);

const parts: Record<string, (lines: number | undefined) => Promise<void>> = {
  proxy: () => compareWithBareProxy({ rounds, seconds }),
  overload: async () => reportOverload(await measureOverload({ seconds: 3 * seconds })),
  batches: async (lines = 50_000) => reportBatch(await measureBatch({ lines, slots, serviceMs })),
  async fairness(large = 20_000) {
    const sizes = { large, small: 20 };
    const of = async (accounts: 'two accounts' | 'one account') => ({
      [accounts]: await measureFairness({ ...sizes, slots, serviceMs }, accounts),
    });
    reportFairness(sizes, { ...(await of('two accounts')), ...(await of('one account')) });
  },
  async lanes() {
    for (const workers of [1, 2]) {
      const batchConcurrency = 48 / workers;
      const pairs = await measureLanes({ rounds, seconds: 4 * seconds, workers, batchConcurrency });
      reportLanes(`${workers} worker${workers > 1 ? 's' : ''} with BATCH_CONCURRENCY ${batchConcurrency}`, pairs);
    }
  },
};

const isKnown = wanted === undefined || wanted in parts;
const isNumber = [rounds, seconds, serviceMs, Number(count ?? 1)].every((each) => each >= 1);
if (values.help || !isKnown || !isNumber) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}

for (const [name, measure] of Object.entries(parts)) {
  if (wanted !== undefined && name !== wanted) continue;
  console.error(`${name} …`);
  await measure(count === undefined ? undefined : Number(count));
}
