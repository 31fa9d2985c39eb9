import test from 'ava';
import type { Caller } from '../../../shared/caller.ts';
import type { Admitted, Look } from '../../../shared/limits/admit.ts';
import { createAskLimits } from '../../../shared/limits/ask-limits.ts';

const caller: Caller = { account: 'user:ann', plan: 'free', suspended: false, version: 3, overageEnabled: false };
const fresh: Caller = { ...caller, version: 4 };
const ended: Admitted = { outcome: 'ended' };
const cold: Admitted = { outcome: 'cold', month: '2030-05' };
const stale = (token: string): Admitted => ({ outcome: 'stale', reading: { token } });

/** Limits that answer so, one after another, the last for ever; `asked` is how they were asked. */
function open(
  answers: readonly Admitted[],
  {
    seed = async () => {},
    read = async () => fresh,
  }: { seed?: (account: string, month: string) => Promise<void>; read?: () => Promise<Caller> } = {},
) {
  const asked: { look: Look; caller: Caller | undefined }[] = [];
  const seeded: string[] = [];
  let reread = 0;
  const askLimits = createAskLimits({
    seed: async (account, month) => {
      seeded.push(`${account} ${month}`);
      await seed(account, month);
      const none = { used: 0, reserved: 0, overage: 0 };
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

test('a caller that is the present one, of a month that is counted, is one call', async (t) => {
  const { ask, asked } = open([ended]);
  t.deepEqual(await ask({ lane: 'batch' }), { caller, answer: ended });
  t.like(asked, {
    ...{ 0: { look: { account: 'user:ann', requestId: 'req_1', version: 3, lane: 'batch' }, caller }, length: 1 },
  });
});

test('a caller that was overtaken is read again, and asked for as what was read under that reading', async (t) => {
  const { ask, asked } = open([stale('token'), ended]);
  t.deepEqual(await ask(), { caller: fresh, answer: ended });
  t.like(asked[1], { look: { version: 4, reading: { token: 'token' } }, caller: fresh });
});

test('a reading counts for one asking alone', async (t) => {
  const { ask, asked } = open([stale('one'), cold, ended]);
  await ask();
  t.is(asked[2]?.look.reading, undefined);
});

test('one who is not known here is asked for without a version, and read', async (t) => {
  const { ask, asked } = open([stale('token'), ended]);
  t.deepEqual(await ask({ caller: undefined }), { caller: fresh, answer: ended });
  t.like(asked, { 0: { look: { version: undefined }, caller: undefined }, 1: { look: { version: 4 } } });
});

test('a month that is cold is counted, and asked for again', async (t) => {
  const { ask, seeded } = open([cold, ended]);
  t.deepEqual(await ask(), { caller, answer: ended });
  t.deepEqual(seeded, ['user:ann 2030-05']);
});

test('many who ask for one cold month at once have it counted once', async (t) => {
  const counting = Promise.withResolvers<void>();
  const { ask, seeded } = open([cold, ended], { seed: () => counting.promise });
  const asking = Array.from({ length: 200 }, () => ask());
  counting.resolve();
  t.is((await Promise.all(asking)).length, 200);
  t.is(seeded.length, 1);
});

test('no more than 64 months are counted at once, and the others come back', async (t) => {
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

test('an account that changes all the time is given up after eight calls', async (t) => {
  const { ask, asked } = open([stale('token')]);
  await t.throwsAsync(ask(), { code: 'SERVICE_UNAVAILABLE' });
  t.is(asked.length, 8);
});

test('a reading or a counting that fails is told as it did', async (t) => {
  const failure = new Error('the store is away');
  await t.throwsAsync(open([stale('token')], { read: () => Promise.reject(failure) }).ask(), { is: failure });
  await t.throwsAsync(open([cold], { seed: () => Promise.reject(failure) }).ask(), { is: failure });
});

test('an answer for a caller that nobody knows is a fault of ours', async (t) => {
  await t.throwsAsync(open([ended]).ask({ caller: undefined }), { message: /unknown caller/ });
});
