import test from 'ava';
import { createHeldBytes } from '../../../shared/process/held-bytes.ts';

test('a body that has left no longer refers to its source', (t) => {
  const held = createHeldBytes(1_000);
  const calls: string[] = [];
  const source = { pause: () => calls.push('pause'), resume: () => calls.push('resume') };
  const body = held.begin('user:alice', source, {});
  t.is(body.source, source);
  held.add(body, 10);
  held.leave(body);
  t.not(body.source, source);
  body.source.pause();
  body.source.resume();
  t.deepEqual(calls, []);
  t.is(held.bytes(), 0);
});
