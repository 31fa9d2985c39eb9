import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import {
  areAnswered,
  areUnavailable,
  callsOfStore,
  callsOfTheSeen,
  createCast,
  isWellAgain,
} from '../support/calls-without-parts.ts';
import { errorsIn } from '../support/errors-in.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const mongo = await startMongo();
const notRun = 'reason' in mongo ? mongo.reason : undefined;

const parts = new AsyncDisposableStack();
/** A proxy between the service and MongoDB. */
let proxy: TcpProxy;
let onMongo: Stack;
/** Uses the embedded store. */
let embedded: Stack;

test.before(async () => {
  embedded = parts.use(await startStack());
  if ('reason' in mongo) return;
  parts.use(mongo);
  proxy = parts.use(await startTcpProxy(addressIn(mongo.url)));
  onMongo = parts.use(
    await startStack({ databaseUrl: urlThrough(proxy.port, databaseUrl(mongo.url, `keys-${process.pid}`)) }),
  );
});
test.after.always(() => parts.disposeAsync());

for (const { how, ...fault } of [
  {
    how: 'refuse' as const,
    id: '14a',
    done: 'the store refuses connections',
    promised:
      'callers known to the ingress: unaffected; other keys and key management: 503, never 401; nothing is lost',
  },
  {
    how: 'black hole' as const,
    id: '14b',
    done: 'the store hangs: it accepts everything and answers nothing',
    promised: 'callers known to the ingress: unaffected; other keys and key management: 503 in time; nothing is lost',
  },
]) {
  faultTest(test.serial, { ...fault, notRun }, async (t, see) => {
    const stack = onMongo;
    const keys = createKeyClient(stack);
    const cast = await createCast(keys, fault.id);

    proxy.become(how);
    await areAnswered(t, callsOfTheSeen(keys, cast));
    see(`503 after at most ${await areUnavailable(t, callsOfStore(keys, cast))} ms`);
    await areAnswered(t, callsOfTheSeen(keys, cast));
    t.is((await fetch(`${stack.ingresses[0]?.operationsUrl}/readyz`)).status, 200);

    proxy.become('pass');
    await isWellAgain(t, keys, cast);
    t.deepEqual(errorsIn(stack.ingresses), []);
  });
}

faultTest(
  test.serial,
  {
    id: '10h',
    done: 'the store commits a rotation and its reply is lost',
    promised: '503; the old key stops working, and repeating the request is safe',
    notRun,
  },
  async (t, see) => {
    const keys = createKeyClient(onMongo);
    const key = await keys.newKey('alice');
    t.is((await keys.models(key)).status, 200);

    const made = proxy.holdAfter('keyRotated');
    const lost = keys.rotate('alice', key);
    await made;
    void proxy.holdAfter('text that is never sent');
    t.is((await keys.models(key)).status, 401, 'it takes effect before its reply is sent');
    const first = await lost;
    t.like(first, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
    const second = await keys.rotate('alice', key);
    t.like(second, { status: 401, body: { code: 'INVALID_KEY' } });

    const listed = await keys.list('alice');
    t.deepEqual(
      listed.map(({ state }) => state),
      ['active', 'rotated'],
    );
    const again = await keys.rotate('alice', listed[0]?.key ?? '');
    t.is((await keys.models(String(again.body.key))).status, 200);
    t.is((await keys.models(key)).status, 401);
    t.deepEqual(errorsIn(onMongo.ingresses), []);
    const active = listed.filter(({ state }) => state === 'active').length;
    see(`a rotation: ${first.status}, and ${second.status} when repeated; active keys: ${active}`);
  },
);

test.serial(
  'while another process holds the lock of the SQLite file, reads continue and every change gets 503',
  async (t) => {
    const stack = embedded;
    const keys = createKeyClient(stack);
    const cast = await createCast(keys, 'locked');
    const calls = Object.entries(callsOfStore(keys, cast));
    const isChange = ([title]: [string, unknown]) =>
      /the first$|^(rotate|revoke|operator (suspends|changes)|account changes)/.test(title);
    using lock = new DatabaseSync(join(stack.directory, 'store.sqlite'), { timeout: 5_000 });

    lock.exec('BEGIN IMMEDIATE');
    const unavailable = areUnavailable(t, Object.fromEntries(calls.filter(isChange)));
    await areAnswered(t, callsOfTheSeen(keys, cast));
    for (const [title, call] of calls.filter((one) => !isChange(one))) {
      t.is((await call()).status, title.endsWith('an unknown account') ? 404 : 200, title);
    }
    t.log(`503 after at most ${await unavailable} ms`);
    // The marks of those changes remain for another half minute, and each request is a read.
    await areAnswered(t, callsOfTheSeen(keys, cast));
    lock.exec('ROLLBACK');
    await isWellAgain(t, keys, cast);
    t.deepEqual(errorsIn(stack.ingresses), []);
  },
);

test.serial(
  'with a damaged SQLite file known callers are served, all other calls get 503, and a repair needs no restart',
  async (t) => {
    const stack = embedded;
    const keys = createKeyClient(stack);
    const cast = await createCast(keys, 'damaged');
    using surgeon = new DatabaseSync(join(stack.directory, 'store.sqlite'), { timeout: 5_000 });
    surgeon.exec('ALTER TABLE accounts RENAME TO lost');
    await areAnswered(t, callsOfTheSeen(keys, cast));
    const calls = Object.entries(callsOfStore(keys, cast));
    // Usage has its own tables.
    await areUnavailable(t, Object.fromEntries(calls.filter(([title]) => title !== 'usage, a key')));
    await areAnswered(t, callsOfTheSeen(keys, cast));
    surgeon.exec('ALTER TABLE lost RENAME TO accounts');
    await isWellAgain(t, keys, cast);
    t.deepEqual(errorsIn(stack.ingresses), []);
  },
);
