import test from 'ava';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import type { ClientForm } from '../../support/client-forms/client-form.ts';
import { everyForm } from '../../support/client-forms/every-form.ts';
import { responseForm } from '../../support/client-forms/named-event-forms.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { hostileFields, mediaPlaces, toolLists } from '../../support/hostile-fields.ts';

const { everything } = everyEndpoint;
let stack: Stack;
let key: string;
let asked = 0;

test.before(async () => {
  stack = await startStack({
    models: {
      ...everyEndpoint,
      open: { ...everything, extra_fields: ['default', ...hostileFields], extra_tools: ['mcp', 'web_search'] },
      closed: { ...everything, extra_fields: [] },
    },
    mediaHosts: ['media.example.com'],
  });
  key = await stack.mintKey('alice');
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

/** Sends a request with these fields, and returns the error, or the body as a model server received it. */
async function send(form: ClientForm, fields: object, model = 'everything') {
  const question = `Question ${asked++} of ${form.path}`;
  const body = { ...form.bodyOf({ model, question, stream: false, includeUsage: false, tokensMax: 20 }), ...fields };
  const text = JSON.stringify(body);
  const response = await fetch(`${stack.ingresses[0]?.url}${form.path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, 'x-client-request-id': 'hostile' },
    body: text,
  });
  const requestId = response.headers.get('x-request-id');
  const calls = stack.modelServers.flatMap((server) => server.calls()).filter((call) => call.requestId === requestId);
  const answer = (await response.json()) as { error?: string | { message: string } };
  const error = typeof answer.error === 'string' ? answer.error : answer.error?.message;
  return { status: response.status, error: error ?? '', sent: calls[0]?.body as Record<string, unknown> | undefined };
}

for (const form of everyForm) {
  const { published } = endpointAt(form.path).request.fields;
  const unpublished = hostileFields.filter((field) => !published.has(field));

  test(`${form.path}: a field that is not published reaches the backend only if the plan file lists it`, async (t) => {
    t.true(unpublished.length > 40);
    for (const field of unpublished) {
      const refused = await send(form, { [field]: 7 });
      t.is(refused.status, 400, field);
      t.regex(refused.error, new RegExp(`^(.*; )?${field}: is not accepted .*"${field}" in extra_fields of the model`));
      t.is(refused.sent, undefined);
      const passed = await send(form, { [field]: 7 }, 'open');
      t.is(passed.status, 200, `${field}: ${passed.error}`);
      t.is(passed.sent?.[field], 7, field);
    }
  });

  test(`${form.path}: the default list passes, and an empty list refuses it`, async (t) => {
    const fields = { top_k: 5, min_p: 0.1, skip_special_tokens: true };
    const passed = await send(form, fields);
    t.is(passed.status, 200, passed.error);
    t.like(passed.sent, fields);
    const refused = await send(form, { min_p: 0.1 }, 'closed');
    t.is(refused.status, 400);
    t.regex(refused.error, /^min_p: is not accepted/);
  });

  test(`${form.path}: service_tier is dropped, and a name in capitals is refused`, async (t) => {
    if (published.has('service_tier')) {
      const { status, sent } = await send(form, { service_tier: 'flex' });
      t.is(status, 200);
      t.false('service_tier' in (sent ?? {}));
    }
    for (const name of ['Model', 'MAX_TOKENS', 'max_toKens', 'N', 'Extra_Body']) {
      const { status, sent } = await send(form, { [name]: 1 }, 'open');
      t.deepEqual([status, sent], [400, undefined], name);
    }
  });

  for (const [index, { path, fieldsWith }] of (mediaPlaces[form.path] ?? []).entries()) {
    test(`${form.path}: an address at ${path} (${index + 1}) is data, or https with a listed host`, async (t) => {
      for (const address of ['data:image/png;base64,AAAA', 'https://media.example.com/a.png']) {
        const { status, error, sent } = await send(form, fieldsWith(address));
        t.is(status, 200, `${path} ${address}: ${error}`);
        t.true(JSON.stringify(sent).includes(address));
      }
      for (const address of [
        'http://media.example.com/a.png',
        'https://other.example.com/a.png',
        'https://127.0.0.1/a.png',
        'https://[::1]/a.png',
        'https://media.example.com@127.0.0.1/a.png',
        'file:///etc/passwd',
        '/etc/passwd',
      ]) {
        const { status, error, sent } = await send(form, fieldsWith(address));
        t.deepEqual([status, sent], [400, undefined], `${path} ${address}`);
        t.true(error.includes(path), `${path}: ${error}`);
      }
    });
  }

  for (const { path, fieldsWith } of toolLists[form.path] ?? []) {
    test(`${form.path}: a tool at ${path} that names a server needs a setting`, async (t) => {
      const refused = await send(form, fieldsWith({ type: 'mcp', server_url: 'http://127.0.0.1/' }));
      t.deepEqual([refused.status, refused.sent], [400, undefined], path);
      t.regex(refused.error, /extra_tools of the model "everything"/);
      const misspelt = await send(form, fieldsWith({ type: 'function', Type: 'mcp' }));
      t.deepEqual([misspelt.status, misspelt.sent], [400, undefined], path);
    });
  }
}

test('a tool that the plan file lists passes', async (t) => {
  const tools = [{ type: 'web_search' }, { type: 'mcp', server_label: 'a' }];
  const { status, sent } = await send(responseForm, { tools }, 'open');
  t.is(status, 200);
  t.deepEqual(sent?.tools, tools);
});

test('a response keeps no state, and what only a client needs is dropped', async (t) => {
  for (const fields of [
    { store: true },
    { background: true },
    { previous_response_id: 'resp_1' },
    { conversation: 'conv_1' },
  ]) {
    const { status, error, sent } = await send(responseForm, fields);
    t.deepEqual([status, sent], [400, undefined]);
    t.regex(error, new RegExp(`^${Object.keys(fields)[0]}: is not supported`));
  }
  const fields = { client_metadata: { session: 'x' }, previous_response_id: null, background: false, store: null };
  const { status, sent } = await send(responseForm, fields);
  t.is(status, 200);
  t.is(sent?.store, false);
  for (const name of ['client_metadata', 'previous_response_id', 'background']) t.false(name in (sent ?? {}), name);
});
