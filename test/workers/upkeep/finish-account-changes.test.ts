import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { auditLockKey } from '../../../shared/redis/keys.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { AuditStore, CopiedAudit } from '../../../shared/store/records/audit-store.ts';
import { claimCode, type TopUpCode } from '../../../shared/store/records/top-up-codes.ts';
import {
  startAccountRemoval,
  startAuditCopy,
  startCodeCompletion,
} from '../../../workers/upkeep/finish-account-changes.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { topUpCodeOf } from '../../shared/store/top-up-code-records.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

type Wishes = {
  /** How many seconds ago each code was claimed. */
  claimedS: readonly number[];
  fails?: (index: number) => boolean;
};

/** Makes one pass over codes, numbered in order, and returns the numbers of those that were tried. */
async function completeOnce({ claimedS, fails = () => false }: Wishes) {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const now = Date.now();
  const codes = claimedS.map((_, index) => topUpCodeOf({ id: `tuc_${String(index).padStart(26, '0')}` }));
  await store.topUpCodes.insertCodes([...codes, topUpCodeOf()]);
  for (const [index, code] of codes.entries()) {
    const at = new Date(now - (claimedS[index] ?? 0) * 1_000);
    await store.topUpCodes.changeCode(code.id, claimCode({ account: `user:${index}`, at, from: '::1' }));
  }
  const tried: number[] = [];
  const times: Date[] = [];
  const { log, lines } = recordedLog();
  const passed = Promise.withResolvers<void>();
  const { topUpCodes } = store;
  let passes = 0;
  await using _completing = startCodeCompletion({
    redis: own.redis,
    codes: {
      async listClaimedCodes(page) {
        if (page.after === '') passes += 1;
        if (passes > 1) passed.resolve();
        return passes > 1 ? [] : topUpCodes.listClaimedCodes(page);
      },
    },
    async applyTopUpCode({ id }: TopUpCode, { at }) {
      const index = codes.findIndex((code) => code.id === id);
      tried.push(index);
      times.push(at);
      if (fails(index)) throw storeUnavailable(new Error('away'));
      return undefined;
    },
    log,
    everyMs: 1,
  });
  await passed.promise;
  return { tried, times, lines, now };
}

test('codes that were claimed a while ago are applied, at the time of Redis; those of the last moments are not', async (t) => {
  const { tried, times, lines, now } = await completeOnce({ claimedS: [11, 0, 3_600] });
  t.deepEqual(tried, [0, 2]);
  for (const at of times) t.true(Math.abs(at.getTime() - now) < 60_000);
  t.deepEqual(lines, [{ level: 'info', fields: { codes: 2 }, message: 'redeemed top-up codes were completed' }]);
});

test('more codes than a page are all applied', async (t) => {
  const { tried } = await completeOnce({ claimedS: Array.from({ length: 201 }, () => 60) });
  t.deepEqual(
    tried,
    Array.from({ length: 201 }, (_, index) => index),
  );
});

test('a code that fails does not block the others, and the failure is reported', async (t) => {
  const { tried, lines } = await completeOnce({ claimedS: [60, 60, 60], fails: (index) => index === 0 });
  t.deepEqual(tried, [0, 1, 2]);
  t.like(lines, [
    { level: 'info', fields: { codes: 2 } },
    { level: 'warn', message: 'top-up codes were not completed; trying again' },
  ]);
});

test('without claimed codes nothing is logged', async (t) => {
  const { tried, lines } = await completeOnce({ claimedS: [] });
  t.deepEqual([tried, lines], [[], []]);
});

test('every removal that has begun is completed, and one that fails does not block the others', async (t) => {
  const accounts = Array.from({ length: 250 }, (_, index) => `user:${String(index).padStart(3, '0')}`);
  const cleared: string[] = [];
  const { log, lines } = recordedLog();
  const passed = Promise.withResolvers<void>();
  await using _removing = startAccountRemoval({
    redis: own.redis,
    store: {
      async listRemovals({ after, limit }) {
        if (cleared.length >= accounts.length) passed.resolve();
        return accounts.filter((account) => account > after && !cleared.includes(account)).slice(0, limit);
      },
    },
    async clearAccount(account, at) {
      t.true(Math.abs(at.getTime() - Date.now()) < 60_000);
      cleared.push(account);
      if (account === 'user:100') throw new Error('away');
      return account !== 'user:101';
    },
    log,
    everyMs: 1,
  });
  await passed.promise;
  t.deepEqual(cleared, accounts);
  t.is(lines.filter(({ message }) => message === 'an account was removed').length, 248);
  t.like(lines.at(-1), { level: 'warn', message: 'an account was not removed; trying again' });
});

