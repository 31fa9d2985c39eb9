import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { lineOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';

/** The credential that the service sends to a backend. Its form does not identify it as a key. */
const canary = 'rosemary and thyme';
const message = `You called with ${canary} and "Bearer ${canary}", ${encodeURIComponent(canary)}, at http://gpu:8000 by /opt/vllm/a.py.`;
const shown = 'request: You called with [key] and "Bearer [key]", [key], at [address] by [path]';
const silent = 'request: The model server refused the request.';
let stack: Stack;

test.before(async () => {
  stack = await startStack({
    models: {
      'shown-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
      'silent-chat': { tier: 'guest', pool: 'default', backends: ['onprem-b'] },
    },
    backends: {
      'onprem-a': { api_key_env: 'CANARY_KEY' },
      'onprem-b': { api_key_env: 'CANARY_KEY', relay_messages: false },
    },
    env: { CANARY_KEY: canary, LOG_LEVEL: 'trace' },
  });
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

/** Everything that the processes have logged. */
const logs = () => stack.started().map((child) => `${JSON.stringify(child.logs)}${child.errors()}`);

test('a key that a backend repeats in its refusal reaches neither a client (complete, streamed or in a batch) nor a log', async (t) => {
  const [first, second] = stack.modelServers;
  const url = stack.ingresses[0]?.url ?? '';
  const user = await openBatchClient(stack, 'alice');
  for (const status of [400, 413, 422]) {
    for (const server of [first, second]) server.fail({ status, errorMessage: message });
    for (const [model, message] of [
      ['shown-chat', shown],
      ['silent-chat', silent],
    ] as const) {
      for (const stream of [false, true]) {
        const response = await chat({ url, key: user.apiKey, question: 'Hi', model, stream });
        const isTooLarge = status === 413;
        t.is(response.status, isTooLarge ? 413 : 400);
        const body = (await response.json()) as { error: string }; // a response of the service itself
        t.true(body.error.startsWith(isTooLarge ? message.replace('request: ', '') : message), body.error);
        t.false(/rosemary|thyme|gpu|vllm/.test(JSON.stringify(body)));
      }
    }
  }
  const { id } = await user.create(
    `${lineOf('shown', { model: 'shown-chat' })}\n${lineOf('silent', { model: 'silent-chat' })}`,
  );
  const errors = await user.errors(await user.ended(id));
  t.is(errors.length, 2);
  for (const { custom_id, error, response } of errors) {
    const message = (custom_id === 'shown' ? shown : silent).replace('request: ', 'body: ');
    t.true(error?.message.startsWith(message), error?.message);
    t.is(response?.status_code, 400);
  }
  t.false(/rosemary|thyme|gpu|vllm/.test(JSON.stringify(errors)));

  first.fail({ errorMessage: message, derails: { afterChunks: 3, into: 'an error event' } });
  const broken = await chat({ url, key: user.apiKey, question: 'Hi', model: 'shown-chat', stream: true });
  const text = await broken.text();
  t.true(text.includes('UPSTREAM_INTERRUPTED'));
  t.false(/rosemary|thyme|gpu|vllm/.test(text));
  t.true(
    logs().some((log) => log.includes('You called with [key]')),
    'operators see the redacted message',
  );
  for (const log of logs()) t.false(/rosemary|thyme/.test(log));
});
