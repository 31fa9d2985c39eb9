import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { awaitMetric } from '../support/await-metric.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const { stack } = openSharedStack(test);

/** Together more than the socket buffers of both sides hold. */
const batches = 8;
/** More waiting requests would close the connection. */
const requestsPerBatch = 60;

test('a client that reads none of its responses is disconnected', async (t) => {
  t.timeout(150_000);
  const [ingress] = stack().ingresses;
  if (ingress === undefined) return t.fail('there is no ingress');
  const socket = connect(Number(new URL(ingress.url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  for (let batch = 0; batch < batches; batch++) {
    socket.write('GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(requestsPerBatch));
    await sleep(200);
  }
  await awaitMetric(ingress, /^svc_http_requests_total\{[^}]*openapi[^}]*status="aborted"[^}]*\} [1-9]/m);

  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  // It may also end with an error.
  await new Promise((resolve) => socket.once('close', resolve));
  const answers = received.split('HTTP/1.1 200 OK').length - 1;
  t.true(answers < batches * requestsPerBatch, `${answers} answers`);
});
