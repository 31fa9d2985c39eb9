import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { startRelay } from '../support/mongodb/relay.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';

const question = 'Who keeps the keys?';

test('while MongoDB is away known keys go on, anything else is 503 and never 401, and all is well when it is back', async (t) => {
  await using mongo = await startMongoOrSay();
  if (mongo === undefined) return t.log('SKIPPED: there is no MongoDB-compatible server here');
  t.log(mongo.description);
  const target = new URL(mongo.url.replace(/^mongodb:/, 'http:'));
  await using relay = await startRelay({ host: target.hostname, port: Number(target.port) }, 'refuse');
  const url = urlThrough(relay.port, databaseUrl(mongo.url, `away-${process.pid}`));

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

  relay.become('pass');
  const minted = await mint('alice');
  t.is(minted.status, 200);
  const { key } = (await minted.json()) as { key: string }; // the service's own answer
  t.is((await chat({ url: api, key, question })).status, 200);
  const neverUsed = await stack.mintKey('bob');

  relay.become('refuse');
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

  relay.become('pass');
  t.is((await chat({ url: api, key: neverUsed, question })).status, 200);
});

async function startMongoOrSay() {
  const mongo = await startMongo();
  return 'reason' in mongo ? undefined : mongo;
}
