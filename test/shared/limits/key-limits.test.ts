import test from 'ava';
import type { LookKey } from '../../../shared/limits/admit.ts';
import { keyCountersKey, outboxKey, outboxMarksKey, partitionOf } from '../../../shared/redis/keys.ts';
import { noDetailCounts } from '../../../shared/store/usage/usage-record.ts';
import type { UsageDetail } from '../../../shared/store/usage/usage-tables.ts';
import { changeLease } from '../../support/change-lease.ts';
import { allKeys } from '../../support/open-redis.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const hourMs = 3_600_000;
const id = 'key_02';

const { redis, setTime, freshAccount } = openOwnLimits(test);

const limitedTo = (limits: LookKey['limits']): LookKey => ({ id, limits });

test.serial('tokens per minute of a key are reserved up to the last token, and settled as used', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ tokensPerMinute: 1_000 });
  t.like(await side.admit({ requestId: 'a', tokens: 999, key }), { outcome: 'admitted' });
  t.like(await side.admit({ requestId: 'b', tokens: 2, key }), { outcome: 'refused', limit: 'key_tokens' });
  await side.start('a');
  t.true(await side.settle('a', { tokens: 100 }));
  t.like((await side.counters(key)).key?.lastMinute, { requests: 1, tokens: 100 });
  t.like(await side.admit({ requestId: 'c', tokens: 901, key }), { outcome: 'refused' });
  t.like(await side.admit({ requestId: 'd', tokens: 900, key }), { outcome: 'admitted' });
});

test.serial('a key without a limit of the month has no month, and no key has overage', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 10, overageEnabled: true };
  const fieldsAfter = async (name: string, limits: LookKey['limits']) => {
    t.like(await side.admit({ requestId: name, tokens: 20, key: limitedTo(limits), allowance }), {
      admission: { overage: true },
    });
    await side.start(name);
    await side.settle(name, { tokens: 20 });
    return (await redis().hkeys(keyCountersKey(side.account, id))).filter((field) => field.includes(':')).sort();
  };
  await side.admit({ requestId: 'a', tokens: 10, allowance });
  t.deepEqual(await fieldsAfter('b', { requestsPerMinute: 5 }), []);
  await side.seedKey(id, '2030-05');
  const fields = ['2030-05:chargedTokens', '2030-05:overageTokens', '2030-05:reservedTokens'];
  t.deepEqual(await fieldsAfter('c', { tokensPerMonth: 500 }), fields);
  t.like(await side.counters(limitedTo({ tokensPerMonth: 500 })), { overageTokens: 40, key: { overageTokens: 0 } });
});

test.serial('the longest wait of all limits is reported, and a spent quota before all', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ requestsPerMinute: 1 });
  await side.admit({ requestId: 'a', key });
  await setTime(noon + 10_000);
  await side.admit({ requestId: 'b' });
  const allowance = { requestsPerMinute: 1 };
  t.like(await side.admit({ requestId: 'c', key, allowance }), { limit: 'requests', waitMs: 60_000 });
  t.like(await side.admit({ requestId: 'c', key, allowance: { requestsPerMinute: 2 } }), { waitMs: 50_000 });
  t.like(await side.admit({ requestId: 'c', key, allowance: { tokensPerMonth: 1 } }), { limit: 'quota', waitMs: 0 });
});

test.serial('a release and an expired lease give back to the key what they were charged', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ requestsPerMinute: 2, tokensPerMonth: 1_000 });
  await side.seedKey(id, '2030-05');
  await side.admit({ requestId: 'a', tokens: 300, key });
  await side.admit({ requestId: 'b', tokens: 400, key });
  t.like((await side.counters(key)).key, {
    lastMinute: { requests: 2, tokens: 700 },
    chargedTokens: 0,
    reservedTokens: 700,
  });
  t.is(await side.release('a'), 'released');
  t.like((await side.counters(key)).key, { lastMinute: { requests: 1, tokens: 400 }, reservedTokens: 400 });
  await setTime(noon + hourMs / 2);
  await side.endLeases();
  t.like((await side.counters(key)).key, { lastMinute: { requests: 0, tokens: 0 }, reservedTokens: 0 });
});

