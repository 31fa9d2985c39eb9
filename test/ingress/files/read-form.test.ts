import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import fc from 'fast-check';
import Koa from 'koa';
import { readForm } from '../../../ingress/files/read-form.ts';
import { watchBody } from '../../../ingress/files/upload-file.ts';
import { listen } from '../../../ingress/listener/listener.ts';
import { answerBrokenRequest, answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { assignRequestId } from '../../../ingress/middleware/request-head.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import { boundary, file, multipart, type Part, purpose } from '../../support/multipart.ts';
import { exchange, type RawAnswer } from '../../support/raw-http.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { unboundedConnections } from '../../support/unbounded-connections.ts';

const defaultBytesMax = 100_000;

type Taken = { filename: string; bytes: Buffer };
type Options = {
  fileBytesMax?: number;
  totalMs?: number;
  windowMs?: number;
  /** Called for each chunk of the file. */
  onPiece?: (piece: Uint8Array) => Promise<void>;
};

/** The real listener with a route that reads a form; `ended` records the outcome of each file. */
async function start(t: ExecutionContext, options: Options = {}) {
  const { fileBytesMax = defaultBytesMax, totalMs = 60_000, windowMs = 60_000, onPiece } = options;
  const giveUp = new AbortController();
  const ended: ('whole' | 'broken')[] = [];
  const failures: unknown[] = [];
  const { log } = recordedLog();
  const windowBytesMin = 100;
  let received = 0;

  async function take(filename: string, pieces: AsyncIterable<Uint8Array>): Promise<Taken> {
    const bytes: Uint8Array[] = [];
    try {
      for await (const piece of pieces) {
        await onPiece?.(piece);
        bytes.push(piece);
      }
    } catch (error) {
      ended.push('broken');
      throw error;
    }
    ended.push('whole');
    return { filename, bytes: Buffer.concat(bytes) };
  }

  const app = new Koa<RequestState>();
  app.use(assignRequestId);
  app.use(answerErrors({ log, docsUrl: '' }));
  app.use(async (ctx) => {
    using watch = watchBody(ctx.req, {
      ...{ bytesMax: fileBytesMax + 20_000, totalMs, windowMs, windowBytesMin, giveUp: giveUp.signal },
      onBytes(bytes) {
        received += bytes;
      },
    });
    const form = { boundary, fileBytesMax, keptSecondsMax: 86_400, signal: watch.signal, take };
    const { taken, keptSeconds } = await readForm(ctx.req, form).catch((error: unknown) => {
      failures.push(error);
      throw error;
    });
    const { filename, bytes } = taken;
    const text = bytes.toString('latin1', 0, defaultBytesMax);
    ctx.body = { filename, text, ...(keptSeconds !== undefined && { keptSeconds }) };
  });
  app.on('error', () => {});
  const listener = await listen({
    connections: unboundedConnections,
    host: '127.0.0.1',
    port: 0,
    keepAliveMs: 65_000,
    onRequest: app.callback(),
    onBrokenRequest: answerBrokenRequest({ log, docsUrl: '', securityHeaders: {}, methods: [] }),
  });
  const shuttingDown = () => giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.'));
  t.teardown(() => listener.close({ graceMs: 0, giveUp: shuttingDown }));
  return { port: listener.port, shuttingDown, ended, failures, received: () => received };
}

const head = (...headers: string[]) => Buffer.from(['POST / HTTP/1.1', 'Host: x', ...headers, '', ''].join('\r\n'));
const whole = (body: Buffer) => Buffer.concat([head(`Content-Length: ${body.length}`), body]);

const send = (port: number, parts: readonly Part[]) => exchange({ port, send: whole(multipart(parts)) });

function refused(t: ExecutionContext, { status, body }: RawAnswer, code: string, message: string | RegExp): void {
  const { error, ...rest } = JSON.parse(body);
  t.deepEqual(rest, { code }, `${status} ${body}`);
  if (typeof message === 'string') t.is(error, message);
  else t.regex(error, message);
}

test('reads a form with its parts in any order', async (t) => {
  const { port } = await start(t);
  for (const parts of [
    [purpose, file('a\nb\n')],
    [file('a\nb\n'), purpose],
  ]) {
    const { status, body } = await send(port, parts);
    t.is(status, 200, body);
    t.deepEqual(JSON.parse(body), { filename: 'in.jsonl', text: 'a\nb\n' });
  }
});

test('the bytes of a file arrive unchanged, even if they look like a boundary, in any chunks', async (t) => {
  const { port } = await start(t);
  const pieces = fc.constantFrom('\r\n', '\n', '--', `--${boundary}`, `\r\n--${boundary.slice(0, -1)}`, '\0', 'a', '-');
  const contents = fc
    .array(fc.oneof(pieces, fc.string({ unit: 'binary-ascii', maxLength: 20 })), { maxLength: 30 })
    .map((texts) => texts.join(''))
    .filter((text) => !`\r\n${text}\r\n--`.includes(`\r\n--${boundary}`));
  const cuts = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(contents, cuts, fc.boolean(), async (text, lengths, chunked) => {
      const body = multipart([purpose, file(text)]);
      const answer = await exchange({ port, send: (socket) => sendInPieces(socket, { body, lengths, chunked }) });
      t.deepEqual([answer.status, JSON.parse(answer.body).text], [200, text]);
    }),
    { numRuns: 150 },
  );
});

