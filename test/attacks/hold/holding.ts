import { randomBytes, randomUUID } from 'node:crypto';
import { request } from 'undici';
import { contentType, file, multipart, purpose } from '../../support/multipart.ts';
import { type Attacker, attackerAddress } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { openSocket, untilClosed } from '../attacker/open-socket.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';

/** The attacks of one caller at all of its limits. `key` is an API key; `token` is a sign-in token of its account. */
export type Holder = { key: string; token?: string | undefined };

/** A model that offers every endpoint, for guests as well. */
export const holdModel = 'everything';

const chat = { model: holdModel, max_tokens: 200, messages: [{ role: 'user', content: 'Hold on' }] };
/** An answer of 1.4 MB for one token. */
const vectors = { model: holdModel, input: [[7]], dimensions: 64_000, encoding_format: 'float' as const };
/** One that is as large as an answer of an account, or of a device, may be to be kept. */
const keptOfAccount = { ...vectors, dimensions: 40_000 };
const keptOfDevice = { ...vectors, dimensions: 2_000 };
const kept = ({ token }: Holder) => (token === undefined ? keptOfDevice : keptOfAccount);
const large = { ...vectors, input: [[1], [2], [3], [4]] };
/** All embeddings that are asked for. */
export const askedEmbeddings = [vectors, keptOfAccount, keptOfDevice, large];
/** A device may not send more tokens within a minute. */
const longText = (characters: number) => randomBytes(characters / 2).toString('hex');
const upload = multipart([purpose, file(batchLines(100))]);

function batchLines(count: number): string {
  const line = (index: number) => ({
    ...{ custom_id: `line ${index}`, method: 'POST', url: '/v1/embeddings', body: vectors },
  });
  return Array.from({ length: count }, (_, index) => JSON.stringify(line(index))).join('\n');
}

/** `send` uses the same connections again. */
type Tools = { attacker: Attacker; send: ReturnType<typeof openAgent> };
type Act = (tools: Tools, holder: Holder) => Promise<unknown>;

export function openTools(attacker: Attacker): Tools {
  return { attacker, send: openAgent(attacker) };
}

/** An answer that is kept: another claim each time. */
const claim: Act = ({ send }, holder) =>
  send({
    ...{ path: '/v1/embeddings', bearer: holder.key, body: kept(holder) },
    headers: { 'idempotency-key': randomUUID() },
  });

/** The same claim again and again. */
const repeatClaim: Act = ({ send }, holder) =>
  send({
    ...{ path: '/v1/embeddings', bearer: holder.key, body: kept(holder) },
    headers: { 'idempotency-key': 'the-same' },
  });

const largeAnswer: Act = ({ send }, { key }) => send({ path: '/v1/embeddings', bearer: key, body: large });

const freshText: Act = ({ send }, { key }) =>
  send({
    ...{ path: '/v1/messages/count_tokens', bearer: key },
    body: { model: holdModel, messages: [{ role: 'user', content: longText(24_000) }] },
  });

/** Leaves a stream at its first bytes. */
const leaveStream: Act = async ({ attacker }, { key }) => {
  const socket = await openSocket(attacker);
  if (socket === undefined) return;
  socket.once('data', () => socket.destroy());
  socket.write(post({ path: '/v1/chat/completions', key, body: JSON.stringify({ ...chat, stream: true }) }));
  await untilClosed(socket);
};

/** Reads nothing of a large answer. */
const unreadAnswer: Act = async ({ attacker }, { key }) => {
  const socket = await openSocket(attacker);
  if (socket === undefined) return;
  socket.pause();
  socket.write(post({ path: '/v1/embeddings', key, body: JSON.stringify(vectors) }));
  await untilClosed(socket);
};

/** Creates a further key, uses it, and revokes it. */
const churnKey: Act = async ({ attacker, send }, { token }) => {
  if (token === undefined) return;
  const limits = { requests_per_minute: 100, tokens_per_month: 1_000 };
  const created = JSON.parse(await send({ path: '/v1/keys', bearer: token, body: { name: 'x', limits } }));
  if (typeof created.key !== 'string') return;
  await send({ path: '/v1/chat/completions', bearer: created.key, body: { ...chat, max_tokens: 1 } });
  await remove(attacker, `/v1/keys/${created.id}`, token);
};

/** Uploads a file and creates ten batches of it at once. */
const fillBatches: Act = async ({ attacker, send }, { key, token }) => {
  if (token === undefined) return;
  const type = contentType().replace('Content-Type: ', '');
  const uploaded = JSON.parse(
    await sendBytes(attacker, post({ path: '/v1/files', key, contentType: type, body: upload })),
  );
  if (typeof uploaded.id !== 'string') return;
  const body = { input_file_id: uploaded.id, endpoint: '/v1/embeddings', completion_window: '24h' };
  await Promise.all(Array.from({ length: 10 }, () => send({ path: '/v1/batches', bearer: key, body })));
};

/** Everything that one caller can do, each with the number of clients that do it at the same time. */
export const everyAct: readonly { act: Act; clients: number }[] = [
  { act: claim, clients: 8 },
  { act: repeatClaim, clients: 6 },
  { act: largeAnswer, clients: 4 },
  { act: freshText, clients: 4 },
  { act: leaveStream, clients: 8 },
  { act: unreadAnswer, clients: 8 },
  { act: churnKey, clients: 2 },
  { act: fillBatches, clients: 1 },
];

async function remove({ target: { port }, count }: Attacker, path: string, token: string): Promise<void> {
  const { statusCode, body } = await request(`http://127.0.0.1:${port}${path}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${token}` },
  });
  await body.dump();
  count(String(statusCode));
}

/** A key of a guest's device. */
export async function mintDevice({ send }: Tools, device: number): Promise<string | undefined> {
  const answer = await send({
    path: '/v1/keys/guest',
    body: { device_id: `hold-${attackerAddress}-${device}` },
  });
  const { key } = JSON.parse(answer) as { key?: unknown };
  return typeof key === 'string' ? key : undefined;
}