test.serial(
  "a key's month is cold until it is counted, and admits until it is spent, whatever overage says",
  async (t) => {
    const side = await freshAccount();
    const key = limitedTo({ tokensPerMonth: 100 });
    t.deepEqual(await side.admit({ requestId: 'a', key }), { outcome: 'cold', month: '2030-05', keyId: id });
    await side.seedKey(id, '2030-05');
    const allowance = { overageEnabled: true };
    t.like(await side.admit({ requestId: 'a', tokens: 99, key, allowance }), { outcome: 'admitted' });
    t.like(await side.admit({ requestId: 'b', tokens: 50, key, allowance }), { outcome: 'admitted' });
    t.like(await side.admit({ requestId: 'c', tokens: 1, key, allowance }), { outcome: 'refused', limit: 'key_quota' });
    for (const name of ['a', 'b']) {
      await side.start(name);
      await side.settle(name, { tokens: 49 });
    }
    t.like((await side.counters(key)).key, { chargedTokens: 98, reservedTokens: 0 });
    t.like(await side.admit({ requestId: 'd', tokens: 1, key, allowance }), { outcome: 'admitted' });
  },
);

test.serial('a month after a counted one begins at 0 without the store, and should be counted again', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ tokensPerMonth: 100, monthLimitedSince: '2030-05' });
  await side.seedKey(id, '2030-05');
  await setTime(Date.UTC(2030, 5, 1) - 1_000);
  await side.admit({ requestId: 'a', tokens: 100, key });
  await side.start('a');
  await setTime(Date.UTC(2030, 5, 1));
  t.like((await side.counters(key)).key, { chargedTokens: 0, reservedTokens: 0, isCountOld: true });
  t.like(await side.admit({ requestId: 'b', tokens: 60, key }), { outcome: 'admitted' });
  t.true(await side.settle('a', { tokens: 90 }), 'charged to its own month');
  t.like((await side.counters(key)).key, { chargedTokens: 0, reservedTokens: 60, isCountOld: true });
  await side.seedKey(id, '2030-06');
  t.like((await side.counters(key)).key, { chargedTokens: 0, reservedTokens: 60, isCountOld: false });
  await setTime(Date.UTC(2030, 7, 1));
  await side.prepare('2030-08');
  t.like(await side.admit({ requestId: 'c', key }), { outcome: 'cold', month: '2030-08', keyId: id });
});

test.serial(
  'the first use in a month asks for its count, although the month before was counted just now',
  async (t) => {
    const side = await freshAccount();
    const key = limitedTo({ tokensPerMonth: 100, monthLimitedSince: '2030-05' });
    await setTime(Date.UTC(2030, 5, 1) - 1_000);
    await side.seedKey(id, '2030-05');
    const admitted = await side.admit({ requestId: 'a', tokens: 30, key });
    t.like(admitted, { outcome: 'admitted', counters: { key: { reservedTokens: 30, isCountOld: false } } });
    await setTime(Date.UTC(2030, 5, 1));
    t.like((await side.counters(key)).key, { isCountOld: true });
    await side.seedKey(id, '2030-06');
    t.like((await side.counters(key)).key, { reservedTokens: 0, isCountOld: false });
    const ofMay = await redis().hget(keyCountersKey(side.account, id), '2030-05:reservedTokens');
    t.is(ofMay, '30', 'the month before is kept, for what is still in flight');
  },
);

test.serial(
  'after the clock was put back by minutes, a minute of the future does not count, and a month is counted again',
  async (t) => {
    const side = await freshAccount();
    const key = limitedTo({ requestsPerMinute: 1, tokensPerMonth: 1_000 });
    await setTime(noon + 600_000);
    await side.seedKey(id, '2030-05');
    t.like(await side.admit({ requestId: 'a', key }), { outcome: 'admitted' });
    t.like((await side.counters(key)).key, { lastMinute: { requests: 1 }, isCountOld: false });
    await setTime(noon);
    t.like((await side.counters(key)).key, { lastMinute: { requests: 0 }, isCountOld: true });
    t.like(await side.admit({ requestId: 'b', key }), { outcome: 'admitted' });
  },
);

test.serial(
  'a month is counted first if the key got its limit within it, although the month before is counted',
  async (t) => {
    const side = await freshAccount();
    await side.seedKey(id, '2030-05');
    await setTime(Date.UTC(2030, 5, 2));
    const key = (monthLimitedSince: string) => limitedTo({ tokensPerMonth: 100, monthLimitedSince });
    t.like(await side.admit({ requestId: 'a', key: key('2030-06') }), { outcome: 'cold', keyId: id });
    t.like(await side.admit({ requestId: 'a', key: limitedTo({ tokensPerMonth: 100 }) }), {
      outcome: 'cold',
      keyId: id,
    });
    t.like(await side.admit({ requestId: 'a', key: key('2030-05') }), { outcome: 'admitted' });
  },
);

