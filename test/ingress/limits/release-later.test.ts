import test from 'ava';
import { createReleaseLater } from '../../../ingress/limits/settle-interrupted.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const request = (id: string) => ({ account: 'user:alice', keyId: 'key_01', requestId: id });
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));

test('a release that succeeds is done, and one that fails is logged and retried until it succeeds', async (t) => {
  const asked: string[] = [];
  const release = createReleaseLater({
    async release({ requestId }) {
      asked.push(requestId);
      if (requestId === 'away' && asked.length < 4) throw new Error('Connection is closed.');
      return 'released';
    },
    log: recordedLog().log,
    pauseMs: 1,
  });
  t.is(await release(request('here')), 'released');
  await t.throwsAsync(release(request('away')), { message: 'Connection is closed.' });
  while (asked.length < 4) await pause();
  t.deepEqual(asked, ['here', 'away', 'away', 'away']);
});

test('in an outage only a bounded number is retried, a few times each', async (t) => {
  const asked = new Map<string, number>();
  const release = createReleaseLater({
    async release({ requestId }) {
      asked.set(requestId, (asked.get(requestId) ?? 0) + 1);
      throw new Error('Connection is closed.');
    },
    log: recordedLog().log,
    pauseMs: 0,
  });
  const all = Array.from({ length: 1_500 }, (_, index) => release(request(String(index))).catch(() => 'failed'));
  t.is((await Promise.all(all)).length, 1_500);
  const again = () => [...asked.values()].filter((times) => times > 1);
  while (again().length < 1_000 || again().some((times) => times < 8)) await pause();
  t.deepEqual(new Set(again()), new Set([8]));
  t.is(again().length, 1_000);
});
