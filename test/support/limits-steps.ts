import fc from 'fast-check';
import type { Allowance } from '../../shared/limits/admit.ts';
import type { Lane } from '../../shared/redis/keys.ts';

/** The clock may be moved to the next of these, exactly or one millisecond before or after. */
const edges = [
  ...['bucket', 'minute', 'day', 'month', 'lease end', 'startBy', 'deadline', 'forgotten', 'answer end'],
] as const;

/** A request that holds a lease, any earlier request, or a new one. */
export type ChosenRequest = { from: 'live' | 'known' | 'new'; index: number };

const index = fc.integer({ min: 0, max: 30 });
const request = fc.record<ChosenRequest>({
  from: fc.constantFrom('live', 'live', 'live', 'live', 'known', 'new'),
  index,
});
const asked = fc.record<ChosenRequest>({ from: fc.constantFrom('new', 'new', 'new', 'new', 'known', 'live'), index });
const some = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined, freq: 2 });

/** Limits are round numbers of tokens, and requests are nearly: their sums often reach a limit exactly, or one token more or less. */
const roundTo = 50;
const rounded = (min: number, max: number) =>
  fc.integer({ min: min / roundTo, max: max / roundTo }).map((n) => n * roundTo);

/** Small limits, so that each is reached often. Some are undefined, so that the others can be reached. */
const anyLimits: fc.Arbitrary<Allowance> = fc.record({
  requestsPerMinute: some(fc.integer({ min: 1, max: 40 })),
  tokensPerMinute: some(rounded(300, 2_000)),
  requestsPerDay: some(fc.integer({ min: 5, max: 60 })),
  requestsAtOnce: some(fc.integer({ min: 1, max: 30 })),
  tokensPerMonth: some(rounded(200, 2_000)),
  overageEnabled: fc.constantFrom(true, true, false),
  overageTokensPerMonth: some(rounded(50, 500)),
});

/** Nothing but a month, whose overage is reached and settled often. */
const onlyOverage: fc.Arbitrary<Allowance> = fc.record({
  tokensPerMonth: rounded(100, 600),
  overageEnabled: fc.constant(true),
  overageTokensPerMonth: some(rounded(50, 400)),
});

export const allowances = fc.oneof({ weight: 3, arbitrary: anyLimits }, onlyOverage);

/** Few keys and bodies, so that many requests are repeats. */
export type ChosenClaim = { key: string; body: string };
const claim = fc.option(
  fc.record<ChosenClaim>({
    key: fc.constantFrom('a', 'a', 'a', 'b', 'b', 'c'),
    body: fc.constantFrom('x', 'x', 'x', 'y'),
  }),
  { nil: undefined, freq: 2 },
);

/** Half of them is nearly round, too. */
const tokens = fc.constantFrom(100, 100, 200, 200, 300, 99, 101);
const times = fc.constantFrom(1, 1, 1, 2);
/** The process of the admission, one that knows that no process runs it, or the one with this run, relative to the current one. */
export type Releaser = 'admission' | 'any' | 0 | -1;
type Steps = {
  admit: { request: ChosenRequest; tokens: number; version: number; claim: ChosenClaim | undefined; times: number };
  burst: { count: number; tokens: number; claim: ChosenClaim | undefined };
  start: { request: ChosenRequest; taken: number; times: number };
  renew: { request: ChosenRequest; lifeMs: number; times: number };
  'mark streaming': { request: ChosenRequest; run: number; times: number };
  settle: { request: ChosenRequest; run: number; settler: string; share: number; isKept: boolean; times: number };
  release: { request: ChosenRequest; by: Releaser; times: number };
  'end leases': { lane: Lane; times: number };
  wait: { ms: number };
  edge: { edge: Edge; by: number };
  'step back': { ms: number };
  change: { allowance: Allowance; isRead: boolean };
  'top up': { tokens: number; months: number };
  'forget months': object;
  compare: { months: number };
};

/**
 * A step in the life of an account. `run` and `version` are relative to the current ones; `share` of the reservation is used; `months`
 * relative to the current one; `times`: delivered once or twice. `claim` is that of the first step of its request.
 */
export type Step = { [Kind in keyof Steps]: { kind: Kind } & Steps[Kind] }[keyof Steps];
export type Edge = (typeof edges)[number];

function of<Kind extends keyof Steps>(
  kind: Kind,
  values: { [Name in keyof Steps[Kind]]: fc.Arbitrary<Steps[Kind][Name]> },
) {
  return fc.record(values).map((drawn) => ({ kind, ...drawn }) as unknown as Step); // the values are those of this kind
}

export const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: of('admit', { request: asked, tokens, claim, times, version: fc.constantFrom(0, 0, 0, -1) }),
  },
  {
    weight: 1,
    arbitrary: of('burst', { count: fc.integer({ min: 2, max: 30 }), tokens, claim }),
  },
  { weight: 8, arbitrary: of('start', { request, taken: fc.integer({ min: 1, max: 4 }), times }) },
  { weight: 4, arbitrary: of('renew', { request, lifeMs: fc.constantFrom(60_000, 90_000), times }) },
  { weight: 3, arbitrary: of('mark streaming', { request, run: fc.constantFrom(0, 0, -1), times }) },
  {
    weight: 8,
    arbitrary: of('settle', {
      ...{ request, times, settler: fc.constantFrom('worker', 'worker', 'ingress'), isKept: fc.boolean() },
      run: fc.constantFrom(0, 0, 0, 0, -1, 1),
      share: fc.constantFrom(0, 0.5, 0.5, 1, 1, 2),
    }),
  },
  {
    weight: 3,
    arbitrary: of('release', { request, by: fc.constantFrom<Releaser>('admission', 'admission', 'any', 0, -1), times }),
  },
  {
    weight: 4,
    arbitrary: of('end leases', { lane: fc.constantFrom<Lane>('interactive', 'batch'), times }),
  },
  { weight: 4, arbitrary: of('wait', { ms: fc.integer({ min: 0, max: 4_000 }) }) },
  { weight: 7, arbitrary: of('edge', { edge: fc.constantFrom(...edges), by: fc.constantFrom(-1, 0, 1) }) },
  { weight: 2, arbitrary: of('step back', { ms: fc.integer({ min: 1, max: 59_999 }) }) },
  { weight: 2, arbitrary: of('change', { allowance: allowances, isRead: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: of('top up', { tokens: rounded(0, 1_000), months: fc.constantFrom(0, 0, 0, -1) }),
  },
  { weight: 1, arbitrary: of('forget months', {}) },
  { weight: 1, arbitrary: of('compare', { months: fc.constantFrom(0, -1, -2) }) },
);