for (const how of ['settled', 'released', 'expired'] as const) {
  test.serial(`a request from before the key had limits does not lower the minute of the key: ${how}`, async (t) => {
    const side = await freshAccount();
    await side.admit({ requestId: 'a', tokens: 10_000, key: { id, endsAt: noon + hourMs } });
    if (how === 'settled') await side.start('a');
    await side.seedKey(id, '2030-05');
    const key = limitedTo({ tokensPerMinute: 100, tokensPerMonth: 1_000_000 });
    await setTime(noon + 1_000);
    t.like(await side.admit({ requestId: 'b', tokens: 50, key }), { outcome: 'admitted' });
    if (how === 'settled') t.true(await side.settle('a', { tokens: 10 }));
    else if (how === 'released') t.is(await side.release('a'), 'released');
    else {
      await setTime(noon + 60_000);
      await side.endLeases(noon + 60_000);
    }
    const used = how === 'settled' ? 10 : 0;
    t.like((await side.counters(key)).key, {
      lastMinute: { requests: 1, tokens: 50 },
      chargedTokens: used,
      reservedTokens: 50,
    });
  });
}

test.serial('each entry is counted once, in its detail or from the outbox, and only those of the key', async (t) => {
  const details: UsageDetail[] = [];
  const side = await freshAccount({ details: () => details });
  const key = limitedTo({ tokensPerMonth: 1_000 });
  await side.seedKey(id, '2030-05');
  for (const name of ['a', 'b', 'c']) {
    await side.admit({ requestId: name, tokens: 10, key });
    await side.start(name);
    await side.settle(name, { tokens: 7 });
  }
  await side.admit({ requestId: 'of the default key' });
  await side.start('of the default key');
  await side.settle('of the default key', { tokens: 5 });
  const [, second] = (await side.outbox()).filter(({ account }) => account === side.account);
  const counts = { ...noDetailCounts, requests: 2, chargedTokens: 14 };
  const place = {
    unit: 'day',
    start: '2030-05-15',
    code: '',
    model: 'small-chat',
    keyId: id,
    endpoint: '/v1/chat/completions',
  } as const;
  details.push({ account: side.account, month: '2030-05', ...place, lastEntry: second?.entry ?? '', counts });
  for (let time = 1; time <= 2; time++) {
    await side.seedKey(id, '2030-05');
    t.like((await side.counters(key)).key, { chargedTokens: 21, reservedTokens: 0 });
  }
});

test.serial('entries that were trimmed meanwhile are not missed: the count starts again', async (t) => {
  let reads = 0;
  const side = await freshAccount({
    details() {
      reads += 1;
      return [];
    },
  });
  const marks = outboxMarksKey(partitionOf(side.account));
  await redis().hset(marks, 'trimmed', '1-1');
  const error = await t.throwsAsync(side.seedKey(id, '2030-05'));
  await redis().del(marks);
  t.like(error, { code: 'SERVICE_UNAVAILABLE' });
  t.is(reads, 3);
  t.is(await redis().exists(keyCountersKey(side.account, id)), 0);
});

test.serial('a long outbox is read to its end', async (t) => {
  const side = await freshAccount();
  const stream = outboxKey(partitionOf(side.account));
  const report = JSON.stringify({ keyId: id, model: 'small-chat', endpoint: '/v1/chat/completions' });
  const fields = { account: side.account, month: '2030-05', chargedTokens: 2, admittedAt: noon, report };
  const pipeline = redis().pipeline();
  for (let entry = 1; entry <= 1_001; entry++) pipeline.xadd(stream, '*', ...Object.entries(fields).flat());
  await pipeline.exec();
  await side.seedKey(id, '2030-05');
  t.like((await side.counters(limitedTo({ tokensPerMonth: 1 }))).key, { chargedTokens: 2_002 });
  await redis().del(stream);
});

test.serial('an entry that cannot be read is passed over', async (t) => {
  const side = await freshAccount();
  const stream = outboxKey(partitionOf(side.account));
  await redis().xadd(stream, '*', 'account', side.account, 'month', '2030-05', 'chargedTokens', '1', 'report', '{');
  await side.seedKey(id, '2030-05');
  t.like((await side.counters(limitedTo({ tokensPerMonth: 1 }))).key, { chargedTokens: 0 });
});

