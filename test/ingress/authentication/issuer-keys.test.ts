import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import test from 'ava';
import { createLocalJWKSet } from 'jose';
import { createIssuerKeys, type KeySet } from '../../../ingress/authentication/issuer-keys.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

const unreachable =
  'warn: AUTH_URL: the keys of the identity provider at issuer.example cannot be fetched (connection refused); cached keys stay in use. Start it, or correct the setting';

const down = () => Promise.reject(new Error('connection refused'));

/** Fails only when it is aborted. */
const hang = (signal: AbortSignal) =>
  new Promise<KeySet>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

type Answer = (signal: AbortSignal) => Promise<KeySet>;

/** An issuer controlled by the test; it publishes the key `old` by default. */
function start({ random = () => 0, answer }: { random?: () => number; answer?: Answer } = {}) {
  const clock = fakeClock();
  const { log, lines } = recordedLog();
  const fetchedAt: number[] = [];
  const publish = (...keyIds: string[]) =>
    createLocalJWKSet({ keys: keyIds.map((kid) => ({ kty: 'EC', crv: 'P-256', kid })) });
  const issuer = { answer: answer ?? (async () => publish('old')) };
  const keys = createIssuerKeys({
    issuer: 'https://issuer.example',
    log,
    clock,
    random,
    async fetchKeys(_issuer, signal) {
      fetchedAt.push(clock.now());
      const keys = await issuer.answer(signal);
      return { keys, endpointOrigins: keys.jwks().keys.map(({ kid }) => `https://${kid}.example`) };
    },
  });

  /** The result for a token with this key id, and its time. */
  function ask(keyId: string) {
    const asked = { outcome: 'waits', at: Number.NaN };
    const settle = (outcome: string) => Object.assign(asked, { outcome, at: clock.now() });
    keys
      .consult(async (set) => set.jwks().keys.find(({ kid }) => kid === keyId))
      .then(
        (found) => settle(found === undefined ? 'refused' : 'accepted'),
        () => settle('unproven'),
      );
    return asked;
  }

  return {
    clock,
    keys,
    ask,
    fetchedAt,
    publishes: (...keyIds: string[]) => {
      issuer.answer = async () => publish(...keyIds);
    },
    /** After this many milliseconds, returns the keys that were published at the request. */
    publishesSlowly: (ms: number, ...keyIds: string[]) => {
      issuer.answer = () => new Promise((resolve) => clock.after(ms, () => resolve(publish(...keyIds))));
    },
    does: (answer: Answer) => {
      issuer.answer = answer;
    },
    /** Level and message of the lines logged since the last call. */
    logged: () => lines.splice(0).map(({ level, message }) => `${level}: ${message}`),
  };
}

test('the keys are fetched before the first request, and a token with a known key does not wait', async (t) => {
  const { ask, fetchedAt, clock, logged } = start();
  await clock.advance(10);
  const asked = ask('old');
  await clock.advance(0);
  t.deepEqual(asked, { outcome: 'accepted', at: 10 });
  t.deepEqual(fetchedAt, [0]);
  t.deepEqual(logged(), []);
});

test('a request during the first fetch waits for it, and needs no other if it has the key', async (t) => {
  const { ask, fetchedAt, clock, publishesSlowly, keys } = start({ answer: hang });
  publishesSlowly(300, 'old'); // the fetch at the start begins a moment after it
  await clock.advance(100);
  const asked = ask('old');
  await clock.advance(199);
  t.is(asked.outcome, 'waits');
  t.is(keys.ageMs(), undefined);
  await clock.advance(1);
  t.deepEqual(asked, { outcome: 'accepted', at: 300 });
  t.is(keys.ageMs(), 300, 'their age counts from the start of the fetch');
  t.deepEqual(fetchedAt, [0]);
});

