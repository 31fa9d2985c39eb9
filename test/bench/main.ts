import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { runAffinity, scenarioNames } from './affinity/run-affinity.ts';
import { variants } from './affinity/variants.ts';
import { measureBatch } from './batches.ts';
import { runCluster } from './cluster/run-cluster.ts';
import { runCosts, runFleet, runPeers, runTruth } from './comparison/parts.ts';
import { compareVersions, fixedPoint } from './comparison/versions.ts';
import { notWorthWriting } from './comparison/worth-writing.ts';
import { runEndpoints } from './endpoints/run-endpoints.ts';
import { measureFairness } from './fairness.ts';
import { measureLanes } from './lanes.ts';
import { loads } from './loads/load.ts';
import { measureOverload } from './overload.ts';
import { measurePromises } from './promises.ts';
import { reportBatch, reportFairness, reportLanes, reportOverload, reportPromises, reportWaiting } from './report.ts';
import { measureWaiting } from './waiting.ts';

const written = 'test/bench/results';
const usage = `Usage: npm run bench [-- <part> [<lines>]] [--rounds 5] [--seconds 5] [--no-peers] [--peers <folder>] [--write]
Peers are installed into a temporary folder, or into the given folder, which is kept; SMG is kept in node_modules/.cache. Results are
written to .bench, and with --write also to ${written} and the page about benchmarks. The figures of peers are not written
after fewer than 3 rounds, rounds of less than 3 s, or without a peer that was not measured; those of the cluster and of endpoints,
after fewer or shorter rounds.
Parts; without a name, all except the last. Each prints tables, and those of batches also print JSON:
  peers               this service, a bare Koa proxy, Portkey's gateway, LiteLLM's proxy and SMG in front of the same model server
  truth               whether the limits of each hold: at a window's edge, with many at once, after kill -9, without Redis
  overload            three times what the backends can take
  batches [50000]     a batch of this many lines with two workers: each line once, every token counted, lines a second, memory
  fairness [20000]    a batch of 20 lines beside one of this many
  lanes               interactive requests, alternately without and with lines of batches
  waiting             requests for a model while another one is full or silent, and of an account while another one has 500 requests
  costs               an idle service, where the time of streams goes, the Redis scripts of a request, how long the runs of a
                      killed worker wait;
                      --against <checkout> also measures another version while it is idle
  fleet               Redis commands a second of 1, 10 and 50 workers: idle, under load, and with waiting batches
  cluster             one Redis and a cluster of three masters, alternately, with 1 and 4 models; the limits on the cluster
  promises            the times that the service promises, such as the end of a suspended account's requests, each with its bar
  endpoints           chat completions and embeddings, alternately
  affinity            cached prompts of chats with affinity prefix and none, and with SMG's gateway, each in front of 8 model servers;
                      3 rounds take an hour; [--scenarios ${scenarioNames.join(',')}] [--variants '${variants
                        .slice(0, 2)
                        .map(({ name }) => name)
                        .join(',')}']
  versions            this version and ${fixedPoint}, the fixed point of all comparisons, in turns; [--against <commit or checkout>]
                      adds another one; [--loads '64 clients,256 streams']`;

/** Of the backends for batches; `--service-ms` makes them faster than the service. */
const slots = 32;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string', default: '5' },
    write: { type: 'boolean', default: false },
    peers: { type: 'string' },
    'no-peers': { type: 'boolean', default: false },
    'service-ms': { type: 'string', default: '100' },
    against: { type: 'string' },
    loads: { type: 'string', default: '64 clients,64 streams' },
    scenarios: { type: 'string' },
    variants: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const [wanted, count] = positionals;
const rounds = Number(values.rounds ?? 5);
const seconds = Number(values.seconds);
const { against } = values;
const serviceMs = Number(values['service-ms']);

const comparison = {
  ...{ rounds, seconds, withPeers: !values['no-peers'] },
  keeping: { folder: values.write ? written : '.bench', intoPage: values.write },
  peers: values.peers === undefined ? undefined : resolve(values.peers),
};

const parts: Record<string, (lines: number | undefined) => Promise<void>> = {
  async peers() {
    endWith(await runPeers(comparison));
  },
  async truth() {
    endWith(await runTruth(comparison));
  },
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
  waiting: async () => reportWaiting(await measureWaiting({ rounds, seconds: 2 * seconds })),
  async costs() {
    await runCosts({ ...comparison, against: against === undefined ? undefined : resolve(against) });
  },
  fleet: async () => runFleet(comparison),
  async cluster() {
    endWith(await runCluster(comparison));
  },
  async promises() {
    endWith(reportPromises(await measurePromises({ rounds })) ? 0 : 1);
  },
  async endpoints() {
    endWith(await runEndpoints(comparison));
  },
  async affinity() {
    const ofAffinity = { rounds: Number(values.rounds ?? 3), scenarios, variants: namedVariants };
    endWith(await runAffinity({ ...comparison, ...ofAffinity }));
  },
};

const wantedLoads = values.loads.split(',').map((name) => loads.find((load) => load.name === name.trim()));
/** Only by its name. */
const versions = () =>
  compareVersions({
    ...{ rounds, seconds, against: against === undefined ? [] : [against] },
    loads: wantedLoads.filter((load) => load !== undefined),
  });

const isKnown = wanted === undefined ? against === undefined : wanted in parts || wanted === 'versions';
const areLoads = wantedLoads.every((load) => load !== undefined);
const [scenarios, namedVariants] = [values.scenarios?.split(','), values.variants?.split(',')];
const areScenarios = (scenarios ?? []).every((name) => scenarioNames.some((known) => known === name));
const areVariants = (namedVariants ?? []).every((name) => variants.some((known) => known.name === name));
const isNumber = [rounds, seconds, serviceMs, Number(count ?? 1)].every((each) => each >= 1);
if (values.help || !isKnown || !areLoads || !areScenarios || !areVariants || !isNumber) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}

const part = wanted ?? 'peers';
const isBounded = part === 'peers' || part === 'truth' || part === 'cluster' || part === 'endpoints';
const why = isBounded ? notWorthWriting({ ...comparison, part }) : undefined;
if (values.write && why !== undefined) {
  console.error(`Not started, because the results could not be written: ${why}.`);
  process.exit(2);
}

/** The exit code is that of the worst part: a wrong result is worse than one that was not written. */
function endWith(code: number): void {
  if (code !== 0 && process.exitCode !== 1) process.exitCode = code;
}

// Ends child processes that would otherwise keep this one alive.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

if (wanted === 'versions') await versions();
for (const [name, measure] of Object.entries(parts)) {
  if (wanted !== undefined && name !== wanted) continue;
  console.error(`${name} …`);
  await measure(count === undefined ? undefined : Number(count));
}
