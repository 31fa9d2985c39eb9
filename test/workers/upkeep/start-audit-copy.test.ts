import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { auditLockKey } from '../../../shared/redis/coordination-keys.ts';
import type { AuditStore, CopiedAudit } from '../../../shared/store/accounts/audit-store.ts';
import { startAuditCopy } from '../../../workers/upkeep/start-completions.ts';
import { recordedLog } from '../../support/recorded-log.ts';

/** Copies these pages, each by the account before it. Ends after `wanted` pages were read, or the lock was requested 50 times. */
async function run({ pages = {}, isHeld = () => true, wanted = 1, everyMs = 1 }: Wishes) {
  const asked: string[] = [];
  const held: string[] = [];
  const left: string[] = [];
  const { log, lines } = recordedLog();
  const enough = Promise.withResolvers<void>();
  const audit: Pick<AuditStore, 'copyAuditAfter'> = {
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

type Wishes = {
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
  const { asked, held, left, lines } = await run({ pages, wanted: 5 });
  t.deepEqual(asked.slice(0, 5), [' 100', 'user:b 100', 'user:d 100', ' 100', 'user:b 100']);
  t.deepEqual([...new Set(held)], [auditLockKey]);
  t.deepEqual(left, [auditLockKey], 'another worker does not have to wait');
  t.like(lines[0], { level: 'info', fields: { records: 3 } });
});

test('does nothing while another worker holds the lock, and stops when another one acquires it', async (t) => {
  t.deepEqual((await run({ pages, isHeld: () => false })).asked, []);
  const { asked, lines } = await run({ pages, isHeld: (times) => times <= 2, wanted: 50 });
  t.deepEqual(asked, [' 100', 'user:b 100']);
  t.like(lines, { length: 1, 0: { fields: { records: 2 } } });
});

test('a failure of the store is logged, and retried', async (t) => {
  const { asked, lines } = await run({ pages: { '': page(0, 'user:b') }, wanted: 4 });
  t.deepEqual(asked.slice(0, 4), [' 100', 'user:b 100', ' 100', 'user:b 100']);
  t.like(lines[0], { level: 'warn', message: 'audit records that wait were not copied; trying again' });
});

test('logs nothing if nothing waited', async (t) => {
  t.deepEqual((await run({ pages: { '': page(0) }, wanted: 3 })).lines, []);
});

test('unreadable accounts are logged, and the others are copied', async (t) => {
  const unreadable = ['user:a'];
  const { lines } = await run({
    pages: { '': { copied: 1, last: 'user:b', unreadable }, 'user:b': page(1) },
    wanted: 3,
  });
  t.like(lines, { 0: { level: 'warn', fields: { accounts: unreadable } }, 1: { fields: { records: 2 } } });
});