test.serial('requests in flight from before the key had a limit are counted from its first count on', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', tokens: 30, key: { id, endsAt: noon + hourMs } });
  await side.admit({ requestId: 'of the default key', tokens: 50 });
  await side.start('a');
  await side.seedKey(id, '2030-05');
  const key = limitedTo({ tokensPerMonth: 1_000 });
  t.like((await side.counters(key)).key, { chargedTokens: 0, reservedTokens: 30 });
  t.true(await side.settle('a', { tokens: 20 }));
  t.like((await side.counters(key)).key, { chargedTokens: 20, reservedTokens: 0 });
  await side.seedKey(id, '2030-05');
  t.like((await side.counters(key)).key, { chargedTokens: 20, reservedTokens: 0 });
});

test.serial(
  'a month should be counted again after an hour, so that nothing that was missed stays missing',
  async (t) => {
    const side = await freshAccount();
    const key = limitedTo({ tokensPerMonth: 1_000 });
    await side.seedKey(id, '2030-05');
    await side.admit({ requestId: 'a', tokens: 30, key });
    await redis().hincrby(keyCountersKey(side.account, id), '2030-05:reservedTokens', 500);
    await setTime(noon + hourMs - 1);
    t.like((await side.counters(key)).key, { reservedTokens: 530, isCountOld: false });
    await setTime(noon + hourMs);
    t.like((await side.counters(key)).key, { reservedTokens: 530, isCountOld: true });
    await side.seedKey(id, '2030-05');
    t.like((await side.counters(key)).key, { reservedTokens: 30, isCountOld: false });
  },
);

test.serial('a key is refused from the millisecond of its end on, by the clock of Redis', async (t) => {
  const side = await freshAccount();
  const key = { id, endsAt: noon + 1_000 };
  await setTime(noon + 999);
  t.like(await side.admit({ requestId: 'a', key }), { outcome: 'admitted' });
  await setTime(noon + 1_000);
  t.deepEqual(await side.admit({ requestId: 'b', key }), { outcome: 'expired' });
  t.is((await side.counters()).lastMinute.requests, 1);
});

test.serial('a key without limits leaves no counters and no mark in its leases', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', key: { id, endsAt: noon + hourMs } });
  t.is(await redis().exists(keyCountersKey(side.account, id)), 0);
  t.false(Object.hasOwn(await changeLease(redis(), { account: side.account, requestId: side.idOf('a') }), 'key'));
});

test.serial(
  'the counters of a key expire two days after its last use, or minutes after it without a month',
  async (t) => {
    const life = async (account: string) => redis().pttl(keyCountersKey(account, id));
    const counted = await freshAccount();
    await counted.seedKey(id, '2030-05');
    const used = await freshAccount();
    await used.seedKey(id, '2030-05');
    await redis().persist(keyCountersKey(used.account, id));
    await used.admit({ requestId: 'a', key: limitedTo({ tokensPerMonth: 1_000 }) });
    for (const { account } of [counted, used]) {
      const lifeMs = await life(account);
      t.true(lifeMs > 47 * hourMs && lifeMs <= 48 * hourMs, String(lifeMs));
    }
    const withoutMonth = await freshAccount();
    await withoutMonth.admit({ requestId: 'a', key: limitedTo({ requestsPerMinute: 1 }) });
    const lifeMs = await life(withoutMonth.account);
    t.true(lifeMs > 100_000 && lifeMs <= 120_000, String(lifeMs));
  },
);

test.serial('a count removes the month two before it, and nothing else', async (t) => {
  const side = await freshAccount();
  for (const month of ['2030-05', '2030-06', '2030-07']) await side.seedKey(id, month);
  t.deepEqual((await redis().hkeys(keyCountersKey(side.account, id))).toSorted(), [
    ...['2030-06:chargedTokens', '2030-06:overageTokens', '2030-06:reservedTokens'],
    ...['2030-07:chargedTokens', '2030-07:overageTokens', '2030-07:reservedTokens', 'countedAt'],
  ]);
});