for (const [fraction, refreshMs, retryMs] of [
  [0, 5 * minuteMs, 30_000],
  [0.5, 7.5 * minuteMs, 45_000],
  [1, 10 * minuteMs, 60_000],
] as const) {
  test(`keys are fetched again in advance, sooner after a failure; jitter ${fraction}`, async (t) => {
    const { fetchedAt, clock, does, publishes } = start({ random: () => fraction });
    await clock.advance(refreshMs - 1);
    t.deepEqual(fetchedAt, [0]);
    does(down);
    await clock.advance(1);
    t.deepEqual(fetchedAt, [0, refreshMs]);
    await clock.advance(2 * retryMs - 1);
    t.deepEqual(fetchedAt, [0, refreshMs, refreshMs + retryMs]);
    publishes('old');
    await clock.advance(1 + refreshMs);
    t.deepEqual(fetchedAt.slice(3), [refreshMs + 2 * retryMs, 2 * refreshMs + 2 * retryMs]);
  });
}

test('an issuer that is unavailable for hours does not affect known keys, and logs one line at each change', async (t) => {
  const { ask, clock, does, publishes, logged, keys } = start();
  await clock.advance(minuteMs);
  for (const [answer, reason] of [
    [down, 'connection refused'],
    [hang, 'no answer within 5000 ms'],
  ] as const) {
    does(answer);
    for (let hour = 0; hour < 5; hour++) {
      await clock.advance(60 * minuteMs);
      const asked = ask('old');
      await clock.advance(0);
      t.deepEqual(asked, { outcome: 'accepted', at: clock.now() });
    }
    t.true((keys.ageMs() ?? 0) > 4 * 60 * minuteMs);
    publishes('old');
    await clock.advance(2 * minuteMs);
    t.true((keys.ageMs() ?? 0) <= 2 * minuteMs);
    t.deepEqual(logged(), [
      unreachable.replace('connection refused', reason),
      'info: the keys of the identity provider can be fetched again',
    ]);
  }
});

test('a withdrawn key disappears with the next fetch', async (t) => {
  const { ask, clock, publishes } = start();
  await clock.advance(minuteMs);
  publishes('new');
  const first = ask('old');
  await clock.advance(5 * minuteMs);
  t.is(first.outcome, 'accepted', 'the withdrawal is seen with the next fetch');
  const second = ask('old');
  await clock.advance(2_000);
  t.is(second.outcome, 'refused');
});

test('an unknown key id causes a fetch immediately, which finds a key that was just published', async (t) => {
  const { ask, fetchedAt, clock, publishes } = start();
  await clock.advance(minuteMs);
  publishes('new', 'old');
  const asked = [ask('new'), ask('old'), ask('made up')];
  await clock.advance(0);
  t.deepEqual(
    asked.map(({ outcome, at }) => [outcome, at]),
    [
      ['accepted', minuteMs],
      ['accepted', minuteMs],
      ['refused', minuteMs],
    ],
  );
  t.deepEqual(fetchedAt, [0, minuteMs]);
});

test('a thousand concurrent unknown key ids cause one fetch, and one more for those that came after its start', async (t) => {
  const { ask, fetchedAt, clock, publishesSlowly } = start();
  await clock.advance(minuteMs);
  publishesSlowly(200, 'old');
  const together = Array.from({ length: 1_000 }, (_, index) => ask(`made up ${index}`));
  await clock.advance(100);
  const later = Array.from({ length: 1_000 }, (_, index) => ask(`made up later ${index}`));
  await clock.advance(2_000);
  t.deepEqual(new Set(together.map(({ outcome, at }) => `${outcome} ${at}`)), new Set([`refused ${minuteMs + 200}`]));
  t.deepEqual(new Set(later.map(({ outcome, at }) => `${outcome} ${at}`)), new Set([`refused ${minuteMs + 1_200}`]));
  t.deepEqual(fetchedAt, [0, minuteMs, minuteMs + 1_000]);
});

test('during the cooldown a token waits for the next fetch: an earlier fetch does not prove it invalid', async (t) => {
  const { ask, fetchedAt, clock, publishes } = start();
  await clock.advance(400);
  publishes('new');
  const asked = ask('new');
  await clock.advance(599);
  t.is(asked.outcome, 'waits');
  await clock.advance(1);
  t.deepEqual(asked, { outcome: 'accepted', at: 1_000 });
  t.deepEqual(fetchedAt, [0, 1_000]);
});