/** Copies these pages, each by the account before it. Ends after `wanted` pages were read, or the lock was requested 50 times. */
async function copy({ pages = {}, isHeld = () => true, wanted = 1, everyMs = 1, copiedCodes = 0 }: CopyWishes) {
  const asked: string[] = [];
  const held: string[] = [];
  const left: string[] = [];
  const { log, lines } = recordedLog();
  const enough = Promise.withResolvers<void>();
  const audit: Pick<AuditStore, 'copyAuditAfter' | 'copyCodeAuditAfter'> = {
    copyCodeAuditAfter: async () => page(copiedCodes),
    async copyAuditAfter(after, limit) {
      asked.push(`${after} ${limit}`);
      if (asked.length >= wanted) enough.resolve();
      const page = pages[after];
      if (page === undefined) throw new Error('the store is unavailable');
      return page;
    },
  };
  {
    await using _copying = startAuditCopy({
      audit,
      acquireLock: async (key) => {
        held.push(key);
        if (held.length > 50) enough.resolve();
        return isHeld(held.length);
      },
      releaseLock: async (key) => void left.push(key),
      log,
      everyMs,
    });
    await enough.promise;
    await sleep(0);
  }
  return { asked, held, left, lines };
}

type CopyWishes = {
  copiedCodes?: number;
  pages?: Record<string, CopiedAudit>;
  isHeld?: (times: number) => boolean;
  wanted?: number;
  everyMs?: number;
};

const pages = { '': page(2, 'user:b'), 'user:b': page(0, 'user:d'), 'user:d': page(1) };

function page(copied: number, last?: string): CopiedAudit {
  return { copied, last, unreadable: [] };
}

test('copies all accounts, page by page, and starts again', async (t) => {
  const { asked, held, left, lines } = await copy({ pages, wanted: 5 });
  t.deepEqual(asked.slice(0, 5), [' 100', 'user:b 100', 'user:d 100', ' 100', 'user:b 100']);
  t.deepEqual([...new Set(held)], [auditLockKey]);
  t.deepEqual(left, [auditLockKey], 'another worker does not have to wait');
  t.like(lines[0], { level: 'info', fields: { records: 3 } });
  t.like((await copy({ pages, wanted: 5, copiedCodes: 4 })).lines[0], { level: 'info', fields: { records: 7 } });
});

test('does nothing while another worker holds the lock, and stops when another one acquires it', async (t) => {
  t.deepEqual((await copy({ pages, isHeld: () => false })).asked, []);
  const { asked, lines } = await copy({ pages, isHeld: (times) => times <= 2, wanted: 50 });
  t.deepEqual(asked, [' 100', 'user:b 100']);
  t.like(lines, { length: 1, 0: { fields: { records: 2 } } });
});

test('a failure of the store is logged, and retried', async (t) => {
  const { asked, lines } = await copy({ pages: { '': page(0, 'user:b') }, wanted: 4 });
  t.deepEqual(asked.slice(0, 4), [' 100', 'user:b 100', ' 100', 'user:b 100']);
  t.like(lines[0], { level: 'warn', message: 'audit records that wait were not copied; trying again' });
});

test('logs nothing if nothing waited', async (t) => {
  t.deepEqual((await copy({ pages: { '': page(0) }, wanted: 3 })).lines, []);
});

test('unreadable accounts are logged, and the others are copied', async (t) => {
  const unreadable = ['user:a'];
  const { lines } = await copy({
    pages: { '': { copied: 1, last: 'user:b', unreadable }, 'user:b': page(1) },
    wanted: 3,
  });
  t.like(lines, { 0: { level: 'warn', fields: { ids: unreadable } }, 1: { fields: { records: 2 } } });
});