test.serial('several keys are counted apart', async (t) => {
  const side = await freshAccount();
  const keys = ['key_02', 'key_03'].map(
    (each): LookKey => ({ id: each, limits: { requestsPerMinute: 5, tokensPerMonth: 90 } }),
  );
  for (const [index, key] of keys.entries()) {
    await side.seedKey(key.id, '2030-05');
    for (let request = 0; request <= index; request++)
      await side.admit({ requestId: `${key.id} ${request}`, key, tokens: 10 });
  }
  for (const [index, key] of keys.entries()) {
    const tokens = 10 * (index + 1);
    t.like((await side.counters(key)).key, { lastMinute: { requests: index + 1, tokens }, reservedTokens: tokens });
  }
  await setTime(noon + hourMs);
  t.is(await side.endLeases(), 3);
  for (const key of keys) t.like((await side.counters(key)).key, { lastMinute: { requests: 0 }, reservedTokens: 0 });
});

test.serial('any number of leases of any keys expire together', async (t) => {
  const side = await freshAccount();
  const limits = { tokensPerMonth: 5_000 };
  const keys: (LookKey | undefined)[] = [undefined, { id, limits }, { id: 'key_03', limits }];
  for (const key of keys) if (key !== undefined) await side.seedKey(key.id, '2030-05');
  for (let index = 0; index < 180; index++) {
    const key = keys[index % keys.length];
    await side.admit({ requestId: `${index}`, tokens: 10, ...(key && { key }) });
  }
  t.like(await side.counters(keys[1]), { reservedTokens: 1_800, key: { reservedTokens: 600 } });
  await setTime(noon + 60_000);
  t.is(await side.endLeases(), 180);
  for (const key of keys)
    t.like(await side.counters(key), { reservedTokens: 0, ...(key && { key: { reservedTokens: 0 } }) });
  t.is((await side.outbox()).filter(({ account }) => account === side.account).length, 180);
});

test.serial('nothing that a script reads as a whole grows with the keys that an account has used', async (t) => {
  async function largestAfter(keysUsed: number): Promise<number> {
    const side = await freshAccount();
    for (let index = 0; index < keysUsed; index++) {
      const key = { id: `key_${index}`, limits: { requestsPerMinute: 5, tokensPerMonth: 90 } };
      await side.seedKey(key.id, '2030-05');
      await side.admit({ requestId: `${index}`, key, tokens: 10 });
      await side.start(`${index}`);
      await side.settle(`${index}`);
    }
    const keys = (await allKeys(redis())).filter((key) => key.includes(side.account));
    return Math.max(...(await Promise.all(keys.map((key) => elementsOf(key)))));
  }
  const elementsOf = async (key: string) => {
    const type = await redis().type(key);
    return type === 'hash' ? redis().hlen(key) : type === 'zset' ? redis().zcard(key) : 1;
  };
  t.is(await largestAfter(60), await largestAfter(2));
});

test.serial('a key that sends all requests of its account has the counters of it', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ requestsPerMinute: 50, tokensPerMonth: 50_000 });
  await side.seedKey(id, '2030-05');
  const same = async () => {
    const { now: _now, month: _month, key: ofKey, ...ofAccount } = await side.counters(key);
    t.deepEqual(ofKey, { id, ...ofAccount });
    return ofAccount;
  };
  for (const [index, name] of ['a', 'b', 'c', 'd', 'e'].entries()) {
    await setTime(noon + 4_000 * index);
    t.like(await side.admit({ requestId: name, tokens: 100 * (index + 1), key }), { outcome: 'admitted' });
  }
  t.like(await same(), { reservedTokens: 1_500, dayRequests: 5, lastMinute: { requests: 5, tokens: 1_500 } });
  await side.start('a');
  await side.settle('a', { tokens: 30 });
  t.is(await side.release('b'), 'released');
  t.like(await same(), {
    chargedTokens: 30,
    reservedTokens: 1_200,
    dayRequests: 4,
    lastMinute: { requests: 4, tokens: 1_230 },
  });
  await setTime(noon + 66_000);
  t.like(await same(), { dayRequests: 4, lastMinute: { requests: 3, tokens: 1_200 } });
  await setTime(noon + hourMs / 2);
  await side.endLeases();
  t.like(await same(), {
    chargedTokens: 30,
    reservedTokens: 0,
    dayRequests: 4,
    lastMinute: { requests: 0, tokens: 0, resetMs: 0 },
  });
});

test.serial('a repeated admission of a key charges it once', async (t) => {
  const side = await freshAccount();
  const key = limitedTo({ requestsPerMinute: 1, tokensPerMinute: 100 });
  const first = await side.admit({ requestId: 'a', tokens: 100, key });
  const again = await side.admit({ requestId: 'a', tokens: 100, key });
  t.deepEqual(again, first);
  t.like((await side.counters(key)).key?.lastMinute, { requests: 1, tokens: 100 });
});
