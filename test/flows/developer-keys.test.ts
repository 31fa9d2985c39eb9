import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';

let stack: Stack;

test.before(async () => {
  stack = await startStack();
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

type Minted = { key: string; plan: string };

async function mint(account: string, body = '{}'): Promise<Response> {
  return fetch(`${stack.ingresses[0]?.url}/v1/keys/developer`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await stack.identity.token(account)}` },
    body,
  });
}

const mintedBy = async (response: Response) => (await response.json()) as Minted; // the service's own answer
const fullKey = /^svc_[0-9A-Za-z]{38}$/;

test('the key is shown in full once; asked again, the same account gets it masked, 200 both times', async (t) => {
  const first = await mint('alice');
  t.is(first.status, 200);
  t.is(first.headers.get('cache-control'), 'no-store');
  const { key, plan, ...rest } = await mintedBy(first);
  t.regex(key, fullKey);
  t.is(plan, 'free');
  t.deepEqual(rest, {});

  const again = await mint('alice');
  t.is(again.status, 200);
  t.deepEqual(await mintedBy(again), { key: `${key.slice(0, 10)}****`, plan: 'free' });
  const answer = await chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Is it the same key?' });
  t.is(answer.status, 200, 'what was minted first works still');
});

test('of 50 mints at once for a new account one shows the key, and the others the same one masked', async (t) => {
  const answers = await Promise.all(Array.from({ length: 50 }, async () => mintedBy(await mint('bob'))));
  const shown = answers.filter(({ key }) => fullKey.test(key));
  t.is(shown.length, 1);
  const masked = `${shown[0]?.key.slice(0, 10)}****`;
  t.deepEqual(new Set(answers.map(({ key }) => key)), new Set([shown[0]?.key, masked]));
});

test('accounts have keys of their own, and a full key of one is not taken for a masked one', async (t) => {
  const [carol, dave] = await Promise.all(['carol', 'dave'].map(async (account) => mintedBy(await mint(account))));
  t.not(carol?.key, dave?.key);
  const url = stack.ingresses[0]?.url ?? '';
  for (const key of [`${carol?.key.slice(0, 10)}****`, carol?.key.slice(0, -1) ?? '']) {
    t.is((await chat({ url, key, question: 'Whose is it?' })).status, 401);
  }
});

test('a body that asks for something is refused, not ignored', async (t) => {
  const refused = await mint('erin', '{"plan":"pro"}');
  t.is(refused.status, 400);
  t.deepEqual(await refused.json(), { error: 'plan: is not known', code: 'VALIDATION_ERROR' });
});
