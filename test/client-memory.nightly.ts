import { randomBytes } from 'node:crypto';
import test from 'ava';
import { createDisplayNames } from '../ingress/authentication/sign-in.ts';
import { createLimitFailures } from '../ingress/limits/minute-counts.ts';
import { createLargeBodies, createRefusedBodies } from '../ingress/listener/body-budget.ts';
import { createSingleFlight } from '../shared/concurrency/single-flight.ts';
import { endpoints } from '../shared/endpoints/endpoints.ts';
import { estimateTokens } from '../shared/endpoints/tokens/estimate-tokens.ts';
import { ApiError } from '../shared/errors.ts';
import { countRefusedFields, createLimitMetrics, createRegistry } from '../shared/process/metrics.ts';
import { partitionOf } from '../shared/redis/keys.ts';
import { callerOf } from '../shared/store/records/account.ts';
import { createKnownCallers } from '../workers/batches/lines/admit-line.ts';
import { countTokens } from '../workers/failover/count-tokens.ts';
import { relayedText } from '../workers/failover/relayed-text.ts';
import { heapInUse } from './support/collect-garbage.ts';
import { callOf } from './support/endpoints/endpoint-call.ts';

/** A text that no module has seen before. */
const fresh = (length: number) => randomBytes((length * 3) / 4).toString('base64url');
/** The same in Chinese, of which a tokenizer cannot know the words. */
const freshHan = (length: number) =>
  Array.from(randomBytes(2 * length), (byte, index) => String.fromCharCode(0x4e00 + 64 * (index % 250) + (byte % 64)))
    .join('')
    .slice(0, length);
const freshAccount = () => `user:${fresh(240)}`;

/** What each module gets from clients. `rounds`: enough to fill a bounded cache, and to feed it several megabytes. */
type Feed = { rounds: number; feed: () => unknown };

const metrics = createLimitMetrics(createRegistry());
const refusedBodies = createRefusedBodies({ now: () => 0 });
const largeBodies = createLargeBodies({ bytesAtOnceMax: 1, clock: { now: () => 0, after: () => () => {} } });
const connected = new AbortController().signal;
const knownCallers = createKnownCallers();
const flights = createSingleFlight({ nameOf: (name: string) => name, fetch: async (name) => name.length });
const displayNames = createDisplayNames({ names: { keepName: async () => {} }, log: { debug() {} } });
const failures = { known: () => ({ count: 0, leftMs: 0 }), add: async () => ({ count: 1, leftMs: 0 }) };
const limitFailures = createLimitFailures({ kind: 'auth_failures', failures, perMinute: 10 });

/** Bodies that are valid except for fields that are not known, with tools, schemas and media of fresh names and contents. */
function readFresh(path: string): void {
  const endpoint = endpoints.find((each) => each.path === path);
  if (endpoint === undefined) throw new Error(`no endpoint ${path}`);
  const text = fresh(2_000);
  const schema = { type: 'object', properties: { [fresh(80)]: { type: 'string', description: text } } };
  const content = [
    { type: 'text', text },
    { type: 'input_text', text, [fresh(80)]: 1 },
  ];
  const body = {
    ...{ messages: [{ role: 'user', content, name: fresh(80) }], input: text, prompt: text, query: text },
    ...{ documents: [text, text], max_tokens: 5, [fresh(80)]: text, metadata: { [fresh(80)]: text } },
    tools: [{ type: 'function', name: fresh(80), function: { name: fresh(80), parameters: schema } }],
  };
  try {
    callOf(endpoint, body);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    countRefusedFields(metrics, path, error);
  }
}

const modules: Readonly<Record<string, Feed>> = {
  'the tokenizer': { rounds: 45, feed: () => countTokens(freshHan(4_000)) },
  'the estimate of tokens': { rounds: 200, feed: () => estimateTokens(fresh(20_000)) },
  ...Object.fromEntries(
    endpoints.map(({ path }) => [`the schemas and lists of ${path}`, { rounds: 400, feed: () => readFresh(path) }]),
  ),
  'partitions of accounts': { rounds: 12_000, feed: () => partitionOf(freshAccount()) },
  'accounts with refused bodies': { rounds: 12_000, feed: () => refusedBodies.add(freshAccount(), 1_000) },
  'accounts with large bodies': {
    rounds: 12_000,
    feed: () => largeBodies.time(freshAccount(), 2_000_000, connected),
  },
  'callers of batches': {
    rounds: 12_000,
    feed: () => knownCallers.keep(callerOf(freshAccount(), undefined, 'free'), undefined),
  },
  'display names': { rounds: 12_000, feed: () => displayNames.keep(freshAccount(), fresh(100), { isChange: false }) },
  'shared fetches': { rounds: 12_000, feed: () => flights.joinNext(freshAccount()) },
  'failed lookups': {
    rounds: 12_000,
    feed: () => limitFailures(freshAccount(), () => Promise.reject(new ApiError('INVALID_KEY', 'no'))).catch(() => {}),
  },
  'messages of backends': { rounds: 500, feed: () => relayedText(fresh(4_000), fresh(40)) },
};

const growthMax = 2_000_000;

for (const [name, { rounds, feed }] of Object.entries(modules)) {
  test.serial(`the heap does not grow with what clients send: ${name}`, async (t) => {
    for (let round = 0; round < rounds; round++) await feed();
    const before = heapInUse();
    for (let round = 0; round < rounds; round++) await feed();
    const growth = heapInUse() - before;
    t.true(growth < growthMax, `${growth} bytes`);
  });
}
