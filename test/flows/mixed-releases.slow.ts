import test, { type ExecutionContext } from 'ava';
import OpenAI from 'openai';
import { type RunningIngress, type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { openRelease } from '../support/earlier-releases.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp/otlp-receiver.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

const plans = {
  'ten-a-minute': { requests_per_minute: 10, model_tiers: ['guest', 'standard'] },
  'tokens-a-minute': { tokens_per_minute: 1_000, model_tiers: ['guest', 'standard'] },
  'three-at-once': { requests_at_once: 3, model_tiers: ['guest', 'standard'] },
};

const releases = ['before', 'now'] as const;
type Release = (typeof releases)[number];

const slowModel = 'slow-chat';
/** Its pool has only the worker of one test. */
const [ownModel, ownPool] = ['own-chat', 'own'];

let receiver: OtlpReceiver;
let stack: Stack;
let keys: KeyClient;
let root: string;
let ingresses: Record<Release, RunningIngress>;
const parts = new AsyncDisposableStack();

test.before(async () => {
  ({ root } = parts.use(await openRelease('previous')));
  const models = {
    [slowModel]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
    'before-chat': { tier: 'guest', pool: 'before-pool', backends: ['onprem-a'] },
    'now-chat': { tier: 'guest', pool: 'now-pool', backends: ['onprem-a'] },
    [ownModel]: { tier: 'guest', pool: ownPool, backends: ['onprem-a'] },
  };
  receiver = parts.use(await startOtlpReceiver());
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url };
  stack = parts.use(await startStack({ ingresses: 0, workers: 0, plans, models, env }));
  stack.modelServers[0].fail({ chunkMs: 50 }, slowModel);
  ingresses = { before: await stack.startIngress({}, root), now: await stack.startIngress() };
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const startWorker = (release: Release, pool = 'default'): Promise<RunningProcess> =>
  stack.startWorker({ POOLS: pool }, release === 'before' ? root : undefined);

const messages = [{ role: 'user' as const, content: 'repeat 30' }];

function clientAt(release: Release, apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${ingresses[release].url}/v1`, maxRetries: 0 });
}

/** The requests and tokens of the account's month, once this number of requests is recorded. */
async function used(
  apiKey: string,
  requests: number,
): Promise<{ requests: number; cancelled: number; chargedTokens: number }> {
  while (true) {
    const { body } = await keys.send('GET', '/billing/usage', { bearer: apiKey });
    const { total } = body as { total: Awaited<ReturnType<typeof used>> }; // a response of the service itself
    if (total.requests >= requests) return total;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Complete, streamed and abandoned: each is charged once, with the count of the model server. */
async function assertServed(t: ExecutionContext, { worker, ingress }: Record<'worker' | 'ingress', Release>) {
  const apiKey = await keys.newKey(`${ingress}-${worker}`);
  const { completions } = clientAt(ingress, apiKey).chat;
  const asked = { model: 'small-chat', messages, max_tokens: 50 };
  const whole = await completions.create(asked);
  const streamed = await completions
    .stream({ ...asked, stream_options: { include_usage: true } })
    .finalChatCompletion();
  t.is(streamed.choices[0]?.message.content, whole.choices[0]?.message.content);
  t.true((whole.choices[0]?.message.content ?? '').length > 30);
  t.deepEqual(streamed.usage?.total_tokens, whole.usage?.total_tokens);
  const left = await completions.create({ ...asked, model: slowModel, stream: true });
  for await (const _chunk of left) break; // leaving the loop ends the request
  const total = await used(apiKey, 3);
  t.like(total, { requests: 3, cancelled: 1 });
  const { total_tokens: tokens = 0, prompt_tokens: promptTokens = 0 } = whole.usage ?? {};
  t.true(total.chargedTokens >= 2 * tokens);
  // The abandoned request is charged at most its reservation, although it ended early.
  t.true(total.chargedTokens <= 2 * tokens + promptTokens + asked.max_tokens, String(total.chargedTokens));
  await assertFound(t, apiKey, { wholeId: whole.id, requestId: whole._request_id ?? '' });
}

/** An ingress of this release finds the requests of both, by both ids. */
async function assertFound(
  t: ExecutionContext,
  bearer: string,
  { wholeId, requestId }: { wholeId: string; requestId: string },
) {
  const { send } = createKeyClient(stack, { url: () => ingresses.now.url });
  const { data } = (await send('GET', '/v1/requests', { bearer })).body as { data: { outcome: string }[] }; // a list of the service itself
  t.deepEqual(
    data.map(({ outcome }) => outcome),
    ['cancelled', 'completed', 'completed'],
  );
  const wanted = { status: 200, body: { id: requestId, state: 'ended', outcome: 'completed' } };
  t.like(await send('GET', `/v1/requests/${requestId}`, { bearer }), wanted);
  t.like(await send('GET', `/v1/requests/${encodeURIComponent(wholeId)}`, { bearer }), wanted);
}

for (const worker of releases) {
  test(`a worker of release ${worker} answers ingresses of both releases, and each request is charged once`, async (t) => {
    const { process } = await startWorker(worker);
    for (const ingress of releases) await assertServed(t, { worker, ingress });
    const batches = await openBatchClient({ ...stack, ingresses: [ingresses.before], fetch }, `batches-${worker}`);
    const { id } = await batches.create(linesOf(20));
    const { status, request_counts } = await batches.until(id, ({ status }) => status === 'completed');
    t.deepEqual([status, request_counts?.completed], ['completed', 20]);
    await process.stop();
  });
}

test('a request with an idempotency key that a worker before answers is charged once, and its repeat gets the kept answer', async (t) => {
  const worker = await startWorker('before', ownPool);
  const apiKey = await keys.newKey('repeats-before');
  const headers = { 'idempotency-key': 'order-17' };
  const ask = () =>
    clientAt('now', apiKey).chat.completions.create({ model: ownModel, messages, max_tokens: 50 }, { headers });
  const first = await ask();
  t.deepEqual(await ask(), first);
  t.like(await used(apiKey, 1), { requests: 1, chargedTokens: first.usage?.total_tokens });
  await worker.process.stop();
});

for (const worker of releases) {
  for (const ingress of releases) {
    test(`the log line and the trace of a request have what an ingress ${ingress} and a worker ${worker} know`, async (t) => {
      const started = await startWorker(worker, `${worker}-pool`);
      const apiKey = await keys.newKey(`traced-${worker}-${ingress}`);
      const asked = { model: `${worker}-chat`, messages, max_tokens: 50 };
      for (const stream of [false, true]) {
        const { response, request_id: id } = await clientAt(ingress, apiKey)
          .chat.completions.create({ ...asked, stream })
          .withResponse();
        await response.text().catch(() => {}); // a whole answer was read already
        const line = await ingresses[ingress].process.line(
          (each) => each.requestId === id && each.status !== undefined,
        );
        t.is(line.status, '200');
        const knows = ingress === 'now' && worker === 'now';
        t.is(line.backend, knows ? 'onprem-a' : undefined);
        t.is(line.outcome, ingress === 'now' ? 'completed' : undefined);
        t.is(typeof line.traceId, ingress === 'now' ? 'string' : 'undefined');
        if (worker === 'before') continue;
        const span = await receiver.span(
          ({ name, attributes }) => name.startsWith('process') && attributes['svc.request_id'] === id,
        );
        t.is(span.parentSpanId === '', ingress === 'before', 'it begins a trace if its ingress did not');
        if (ingress === 'now') t.is(span.traceId, String(line.traceId));
      }
      await started.process.stop();
    });
  }
}

test('a batch with an idempotency key that a worker before runs keeps its key', async (t) => {
  const worker = await startWorker('before', ownPool);
  const batches = await openBatchClient({ ...stack, ingresses: [ingresses.now], fetch }, 'batches-with-keys');
  const input_file_id = await batches.upload(linesOf(5, { model: ownModel }));
  const asked = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
  const create = () => batches.client.batches.create(asked, { headers: { 'idempotency-key': 'nightly' } });
  const { id } = await create();
  await batches.until(id, ({ status }) => status === 'completed');
  t.like(await create(), { id, status: 'completed' });
  await worker.process.stop();
});

test('ingresses of both releases together keep each limit exactly, with workers of both', async (t) => {
  const workers = [await startWorker('before'), await startWorker('now')];
  const asked = { model: 'small-chat', messages, max_tokens: 50 };
  /** Returns how many of `count` requests were admitted, sent at once and alternating between the ingresses. */
  async function admitted(plan: keyof typeof plans, count: number, model = 'small-chat'): Promise<number> {
    const apiKey = await keys.newKey(`limit-${plan}`);
    await keys.change(`user:limit-${plan}`, { plan });
    const answers = Array.from({ length: count }, async (_, index) => {
      const client = clientAt(releases[index % 2] ?? 'now', apiKey);
      const answer = client.chat.completions.create({ ...asked, model });
      return answer.then(
        () => 200,
        (error: unknown) => (error instanceof OpenAI.APIError ? error.status : 0),
      );
    });
    const statuses = await Promise.all(answers);
    const others = statuses.filter((status) => status !== 200 && status !== 429 && status !== 402);
    t.deepEqual(others, [], `${plan}: no other status`);
    return statuses.filter((status) => status === 200).length;
  }

  t.is(await admitted('ten-a-minute', 60), 10);
  // Three tokens of the question and 50 of output are reserved for each.
  const byTokens = await admitted('tokens-a-minute', 60);
  t.true(byTokens > 10 && byTokens <= 1_000 / 53, String(byTokens));
  t.is(await admitted('three-at-once', 30, slowModel), 3);
  await Promise.all(workers.map(({ process }) => process.stop()));
});

test('codes that an ingress redeems and top-ups by an ingress before add up, each once', async (t) => {
  const client = createTopUpClient(createKeyClient(stack, { url: () => ingresses.now.url }));
  const authorization = `Bearer ${await keys.token('mixed-buyer')}`;
  /** Without the fields that the document has of it now. */
  const quotaBefore = async () => {
    const answer = await fetch(`${ingresses.before.url}/billing/quota`, { headers: { authorization } });
    return (await answer.json()) as { topUp: number }; // a response of the service itself
  };
  const operator = createKeyClient(stack, { url: () => ingresses.before.url });
  const [one, other] = await client.create({ tokens: 1_000, count: 2 });
  const redeem = async (code: string | undefined, topUp: number) => {
    t.like(await client.redeem('mixed-buyer', code ?? ''), { status: 200, body: { topUp } });
    t.is((await quotaBefore()).topUp, topUp, 'the next request of each ingress sees it');
  };
  await redeem(one?.code, 1_000);
  await operator.change('user:mixed-buyer', { topUp: { id: 'paid', tokens: 10 } });
  await redeem(one?.code, 1_010);
  await redeem(other?.code, 2_010);
  await operator.change('user:mixed-buyer', { topUp: { id: 'paid', tokens: 10 } });
  await operator.change('user:mixed-buyer', { suspended: true });
  await operator.change('user:mixed-buyer', { suspended: false });
  await redeem(other?.code, 2_010);
});

test('what an operator ends is known to an ingress before; only an ingress of now ends its requests', async (t) => {
  const apiKey = await keys.newKey('mixed-ended');
  const operator = createKeyClient(stack, { url: () => ingresses.now.url });
  const bearer = await operator.token('olga', true);
  const ask = (release: Release) =>
    clientAt(release, apiKey).chat.completions.create(
      { model: ownModel, messages },
      { signal: AbortSignal.timeout(60_000) },
    );
  const waiting = { before: ask('before'), now: ask('now') };
  const running = async () => {
    const { body } = await operator.send('GET', '/admin/accounts/user:mixed-ended/requests', { bearer });
    return (body.data as { id: string }[]).map(({ id }) => id); // a list of the service itself
  };
  let ids = await running();
  while (ids.length < 2) ids = await running();
  for (const id of ids) {
    const path = `/admin/requests/${id}/cancel`;
    t.is((await operator.send('POST', path, { bearer, body: { reason: 'why' } })).status, 200);
  }
  await t.throwsAsync(waiting.now, { message: /An operator has ended this request/ });
  const [stillWaits, ...others] = await running();
  t.deepEqual(others, [], 'the one at the ingress before still waits');
  // It rewrites the account, in which it does not know what was ended.
  const change = (settings: object) =>
    fetch(`${ingresses.before.url}/admin/accounts/user:mixed-ended`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body: JSON.stringify(settings),
    });
  t.is((await change({ topUp: { id: 'mixed', tokens: 1 } })).status, 200);
  t.is((await operator.send('POST', `/admin/requests/${stillWaits}/cancel`, { bearer, body: {} })).status, 200);
  const worker = await startWorker('now', ownPool);
  t.is((await waiting.before).object, 'chat.completion');
  await worker.process.stop();

  // It knows the key that was revoked.
  const old = createKeyClient(stack, { url: () => ingresses.before.url });
  const { data } = (await operator.signedIn('mixed-ended', 'GET', '/v1/keys')).body as { data: { id: string }[] }; // the same
  const path = `/admin/accounts/user:mixed-ended/keys/${data[0]?.id}?reason=leaked`;
  t.is((await operator.send('DELETE', path, { bearer })).status, 200);
  t.is((await old.infer(apiKey)).status, 401);
  t.is((await change({ suspended: true })).status, 200);
  const { body } = await operator.send('GET', '/admin/audit?account=user:mixed-ended', { bearer });
  const changes = (body.data as { change: object }[]).map(({ change }) => Object.keys(change).join()); // a list of the service itself
  t.deepEqual(changes, ['suspended', 'keyRevoked', 'topUp', 'requestEnded', 'requestEnded']);
});
