import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import { userSetting } from '../stack/redis-rights.ts';
import { type StackOptions, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from './batch-client.ts';
import { chat, streamedText, wholeText } from './chat.ts';
import { createKeyClient } from './key-client.ts';

const password = 'p@ss:word,1/2';
/** User and password of a URL, with characters that are percent-encoded. */
export const login = `service:${encodeURIComponent(password)}@`;
export const user = (commands: readonly string[]) => userSetting(commands, password);

export async function openDirectory(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'redis-addresses-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Whole answers, streams, revocation and a batch over the Redis of these addresses. */
export async function serves(t: ExecutionContext, options: StackOptions): Promise<void> {
  await using stack = await startStack({ ingresses: 2, workers: 2, ...options });
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  for (const { url } of stack.ingresses) {
    t.regex(await wholeText(await chat({ url, key, question: 'Hello?' })), /Hello/);
    t.regex(streamedText(await (await chat({ url, key, question: 'Hello?', stream: true })).text()), /Hello/);
  }
  const batches = await openBatchClient(stack, 'bob');
  const { id } = await batches.create(linesOf(5));
  const ended = await batches.ended(id);
  t.is(ended.status, 'completed');
  t.is((await batches.lines(ended)).length, 5);
  t.is((await keys.revoke('alice', key)).status, 200);
  for (const { url } of stack.ingresses) t.is((await chat({ url, key, question: 'Hello?' })).status, 401);
}
