import AnthropicSdk from '@anthropic-ai/sdk';
import test from 'ava';
import OpenAI from 'openai';
import { countTokens } from '../../../workers/failover/count-tokens.ts';
import { chargedPrompt } from '../../support/charged-prompt.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { sdkStreams, streamNames, textOfEvent } from '../../support/endpoints/sdk-calls.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const cases = ['leaving', 'cut', 'unlimited'].flatMap((what) => streamNames.map((name) => `${what}-${name}`));
const models = Object.fromEntries(cases.map((name) => [name, { ...everyEndpoint.everything, backends: ['onprem-a'] }]));
const shared = openSharedStack(test, { models });
const server = () => shared.stack().modelServers[0];

for (const name of streamNames) {
  const stream = sdkStreams[name];

  test(`${name}: a client that leaves a stream ends the call of the backend, and is charged what came`, async (t) => {
    const model = `leaving-${name}`;
    server().fail({ endless: true, chunkMs: 5 }, model);
    const account = await openAccount(shared.stack(), model);
    const events = await stream(account, model, 'Stay');
    let received = '';
    for await (const event of events) {
      received += textOfEvent(event);
      if (received.length > 100) break;
    }
    const call = await server().waitForCall((each) => each.model === model && each.state !== 'running');
    server().heal(model);
    t.is(call.state, 'aborted');

    const usage = await account.usageWith(1);
    t.like(usage, { requests: 1, failed: 0, cancelled: 1 });
    const promptTokens = await chargedPrompt({ endpoint: call.path, request: call.body as object });
    t.is(usage.promptTokens, promptTokens);
    t.is(usage.chargedTokens, promptTokens + usage.completionTokens);
    const least = await countTokens(received);
    t.true(usage.completionTokens >= least - 1, `${usage.completionTokens} for ${least} that the client has`);
    // One of the server's tokens is at most three of ours.
    t.true(
      usage.completionTokens <= 3 * call.chunksSent,
      `${usage.completionTokens} for ${call.chunksSent} that it sent`,
    );
  });

  test(`${name}: a stream that breaks off throws our code in the package, and its delivered part is charged`, async (t) => {
    const model = `cut-${name}`;
    server().fail({ cutAfterChunks: 3 }, model);
    const account = await openAccount(shared.stack(), model);
    let received = '';
    const error = await t.throwsAsync(async () => {
      for await (const event of await stream(account, model, 'Break off')) received += textOfEvent(event);
    });
    if (error instanceof OpenAI.APIError) {
      t.like(error, { code: 'UPSTREAM_INTERRUPTED', type: 'server_error' });
      t.regex(error.requestID ?? '', /^req_/);
    } else if (error instanceof AnthropicSdk.APIError) {
      t.like(error, { type: 'overloaded_error', error: { error: { code: 'UPSTREAM_INTERRUPTED' } } });
      t.is(error.requestID, (error.error as { request_id: string }).request_id);
    } else t.fail(String(error));
    t.not(received, '');
    const { path, body } = await server().waitForCall((each) => each.model === model);
    const promptTokens = await chargedPrompt({ endpoint: path, request: body as object });
    t.like(await account.usageWith(1), { failed: 1, promptTokens, completionTokens: await countTokens(received) });
  });
}

test('a backend that ignores the limit of a response: the package gets an incomplete one, and the limit is charged', async (t) => {
  const model = 'unlimited-responses';
  server().fail({ ignoresLimit: true }, model);
  const { openai, usageWith } = await openAccount(shared.stack(), model);
  const asked = { model, input: 'repeat 50 of this', max_output_tokens: 20 };
  const whole = await openai.responses.create(asked);
  const events = openai.responses.stream(asked);
  let delivered = '';
  for await (const event of events) delivered += event.type === 'response.output_text.delta' ? event.delta : '';
  const final = await events.finalResponse();
  t.is(final.output_text, delivered);
  for (const response of [whole, final]) {
    t.like(response, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    t.is(response.usage?.output_tokens, 20);
    t.true(response.output_text.length > 20 && response.output_text.length < 1_000, `${response.output_text.length}`);
  }
  t.is((await usageWith(2)).completionTokens, 40);
});

test('a backend that ignores the limit of a message: the package gets one that ended at its limit, and the limit is charged', async (t) => {
  const model = 'unlimited-messages';
  server().fail({ ignoresLimit: true }, model);
  const { anthropic, usageWith } = await openAccount(shared.stack(), model);
  const asked = { model, max_tokens: 20, messages: [{ role: 'user' as const, content: 'repeat 50 of this' }] };
  const stream = anthropic.messages.stream(asked);
  let delivered = '';
  stream.on('text', (text) => {
    delivered += text;
  });
  for (const message of [await anthropic.messages.create(asked), await stream.finalMessage()]) {
    t.like(message, { stop_reason: 'max_tokens', usage: { output_tokens: 20 } });
    const [block] = message.content;
    t.true(block?.type === 'text' && block.text.length > 20 && block.text.length < 1_000);
  }
  const [block] = (await stream.finalMessage()).content;
  t.true(block?.type === 'text' && block.text === delivered);
  t.is((await usageWith(2)).completionTokens, 40);
});

test('a backend that ignores the limit of a completion: the package gets one that ended at its limit, and the limit is charged', async (t) => {
  const model = 'unlimited-completions';
  server().fail({ ignoresLimit: true }, model);
  const { openai, usageWith } = await openAccount(shared.stack(), model);
  const asked = { model, prompt: 'repeat 50 of this', max_tokens: 20 };
  const whole = await openai.completions.create(asked);
  const chunks = await Array.fromAsync(await openai.completions.create({ ...asked, stream: true }));
  const ends = chunks.flatMap(({ choices }) => choices).filter(({ finish_reason }) => finish_reason !== null);
  t.deepEqual(
    [...whole.choices, ...ends].map(({ finish_reason }) => finish_reason),
    ['length', 'length'],
  );
  t.is(whole.usage?.completion_tokens, 20);
  t.is((await usageWith(2)).completionTokens, 40);
});
