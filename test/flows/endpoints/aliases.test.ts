import test from 'ava';
import { openStore } from '../../../shared/process/open-store.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { endpointNames, sdkCalls, sdkStreams, streamNames } from '../../support/endpoints/sdk-calls.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const aliases = {
  'gpt-4o': 'everything',
  'a/b:latest': 'everything',
  'premium-alias': 'large-chat',
  'chat-alias': 'small-chat',
};
const shared = openSharedStack(test, { models: everyEndpoint, aliases });

for (const alias of ['gpt-4o', 'a/b:latest']) {
  for (const name of endpointNames) {
    test(`${name}: the answer for ${alias} has it as its model`, async (t) => {
      const account = await openAccount(shared.stack(), `alias-${name}-${alias.length}`);
      t.is((await sdkCalls[name](account, { model: alias })).model, alias);
    });
  }
}

/** Every model that the events name. */
function modelsIn(events: readonly object[]): unknown[] {
  return events.flatMap((event) => {
    const { model, response, message } = event as Record<
      'model' | 'response' | 'message',
      { model?: unknown } | undefined
    >; // one of the forms
    return [model, response?.model, message?.model].filter((each) => each !== undefined);
  });
}

for (const name of streamNames) {
  test(`${name}: every event of a stream that names the model names the alias`, async (t) => {
    const account = await openAccount(shared.stack(), `alias-stream-${name}`);
    const events: object[] = [];
    for await (const event of await sdkStreams[name](account, 'gpt-4o', 'Hi')) events.push(event);
    const models = modelsIn(events);
    t.true(models.length > 0);
    t.deepEqual([...new Set(models)], ['gpt-4o']);
  });
}

test('a chat completion names the alias, whole and streamed, and the backend gets the name of the model', async (t) => {
  const stack = shared.stack();
  const { openai } = await openAccount(stack, 'alias-chat');
  const messages = [{ role: 'user' as const, content: 'asked by another name' }];
  t.is((await openai.chat.completions.create({ model: 'gpt-4o', messages })).model, 'gpt-4o');
  const chunks = await Array.fromAsync(
    await openai.chat.completions.create({ model: 'gpt-4o', messages, stream: true }),
  );
  t.deepEqual([...new Set(chunks.map(({ model }) => model))], ['gpt-4o']);
  const calls = stack.modelServers.flatMap((server) => server.calls());
  const own = calls.filter(({ body }) => JSON.stringify(body).includes('asked by another name'));
  t.is(own.length, 2);
  t.true(own.every(({ model }) => ['everything', 'upstream-model'].includes(model)));
});

test('count_tokens takes an alias', async (t) => {
  const { anthropic } = await openAccount(shared.stack(), 'alias-count');
  const counted = await anthropic.messages.countTokens({
    model: 'gpt-4o',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  t.true(counted.input_tokens > 0);
});

test('an alias can be retrieved under its name, and is not in the list of models', async (t) => {
  const { openai, plain } = await openAccount(shared.stack(), 'alias-models');
  for (const client of [openai, plain]) {
    for (const alias of ['gpt-4o', 'a/b:latest', 'chat-alias'])
      t.like(await client.models.retrieve(alias), { id: alias, object: 'model', tier: 'guest' });
    const ids = (await Array.fromAsync(client.models.list())).map(({ id }) => id);
    t.true(ids.includes('everything'));
    t.deepEqual(
      ids.filter((id) => id in aliases),
      [],
    );
    await t.throwsAsync(client.models.retrieve('premium-alias'), { message: /404.*no such model \\?"premium-alias/ });
  }
});

test('errors name the model that was asked for: outside the plan, without the endpoint, or unknown', async (t) => {
  const { openai, anthropic } = await openAccount(shared.stack(), 'alias-errors');
  const ask = (model: string) => openai.responses.create({ model, input: 'Hi' });
  const offered = await t.throwsAsync(ask('chat-alias'));
  t.regex(offered?.message ?? '', /"chat-alias" does not offer responses/);
  t.false(offered?.message.includes('small-chat'));
  const unknown = await t.throwsAsync(ask('chat-alias-2'));
  t.regex(unknown?.message ?? '', /no such model "chat-alias-2"/);
  const messages = [{ role: 'user' as const, content: 'Hi' }];
  const plan = await t.throwsAsync(openai.chat.completions.create({ model: 'premium-alias', messages }));
  t.like(plan, { code: 'rate_limit_exceeded', type: 'plan_limit' });
  t.regex(plan?.message ?? '', /"premium-alias" is not available on the plan/);
  t.false(plan?.message.includes('large-chat'));
  const message = await t.throwsAsync(anthropic.messages.create({ model: 'chat-alias', max_tokens: 5, messages }));
  t.regex(message?.message ?? '', /\\?"chat-alias\\?" does not offer messages/);
});

test('the record names the model, and the name that was asked for', async (t) => {
  const stack = shared.stack();
  const account = await openAccount(stack, 'alias-records');
  const ids = [await sdkCalls.responses(account, { model: 'gpt-4o' }), await sdkCalls.responses(account)].map(
    ({ _request_id }) => _request_id ?? '',
  );
  await account.usageWith(2);
  await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
  const records = await Promise.all(ids.map((id) => store.usage.findUsageRecord(id)));
  t.deepEqual(
    records.map((record) => [record?.model, record?.requestedModel, record?.endpoint]),
    [
      ['everything', 'gpt-4o', '/v1/responses'],
      ['everything', undefined, '/v1/responses'],
    ],
  );
});
