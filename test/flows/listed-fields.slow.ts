import test from 'ava';
import { oneBackend } from '../stack/plan.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { lineOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';

const ownBackend = { tier: 'guest', pool: 'default', backends: ['onprem-b'] };
const batchPriority = 10 + 2_097_151;
let stack: Stack;
const keys: Record<string, string> = {};

test.before(async () => {
  stack = await startStack({
    models: {
      ...oneBackend,
      'open-chat': {
        ...ownBackend,
        extra_fields: ['default', 'priority', 'cache_salt', 'x_vendor'],
        extra_tools: ['mcp'],
      },
    },
    backends: { 'onprem-b': { cache_salt: true, priority: true } },
    mediaHosts: ['media.example.com'],
  });
  for (const account of ['alice', 'bob']) keys[account] = await stack.mintKey(account);
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

function ask(question: string, fields: object = {}, { account = 'alice', stream = false } = {}) {
  const url = stack.ingresses[0]?.url ?? '';
  return chat({ url, key: keys[account] ?? '', question, fields, stream });
}

/** The request that the backend received for this question. */
async function sentFor(question: string): Promise<Record<string, unknown>> {
  const [first, second] = stack.modelServers;
  const matches = ({ body }: { body: unknown }) => JSON.stringify(body).includes(question);
  const calls = [...first.calls(), ...second.calls()].filter(matches);
  if (calls.length !== 1) throw new Error(`${calls.length} calls of ${question}`);
  return calls[0]?.body as Record<string, unknown>; // JSON that the service itself sent
}

const image = (url: string) => ({
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
});

test('a field that could harm others is refused from any key, naming the setting that allows it, and counted', async (t) => {
  const cases: [fields: object, error: RegExp, label: string][] = [
    [
      { priority: -1_000 },
      /^priority: is not accepted \(.*"priority" in extra_fields of the model "small-chat"\)$/,
      'priority',
    ],
    [{ cache_salt: 'x' }, /^cache_salt: /, 'cache_salt'],
    [{ chat_template: '{{ 1 }}' }, /^chat_template: /, 'chat_template'],
    [{ guided_regex: '(a+)+$' }, /^guided_regex: /, 'guided_regex'],
    [{ logits_processors: ['os.system'] }, /^logits_processors: /, 'logits_processors'],
    [{ x_unheard_of: 1 }, /^x_unheard_of: /, 'other'],
    [{ tools: [{ type: 'mcp', server_url: 'http://127.0.0.1' }] }, /^tools\[0\]\.type: .*extra_tools/, 'tools'],
    [
      image('http://169.254.169.254/'),
      /^messages\[0\]\.content\[0\]\.image_url\.url: expected a data: or https: URL$/,
      'image_url',
    ],
    [
      { tools: [{ type: 'function', Type: 'mcp', server_url: 'http://127.0.0.1' }] },
      /^tools\[0\]\.Type: must be spelled type$/,
      'tools',
    ],
    [
      { guided_json: { type: 'string', pattern: '(a+)+$' } },
      /^guided_json\.pattern: is not accepted .*"guided_regex" in extra_fields/,
      'guided_json',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: null, uuid: 'refused' }] }] },
      /^messages\[0\]\.content\[0\]\.uuid: is not accepted .*"messages\.uuid" in extra_fields/,
      'uuid',
    ],
    [image('https://[::1]/'), /: expected a host name, not an IP address$/, 'image_url'],
    [
      image('https://other.example.com/a'),
      /the host is not allowed \(the operator can allow it in media_hosts\)$/,
      'image_url',
    ],
  ];
  for (const [fields, error, label] of cases) {
    const response = await ask('refused', fields);
    t.is(response.status, 400);
    const body = (await response.json()) as { code: string; error: string }; // a response of the service itself
    t.is(body.code, 'VALIDATION_ERROR');
    t.regex(body.error, error);
    const [ingress] = stack.ingresses;
    if (ingress !== undefined)
      await awaitMetric(
        ingress,
        new RegExp(`^svc_refused_fields_total\\{endpoint="/v1/chat/completions",field="${label}"\\} [1-9]`, 'm'),
      );
  }
  t.false(stack.modelServers.some((server) => JSON.stringify(server.calls()).includes('refused')));
});

test('harmless fields reach the backend, and a service tier does not', async (t) => {
  const fields = { top_k: 5, guided_json: { type: 'object' }, reasoning_effort: 'low', service_tier: 'flex' };
  t.is((await ask('harmless', fields)).status, 200);
  const { service_tier, cache_salt, priority, ...sent } = await sentFor('harmless');
  t.like(sent, { top_k: 5, guided_json: { type: 'object' }, reasoning_effort: 'low' });
  t.deepEqual([service_tier, cache_salt, priority], [undefined, undefined, undefined]);
  t.is((await ask('', image('https://media.example.com/a.png'))).status, 200);
  t.is((await ask('', image('data:image/png;base64,iVBORw0KGgo='))).status, 200);
});

test('a model accepts the fields in its lists, and values of the service replace those of a client', async (t) => {
  const tools = [{ type: 'mcp', server_label: 'x' }];
  const fields = { model: 'open-chat', x_vendor: { a: 1 }, priority: -9, cache_salt: 'mine', tools };
  t.is((await ask('listed and whole', fields)).status, 200);
  t.is((await ask('listed and streamed', fields, { stream: true })).status, 200);
  t.is((await ask('listed and of another', { ...fields, cache_salt: 'other' }, { account: 'bob' })).status, 200);
  const [whole, streamed, other] = await Promise.all(
    ['listed and whole', 'listed and streamed', 'listed and of another'].map(sentFor),
  );
  for (const sent of [whole, streamed, other]) t.like(sent, { x_vendor: { a: 1 }, priority: 10, tools });
  t.regex(String(whole?.cache_salt), /^[\w-]{43}$/);
  t.is(streamed?.cache_salt, whole?.cache_salt);
  t.not(other?.cache_salt, whole?.cache_salt);
});

test('in a batch, an unlisted field is refused, and lines run behind requests with the same salt', async (t) => {
  const user = await openBatchClient(stack, 'alice', keys.alice);
  const wrong = await user.ended((await user.create(lineOf('bad').replace('"model"', '"priority":-1,"model"'))).id);
  t.like(wrong, { status: 'completed', request_counts: { completed: 0, failed: 1 } });
  t.regex((await user.errors(wrong))[0]?.error?.message ?? '', /^priority: is not accepted/);

  t.is((await ask('asked beside a batch', { model: 'open-chat' })).status, 200);
  const { id } = await user.create(lineOf('good', { model: 'open-chat', content: 'a line of a batch' }));
  t.is((await user.ended(id)).status, 'completed');
  const { cache_salt } = await sentFor('asked beside a batch');
  t.like(await sentFor('a line of a batch'), { priority: batchPriority, cache_salt });
});
