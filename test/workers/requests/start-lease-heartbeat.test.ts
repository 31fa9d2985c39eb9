import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { leaseLifeMs } from '../../../shared/limits/admit.ts';
import { startLeaseHeartbeat } from '../../../workers/requests/start-lease-heartbeat.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { jobFor } from '../../support/worker-side.ts';

const ann = { account: 'user:ann', requestId: 'req_ann' };
const bob = { account: 'user:bob', requestId: 'req_bob' };

/** `renewals`: the ids of each renewal, and the lifetime. `next` waits for another one. */
function createSubject({ fails = false } = {}) {
  const renewals: [string[], number][] = [];
  let heard = Promise.withResolvers<void>();
  const { log, lines } = recordedLog();
  const leases = startLeaseHeartbeat({
    async renewLeases(requests, lifeMs) {
      renewals.push([requests.map(({ requestId }) => requestId), lifeMs]);
      heard.resolve();
      if (fails) throw new Error('READONLY');
    },
    ...{ queueMs: () => 30_000, log, everyMs: 10 },
  });
  async function next(): Promise<[string[], number] | undefined> {
    heard = Promise.withResolvers();
    await heard.promise;
    return renewals.at(-1);
  }
  return { leases, renewals, next, lines };
}

test('leases of runs in progress are renewed together, repeatedly, until they end', async (t) => {
  const { leases, renewals, next } = createSubject();
  const release = leases.hold(ann);
  const releaseBob = leases.hold(bob);
  t.deepEqual(await next(), [[ann.requestId, bob.requestId], leaseLifeMs]);
  release();
  t.deepEqual(await next(), [[bob.requestId], leaseLifeMs]);
  releaseBob();
  const sofar = renewals.length;
  await sleep(50);
  t.is(renewals.length, sofar);
  leases.hold(ann);
  t.deepEqual(await next(), [[ann.requestId], leaseLifeMs], 'it starts again');
  leases[Symbol.dispose]();
});

test('a request with two runs is renewed until both have ended', async (t) => {
  const { leases, next } = createSubject();
  const release = leases.hold(ann);
  leases.hold({ ...ann });
  release();
  t.deepEqual(await next(), [[ann.requestId], leaseLifeMs]);
  leases[Symbol.dispose]();
});

test('a failed renewal is retried', async (t) => {
  const { leases, next, lines } = createSubject({ fails: true });
  leases.hold(ann);
  await next();
  t.deepEqual(await next(), [[ann.requestId], leaseLifeMs]);
  t.true(lines.some(({ message }) => message === 'leases could not be renewed'));
  leases[Symbol.dispose]();
});

test('a requeued job may wait as long as a new one; unreadable jobs are ignored, and nothing fails', async (t) => {
  const { leases, renewals } = createSubject({ fails: true });
  const job = jobFor('svc:replies:x', {});
  await leases.extendRequeued([job, { of: 'another release' }, null]);
  t.deepEqual(renewals, [[[job.requestId], 30_000 + leaseLifeMs]]);
});
