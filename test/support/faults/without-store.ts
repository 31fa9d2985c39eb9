import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import type { Mode } from '../tcp-proxy.ts';
import { followOutboxes } from '../truth/follow-outboxes.ts';
import { askMeanwhile, inWords } from './ask-meanwhile.ts';
import type { See } from './fault-test.ts';
import type { BehindStore } from './open-behind-store.ts';

type Wish = {
  mode: Mode;
  forMs: number;
  /** Whether usage has to wait meanwhile. */
  isUnavailable: boolean;
};

/** Known callers send requests throughout. Their usage waits in the outbox, and is in the store once when the store is back. */
export async function worksWithoutStore(
  t: ExecutionContext,
  see: See,
  { stack, proxy, witnesses }: BehindStore,
  wish: Wish,
) {
  using outboxes = followOutboxes(stack.redisUrl);
  // Known to the ingress, with its month counted in Redis.
  const first = await askMeanwhile(witnesses, async () => {});
  proxy.become(wish.mode);
  let waited = 0;
  const meanwhile = await askMeanwhile(witnesses, async () => {
    await sleep(wish.forMs);
    waited = await outboxes.waiting();
  });
  proxy.become('pass');
  const backAt = performance.now();
  while (!(await outboxes.areDrained())) await sleep(50);
  see(inWords(meanwhile));
  see(`${waited} events waited at the end; drained ${Math.round(performance.now() - backAt)} ms after it`);
  t.true(meanwhile.asked.every(({ ending }) => ending === 'answered'));
  if (wish.isUnavailable) t.true(waited > 0, 'usage arrived meanwhile');
  const { records, contradictions } = await witnesses.agreeOn(t, [...first.asked, ...meanwhile.asked]);
  see(`${records.size} records, ${contradictions.length} contradictions`);
}
