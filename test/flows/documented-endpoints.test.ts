import test from 'ava';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { openSharedStack } from '../support/shared-stack.ts';
import { bodyOf } from './route-cases/inference-cases.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const model = 'everything';
const streamed = endpoints.filter(({ answer }) => answer.stream !== undefined).map(({ path }) => path);

let key = '';
test.before(async () => {
  key = await (await shared.started()).mintKey('documented');
});

type Wishes = { more?: object; stream?: boolean; base?: string };

async function ask(path: string, { more = {}, stream = false, base = '' }: Wishes): Promise<Response> {
  const stack = shared.stack();
  return documentedFetch(`${stack.ingresses[0]?.url}${base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ ...bodyOf(path), model, ...(stream && { stream }), ...more }),
  });
}

test.serial('answers, streams and errors of every endpoint are as documented, also below /openai', async (t) => {
  t.true(streamed.length >= 4);
  for (const base of ['', '/openai']) {
    for (const { path } of endpoints) {
      t.is((await ask(path, { base })).status, 200, path);
      t.is((await ask(path, { more: { priority: 1 }, base })).status, 400, path);
    }
    for (const path of streamed) {
      const response = await ask(path, { stream: true, base });
      t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8', path);
      t.regex(await response.text(), /(\[DONE\]|response\.completed|message_stop)/, path);
    }
  }
});

test.serial('a broken stream of every endpoint ends with a documented event', async (t) => {
  const stack = shared.stack();
  // The second is its name in the cloud.
  const names = [model, 'upstream-model'];
  for (const server of stack.modelServers) for (const name of names) server.fail({ cutAfterChunks: 2 }, name);
  t.teardown(() => {
    for (const server of stack.modelServers) for (const name of names) server.heal(name);
  });
  for (const base of ['', '/openai']) {
    for (const path of streamed) {
      const text = await (await ask(path, { stream: true, base })).text();
      t.regex(text, /UPSTREAM_INTERRUPTED/, path);
      t.notRegex(text, /(\[DONE\]|response\.completed|message_stop)/, path);
    }
  }
});
