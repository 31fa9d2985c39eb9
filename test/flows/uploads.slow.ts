import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import fc from 'fast-check';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { answerName, documentedAnswers, shapeFaults } from '../support/documented-answers.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { filesLeft } from '../support/files-left.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { boundary, contentType, file, multipart, type Part, purpose } from '../support/multipart.ts';
import { exchange } from '../support/raw-http.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { head } from '../support/refusal.ts';
import { sized } from '../support/size.ts';
import { storedFile } from '../support/stored-batch.ts';

/** The default of the plan file. */
const accountBytesMax = 10_737_418_240;

let stack: Stack;
let keys: KeyClient;
let port: number;
let key: string;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ workers: 0 }));
  keys = createKeyClient(stack);
  port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  key = await keys.newKey('alice');
});

test.after.always(() => parts.disposeAsync());

const asked = (bearer: string, ...lines: string[]) =>
  Buffer.from(head('POST /v1/files HTTP/1.1', `Authorization: Bearer ${bearer}`, contentType(), ...lines));
const upload = (body: Buffer, bearer = key) => Buffer.concat([asked(bearer, `Content-Length: ${body.length}`), body]);

/** Waits until the service keeps nothing of a file. */
async function leavesNothing(t: ExecutionContext, about: string): Promise<void> {
  for (let waited = 0; waited < 30_000; waited += 20) {
    const { records, folder } = filesLeft(stack);
    if (records.length === 0 && folder.length === 0) return;
    await sleep(20);
  }
  t.fail(`${about}: ${JSON.stringify(filesLeft(stack))}`);
}

async function assertNoFaults(t: ExecutionContext): Promise<void> {
  t.is((await keys.models(key)).status, 200);
  const logs = stack.started().flatMap(({ logs }) => logs);
  t.deepEqual(
    logs.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
  );
}