test('an issuer that rotates its key during a fetch makes no valid token a 401', async (t) => {
  const { ask, fetchedAt, clock, publishesSlowly } = start();
  await clock.advance(minuteMs);
  publishesSlowly(700, 'old');
  const before = ask('made up');
  await clock.advance(300);
  publishesSlowly(100, 'new', 'old');
  const after = ask('new'); // signed after the request to the issuer, so the response in progress lacks its key
  await clock.advance(2_000);
  t.deepEqual(before, { outcome: 'refused', at: minuteMs + 700 });
  t.deepEqual(after, { outcome: 'accepted', at: minuteMs + 1_100 });
  t.deepEqual(fetchedAt, [0, minuteMs, minuteMs + 1_000]);
});

test('endless made-up key ids cost one fetch per second, and delay no other request', async (t) => {
  const { ask, fetchedAt, clock, publishes } = start();
  const madeUp: ReturnType<typeof ask>[] = [];
  for (let index = 0; index < 1_000; index++) {
    madeUp.push(ask(`made up ${index}`));
    if (index === 505) publishes('new', 'old');
    await clock.advance(10);
  }
  const asked = ask('new');
  await clock.advance(2_000);
  t.deepEqual(
    fetchedAt,
    Array.from({ length: 11 }, (_, second) => second * 1_000),
  );
  t.deepEqual(new Set(madeUp.map(({ outcome }) => outcome)), new Set(['refused']));
  t.is(clock.pending(), 1, 'only the next refresh is left');
  t.is(asked.outcome, 'accepted');
});

test('with the issuer down an unknown key id gets an error, never a refusal, and may retry each second', async (t) => {
  const { ask, fetchedAt, clock, does } = start();
  await clock.advance(minuteMs);
  does(down);
  const first = ask('new');
  await clock.advance(100);
  const second = ask('new');
  await clock.advance(2_000);
  t.deepEqual(first, { outcome: 'unproven', at: minuteMs });
  t.deepEqual(second, { outcome: 'unproven', at: minuteMs + 1_000 });
  t.deepEqual(fetchedAt, [0, minuteMs, minuteMs + 1_000]);
});

test('the origins of the endpoints are those of the last successful fetch', async (t) => {
  const { keys, clock, does, publishes } = start();
  t.deepEqual(keys.endpointOrigins(), []);
  await clock.advance(minuteMs);
  t.deepEqual(keys.endpointOrigins(), ['https://old.example']);
  does(down);
  await clock.advance(2 * dayMs);
  t.deepEqual(keys.endpointOrigins(), ['https://old.example'], 'also while it is away');
  publishes('new');
  await clock.advance(minuteMs);
  t.deepEqual(keys.endpointOrigins(), ['https://new.example']);
});

test('a failed fetch that began before a token arrived does not decide about it', async (t) => {
  const { ask, clock, does, publishes } = start();
  await clock.advance(minuteMs);
  does(() => new Promise((_resolve, reject) => clock.after(900, () => reject(new Error('reset')))));
  const before = ask('new');
  await clock.advance(100);
  publishes('new', 'old');
  const after = ask('new');
  await clock.advance(2_000);
  t.deepEqual(before, { outcome: 'unproven', at: minuteMs + 900 });
  t.deepEqual(after, { outcome: 'accepted', at: minuteMs + 1_000 });
});

test('no request waits longer than two seconds for an issuer that hangs, and the fetch is aborted after five', async (t) => {
  const { ask, fetchedAt, clock, does, publishes, keys } = start();
  await clock.advance(minuteMs);
  does(hang);
  const asked = [ask('new'), ask('made up')];
  await clock.advance(500);
  asked.push(ask('new'), ask('old'));
  await clock.advance(4_499);
  t.deepEqual(
    asked.map(({ outcome, at }) => [outcome, at - minuteMs]),
    [
      ['unproven', 2_000],
      ['unproven', 2_000],
      ['unproven', 2_500],
      ['accepted', 500],
    ],
  );
  publishes('new');
  const last = ask('new');
  await clock.advance(0);
  t.deepEqual(fetchedAt, [0, minuteMs], 'one at a time');
  await clock.advance(1);
  t.deepEqual(last, { outcome: 'accepted', at: minuteMs + 5_000 });
  t.is(keys.ageMs(), 0);
});

