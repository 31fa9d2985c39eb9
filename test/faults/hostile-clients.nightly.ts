import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { askMeanwhile, inWords } from '../support/faults/ask-meanwhile.ts';
import { faultTest, type See } from '../support/faults/fault-test.ts';
import { exchange, type RawAnswer } from '../support/raw-http.ts';
import { head, headTooLarge, type Refusal, tooLarge } from '../support/refusal.ts';
import { openWitnesses, type Witnesses } from '../support/truth/open-witnesses.ts';
import { watchMemory } from '../support/watch-memory.ts';

const mebibyte = 1_048_576;
const hostile = 20;
/** Far below the size of their bodies. Includes the growth of a heap under any load before it is collected. */
const growthMax = 256 * mebibyte;

let stack: Stack;
let witnesses: Witnesses;

test.before(async () => {
  stack = await startStack();
  witnesses = await openWitnesses(stack);
});

test.after.always(async () => {
  await witnesses?.[Symbol.asyncDispose]();
  await stack?.[Symbol.asyncDispose]();
});

const chatHead = (...headers: string[]) =>
  head(
    'POST /v1/chat/completions HTTP/1.1',
    `Authorization: Bearer ${witnesses.keys[0]}`,
    'Content-Type: application/json',
    ...headers,
  );

/** Checks that clients that send like this are refused and that others are unaffected. Resolves with the memory growth of the ingress. */
async function areRefused(
  t: ExecutionContext,
  see: See,
  refusal: Refusal,
  send: (socket: Socket) => Promise<void>,
): Promise<number> {
  const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  using watching = watchMemory(stack.ingresses);
  let answers: RawAnswer[] = [];
  const meanwhile = await askMeanwhile(witnesses, async () => {
    answers = await Promise.all(
      Array.from({ length: hostile }, () => exchange({ port, withinMs: 60_000, readsLast: false, send })),
    );
  });
  const [growth = 0] = await watching.stop();
  for (const { status, body } of answers) {
    t.is(status, refusal.status);
    t.is(JSON.parse(body).code, refusal.code);
  }
  t.true(meanwhile.asked.every(({ ending }) => ending === 'answered'));
  see(
    `${answers.length} of ${hostile} got ${refusal.status}; the ingress grew by ${Math.round(growth / mebibyte)} MiB`,
  );
  see(inWords(meanwhile));
  return growth;
}

faultTest(
  test.serial,
  {
    id: '21b',
    done: '20 clients send bodies of 100 MiB',
    promised: '413 PAYLOAD_TOO_LARGE before a body is read; memory is bounded, and other clients are answered',
  },
  async (t, see) => {
    t.timeout(90_000);
    const piece = Buffer.alloc(mebibyte, ' ');
    let sent = 0;
    const growth = await areRefused(t, see, tooLarge, async (socket) => {
      socket.write(chatHead(`Content-Length: ${100 * mebibyte}`));
      for (let pieces = 0; pieces < 100 && !socket.destroyed; pieces += 1) {
        sent += 1;
        if (!socket.write(piece)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
      }
    });
    t.true(growth < growthMax, `the ingress grew by ${growth} bytes`);
    see(`${sent} MiB of ${hostile * 100} were written until then`);
  },
);

faultTest(
  test.serial,
  {
    id: '21c',
    done: '20 clients send their bodies slowly, a byte a second',
    promised: '408 REQUEST_TIMEOUT when the time for a body is over; other clients are answered',
  },
  async (t, see) => {
    t.timeout(120_000);
    await areRefused(t, see, { status: 408, code: 'REQUEST_TIMEOUT' }, async (socket) => {
      socket.write(chatHead('Content-Length: 9000'));
      while (!socket.destroyed) {
        socket.write(' ');
        await sleep(1_000);
      }
    });
  },
);

faultTest(
  test.serial,
  {
    id: '21d',
    done: '20 clients send headers without end',
    promised: '431 HEADERS_TOO_LARGE at 16 KiB; memory is bounded, and other clients are answered',
  },
  async (t, see) => {
    t.timeout(90_000);
    const growth = await areRefused(t, see, headTooLarge, async (socket) => {
      socket.write('GET /v1/models HTTP/1.1\r\nHost: x\r\n');
      for (let index = 0; index < 10_000 && !socket.destroyed; index += 1) {
        if (!socket.write(`X-${index}: ${'x'.repeat(100)}\r\n`))
          await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
      }
    });
    t.true(growth < growthMax, `the ingress grew by ${growth} bytes`);
  },
);