/** An upload that stalls until its socket is closed. */
async function begin(bearer: string, at = port): Promise<Socket> {
  const socket = connect(at, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  const body = multipart([purpose, file('a\n'.repeat(1_000))]);
  socket.write(upload(body, bearer).subarray(0, -200));
  return socket;
}

const writing = () => filesLeft(stack).records.filter((record) => record.endsWith(' writing')).length;

async function until(holds: () => boolean): Promise<void> {
  for (let waited = 0; !holds(); waited += 20) {
    if (waited > 30_000) throw new Error(`condition not met: ${holds}`);
    await sleep(20);
  }
}

/** Retries until there is room: the slot of an upload that broke off is free a moment after its remains are gone. */
async function uploadWhereThereIsRoom(body: Buffer, bearer = key): ReturnType<typeof exchange> {
  for (let waited = 0; waited < 30_000; waited += 20) {
    const answer = await exchange({ port, send: upload(body, bearer) });
    if (answer.status !== 429) return answer;
    await sleep(20);
  }
  throw new Error('there is no room');
}

test.serial('an upload that breaks off leaves nothing, at any point', async (t) => {
  const body = multipart([purpose, file(`${line('a')}\n`.repeat(500)), purpose]);
  for (const sent of [0, 60, 200, 300, 30_000, body.length - 200, body.length - 1]) {
    for (const end of ['reset', 'end'] as const) {
      const about = `${end}-after-${sent}-bytes-of-the-body`;
      const lines = [`Content-Length: ${body.length}`, `X-Client-Request-Id: ${about}`];
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      await once(socket, 'connect');
      if (end === 'reset') {
        // A reset drops what the ingress has not read. So the head is read first.
        socket.write(asked(key, ...lines, 'Expect: 100-continue'));
        await once(socket, 'data', { signal: AbortSignal.timeout(30_000) });
      } else socket.write(asked(key, ...lines));
      await new Promise((resolve) => socket.write(body.subarray(0, sent), resolve));
      await sleep(20);
      if (end === 'reset') socket.resetAndDestroy();
      else socket.end();
      const ended = await stack.ingresses[0]?.process.line(({ clientRequestId }) => clientRequestId === about);
      t.is(ended?.msg, 'the client disconnected', about);
      await leavesNothing(t, about);
      socket.destroy();
    }
  }
  await assertNoFaults(t);
});

test.serial('a refused upload leaves nothing, for any reason', async (t) => {
  const long = Buffer.alloc(4_194_305, 'x');
  const refused: [title: string, parts: Part[], says: string][] = [
    ['a field after the file', [purpose, file('a'), { name: 'x', body: '' }], 'x: is not known'],
    ['another purpose after the file', [file('a\n'), { name: 'purpose', body: 'vision' }], 'purpose: expected'],
    ['no purpose', [file('a\n'.repeat(30_000))], 'purpose: is required'],
    ['a long line', [purpose, file(Buffer.concat([Buffer.from('a\nb\n'), long]))], 'file: line 3: is longer than'],
    ['one line too many', [purpose, file('a\n'.repeat(50_001))], 'file: line 50001: a file has at most'],
    ['an empty file', [purpose, file('')], 'file: is empty'],
    ['two files', [purpose, file('a'), file('b')], 'body: expected one file'],
  ];
  for (const [title, parts, says] of refused) {
    const { status, body } = await uploadWhereThereIsRoom(multipart(parts));
    t.deepEqual([status, JSON.parse(body).code], [400, 'VALIDATION_ERROR'], `${title}: ${body}`);
    t.true(body.includes(says), `${title}: ${body}`);
    t.deepEqual(filesLeft(stack), { records: [], folder: [] }, title);
  }
});

test.serial('a client that sends Expect: 100-continue gets it, or a refusal before it sends the body', async (t) => {
  const body = multipart([purpose, file('a')]);
  const welcome = await exchange({
    port,
    async send(socket) {
      socket.write(asked(key, `Content-Length: ${body.length}`, 'Expect: 100-continue'));
      await once(socket, 'data');
      socket.write(body);
    },
  });
  t.deepEqual([welcome.interim, welcome.status], [[100], 200], welcome.body);
  const send = asked(key, 'Content-Length: 104923137', 'Expect: 100-continue');
  const refused = await exchange({ port, send });
  t.deepEqual([refused.interim, refused.status], [[], 413]);
  await createFileClient(stack, key).remove(JSON.parse(welcome.body).id);
});

test.serial('an account uploads four files at once, and all accounts together 32 per ingress', async (t) => {
  const bearers = await Promise.all(Array.from({ length: 8 }, (_, index) => keys.newKey(`uploader-${index}`)));
  const [mine = ''] = bearers;
  const body = multipart([purpose, file('a')]);
  const own = await Promise.all(Array.from({ length: 4 }, () => begin(mine)));
  await until(() => writing() === 4);
  const limited = await exchange({ port, send: upload(body, mine) });
  t.is(limited.status, 429);
  t.like(JSON.parse(limited.body).error, {
    code: 'rate_limit_exceeded',
    type: 'concurrency_limit',
    retry_after_ms: 1_000,
  });
  t.is(limited.headers['retry-after-ms'], '1000');

  const others = await Promise.all(
    bearers.slice(1).flatMap((bearer) => Array.from({ length: 4 }, () => begin(bearer))),
  );
  await until(() => writing() === 32);
  const first = await exchange({ port, send: upload(body) });
  t.is(first.status, 200, 'an upload of an account with several is cancelled for an account with none');
  await createFileClient(stack, key).remove(JSON.parse(first.body).id);
  for (const socket of [...own, ...others]) socket.destroy();
  await leavesNothing(t, 'the uploads of the accounts with several ended');

  const many = await Promise.all(Array.from({ length: 32 }, (_, index) => keys.newKey(`one-of-many-${index}`)));
  const each = await Promise.all(many.map((bearer) => begin(bearer)));
  await until(() => writing() === 32);
  const full = await exchange({ port, send: upload(body) });
  t.deepEqual([full.status, full.headers['retry-after']], [503, '1'], 'none has more than one');
  for (const socket of each) socket.destroy();
  await leavesNothing(t, 'the uploads of all accounts ended');
  const { status, body: answer } = await uploadWhereThereIsRoom(body, mine);
  t.is(status, 200);
  await createFileClient(stack, mine).remove(JSON.parse(answer).id);
});

test.serial(
  'an upload for which an account has no room is refused before it sends a byte, until the account deletes a file',
  async (t) => {
    await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
    const bearer = await keys.newKey('hoarder');
    const files = createFileClient(stack, bearer);
    const body = multipart([purpose, file('a\n'.repeat(1_000))]);
    const roomForOne = body.length + 4_096;
    const kept = storedFile('user:hoarder', {
      purpose: 'batch_output',
      bytes: accountBytesMax - 4_096 - roomForOne,
    });
    await store.batches.insertFile(kept);
    const taken = await exchange({ port, send: upload(body, bearer) });
    t.is(taken.status, 200);
    const asking = asked(bearer, `Content-Length: ${body.length}`, 'Expect: 100-continue');
    const refused = await exchange({ port, send: asking });
    t.deepEqual([refused.interim, refused.status, JSON.parse(refused.body).code], [[], 413, 'PAYLOAD_TOO_LARGE']);
    t.regex(JSON.parse(refused.body).error, /may have 10737418240 bytes.*Delete some/);
    t.is(filesLeft(stack).records.length, 2);
    await files.remove(JSON.parse(taken.body).id);

    await files.remove((await files.upload('a')).id);
    await store.batches.removeFile(kept.id);
    await leavesNothing(t, 'all of them were deleted');
  },
);

test.serial('an upload that a shutdown does not wait for gets 503, and leaves nothing', async (t) => {
  const leaving = await stack.startIngress({ SHUTDOWN_GRACE_MS: '300' });
  const answered = exchange({
    port: Number(new URL(leaving.url).port),
    async send(socket) {
      socket.write(upload(multipart([purpose, file('a\n'.repeat(1_000))])).subarray(0, -200));
    },
  });
  await until(() => writing() === 1);
  leaving.process.kill('SIGTERM');
  const { status, headers, body } = await answered;
  t.deepEqual([status, JSON.parse(body).code], [503, 'SERVICE_UNAVAILABLE']);
  t.truthy(headers['retry-after']);
  await leaving.process.exited;
  t.deepEqual(filesLeft(stack), { records: [], folder: [] });
});

const residentKiB = (pid: number) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
const residentMax = 160 * 1024;

test.serial('an upload of 100 MiB is not held in memory, and others are answered meanwhile', async (t) => {
  const pid = stack.ingresses[0]?.process.pid ?? 0;
  const mebibyte = Buffer.from(`${line('a', { content: 'x'.repeat(2_500) })}\n`.repeat(400)).subarray(0, 1_048_576);
  const form = multipart([purpose, file('<here>')]).toString();
  const [before = '', after = ''] = form.split('<here>');
  const waits: number[] = [];
  const sentAtAnswers = new Set<number>();
  let sent = 0;
  const during = new AbortController();
  const bystander = (async () => {
    while (!during.signal.aborted) {
      const since = performance.now();
      const { status } = await keys.models(key);
      t.is(status, 200, JSON.stringify(stack.ingresses[0]?.process.logs.slice(-5)));
      waits.push(performance.now() - since);
      sentAtAnswers.add(sent);
      await sleep(20);
    }
  })();
  const atFirst = residentKiB(pid);
  let most = 0;
  const answer = await exchange({
    port,
    withinMs: 120_000,
    async send(socket) {
      const write = async (bytes: Buffer | string) => void (socket.write(bytes) || (await once(socket, 'drain')));
      await write(asked(key, `Content-Length: ${before.length + 100 * mebibyte.length + after.length}`));
      await write(before);
      for (; sent < 100; sent++) {
        await write(mebibyte);
        most = Math.max(most, residentKiB(pid) - atFirst);
      }
      await write(after);
    },
  });
  during.abort();
  await bystander;
  const { id, bytes } = JSON.parse(answer.body);
  t.deepEqual([answer.status, bytes], [200, 104_857_600], answer.body);
  await createFileClient(stack, key).remove(id);
  t.log(
    `the ingress grew by at most ${Math.round(most / 1024)} MiB; the longest wait of ${waits.length} was ${Math.round(Math.max(...waits))} ms`,
  );
  t.true(most < residentMax, `${most} KiB`);
  t.true(sentAtAnswers.size > 2, 'others were answered during the upload');
});

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', '\r\n', '--', `--${boundary}`, '\0'),
);
const names = fc.oneof(fc.constantFrom('file', 'purpose', 'x', '', '__proto__', 'file[]', 'é'), text);
const heads = fc.array(
  fc.oneof(
    fc.constantFrom('Content-Disposition: form-data', 'Content-Disposition: form-data; name', ': x', ' folded', 'X'),
    fc.constantFrom(
      "Content-Disposition: form-data; name*=utf-8''file; filename*=utf-8''%zz",
      'Content-Type: text/plain; charset=base64',
    ),
    fc.constantFrom('Content-Transfer-Encoding: base64', `Content-Type: multipart/mixed; boundary=${boundary}`),
    fc.integer({ min: 1, max: 20_000 }).map((length) => `X-Long: ${'y'.repeat(length)}`),
    text,
  ),
  { maxLength: 8 },
);
const anyPart: fc.Arbitrary<Part> = fc.oneof(
  { weight: 3, arbitrary: fc.constant(purpose) },
  { weight: 3, arbitrary: text.map((body) => file(body)) },
  { weight: 2, arbitrary: fc.record({ name: names, filename: text, body: text }) },
  { weight: 1, arbitrary: fc.record({ name: names, body: text }) },
  { weight: 2, arbitrary: fc.record({ head: heads, body: text }) },
);
const right = fc
  .tuple(text, fc.boolean())
  .map(([body, last]) => (last ? [file(`a${body}`), purpose] : [purpose, file(`a${body}`)]));