async function sendInPieces(
  socket: Socket,
  { body, lengths, chunked }: { body: Buffer; lengths: number[]; chunked: boolean },
) {
  socket.setNoDelay(true);
  socket.write(head(chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`));
  let from = 0;
  for (const length of [...lengths, body.length]) {
    const piece = body.subarray(from, from + length);
    if (piece.length === 0) break;
    socket.write(
      chunked ? Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]) : piece,
    );
    from += length;
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (chunked) socket.write('0\r\n\r\n');
}

test('a file of the maximum size is read, one byte more is 413, and so is a form that is too large around it', async (t) => {
  const { port, ended } = await start(t);
  t.is((await send(port, [purpose, file('x'.repeat(defaultBytesMax))])).status, 200);
  refused(
    t,
    await send(port, [purpose, file('x'.repeat(defaultBytesMax + 1))]),
    'PAYLOAD_TOO_LARGE',
    /^The file is larger than 100000/,
  );
  const body = Buffer.concat([multipart([purpose, file('a')]), Buffer.alloc(defaultBytesMax + 20_000)]);
  refused(t, await exchange({ port, send: whole(body) }), 'PAYLOAD_TOO_LARGE', /^The body is larger than 120000/);
  t.deepEqual(ended, ['whole', 'broken', 'whole']);
});

const anchor: Part = { name: 'expires_after[anchor]', body: 'created_at' };
const seconds = (body: string): Part => ({ name: 'expires_after[seconds]', body });

test('reads how long the file is kept, before or after the file', async (t) => {
  const { port } = await start(t);
  for (const parts of [
    [purpose, anchor, seconds('3600'), file('a')],
    [file('a'), seconds('3600'), anchor, purpose],
  ]) {
    const { status, body } = await send(port, parts);
    t.deepEqual([status, JSON.parse(body).keptSeconds], [200, 3_600], body);
  }
});

const wrongForms: [title: string, parts: Part[], message: string][] = [
  ['no purpose', [file('a')], 'purpose: is required'],
  ['no file', [purpose], 'file: is required'],
  ['a file that is text', [purpose, { name: 'file', body: 'a' }], 'file: expected a file with a name'],
  ['a file without a name', [purpose, file('a', '')], 'file: expected a file with a name'],
  ['a file whose name is a folder', [purpose, file('a', '../')], 'file: expected a file with a name'],
  ['another purpose', [{ name: 'purpose', body: 'fine-tune' }, file('a')], 'purpose: expected "batch"'],
  ['another purpose, last', [file('a'), { name: 'purpose', body: 'batch ' }], 'purpose: expected "batch"'],
  ['a long purpose', [{ name: 'purpose', body: 'batch'.repeat(1_000) }, file('a')], 'purpose: expected "batch"'],
  [
    'a purpose that is a file',
    [{ ...file('batch'), name: 'purpose' }, file('a')],
    'purpose: expected text, not a file',
  ],
  ['two purposes', [purpose, purpose, file('a')], 'purpose: expected once'],
  ['two files', [purpose, file('a'), file('b')], 'body: expected one file'],
  ['another field', [purpose, { name: 'expires_after', body: 'x' }, file('a')], 'expires_after: is not known'],
  [
    'another anchor',
    [purpose, { name: 'expires_after[anchor]', body: 'now' }, seconds('3600'), file('a')],
    'expires_after[anchor]: expected "created_at"',
  ],
  ...['', '3599', '86401', '3600.5', '1e4', '-3600', '9'.repeat(400)].map((value): [string, Part[], string] => [
    `${value.slice(0, 10)} seconds`,
    [purpose, anchor, seconds(value), file('a')],
    'expires_after[seconds]: expected 3600 to 86400 seconds',
  ]),
  ['seconds without their anchor', [purpose, seconds('3600'), file('a')], 'expires_after[anchor]: is required'],
  ['an anchor without seconds', [file('a'), purpose, anchor], 'expires_after[seconds]: is required'],
  [
    'seconds twice',
    [purpose, anchor, seconds('3600'), seconds('3600'), file('a')],
    'expires_after[seconds]: expected once',
  ],
  ['another file', [purpose, { ...file('a'), name: 'image' }], 'image: is not known'],
  ['a part without a name', [purpose, { body: 'x' }, file('a')], 'body: has a part without a name'],
  ['a long name', [purpose, { name: 'x'.repeat(100), body: 'x' }, file('a')], `${'x'.repeat(32)}…: is not known`],
  [
    'three faults',
    [{ name: 'a', body: '' }, { name: 'purpose', body: '' }, { name: 'b', body: '' }, file('x')],
    'a: is not known; purpose: expected "batch"; b: is not known',
  ],
  [
    'too many parts',
    [...Array.from({ length: 11 }, (_, index) => ({ name: `f${index}`, body: '' }))],
    'body: expected at most 10 parts',
  ],
];

for (const [title, parts, message] of wrongForms) {
  test(`refuses ${title}, by name`, async (t) => {
    const { port } = await start(t);
    refused(t, await send(port, parts), 'VALIDATION_ERROR', message);
  });
}

const ending = /^body: expected multipart\/form-data up to its last boundary$/;
const form = multipart([purpose, file('a\nb\n')]);
const malformed: [title: string, body: Buffer][] = [
  ['nothing', Buffer.alloc(0)],
  ['text', Buffer.from('hello')],
  ['another boundary', multipart([purpose, file('a')], 'another')],
  ['no last boundary', form.subarray(0, -4 - boundary.length - 4)],
  ['the end of a boundary missing', form.subarray(0, -4)],
  ['a truncated part', form.subarray(0, 150)],
  ['a truncated head', form.subarray(0, 60)],
];

for (const [title, body] of malformed) {
  test(`an incomplete form is 400: ${title}`, async (t) => {
    const { port } = await start(t);
    refused(t, await exchange({ port, send: whole(body) }), 'VALIDATION_ERROR', ending);
  });
}

test('length and number of lines of a part head are bounded', async (t) => {
  const { port } = await start(t);
  const long: Part = { head: [`Content-Disposition: form-data; name="${'x'.repeat(50_000)}"`], body: '' };
  const many: Part = {
    head: [...Array.from({ length: 1_000 }, (_, index) => `X-${index}: y`), 'Content-Disposition: form-data; name="x"'],
    body: '',
  };
  t.is((await send(port, [long, purpose, file('a')])).status, 400);
  t.is(
    (await send(port, [many, purpose, file('a')])).status,
    200,
    'a part without its name in the bounds of the head is ignored',
  );
});

test('bytes before the first boundary and after the last are ignored', async (t) => {
  const { port } = await start(t);
  const body = Buffer.concat([Buffer.from('preamble\r\n'), form, Buffer.from('epilogue'.repeat(100))]);
  const { status, body: answer } = await exchange({ port, send: whole(body) });
  t.is(status, 200, answer);
});

test('a client that disconnects at any point ends the read of its file', async (t) => {
  const { port, ended, failures } = await start(t);
  const body = multipart([purpose, file('x'.repeat(1_000)), purpose]);
  const request = whole(body);
  const headBytes = request.length - body.length;
  for (let sent = headBytes; sent < request.length; sent += 97) {
    const before = failures.length;
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    await new Promise((resolve) => socket.write(request.subarray(0, sent), resolve));
    await sleep(5);
    socket.resetAndDestroy();
    while (failures.length === before) await sleep(1);
    t.like(failures.at(-1), { code: 'VALIDATION_ERROR' }, `after ${sent} bytes`);
  }
  t.true(ended.includes('broken'));
});

test('a body that is too slow is 408, even if bytes keep arriving, and one at the minimum rate continues', async (t) => {
  const { port, received } = await start(t, { windowMs: 1_000 });
  const bytes = whole(multipart([purpose, file('x'.repeat(1_000))]));
  const silent = await exchange({ port, send: bytes.subarray(0, -20) });
  refused(t, silent, 'REQUEST_TIMEOUT', 'The body did not arrive in time.');
  const before = received();
  const trickling = await exchange({
    port,
    async send(socket) {
      socket.write(bytes.subarray(0, 300));
      for (let at = 300; !socket.destroyed && at < bytes.length; at++) {
        socket.write(bytes.subarray(at, at + 1));
        await sleep(50);
      }
    },
  });
  refused(t, trickling, 'REQUEST_TIMEOUT', 'The body did not arrive in time.');
  t.true(received() - before < bytes.length);
  // A window that is longer than a pause of a busy machine.
  const { port: patient } = await start(t, { windowMs: 3_000 });
  const steady = await exchange({
    port: patient,
    async send(socket) {
      for (let at = 0; at < bytes.length; at += 60) {
        socket.write(bytes.subarray(at, at + 60));
        await sleep(200);
      }
    },
  });
  t.is(steady.status, 200);
});

test('a body that takes too long in total is 408', async (t) => {
  const { port } = await start(t, { totalMs: 300 });
  const answer = await exchange({
    port,
    async send(socket) {
      socket.write(head('Content-Length: 90000'));
      while (!socket.destroyed) {
        socket.write(' ');
        await sleep(20);
      }
    },
  });
  refused(t, answer, 'REQUEST_TIMEOUT', 'The body did not arrive in time.');
});

test('a body that is still arriving at the end of the shutdown wait is 503', async (t) => {
  const { port, shuttingDown } = await start(t);
  const answer = await exchange({
    port,
    async send(socket) {
      socket.write(whole(form).subarray(0, -20));
      await sleep(100);
      shuttingDown();
    },
  });
  refused(t, answer, 'SERVICE_UNAVAILABLE', /shutting down/);
});

test('a client waits while its file is read slowly, and does not count as slow', async (t) => {
  const go = Promise.withResolvers<void>();
  const fileBytes = 40_000_000;
  const { port } = await start(t, { fileBytesMax: fileBytes, windowMs: 1_000, onPiece: () => go.promise });
  const body = multipart([purpose, file(Buffer.alloc(fileBytes, 'x'))]);
  const sending = exchange({
    port,
    async send(socket) {
      socket.write(head(`Content-Length: ${body.length}`));
      for (let from = 0; from < body.length; from += 65_536) socket.write(body.subarray(from, from + 65_536));
      await sleep(2_000);
      // The rest is in the system buffers of both ends.
      t.true(socket.writableLength > fileBytes / 2, `${socket.writableLength} bytes were not read`);
      go.resolve();
    },
  });
  t.is((await sending).status, 200);
});

test('a form that has arrived completely is not slow, however slowly its file is read', async (t) => {
  const go = Promise.withResolvers<void>();
  const { port } = await start(t, { windowMs: 50, onPiece: () => go.promise });
  const sending = send(port, [purpose, file('a')]);
  await sleep(300);
  go.resolve();
  t.is((await sending).status, 200);
});

test('a failure of take is the error of the request', async (t) => {
  const onPiece = async () => {
    throw new ApiError('VALIDATION_ERROR', 'file: not this one');
  };
  const { port } = await start(t, { onPiece });
  refused(t, await send(port, [purpose, file('x'.repeat(defaultBytesMax))]), 'VALIDATION_ERROR', 'file: not this one');
});