test('keys that arrive too late for a token are used for the next one', async (t) => {
  const { ask, fetchedAt, clock, publishesSlowly } = start();
  await clock.advance(minuteMs);
  publishesSlowly(4_900, 'new', 'old');
  const first = ask('new');
  await clock.advance(4_900);
  const second = ask('new');
  await clock.advance(0);
  t.deepEqual(first, { outcome: 'unproven', at: minuteMs + 2_000 });
  t.deepEqual(second, { outcome: 'accepted', at: minuteMs + 4_900 });
  t.deepEqual(fetchedAt, [0, minuteMs]);
});

test('after a day without the issuer its keys are no longer trusted, which is logged once, until it answers', async (t) => {
  const { ask, clock, does, publishes, logged, keys } = start();
  await clock.advance(0);
  does(down);
  await clock.advance(dayMs - 1);
  t.deepEqual(logged(), [unreachable]);
  const before = ask('old');
  await clock.advance(0);
  t.is(before.outcome, 'accepted');
  await clock.advance(1);
  const after = ask('old');
  await clock.advance(2_000);
  t.is(after.outcome, 'unproven');
  await clock.advance(60 * minuteMs);
  t.deepEqual(logged(), ['error: the keys of the identity provider are a day old and no longer trusted']);
  t.true((keys.ageMs() ?? 0) > dayMs);

  publishes('old');
  const back = ask('old');
  await clock.advance(2_000);
  t.is(back.outcome, 'accepted');
  t.deepEqual(logged(), ['info: the keys of the identity provider can be fetched again']);
});

test('before the first successful fetch there is no age, all requests fail, and one fetch is enough', async (t) => {
  const { ask, clock, publishes, keys, logged } = start({ answer: down });
  await clock.advance(10 * minuteMs);
  t.is(keys.ageMs(), undefined);
  const early = ask('old');
  await clock.advance(2_000);
  t.is(early.outcome, 'unproven');
  publishes('old');
  const late = ask('old');
  await clock.advance(2_000);
  t.is(late.outcome, 'accepted');
  t.deepEqual(logged(), [unreachable, 'info: the keys of the identity provider can be fetched again']);
});

test('its check says whether the issuer answers now, and asks at most once per second', async (t) => {
  const { clock, does, publishes, keys, fetchedAt } = start();
  await clock.advance(500);
  await keys.check();
  t.deepEqual(fetchedAt, [0]);
  does(down);
  await clock.advance(500);
  await t.throwsAsync(keys.check(), { message: 'connection refused' });
  publishes('old');
  await t.throwsAsync(keys.check(), { message: 'connection refused' });
  await clock.advance(1_000);
  await keys.check();
  t.deepEqual(fetchedAt, [0, 1_000, 2_000]);
});

test('disposal ends all fetches, aborts the current one, and releases waiting requests', async (t) => {
  const { ask, clock, does, keys, fetchedAt, logged } = start();
  await clock.advance(minuteMs);
  does(hang);
  const waiting = ask('new');
  await clock.advance(100);
  keys[Symbol.dispose]();
  await clock.advance(0);
  const known = ask('old');
  const unknown = ask('new');
  await clock.advance(0);
  t.deepEqual(
    [waiting, known, unknown].map(({ outcome }) => outcome),
    ['unproven', 'accepted', 'unproven'],
  );
  t.is(clock.pending(), 0);
  t.deepEqual(fetchedAt, [0, minuteMs]);
  t.deepEqual(logged(), [], 'a shutdown is not logged as a failure of the issuer');

  const cooling = start();
  await cooling.clock.advance(100);
  const turn = cooling.ask('new');
  await cooling.clock.advance(100);
  cooling.keys[Symbol.dispose]();
  await cooling.clock.advance(0);
  t.deepEqual(turn, { outcome: 'unproven', at: 200 });
  t.is(cooling.clock.pending(), 0);
  t.deepEqual(cooling.fetchedAt, [0]);
});

test('its timers do not keep the process alive', async (t) => {
  const program = `
    const { createIssuerKeys } = await import(${JSON.stringify(new URL('../../../ingress/authentication/issuer-keys.ts', import.meta.url))});
    const log = { warn: () => console.log('failed'), info() {}, error() {} };
    createIssuerKeys({ issuer: 'http://127.0.0.1:1', log });
  `;
  const options = { timeout: 20_000 }; // less than the half minute until the next try
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], options);
  t.is(stdout, 'failed\n');
});
