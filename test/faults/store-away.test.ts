import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { openMongoTests } from '../support/mongodb/mongo-tests.ts';
import { databaseUrl, urlThrough } from '../support/mongodb/start-mongo.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';

const question = 'Who keeps the keys?';
const { server, notRun } = await openMongoTests(test);

faultTest(
  test,
  {
    id: '14c',
    done: 'the store is away when the processes start, and again later',
    promised: 'known keys go on; anything else is 503, never 401; well again when it is back',
    notRun,
  },
  async (t, see) => {
    const mongo = server();
    see(mongo.description);
    await using proxy = await startTcpProxy(addressIn(mongo.url), 'refuse');
    const url = urlThrough(proxy.port, databaseUrl(mongo.url, `away-${process.pid}`));

    // The store is away when the processes start.
    await using stack = await startStack({ databaseUrl: url });
    const api = stack.ingresses[0]?.url ?? '';
    const mint = async (account: string) =>
      fetch(`${api}/v1/keys/developer`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${await stack.identity.token(account)}` },
        body: '{}',
      });
    const early = await mint('alice');
    t.is(early.status, 503);
    t.truthy(early.headers.get('retry-after'));

    proxy.become('pass');
    const minted = await mint('alice');
    t.is(minted.status, 200);
    const { key } = (await minted.json()) as { key: string }; // the service's own answer
    t.is((await chat({ url: api, key, question })).status, 200);
    const neverUsed = await stack.mintKey('bob');

    proxy.become('refuse');
    const known = await chat({ url: api, key, question });
    t.is(known.status, 200);
    const { choices } = (await known.json()) as { choices: { message: { content: string } }[] }; // as above
    t.is(choices[0]?.message.content, answerFor([{ role: 'user', content: question }]));
    const unknown = await chat({ url: api, key: neverUsed, question });
    t.is(unknown.status, 503);
    t.truthy(unknown.headers.get('retry-after'));
    t.like(await unknown.json(), { code: 'SERVICE_UNAVAILABLE' });
    const readiness = await fetch(`${stack.ingresses[0]?.operationsUrl}/readyz`);
    t.is(readiness.status, 200);
    t.like(await readiness.json(), { dependencies: { store: { state: 'degraded' } } });

    proxy.become('pass');
    const afterwards = await chat({ url: api, key: neverUsed, question });
    t.is(afterwards.status, 200);
    see(`key management: ${early.status}, then ${minted.status}; a known key: ${known.status}`);
    see(`another key: ${unknown.status}, then ${afterwards.status}`);
  },
);
