import { createServer } from 'node:net';
import test from 'ava';
import { z } from 'zod';
import { reasonOf, serversIn, untilListening } from '../../../shared/process/start-error.ts';

test('the servers of a URL never include its user or password', (t) => {
  for (const [url, servers] of [
    ['redis://127.0.0.1:6379/3', '127.0.0.1:6379'],
    ['redis://:p@ss:word@host:1', 'host:1'],
    ['rediss+sentinel://me:secret@a:1,b:2/main?sentinel_password=secret', 'a:1,b:2'],
    ['redis+cluster://[::1]:7000,b', '[::1]:7000,b'],
    ['mongodb+srv://me:secret@cluster.example/keys', 'cluster.example'],
    ['https://me:secret@sign-in.example:8443/realms/main', 'sign-in.example:8443'],
    ['sqlite:.data/store.sqlite', ''],
  ] as const) {
    t.is(serversIn(url), servers, url);
  }
});

test('the reason of an error is the first code in its causes, else the last message, in one line', (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:1'), { code: 'ECONNREFUSED' });
  t.is(reasonOf(refused), 'ECONNREFUSED');
  t.is(reasonOf(new TypeError('fetch failed', { cause: new AggregateError([refused]) })), 'ECONNREFUSED');
  t.is(reasonOf(new Error('outer', { cause: new Error('first line\nsecond line') })), 'first line');
  t.is(reasonOf(z.number().safeParse('secret').error), 'its answer is not as expected');
  t.is(reasonOf(new SyntaxError('Unexpected token')), 'its answer is not as expected');
  t.is(reasonOf('a text'), 'a text');
});

test('a port that cannot be listened on is named with what the operator can do', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  t.teardown(() => taken.close());
  await untilListening(taken, { name: 'PORT', host: '127.0.0.1', port: 0 });
  const { port } = taken.address() as { port: number }; // a TCP server has one
  const listen = (host: string, advice?: string) =>
    untilListening(createServer().listen(port, host), { name: 'PORT', host, port, ...(advice && { advice }) });
  await t.throwsAsync(listen('127.0.0.1'), {
    name: 'StartError',
    message: `PORT: 127.0.0.1:${port} is in use by another process. End that process, or set PORT to a free port.`,
  });
  await t.throwsAsync(listen('192.0.2.1', 'Correct HOST'), {
    message: `PORT: 192.0.2.1:${port} cannot be listened on (EADDRNOTAVAIL). Correct HOST.`,
  });
});
