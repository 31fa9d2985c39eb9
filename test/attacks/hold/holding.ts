import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { request } from 'undici';
import { contentType, file, multipart, purpose } from '../../support/multipart.ts';
import { head } from '../../support/refusal.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { type Attacker, attackerAddress } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { countAnswers, openSocket, untilClosed } from '../attacker/open-socket.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';

/** The attacks of one caller at all of its limits. `key` is an API key; `token` is a sign-in token of its account. */
export type Holder = { key: string; token?: string | undefined };

/** A model that offers every endpoint, for guests as well. */
export const holdModel = 'everything';
/** One that produces 100 tokens a second, and offers chat only. */
export const slowModel = 'slow-chat';
export const slowTokensPerSecond = 100;

const chat = { model: holdModel, max_tokens: 200, messages: [{ role: 'user', content: 'Hold on' }] };
/** An answer of 200 tokens. */
const slowChat = { ...chat, model: slowModel, messages: [{ role: 'user', content: 'Hold on, repeat 20' }] };
const leftAnswerMs = 1_000;
const bodyHead = (key: string) =>
  head(
    'POST /v1/chat/completions HTTP/1.1',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    'Content-Length: 4000000',
  );
const bodyPiece = ' '.repeat(65_536);
const bodyPieceEveryMs = 250;
const leftBodyMs = 4_000;
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
const largeImage = {
  role: 'user',
  content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'iVBORw0K'.repeat(2_070_000)}` } }],
};
const manyLines = { url: '/v1/embeddings', form: formOf(100, { url: '/v1/embeddings', body: vectors }) };
/** About 560,000 tokens. In the plan `free` three such batches may wait, in `pro` 17, and leave room for 100 batches with those above. */
const manyTokens = {
  url: '/v1/chat/completions',
  form: formOf(352, { url: '/v1/chat/completions', body: longChat() }),
};

function longChat(): object {
  return { ...slowChat, messages: [{ role: 'user', content: 'word '.repeat(1_000) }] };
}

function formOf(count: number, line: { url: string; body: object }): Buffer {
  const lines = Array.from({ length: count }, (_, index) =>
    JSON.stringify({ custom_id: `line ${index}`, method: 'POST', ...line }),
  );
  return multipart([purpose, file(lines.join('\n'))]);
}

/** `send` uses the same connections again. Nothing that is sent to `webhookUrl` is answered. */
type Tools = { attacker: Attacker; send: ReturnType<typeof openAgent>; webhookUrl: string };
type Act = (tools: Tools, holder: Holder) => Promise<unknown>;

export async function openTools(attacker: Attacker): Promise<Tools> {
  const { port } = await startWebhookReceiver(() => attacker.count('webhooks not answered'));
  return { attacker, send: openAgent(attacker), webhookUrl: `http://localhost:${port}/` };
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

/** A body of nearly 16 MiB that counts few tokens. */
const largeBody: Act = ({ send }, { key }) =>
  send({ path: '/v1/chat/completions', bearer: key, body: { ...chat, model: slowModel, messages: [largeImage] } });

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

/** Creates a webhook endpoint, and lets one that it has receive the same test twice. */
const churnWebhook: Act = async ({ send, webhookUrl }, { token: bearer }) => {
  if (bearer === undefined) return;
  await send({ path: '/v1/webhooks', bearer, body: { url: webhookUrl, events: ['batch.completed', 'batch.failed'] } });
  const { data } = JSON.parse(await send({ method: 'GET', path: '/v1/webhooks', bearer }));
  if (data.length === 0) return;
  const path = `/v1/webhooks/${data[randomInt(data.length)].id}`;
  const { id } = JSON.parse(await send({ path: `${path}/test`, bearer, body: {} }));
  if (typeof id === 'string') await send({ path: `${path}/deliveries/${id}/retry`, bearer, body: {} });
};

/** Leaves in the middle of an answer that is not streamed. */
const leaveAnswer: Act = async ({ attacker }, { key }) => {
  const socket = await openSocket(attacker);
  if (socket === undefined) return;
  socket.once('data', () => socket.destroy());
  socket.write(post({ path: '/v1/chat/completions', key, body: JSON.stringify(slowChat) }));
  await untilLeft(attacker, socket, { what: 'answers', afterMs: leftAnswerMs });
};

/** Sends a large body slowly, and leaves in the middle of it. */
const leaveBody: Act = async ({ attacker }, { key }) => {
  const socket = await openSocket(attacker);
  if (socket === undefined) return;
  countAnswers(attacker, socket);
  socket.write(bodyHead(key));
  const sending = setInterval(() => socket.write(bodyPiece), bodyPieceEveryMs);
  await untilLeft(attacker, socket, { what: 'bodies', afterMs: leftBodyMs });
  clearInterval(sending);
};

/** Uploads a file and creates this many batches of it at once. */
const fillBatches =
  ({ url, form }: typeof manyLines, count: number): Act =>
  async ({ attacker, send }, { key, token }) => {
    if (token === undefined) return;
    const type = contentType().replace('Content-Type: ', '');
    const uploaded = JSON.parse(
      await sendBytes(attacker, post({ path: '/v1/files', key, contentType: type, body: form })),
    );
    if (typeof uploaded.id !== 'string') return;
    const body = { input_file_id: uploaded.id, endpoint: url, completion_window: '24h' };
    const create = () => send({ path: '/v1/batches', bearer: key, body });
    const answers = await Promise.all(Array.from({ length: count }, create));
    for (const answer of answers) {
      if (answer.includes('already waiting')) attacker.count('batches beyond waiting tokens');
      if (answer.includes('unfinished batches')) attacker.count('batches beyond their number');
    }
  };

/** Everything that one caller can do, each with the number of clients that do it at the same time. */
export const everyAct: readonly { act: Act; clients: number }[] = [
  { act: claim, clients: 8 },
  { act: repeatClaim, clients: 6 },
  { act: largeAnswer, clients: 4 },
  { act: freshText, clients: 4 },
  { act: largeBody, clients: 8 },
  { act: leaveStream, clients: 8 },
  { act: unreadAnswer, clients: 8 },
  { act: churnKey, clients: 6 },
  { act: churnWebhook, clients: 1 },
  { act: leaveAnswer, clients: 4 },
  { act: leaveBody, clients: 24 },
  { act: fillBatches(manyLines, 10), clients: 1 },
  { act: fillBatches(manyTokens, 30), clients: 1 },
];

/** Leaves after this time, unless the connection ends before. */
async function untilLeft(
  { count }: Attacker,
  socket: Socket,
  { what, afterMs }: { what: string; afterMs: number },
): Promise<void> {
  const leaving = setTimeout(() => {
    count(`${what} left`);
    socket.destroy();
  }, afterMs);
  await untilClosed(socket);
  clearTimeout(leaving);
}

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
