import type { Stack } from '../../stack/stack.ts';
import { linesOf, openBatchClient } from '../batch-client.ts';
import { createFurtherKeyClient } from '../further-key-client.ts';
import { createKeyClient, masked } from '../key-client.ts';
import { createTopUpClient } from '../top-up-client.ts';

/** The account, its credentials, and what stands in the examples of the reference for real objects, by the shown text. */
export type ExampleObjects = { env: Record<string, string>; values: Record<string, string> };

const ulid = '01KBN4V4W0R2E9Z6Y5QH3T8MXA';
/** Its lines do not end, so that a batch can be cancelled. */
export const endlessModel = 'endless-chat';
/** Its lines fail, so that they can be run again. */
export const failingModel = 'failing-chat';

/** Makes the objects that the examples of this operation name, for an account of its own. */
export async function makeExampleObjects(stack: Stack, account: string, text: string): Promise<ExampleObjects> {
  const keys = createKeyClient(stack);
  const key = await keys.newKey(account);
  const values: Record<string, string> = { 'user%3Aalice': `user%3A${account}`, 'svc_Ab3xYz****': masked(key) };
  const make = async (shown: string, create: () => Promise<string | undefined>) => {
    if (text.includes(shown)) values[shown] = (await create()) ?? '';
  };
  const batches = () => openBatchClient(stack, account, key);
  await make(`file-${ulid}`, async () => (await batches()).upload(linesOf(1)));
  await make(`batch_${ulid}`, async () => {
    const user = await batches();
    if (!text.includes('/retry')) return (await user.create(linesOf(1, { model: endlessModel }))).id;
    return (await user.ended((await user.create(linesOf(1, { model: failingModel }))).id)).id;
  });
  await make(`key_${ulid}`, async () => (await createFurtherKeyClient(keys, account).create()).id);
  await make(`req_${ulid}`, async () => {
    const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] };
    const { headers } = await keys.send('POST', '/v1/chat/completions', { bearer: key, body });
    return headers.get('x-request-id') ?? undefined;
  });
  const codes = createTopUpClient(keys);
  await make('tuc_01KJMMA2KV0000015QP5D3J9J9', async () => (await codes.create({ tokens: 1_000 }))[0]?.id);
  const shownCode = `TOPUP${'-XXXXX'.repeat(6)}`;
  await make(shownCode, async () => (await codes.create({ tokens: 1_000 }))[0]?.code);
  values['https://app.example.com/events'] = 'http://localhost:9/events';
  if (text.includes(`wh_${ulid}`)) {
    const wanted = { url: 'http://localhost:9/events', events: ['batch.completed'] };
    const { body } = await keys.signedIn(account, 'POST', '/v1/webhooks', wanted);
    values[`wh_${ulid}`] = String(body.id);
    const test = await keys.signedIn(account, 'POST', `/v1/webhooks/${body.id}/test`, {});
    values.evt_5f1c0a7be2d94c3f8a60d1b2c3e4f506 = String(test.body.id);
  }
  const env = { KEY: key, TOKEN: await keys.token(account), OPERATOR: await keys.token('olga', true) };
  return { env, values };
}

/** The example with the real objects. */
export function withObjects(text: string, { values }: ExampleObjects): string {
  return Object.entries(values).reduce((replaced, [shown, real]) => replaced.replaceAll(shown, real), text);
}