const forms = fc.oneof(fc.array(anyPart, { maxLength: 12 }), right).map((parts) => multipart(parts));
const nested = forms.map((inner) => multipart([purpose, file(inner)], 'outer'));
const bodies = fc.oneof(
  { weight: 6, arbitrary: forms },
  { weight: 1, arbitrary: nested },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 500 }).map((bytes) => Buffer.from(bytes)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(forms, fc.double({ min: 0, max: 1, noNaN: true }))
      .map(([body, share]) => body.subarray(0, Math.floor(body.length * share))),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(forms, fc.nat(), fc.nat({ max: 255 })).map(([body, at, byte]) => withByte(body, at, byte)),
  },
);
const boundaries = fc.oneof(
  { weight: 8, arbitrary: fc.constant(boundary) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('outer', `"${boundary}"`, '', '""', boundary.slice(1), `${boundary}x`, 'x'.repeat(71)),
  },
);

function withByte(body: Buffer, at: number, byte: number): Buffer {
  const changed = Buffer.from(body);
  if (changed.length > 0) changed[at % changed.length] = byte;
  return changed;
}

test.serial('any form, in any pieces, is answered as documented and leaves a complete file or nothing', async (t) => {
  const documented = documentedAnswers('POST /v1/files');
  const files = createFileClient(stack, key);
  const seen = new Map<string, number>();
  const lengths = fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(bodies, boundaries, lengths, fc.boolean(), async (body, between, cuts, chunked) => {
      const answer = await exchange({ port, send: (socket) => sendCut(socket, { body, between, cuts, chunked }) });
      const name = answerName(answer);
      const faults = shapeFaults('POST /v1/files', answer);
      if (!documented.includes(name) || faults.length > 0) throw new Error(`${name} ${faults}: ${answer.body}`);
      seen.set(name, (seen.get(name) ?? 0) + 1);
      const { id } = JSON.parse(answer.body);
      const { records, folder } = filesLeft(stack);
      const expected = name === '200' ? [[`${id} ready`], [id]] : [[], []];
      if (JSON.stringify([records, folder]) !== JSON.stringify(expected))
        throw new Error(`${name} left ${records} ${folder}`);
      if (name === '200') await files.remove(id);
    }),
    { numRuns: sized(150) },
  );
  t.log(JSON.stringify(Object.fromEntries(seen)));
  t.true((seen.get('200') ?? 0) > 0, 'some of them are valid');
  await assertNoFaults(t);
});

type Cut = { body: Buffer; between: string; cuts: readonly number[]; chunked: boolean };

async function sendCut(socket: Socket, { body, between, cuts, chunked }: Cut): Promise<void> {
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
  socket.setNoDelay(true);
  socket.write(head('POST /v1/files HTTP/1.1', `Authorization: Bearer ${key}`, contentType(between), framing));
  let from = 0;
  for (const length of [...cuts, body.length]) {
    const piece = body.subarray(from, from + length);
    from += piece.length;
    if (piece.length === 0) break;
    socket.write(
      chunked ? Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]) : piece,
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (chunked) socket.write('0\r\n\r\n');
}
