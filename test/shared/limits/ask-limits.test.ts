import test from 'ava';
import type { AdmitAnswer } from '../../../shared/limits/admission.ts';
import type { Look } from '../../../shared/limits/admit.ts';
import { createAskLimits } from '../../../shared/limits/ask-limits.ts';
import type { Caller } from '../../../shared/store/records/account.ts';

const caller: Caller = { account: 'user:ann', plan: 'free', suspended: false, version: 3, overageEnabled: false };
const fresh: Caller = { ...caller, version: 4 };
const ended: AdmitAnswer = { outcome: 'ended' };
const cold: AdmitAnswer = { outcome: 'cold', month: '2030-05' };
const stale = (token: string): AdmitAnswer => ({ outcome: 'stale', reading: { token } });

/** Limits that return these answers in order and repeat the last one. `asked` records each call. */
function open(
  answers: readonly AdmitAnswer[],
  {
    seed = async () => {},
    read = async () => fresh,
  }: { seed?: (account: string, month: string) => Promise<void>; read?: () => Promise<Caller> } = {},
) {
  const asked: { look: Look; caller: Caller | undefined }[] = [];
  const seeded: string[] = [];
  let reread = 0;
  const askLimits = createAskLimits({
    seed: async ({ account, keyId }, month) => {
      seeded.push(keyId === undefined ? `${account} ${month}` : `${account} ${keyId} ${month}`);
      await seed(account, month);
      const none = { chargedTokens: 0, reservedTokens: 0, overageTokens: 0 };
      return { before: undefined, after: none };
    },
    async reread(_subject: string) {
      reread++;
      return read();
    },
  });
  const ask = (given: Partial<Parameters<typeof askLimits>[0]> = {}) => {
    const left = [...answers];
    const request = { account: 'user:ann', subject: 'user:ann', requestId: 'req_1', caller };
    return askLimits({ ...request, ...given }, async (look, found) => {
      asked.push({ look, caller: found });
      return (left.length > 1 ? left.shift() : left[0]) ?? ended;
    });
  };
  return { ask, asked, seeded, rereadings: () => reread };
}

test('a current caller with a counted month takes one call', async (t) => {
  const { ask, asked } = open([ended]);
  t.deepEqual(await ask({ lane: 'batch' }), { caller, answer: ended });
  t.like(asked, {
    ...{ 0: { look: { account: 'user:ann', requestId: 'req_1', version: 3, lane: 'batch' }, caller }, length: 1 },
  });
});

test('a stale caller is read again, and the next call is made for the caller that was read, with the reading’s token', async (t) => {
  const { ask, asked } = open([stale('token'), ended]);
  t.deepEqual(await ask(), { caller: fresh, answer: ended });
  t.like(asked[1], { look: { version: 4, reading: { token: 'token' } }, caller: fresh });
});

test('the token of a reading is used for one call only', async (t) => {
  const { ask, asked } = open([stale('one'), cold, ended]);
  await ask();
  t.is(asked[2]?.look.reading, undefined);
});

test('a caller that is not cached is sent without a version, then read', async (t) => {
  const { ask, asked } = open([stale('token'), ended]);
  t.deepEqual(await ask({ caller: undefined }), { caller: fresh, answer: ended });
  t.like(asked, { 0: { look: { version: undefined }, caller: undefined }, 1: { look: { version: 4 } } });
});

test('a cold month is counted, and the call is repeated', async (t) => {
  const { ask, seeded } = open([cold, ended]);
  t.deepEqual(await ask(), { caller, answer: ended });
  t.deepEqual(seeded, ['user:ann 2030-05']);
});

test('many concurrent calls for one cold month count it once', async (t) => {
  const counting = Promise.withResolvers<void>();
  const { ask, seeded } = open([cold, ended], { seed: () => counting.promise });
  const asking = Array.from({ length: 200 }, () => ask());
  counting.resolve();
  t.is((await Promise.all(asking)).length, 200);
  t.is(seeded.length, 1);
});

test('at most 64 months are counted at once, and the others must retry', async (t) => {
  const counting = Promise.withResolvers<void>();
  const { ask, seeded } = open([cold, ended], { seed: () => counting.promise });
  const asking = Array.from({ length: 65 }, (_, index) => ask({ account: `user:${index}` }));
  const last = asking.pop();
  await t.throwsAsync(async () => last, { code: 'SERVICE_UNAVAILABLE' });
  counting.resolve();
  await Promise.all(asking);
  t.is(seeded.length, 64);
  t.like(await ask({ account: 'user:64' }), { answer: ended });
});

test('only a further key with an end or limits is part of a call, and its month is counted apart', async (t) => {
  const keyed = (keyScope: Caller['keyScope']): Caller => ({ ...caller, keyId: 'key_1', keyScope });
  const coldKey: AdmitAnswer = { outcome: 'cold', month: '2030-05', keyId: 'key_1' };
  const { ask, asked, seeded } = open([coldKey, ended]);
  const limits = { tokensPerMonth: 5 };
  await ask({ caller: keyed({ endsAt: 7, expiresAt: 5, limits }) });
  t.deepEqual(asked[1]?.look.key, { id: 'key_1', endsAt: 5, limits });
  t.deepEqual(seeded, ['user:ann key_1 2030-05']);
  for (const unlimited of [keyed(undefined), keyed({ models: ['small-chat'], allowedIps: ['::1'] })]) {
    await ask({ caller: unlimited });
    t.is(asked.at(-1)?.look.key, undefined);
  }
});

test('an old count of a key is used, and counted again in the background, which may fail', async (t) => {
  const none = { lastMinute: { requests: 0, tokens: 0, resetMs: 0 }, dayRequests: 0 };
  const month = { ...none, chargedTokens: 0, reservedTokens: 0, overageTokens: 0 };
  const key = { ...month, id: 'key_1', isCountOld: true };
  const answer: AdmitAnswer = {
    outcome: 'full',
    counters: { ...month, now: 1, month: '2030-05', isCountOld: false, key },
  };
  // The key of a batch's line is not that of its caller: only the answer has it.
  for (const asking of [{ ...caller, keyId: 'key_1', keyScope: { limits: {} } }, caller]) {
    const { ask, seeded } = open([answer], { seed: () => Promise.reject(new Error('the store is unavailable')) });
    t.like(await ask({ caller: asking }), { answer });
    t.deepEqual(seeded, ['user:ann key_1 2030-05']);
  }
});

test('an account that changes all the time is given up after ten calls', async (t) => {
  const { ask, asked } = open([stale('token')]);
  await t.throwsAsync(ask(), { code: 'SERVICE_UNAVAILABLE' });
  t.is(asked.length, 10);
});

test('an error of a reading or of a counting is passed on', async (t) => {
  const failure = new Error('the store is unavailable');
  await t.throwsAsync(open([stale('token')], { read: () => Promise.reject(failure) }).ask(), { is: failure });
  await t.throwsAsync(open([cold], { seed: () => Promise.reject(failure) }).ask(), { is: failure });
});

test('an answer for an unknown caller is an internal error', async (t) => {
  await t.throwsAsync(open([ended]).ask({ caller: undefined }), { message: /unknown caller/ });
});
