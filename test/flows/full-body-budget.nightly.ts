import { once } from 'node:events';
import { connect } from 'node:net';
import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { createKeyClient } from '../support/key-client.ts';

const budgetBytes = 1_048_576;
let stack: Stack;

test.before(async () => {
  stack = await startStack({ workers: 1, env: { BODY_BUDGET_BYTES: String(budgetBytes) } });
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

test('a stalled body that holds all memory for bodies does not block operators, and blocks others only for seconds', async (t) => {
  const [ingress] = stack.ingresses;
  if (ingress === undefined) return t.fail('there is no ingress');
  const keys = createKeyClient(stack);
  const [stopping, other] = [await keys.newKey('stopping'), await keys.newKey('other')];
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: x',
    'content-type: application/json',
    `authorization: Bearer ${stopping}`,
    `content-length: ${2 * budgetBytes}`,
  ];
  const socket = connect(Number(new URL(ingress.url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  const answered = once(socket.setEncoding('latin1'), 'data');
  socket.write(`${head.join('\r\n')}\r\n\r\n${' '.repeat(budgetBytes)}`);
  await awaitMetric(ingress, new RegExp(`^svc_body_bytes_held ${budgetBytes}$`, 'm'));

  t.like(await keys.infer(other), { status: 503, code: 'SERVICE_UNAVAILABLE' });
  t.is((await keys.change('user:other', { suspended: true })).status, 200);
  t.is((await keys.change('user:other', { suspended: false })).status, 200);
  t.is((await keys.guest('device-9f31c0d2')).status, 200);

  const [answer] = await answered;
  t.regex(String(answer), /^HTTP\/1\.1 408 /);
  t.is((await keys.infer(other)).status, 200);
});
