import test, { type ExecutionContext } from 'ava';
import { makeKey } from '../../ingress/authentication/api-key.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { type Answer, createKeyClient, type KeyClient } from '../support/key-client.ts';

const failuresPerMinute = 40;
const callsPerMinute = 12;
const mintsPerHour = 2;

let stack: Stack;
/** Two ingresses behind a proxy. */
let clients: [KeyClient, KeyClient];

test.before(async () => {
  stack = await startStack({
    ingresses: 2,
    workers: 1,
    env: { TRUST_PROXY: '1', AUTH_FAILURES_PER_MINUTE: String(failuresPerMinute) },
    guests: { guest_calls_per_minute: callsPerMinute, guest_mints_per_hour: mintsPerHour },
  });
  const [one, other] = stack.ingresses.map(({ url }) => createKeyClient(stack, { url: () => url }));
  if (one === undefined || other === undefined) throw new Error('there are two ingresses');
  clients = [one, other];
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

const from = (address: string) => ({ 'x-forwarded-for': address });
const typeOf = ({ status, body }: Answer) => {
  const { type } = (body.error ?? {}) as { type?: string }; // a nested error of the service itself
  return status === 429 ? String(type) : String(status);
};

/** A request with this key that needs to look up the caller. */
const look = (client: KeyClient, key: string, address: string) =>
  client.send('GET', '/v1/models', { bearer: key, headers: from(address) });

function isHonest(t: ExecutionContext, { headers, body }: Answer, type: string): void {
  const { error } = body as { error: { retry_after_ms: number } }; // a response of the service itself
  t.like(error, { code: 'rate_limit_exceeded', type, param: null });
  t.true(error.retry_after_ms > 0 && error.retry_after_ms <= 60_001);
  t.is(headers.get('retry-after-ms'), String(error.retry_after_ms));
  t.is(headers.get('retry-after'), String(Math.ceil(error.retry_after_ms / 1_000)));
  t.true(headers.get('link')?.endsWith(`/errors#${type}>; rel="help"`));
}

test('invalid keys from one address are refused beyond the limit, at every ingress; known keys and other addresses are served', async (t) => {
  const address = '198.51.100.1';
  const [one, other] = clients;
  const [known, first] = [await one.newKey('known'), await one.newKey('first-seen')];
  t.is((await look(one, known, address)).status, 200);

  const flood = await Promise.all(Array.from({ length: 400 }, () => look(one, makeKey(), address)));
  const types = flood.map(typeOf);
  t.is(types.filter((type) => type === '401').length, failuresPerMinute);
  t.is(types.filter((type) => type === 'auth_failures').length, 400 - failuresPerMinute);
  const refused = flood.find(({ status }) => status === 429);
  if (refused === undefined) return t.fail();
  isHonest(t, refused, 'auth_failures');

  t.is((await look(one, known, address)).status, 200, 'a cached key');
  t.is((await one.infer(known)).status, 200);
  t.is(typeOf(await look(one, first, address)), 'auth_failures', 'a valid key that is not cached');
  t.is((await look(one, first, '198.51.100.2')).status, 200, 'from another address');
  t.is((await look(one, first, address)).status, 200, 'now it is cached');
  const token = await one.token('known');
  t.is((await look(one, token, address)).status, 200, 'a sign-in token needs no lookup');

  // The other ingress learns the count with its own first failure.
  await look(other, makeKey(), address);
  while (typeOf(await look(other, makeKey(), address)) !== 'auth_failures') t.log('its failure was not counted yet');
  t.is((await look(other, first, '198.51.100.2')).status, 200);
});

test('while one address keeps sending invalid keys, a new caller is answered', async (t) => {
  const [one] = clients;
  const key = await one.newKey('in-a-flood');
  let over = false;
  const sender = async () => {
    while (!over) await look(one, makeKey(), '198.51.100.3');
  };
  const senders = Array.from({ length: 30 }, sender);
  const { status } = await look(one, key, '198.51.100.4');
  over = true;
  await Promise.all(senders);
  t.is(status, 200);
});

test('every guest mint counts by its address, including invalid ones; beyond the limit none is looked up', async (t) => {
  const address = '198.51.100.5';
  const answers: string[] = [];
  for (let call = 0; call < callsPerMinute; call++) {
    const client = clients[call % 2 === 0 ? 0 : 1];
    answers.push(typeOf(await client.guest(call % 3 === 0 ? 'short' : 'device-of-calls', from(address))));
  }
  t.deepEqual([...new Set(answers)].sort(), ['200', '400']);
  for (const client of clients) {
    const refused = await client.guest('device-of-calls', from(address));
    isHonest(t, refused, 'guest_calls');
    t.is(refused.headers.get('cache-control'), 'no-store');
    t.is(typeOf(await client.guest('device-of-calls', from('198.51.100.6'))), '200');
  }
});

test('any number of /64s of one /48 get sixteen times the limit of one /64; then their known devices are still served', async (t) => {
  const mint = (index: number) =>
    clients[index % 2 === 0 ? 0 : 1].guest(`device-${index}`, from(`2001:db8:9:${(index * 64).toString(16)}::1`));
  const answers: Answer[] = [];
  for (let index = 0; index < 80; index++) answers.push(await mint(index));
  t.is(answers.filter(({ status }) => status === 200).length, 16 * mintsPerHour);
  const last = answers.at(-1);
  t.is(last && typeOf(last), 'guest_mints');
  t.is(last?.headers.get('x-should-retry'), 'false');
  t.deepEqual((await mint(0)).body, answers[0]?.body);
});
